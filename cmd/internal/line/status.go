package line

import (
	"context"
	"fmt"
	"time"

	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
)

// Status is the run's progress for the feed and for people.
func (s *RewardServer) Status(ctx context.Context) (feed.Status, error) {
	cur, _, err := s.lead.leading(ctx)
	if err != nil {
		return feed.Status{}, err
	}
	st, err := s.status(ctx, cur)
	if err != nil {
		return feed.Status{}, fmt.Errorf("%w: %w", feed.ErrStorage, err)
	}
	return st, nil
}

// FinalStatus is Status of a server that has stopped.
func (s *RewardServer) FinalStatus(ctx context.Context) (feed.Status, error) {
	s.lead.mu.Lock()
	last := s.lead.last
	s.lead.mu.Unlock()
	if last == nil {
		return feed.Status{}, feed.ErrNotLeading
	}
	return s.status(ctx, last)
}

func (s *RewardServer) status(ctx context.Context, cur *leader.Leader) (feed.Status, error) {
	p, err := cur.Progress(ctx)
	if err != nil {
		return feed.Status{}, err
	}
	waiting, err := s.bus.Keys(ctx, jetstream.Backlog, s.run)
	if err != nil {
		return feed.Status{}, err
	}
	at, err := s.cursors.Position(ctx, feed.TrainerCursor)
	if err != nil {
		return feed.Status{}, err
	}
	delete(waiting, finalKey)
	l := p.Ledger
	st := feed.Status{
		Groups: int64(p.Groups), Run: p.Run, Prompts: int64(p.Prompts + len(waiting)), Backlog: int64(len(waiting)),
		Ledger: feed.Ledger{
			Dispatched: int64(l.Dispatched), Delivered: int64(l.Delivered), Filtered: int64(l.Filtered), Stale: int64(l.Stale),
			Unscored: int64(l.Unscored), Failed: int64(l.Failed), SetAside: int64(l.SetAside), InFlight: int64(l.InFlight),
		},
		BatchesWritten: int64(p.BatchesWritten), BatchesAcknowledged: at.Acknowledged, Complete: p.Complete,
		BatchesCommitted: p.Committed, BatchesDropped: int64(p.Dropped),
		Policy: feed.Policy{
			Version: p.Policy.Version, Incarnation: p.Policy.Incarnation, Endpoints: p.Policy.Endpoints, Paused: p.Policy.Paused,
		},
		Reasons: map[string]int64{}, Ages: map[int64]int64{}, DeliveredPerSecond: p.PerSecond, UnscoredShare: p.UnscoredShare,
		RoundsUsedUp: int64(p.RoundsUsedUp), Unaccounted: int64(l.Unaccounted()),
	}
	for k, n := range p.Reasons {
		st.Reasons[k] = int64(n)
	}
	for age, n := range p.Ages {
		st.Ages[age] = int64(n)
	}
	for _, c := range p.Lengths {
		class := feed.LengthClass{UpTo: int64(c.UpTo), Outcomes: map[string]int64{}}
		for k, n := range c.Outcomes {
			class.Outcomes[string(k)] = int64(n)
		}
		st.Lengths = append(st.Lengths, class)
	}
	for _, w := range p.Waiting {
		st.Waiting = append(st.Waiting, feed.Waiting{What: w.What, Count: int64(w.Count), Reason: w.For})
	}
	return s.stages(ctx, st)
}

// stages adds where the groups in work are, and the batches on their way to the trainer.
func (s *RewardServer) stages(ctx context.Context, st feed.Status) (feed.Status, error) {
	for _, stage := range []struct{ stream, reason string }{
		{jetstream.Prompts, "a rollout worker, or for it to finish"},
		{jetstream.Trajectories, "a reward server, or for its verdicts"},
		{jetstream.Scored, "the leader, or for their batch"},
	} {
		keys, err := s.bus.Keys(ctx, stage.stream, s.run)
		if err != nil {
			return st, err
		}
		reason := stage.reason
		if stage.stream == jetstream.Trajectories && s.Scoring.Guard != nil {
			if guard := s.Scoring.Guard.State(); guard.Paused && !guard.GaveUp {
				reason = fmt.Sprintf("the judge, which has failed its canaries since %s (%s)", guard.Since.Format(time.TimeOnly), guard.Reason)
			}
		}
		if len(keys) > 0 {
			st.Waiting = append(st.Waiting, feed.Waiting{What: "groups in " + stage.stream, Count: int64(len(keys)), Reason: reason})
		}
	}
	if n := st.BatchesWritten - st.BatchesAcknowledged; n > 0 {
		st.Waiting = append(st.Waiting, feed.Waiting{What: "batches", Count: n, Reason: "the trainer's acknowledgement"})
	}
	return st, nil
}

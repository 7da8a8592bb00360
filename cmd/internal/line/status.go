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
	last := s.lead.newest()
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
	at, err := s.cursors.shown(ctx, feed.TrainerCursor)
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
	for _, g := range []struct{ stream, taker, work string }{
		{jetstream.Prompts, "rollout worker", "their rollouts"},
		{jetstream.Trajectories, "reward server", "their verdicts"},
		{jetstream.Scored, "leader", "the leader, or their batch"},
	} {
		keys, err := s.bus.Keys(ctx, g.stream, s.run)
		if err != nil {
			return st, err
		}
		takers, err := s.bus.Takers(ctx, g.stream, s.run)
		if err != nil {
			return st, err
		}
		held := min(takers.Held, len(keys))
		reason := fmt.Sprintf("a %s with room: %d are in work", g.taker, held)
		if held == 0 && takers.Asking == 0 {
			reason = fmt.Sprintf("a %s: none asks for work", g.taker)
		}
		if judge := s.judgeWaits(); judge != "" && g.stream == jetstream.Trajectories {
			g.work, reason = judge, judge
		}
		for _, w := range []feed.Waiting{{Count: int64(held), Reason: g.work}, {Count: int64(len(keys) - held), Reason: reason}} {
			if w.What = "groups in " + g.stream; w.Count > 0 {
				st.Waiting = append(st.Waiting, w)
			}
		}
	}
	if n := st.BatchesWritten - st.BatchesAcknowledged; n > 0 {
		st.Waiting = append(st.Waiting, feed.Waiting{What: "batches", Count: n, Reason: "the trainer's acknowledgement"})
	}
	return st, nil
}

// judgeWaits says why nothing is scored, "" where it is.
func (s *RewardServer) judgeWaits() string {
	if s.Scoring.Guard != nil {
		if guard := s.Scoring.Guard.State(); guard.Paused && !guard.GaveUp {
			return fmt.Sprintf("the judge, which has failed its canaries since %s (%s)", guard.Since.Format(time.TimeOnly), guard.Reason)
		}
	}
	return ""
}

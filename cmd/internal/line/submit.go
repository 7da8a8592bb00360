package line

import (
	"context"
	"fmt"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/tracing"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/task"
)

// finalKey is the backlog key of the end of the input; '-' cannot stand first in a slug.
const finalKey = "-final"

// Submitter queues prompts of one run.
type Submitter struct {
	Bus   *jetstream.Bus
	Blobs *blob.Store
	Run   string
	// Validate and Priority hold for all prompts that are submitted.
	Validate bool
	Priority int
	// Tracer begins the trace of each prompt; nil leaves that to the leader.
	Tracer *tracing.Tracer
}

// NewSubmitter makes one.
func NewSubmitter(bus *jetstream.Bus, blobs *blob.Store, run string) *Submitter {
	return &Submitter{Bus: bus, Blobs: blobs, Run: run}
}

// Submit stores data files, then reference answers (on the reward side's subject only), then the
// prompts. Paths maps digests to files on this host.
func (s *Submitter) Submit(ctx context.Context, prompts []task.Prompt, refs []task.Reference, paths map[string]string, final bool) error {
	for digest, path := range paths {
		if err := s.Blobs.PutFile(ctx, digest, path); err != nil {
			return err
		}
	}
	for _, ref := range refs {
		if err := s.Bus.PutReference(ctx, s.Run, task.Slug(ref.PromptID), ref); err != nil {
			return fmt.Errorf("submit: prompt %s: %w", ref.PromptID, err)
		}
	}
	for i := range prompts {
		item := leader.BacklogItem{Prompt: &prompts[i], Validate: s.Validate, Priority: s.Priority}
		err := tracedPrompt(ctx, s.Tracer, s.Run, func(ctx context.Context) error {
			return s.Bus.PublishOnce(ctx, jetstream.Backlog, s.Run, task.Slug(prompts[i].ID), item)
		})
		if err != nil {
			return fmt.Errorf("submit: prompt %s: %w", prompts[i].ID, err)
		}
	}
	if !final {
		return nil
	}
	return s.Bus.PublishOnce(ctx, jetstream.Backlog, s.Run, finalKey, leader.BacklogItem{Final: true})
}

// submitFeed takes prompts from a trainer. Their data files must be in the blob store already.
func (s *RewardServer) submitFeed(ctx context.Context, subs []feed.Submission, final bool) (int, error) {
	cur, _, err := s.lead.leading(ctx)
	if err != nil {
		return 0, err
	}
	var fresh []feed.Submission
	for _, x := range subs {
		if !cur.Knows(x.Prompt.ID) {
			fresh = append(fresh, x)
		}
	}
	switch {
	case len(fresh) > 0 && cur.Ended():
		return 0, fmt.Errorf("%w: the final prompts were submitted", feed.ErrClosed)
	case cur.Backlog()+len(fresh) > cur.MaxBacklog():
		return 0, fmt.Errorf("%w: %d prompts wait, %d more are over leader.max_backlog %d", feed.ErrFull, cur.Backlog(), len(fresh), cur.MaxBacklog())
	}
	for _, x := range fresh {
		sub := Submitter{Bus: s.bus, Blobs: s.blobs, Run: s.run, Validate: x.Validate, Priority: x.Priority, Tracer: s.Tracer}
		var refs []task.Reference
		if x.Reference != nil {
			refs = append(refs, *x.Reference)
		}
		if err := sub.Submit(ctx, []task.Prompt{x.Prompt}, refs, nil, false); err != nil {
			return 0, fmt.Errorf("%w: %w", feed.ErrStorage, err)
		}
	}
	if final {
		if err := (&Submitter{Bus: s.bus, Run: s.run}).Submit(ctx, nil, nil, nil, true); err != nil {
			return 0, fmt.Errorf("%w: %w", feed.ErrStorage, err)
		}
	}
	return len(fresh), nil
}

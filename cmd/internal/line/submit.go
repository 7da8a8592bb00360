package line

import (
	"context"
	"fmt"

	"github.com/verigraph/verigraph/blob"
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
	queue *jetstream.Queue[leader.BacklogItem]
}

// NewSubmitter opens the backlog.
func NewSubmitter(ctx context.Context, bus *jetstream.Bus, blobs *blob.Store, run string) (*Submitter, error) {
	q, err := jetstream.NewQueue[leader.BacklogItem](ctx, bus, jetstream.Backlog, run)
	if err != nil {
		return nil, err
	}
	return &Submitter{Bus: bus, Blobs: blobs, Run: run, queue: q}, nil
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
		item := leader.BacklogItem{Prompt: &prompts[i]}
		if err := s.queue.Publish(ctx, s.Run, task.Slug(prompts[i].ID), item); err != nil {
			return fmt.Errorf("submit: prompt %s: %w", prompts[i].ID, err)
		}
	}
	if !final {
		return nil
	}
	return s.queue.Publish(ctx, s.Run, finalKey, leader.BacklogItem{Final: true})
}

// submitFeed takes prompts from a trainer. Their data files must be in the blob store already.
func (s *RewardServer) submitFeed(ctx context.Context, subs []feed.Submission, final bool) (int, error) {
	sub := &Submitter{Bus: s.bus, Blobs: s.blobs, Run: s.run, queue: s.backlog}
	var prompts []task.Prompt
	var refs []task.Reference
	for _, x := range subs {
		if s.Leader.Knows(x.Prompt.ID) {
			continue
		}
		prompts = append(prompts, x.Prompt)
		if x.Reference != nil {
			refs = append(refs, *x.Reference)
		}
	}
	return len(prompts), sub.Submit(ctx, prompts, refs, nil, final)
}

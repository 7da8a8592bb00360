package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// every calls f until it says that it is done or ctx ends.
func every(ctx context.Context, d time.Duration, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(d):
		}
	}
}

func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

func (b *bed) nodesReady(ctx context.Context) error {
	for i := range nodes {
		if err := every(ctx, 200*time.Millisecond, func() error { return answers(ctx, "http://"+b.monitors[i]+"/healthz") }); err != nil {
			return fmt.Errorf("NATS server %d is not ready: %w: %s", i, err, b.node[i].last())
		}
	}
	return nil
}

// ready waits until every process serves.
func (b *bed) ready(ctx context.Context) error {
	if err := b.nodesReady(ctx); err != nil {
		return err
	}
	for i, a := range b.admins {
		if err := every(ctx, 200*time.Millisecond, func() error { return answers(ctx, "http://"+a+"/readyz") }); err != nil {
			all := append(b.server[:], b.worker[:]...)
			return fmt.Errorf("%s is not ready: %w: %s", all[i].name, err, all[i].last())
		}
	}
	return nil
}

// status asks the server that leads. Leads is its index, -1 where none does.
func (b *bed) status(ctx context.Context) (st *pb.GetStatusResponse, leads int) {
	for i, c := range b.feedClient {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		st, err := c.GetStatus(ctx, &pb.GetStatusRequest{})
		cancel()
		if err == nil {
			return st, i
		}
	}
	return nil, -1
}

// leader waits for one.
func (b *bed) leader(ctx context.Context) (int, error) {
	leads := -1
	err := every(ctx, 100*time.Millisecond, func() error {
		if _, leads = b.status(ctx); leads < 0 {
			return errors.New("nobody leads")
		}
		return nil
	})
	return leads, err
}

// feed keeps prompts waiting until ctx ends or the script has no more.
func (b *bed) feed(ctx context.Context, waiting int) error {
	b.submitted = b.size.first
	for ctx.Err() == nil && b.submitted < b.size.prompts {
		if st, leads := b.status(ctx); leads >= 0 && st.Backlog < int64(waiting) || b.submitted == b.size.first {
			to := min(b.submitted+waiting, b.size.prompts)
			ps, refs := prompts(b.submitted, to)
			if every(ctx, time.Second, func() error { return b.submit.Submit(ctx, ps, refs, nil, false) }) != nil { // a repeat changes nothing
				return nil // ctx has ended; what was queued in part is known by its first prompts
			}
			b.submitted = to
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	if b.submitted >= b.size.prompts {
		return fmt.Errorf("the script's %d prompts are used up", b.size.prompts)
	}
	return nil
}

// count is how many batches the trainer has trained on in all its lives.
func (b *bed) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.trained)
}

// between counts the batches of a stretch of time.
func (b *bed) between(from, to time.Time) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range b.trained {
		if at.After(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// trains waits for n batches more.
func (b *bed) trains(ctx context.Context, n int) error {
	from := b.count()
	return every(ctx, 100*time.Millisecond, func() error {
		if got := b.count() - from; got < n {
			st, leads := b.status(ctx)
			return fmt.Errorf("the trainer took %d batches, want %d; led by %d: %s", got, n, leads, strings.TrimSpace(fmt.Sprint(st)))
		}
		return nil
	})
}

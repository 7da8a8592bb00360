package sandbox

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// forkExercised asks a forked session to run the rehearsal's cells before it waits for its claim.
const forkExercised = 1

// warmPool keeps a few forked, isolated and exercised sessions that have seen no data; data and
// lock-down come with the claim. It refills one at a time, so that it never takes more than one core
// from the cells that run. Every session in it is claimed or ended by close.
type warmPool struct {
	s     *Sandbox
	ready chan *session
	stop  context.CancelFunc
	done  sync.WaitGroup
}

func newWarmPool(ctx context.Context, s *Sandbox, k int) *warmPool {
	// It lives until close, not as long as the constructor that starts it.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	// One more than the channel holds is in the refiller's hand.
	p := &warmPool{s: s, ready: make(chan *session, k-1), stop: stop}
	p.done.Go(func() { p.refill(ctx) })
	return p
}

func (p *warmPool) refill(ctx context.Context) {
	for ctx.Err() == nil {
		sess, err := p.hatch(ctx)
		if err != nil {
			// Starts go on without the pool, and report what is wrong.
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case p.ready <- sess:
		case <-ctx.Done():
			_ = sess.discard()
		}
	}
}

// hatch forks one session and waits until it is exercised.
func (p *warmPool) hatch(ctx context.Context) (_ *session, err error) {
	sess := &session{sandbox: p.s, limits: p.s.cfg.Limits}
	defer func() {
		if err != nil {
			_ = sess.discard()
		}
	}()
	if err := p.s.connect(ctx, sess, forkExercised); err != nil {
		return nil, err
	}
	if err := sess.control.SetDeadline(time.Now().Add(p.s.cfg.StartTimeout)); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, sess.proc.kill)
	defer stop()
	body, err := readFrame(sess.control, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("warm session: %w: %s", err, sess.pipe.rest())
	}
	f, err := parseFrame(body, "")
	if err != nil || f.Ready == nil {
		return nil, fmt.Errorf("warm session: not ready: %w: %s", err, body)
	}
	return sess, nil
}

// take returns a session that waits ready, or nil.
func (p *warmPool) take() *session {
	select {
	case sess := <-p.ready:
		return sess
	default:
		return nil
	}
}

// close ends every session that waits.
func (p *warmPool) close() {
	p.stop()
	p.done.Wait()
	for sess := p.take(); sess != nil; sess = p.take() {
		_ = sess.discard()
	}
}

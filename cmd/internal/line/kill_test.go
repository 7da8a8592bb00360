package line

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/internal/freeport"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/lease"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

func TestMain(m *testing.M) {
	sandbox.MaybeInit()
	patience.Main(m)
}

// plant is a whole line on one machine whose parts are killed: the connection goes first, so that
// nothing can be handed back, then the part.
type plant struct {
	t     testing.TB
	cfg   config.Config
	dir   string
	store *blob.Store
	port  int
	feed  string
	full  atomic.Bool // the disk

	nats    *jetstream.Server
	workers *part
	scorers *part
	lead    *part
}

// part is one process of the line.
type part struct {
	t    testing.TB
	bus  *jetstream.Bus
	stop context.CancelFunc
	done chan error
}

func (p *part) kill() {
	p.bus.Close()
	p.stop()
	patience.Receive(p.t, p.done, "the end of a part that was killed")
}

func (p *plant) connect() *jetstream.Bus {
	url := fmt.Sprintf("nats://127.0.0.1:%d", p.port)
	for end := time.Now().Add(patience.Limit); ; {
		nc, err := jetstream.Dial(url, "", p.cfg.Run)
		if err == nil {
			bus, err := jetstream.New(p.t.Context(), nc, p.store, p.cfg.NATS.Config)
			if err == nil {
				return bus
			}
			nc.Close()
		}
		require.True(p.t, time.Now().Before(end), "no NATS server answers at %s: %v", url, err)
	}
}

// start runs a part until it is killed; one that fails by itself starts anew, as a supervisor sees to.
func (p *plant) start(run func(context.Context, *jetstream.Bus) error) *part {
	ctx, stop := context.WithCancel(context.Background())
	pt := &part{t: p.t, bus: p.connect(), stop: stop, done: make(chan error, 1)}
	go func() {
		for {
			err := run(ctx, pt.bus)
			if ctx.Err() != nil || pt.bus.Closed() {
				pt.done <- err
				return
			}
		}
	}()
	return pt
}

func (p *plant) startNATS() {
	var err error
	p.nats, err = jetstream.StartServer(jetstream.ServerConfig{Dir: p.dir + "/nats", Listen: true, Port: p.port})
	require.NoError(p.t, err)
}

// work turns dispatches into groups: no model, no sandbox, the same queues.
func (p *plant) work(ctx context.Context, bus *jetstream.Bus) error {
	source, err := newStage(ctx, bus, p.cfg.Run, jetstream.Prompts, jetstream.Trajectories, ofDispatch, ofGroup)
	if err != nil {
		return err
	}
	loop := lease.Loop[task.Dispatch, trajectory.Group]{
		Source: source, Slots: 4, MaxDeliver: 100, Log: zap.NewNop(), Fields: func(task.Dispatch) []zap.Field { return nil },
		Work: func(_ context.Context, d task.Dispatch) (trajectory.Group, error) { return madeUp(d), nil },
	}
	return loop.Run(ctx)
}

// madeUp is a group that no model sampled.
func madeUp(d task.Dispatch) trajectory.Group {
	g := trajectory.Group{Dispatch: d, Model: "m"}
	for i := range d.GroupSize {
		v := d.PolicyVersion
		g.Trajectories = append(g.Trajectories, trajectory.Trajectory{
			ID: task.RolloutID{Run: d.Run, Dispatch: d.ID, Sample: i}, Termination: trajectory.Submitted,
			Segments: []trajectory.Segment{{
				PromptIDs: []int32{1}, ResponseIDs: []int32{2}, ResponseMask: []int8{1}, LogProbs: []float32{-1},
				Spans: []trajectory.Span{{End: 1, Kind: trajectory.SpanSampled, PolicyVersion: v, PolicyVersionEnd: v}},
			}},
		})
	}
	return g
}

// madeUpScore gives its members different rewards.
func madeUpScore(g trajectory.Group) trajectory.ScoredGroup {
	s := trajectory.ScoredGroup{Group: g}
	for i := range g.Trajectories {
		s.Scores = append(s.Scores, trajectory.Score{Status: trajectory.ScoreOK, Reward: float64(i)})
	}
	return s
}

func (p *plant) score(ctx context.Context, bus *jetstream.Bus) error {
	source, err := newStage(ctx, bus, p.cfg.Run, jetstream.Trajectories, jetstream.Scored, ofGroup, ofScoredGroup)
	if err != nil {
		return err
	}
	loop := lease.Loop[trajectory.Group, trajectory.ScoredGroup]{
		Source: source, Slots: 4, MaxDeliver: 100, Log: zap.NewNop(), Fields: func(trajectory.Group) []zap.Field { return nil },
	}
	loop.Work = func(_ context.Context, g trajectory.Group) (trajectory.ScoredGroup, error) {
		return madeUpScore(g), nil
	}
	return loop.Run(ctx)
}

// disk is the store with a disk that fills up in the middle of an object.
type disk struct {
	*blob.Store
	full *atomic.Bool
}

func (d disk) Put(ctx context.Context, name string, data []byte) error {
	if !d.full.Load() {
		return d.Store.Put(ctx, name, data)
	}
	torn, cancel := context.WithCancel(ctx)
	cancel() // what was written of the object is given up, as the driver does when a write fails
	return fmt.Errorf("%w: %w", syscall.ENOSPC, d.Store.Put(torn, name, data[:len(data)/2]))
}

// run leads and serves the feed.
func (p *plant) run(ctx context.Context, bus *jetstream.Bus) error {
	l := newLead(p.cfg, bus, p.store, func(trajectory.ScoredGroup) error { return nil }, zap.NewNop())
	l.blobs, l.address = disk{p.store, &p.full}, p.feed
	cur := &cursors{bus: bus, run: p.cfg.Run, acked: map[int64]time.Time{}, acknowledged: func(context.Context, int64, int64, time.Time) {}}
	server, err := feed.New(feed.Source{
		Batches: l, Objects: p.store, Cursors: cur, Control: control{Lead: l},
		Status: func(context.Context) (feed.Status, error) { return feed.Status{}, nil },
	}, feed.Options{SendTimeout: time.Minute, StopTimeout: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	var lis net.Listener
	for lis == nil { // the port of the one before may not be free yet
		if lis, err = net.Listen("tcp", p.feed); err != nil && ctx.Err() != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.Run(ctx) })
	g.Go(func() error { return server.Serve(ctx, lis) })
	return g.Wait()
}

// saved is the trainer's checkpoint: what survives its death.
type saved struct {
	step, version int64
	seen          []string
}

// train is one life of the trainer: it restores, takes batches, makes a version of each, and writes a
// checkpoint after every third. It ends when it is killed or the run is complete (nil).
func (p *plant) train(ctx context.Context, incarnation int64, disk *saved, trained func()) error {
	conn, err := grpc.NewClient(p.feed, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := pb.NewRolloutServiceClient(conn)
	now := saved{disk.step, disk.version, slices.Clone(disk.seen)}
	retry := func(f func() error) {
		for ctx.Err() == nil && f() != nil {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	retry(func() error {
		_, err := client.Restore(ctx, &pb.RestoreRequest{CheckpointStep: now.step, PolicyVersion: now.version, Incarnation: incarnation})
		return err
	})
	last := int64(0)
	for {
		wait, enough := context.WithTimeout(ctx, patience.Limit)
		stream, err := client.StreamBatches(wait, &pb.StreamBatchesRequest{})
		var seq int64
		var object string
		for err == nil { // one batch
			var c *pb.BatchChunk
			if c, err = stream.Recv(); err == nil {
				if c.GetInfo() != nil {
					seq, object = c.GetSequence(), c.GetInfo().GetObject()
				}
				if c.GetLast() {
					break
				}
			}
		}
		late := wait.Err() != nil
		enough()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if late {
			return fmt.Errorf("no batch after %d within %s: %w", last, patience.Limit, err)
		}
		if errors.Is(err, io.EOF) {
			*disk = now
			return nil
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		if seq <= last {
			return fmt.Errorf("batch %d after %d", seq, last)
		}
		last = seq
		now.seen = append(now.seen, object)
		now.step, now.version = now.step+1, now.version+1
		retry(func() error {
			_, err := client.Ack(ctx, &pb.AckRequest{Sequence: seq, TrainerStep: now.step})
			return err
		})
		retry(func() error {
			_, err := client.SetPolicy(ctx, &pb.SetPolicyRequest{Version: now.version, Incarnation: incarnation})
			return err
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if now.step%3 == 0 {
			*disk = saved{now.step, now.version, slices.Clone(now.seen)}
		}
		trained()
	}
}

// TestNothingIsLostOrRepeatedWhenEveryPartIsKilled kills trainer, reward server, leader, NATS and fills
// the disk again and again. VERIGRAPH_KILLS is the number for each, VERIGRAPH_KILL_SEED the order.
func TestNothingIsLostOrRepeatedWhenEveryPartIsKilled(t *testing.T) {
	t.Parallel()
	kills, seed := number(t, "VERIGRAPH_KILLS", 1), number(t, "VERIGRAPH_KILL_SEED", 1)
	p := &plant{t: t, dir: t.TempDir(), cfg: config.Defaults()}
	var err error
	p.store, err = blob.OpenDir(p.dir)
	require.NoError(t, err)
	p.port, p.feed = freeport.Take(t), fmt.Sprintf("127.0.0.1:%d", freeport.Take(t))
	p.cfg.Run, p.cfg.NATS.URL, p.cfg.NATS.AckWait = "r", "external", time.Second
	p.cfg.Leader.Run, p.cfg.Leader.GroupSize, p.cfg.Leader.BatchGroups, p.cfg.Leader.MaxStaleness = "r", 2, 2, 2
	p.startNATS()
	defer func() { p.nats.Stop() }()
	p.workers, p.scorers, p.lead = p.start(p.work), p.start(p.score), p.start(p.run)
	defer func() { p.workers.kill(); p.scorers.kill(); p.lead.kill() }()

	const kinds = 5
	order := make([]int, 0, kinds*kills)
	for range kills {
		order = append(order, 0, 1, 2, 3, 4)
	}
	rand.New(rand.NewPCG(uint64(seed), 1)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	prompts := 4*len(order) + 8
	sub := p.connect()
	defer sub.Close()
	for i := range prompts {
		pr := task.Prompt{ID: strconv.Itoa(i), Question: "q", DataSource: "x"}
		require.NoError(t, sub.PublishOnce(t.Context(), jetstream.Backlog, "r", task.Slug(pr.ID), leader.BacklogItem{Prompt: &pr}))
	}
	require.NoError(t, sub.PublishOnce(t.Context(), jetstream.Backlog, "r", finalKey, leader.BacklogItem{Final: true}))

	var state saved
	var killing sync.Mutex
	for incarnation := int64(1); ; incarnation++ {
		ctx, die := context.WithCancel(t.Context())
		err := p.train(ctx, incarnation, &state, func() {
			killing.Lock()
			defer killing.Unlock()
			p.full.Store(false)
			if len(order) == 0 {
				return
			}
			kind := order[0]
			order = order[1:]
			switch kind {
			case 0:
				die()
			case 1:
				p.scorers.kill()
				p.scorers = p.start(p.score)
			case 2:
				p.lead.kill()
				p.lead = p.start(p.run)
			case 3:
				p.nats.Stop()
				p.startNATS()
			case 4:
				p.full.Store(true)
				time.AfterFunc(1500*time.Millisecond, func() { p.full.Store(false) })
			}
		})
		die()
		if errors.Is(err, context.Canceled) && t.Context().Err() == nil {
			continue
		}
		require.NoError(t, err)
		break
	}
	p.check(t, state, order, prompts)
}

// check compares what the trainer saw in its surviving life with the logs.
func (p *plant) check(t *testing.T, state saved, order []int, prompts int) {
	require.Empty(t, order, "every kill happened")
	bus := p.connect()
	defer bus.Close()
	events, err := jetstream.ReadLog[leader.Event](t.Context(), bus, jetstream.Ledger, "r")
	require.NoError(t, err)
	records, err := jetstream.ReadLog[leader.BatchRecord](t.Context(), bus, jetstream.Batches, "r")
	require.NoError(t, err)
	dropped := map[int64]bool{}
	for _, e := range events {
		for _, seq := range e.Dropped {
			dropped[seq] = true
		}
	}
	var want []string
	groups, delivered := map[string]int{}, map[string]int{}
	for _, r := range records {
		_, err := p.store.Get(t.Context(), r.Object)
		require.NoError(t, err, "a batch that is there has its object")
		if dropped[r.Sequence] {
			continue
		}
		want = append(want, r.Object)
		for _, g := range r.Groups {
			groups[g.Dispatch]++
			id, _, _ := cut(g.Dispatch)
			delivered[id]++
		}
	}
	require.Equal(t, want, state.seen, "the trainer's surviving life saw every batch once, in order")
	for d, n := range groups {
		require.Equal(t, 1, n, "group %s is delivered once", d)
	}
	require.Len(t, delivered, prompts, "every prompt was delivered")
	l, err := leader.New(p.cfg.Leader, leader.Deps{Streams: leaderStreams{bus: bus, run: "r"}, Log: zap.NewNop()}, leader.NewHistory(events, records))
	require.NoError(t, err)
	pr, err := l.Progress(t.Context())
	require.NoError(t, err)
	require.True(t, pr.Complete)
	require.Zero(t, pr.Ledger.InFlight, "no lease is open at rest")
	require.True(t, pr.Ledger.Balanced(), "%+v", pr.Ledger)
	t.Logf("ledger %+v, %d batches, %d taken back", pr.Ledger, len(records), len(dropped))
}

func cut(dispatch string) (string, string, bool) {
	i := len(dispatch) - 1
	for i >= 0 && dispatch[i] != '-' {
		i--
	}
	return dispatch[:i], dispatch[i+1:], i >= 0
}

func number(t *testing.T, name string, fallback int) int {
	s := os.Getenv(name)
	if s == "" {
		return fallback
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

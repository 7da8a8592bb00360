package jetstream_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
)

// user is a connection that remembers what the server denied it.
type user struct {
	bus *jetstream.Bus
	mu  sync.Mutex
	no  []string
	ctx context.Context // of what has to be denied: that gets no answer, and ends a while after the denial
}

func (u *user) denied() []string {
	_ = u.bus.Flush()
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.no)
}

// wasDenied waits for the denial, which the connection reports beside its answers.
func (u *user) wasDenied(t *testing.T, what string) {
	t.Helper()
	patience.Until(t, what+" is denied", func() bool { return len(u.denied()) > 0 })
}

// guarded starts a server whose users are the roles of the runs, with what their permissions say; without
// is left out.
func guarded(t *testing.T, without string, runs ...string) func(run string, role jetstream.Role) *user {
	t.Helper()
	var users []*server.User
	for _, run := range runs {
		for _, role := range jetstream.Roles() {
			pub, sub := jetstream.Permissions(run, role)
			pub = slices.DeleteFunc(slices.Clone(pub), func(s string) bool { return role == jetstream.RoleWorker && s == without })
			users = append(users, &server.User{
				Username: run + "-" + string(role), Password: "x",
				Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: pub}, Subscribe: &server.SubjectPermission{Allow: sub}},
			})
		}
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 8 << 20, NoSigs: true, NoLog: true, Users: users,
	})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(patience.Limit))
	blobs, err := blob.OpenDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
		_ = blobs.Close()
	})
	return func(run string, role jetstream.Role) *user {
		nc, err := jetstream.Dial(strings.Replace(s.ClientURL(), "://", "://"+run+"-"+string(role)+":x@", 1), "", run)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(patience.Context(t))
		u := &user{ctx: ctx}
		nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			u.mu.Lock()
			defer u.mu.Unlock()
			if u.no = append(u.no, err.Error()); len(u.no) == 1 {
				time.AfterFunc(300*time.Millisecond, cancel)
			}
		})
		t.Cleanup(cancel)
		cfg := jetstream.Defaults()
		cfg.Manage = role == jetstream.RoleServer
		u.bus, err = jetstream.New(ctx, nc, blobs, cfg)
		if err != nil && role == jetstream.RoleWorker && without != "" {
			nc.Close()
			return nil
		}
		require.NoError(t, err)
		t.Cleanup(u.bus.Close)
		return u
	}
}

// work is what a worker does with a group, from the first look to the last.
func (u *user) work(ctx context.Context, run string) error {
	q, err := jetstream.NewQueue[item](ctx, u.bus, jetstream.Prompts, run)
	if err != nil {
		return err
	}
	m, err := q.Receive(ctx)
	if err != nil {
		return err
	}
	defer m.Drop()
	if _, err := u.bus.GetState(ctx, "policy."+run, &struct{}{}); err != nil {
		return err
	}
	if held, err := u.bus.Holds(ctx, jetstream.Prompts, run, "d-0"); err != nil || !held {
		return err
	}
	for range 2 { // the second time over what the first one wrote
		j, _, err := jetstream.OpenJournal[item](ctx, u.bus, run, "d-0", 0)
		if err != nil {
			return err
		}
		if err := j.Append(ctx, item{N: 1}); err != nil {
			return err
		}
	}
	if err := u.bus.PublishOnce(ctx, jetstream.Trajectories, run, "d-0", item{}); err != nil {
		return err
	}
	if err := u.bus.PutSetAside(ctx, run, "d-1", item{}); err != nil {
		return err
	}
	if err := m.Ack(ctx); err != nil {
		return err
	}
	return u.bus.FreeJournals(ctx, run, "d-0", 1)
}

// dispatch is what the server side and a submitter do before.
func dispatch(t *testing.T, as func(string, jetstream.Role) *user, run string) (serverSide, submit *user) {
	t.Helper()
	ctx := t.Context()
	serverSide = as(run, jetstream.RoleServer)
	require.NoError(t, serverSide.bus.Prepare(ctx, run))
	submit = as(run, jetstream.RoleSubmit)
	require.NoError(t, submit.bus.PublishOnce(ctx, jetstream.Backlog, run, "p", item{}))
	require.NoError(t, submit.bus.PutReference(ctx, run, "p", item{N: 42}))
	r, err := jetstream.NewReader[item](ctx, serverSide.bus, jetstream.Backlog, run)
	require.NoError(t, err)
	e, err := r.Next(ctx)
	require.NoError(t, err)
	lease := jetstream.NewLease(serverSide.bus, run, time.Second)
	ok, err := lease.TryAcquire(ctx, "a:1", false)
	require.NoError(t, err)
	require.True(t, ok)
	_, err = serverSide.bus.NextEpoch(ctx, run)
	require.NoError(t, err)
	log, _, err := jetstream.OpenLog[item](ctx, serverSide.bus, jetstream.Ledger, run)
	require.NoError(t, err)
	require.NoError(t, log.Append(ctx, item{}))
	for _, key := range []string{"policy." + run, "share." + run, "cursor." + run + ".trainer"} {
		require.NoError(t, serverSide.bus.PutState(ctx, key, item{}))
	}
	require.NoError(t, serverSide.bus.PublishOnce(ctx, jetstream.Prompts, run, "d-0", item{N: 1}))
	require.NoError(t, r.Delete(ctx, e.Sequence))
	return serverSide, submit
}

func TestEachRoleWorksWithItsPermissions(t *testing.T) {
	t.Parallel()
	as := guarded(t, "", "A")
	srv, submit := dispatch(t, as, "A")
	worker := as("A", jetstream.RoleWorker)
	require.NoError(t, worker.work(t.Context(), "A"))

	q, err := jetstream.NewQueue[item](t.Context(), srv.bus, jetstream.Trajectories, "A")
	require.NoError(t, err)
	m := receive(t, q)
	var ref item
	require.NoError(t, srv.bus.GetReference(t.Context(), "A", "p", &ref))
	verdicts, err := srv.bus.OpenVerdicts(t.Context())
	require.NoError(t, err)
	_, err = verdicts.Put(t.Context(), "k", []byte("v"), false)
	require.NoError(t, err)
	require.NoError(t, m.Ack(t.Context()))
	_, err = srv.bus.SetAsideRecords(t.Context(), "A")
	require.NoError(t, err)
	require.NoError(t, srv.bus.DeleteSetAside(t.Context(), "A", "d-1"))
	require.NoError(t, srv.bus.PurgeJournals(t.Context(), "A", "d-0"))
	for _, u := range []*user{srv, submit, worker} {
		require.Empty(t, u.denied())
	}
}

func TestAWorkerNeedsEachOfItsPermissions(t *testing.T) {
	t.Parallel()
	list, _ := jetstream.Permissions("A", jetstream.RoleWorker)
	for _, without := range list {
		t.Run(without, func(t *testing.T) {
			t.Parallel()
			as := guarded(t, without, "A")
			dispatch(t, as, "A")
			worker := as("A", jetstream.RoleWorker)
			if worker == nil {
				return // it does not even start
			}
			require.Error(t, worker.work(worker.ctx, "A"))
			worker.wasDenied(t, without)
		})
	}
}

func TestAWorkerReadsNeitherAnotherRunNorReferenceAnswers(t *testing.T) {
	t.Parallel()
	as := guarded(t, "", "A", "B")
	dispatch(t, as, "A")
	dispatch(t, as, "B")
	owner := as("B", jetstream.RoleWorker)
	_, _, err := jetstream.OpenJournal[item](t.Context(), owner.bus, "B", "d-0", 0)
	require.NoError(t, err)
	for name, try := range map[string]func(ctx context.Context, spy *user) error{
		"its prompts by a read": func(ctx context.Context, spy *user) error {
			_, err := spy.bus.Holds(ctx, jetstream.Prompts, "B", "d-0")
			return err
		},
		"its prompts by a lease": func(ctx context.Context, spy *user) error {
			q, err := jetstream.NewQueue[item](ctx, spy.bus, jetstream.Prompts, "B")
			if err != nil {
				return err
			}
			_, err = q.Receive(ctx)
			return err
		},
		"its journals": func(ctx context.Context, spy *user) error {
			_, err := jetstream.ReadJournal[item](ctx, spy.bus, "B", "d-0", 0)
			return err
		},
		"its policy": func(ctx context.Context, spy *user) error {
			_, err := spy.bus.GetState(ctx, "policy.B", &struct{}{})
			return err
		},
		"its reference answers": func(ctx context.Context, spy *user) error { return spy.bus.GetReference(ctx, "B", "p", &item{}) },
		"its own answers":       func(ctx context.Context, spy *user) error { return spy.bus.GetReference(ctx, "A", "p", &item{}) },
		"a result for it": func(ctx context.Context, spy *user) error {
			return spy.bus.PublishOnce(ctx, jetstream.Trajectories, "B", "d-0", item{})
		},
		"the end of its journals": func(ctx context.Context, spy *user) error { return spy.bus.FreeJournals(ctx, "B", "d-0", 1) },
	} {
		spy := as("A", jetstream.RoleWorker)
		require.Empty(t, spy.denied())
		require.Error(t, try(spy.ctx, spy), name)
		spy.wasDenied(t, name)
	}
	entries, err := jetstream.ReadJournal[item](t.Context(), owner.bus, "B", "d-0", 0)
	require.NoError(t, err)
	require.Empty(t, entries)
}

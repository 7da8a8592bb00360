package jetstream_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/internal/freeport"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
)

// threeNodes starts a cluster of three servers.
func threeNodes(t *testing.T) []*server.Server {
	t.Helper()
	var ports []int
	var routes []*url.URL
	for i := range 3 {
		ports = append(ports, freeport.Take(t))
		u, err := url.Parse(fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
		require.NoError(t, err)
		routes = append(routes, u)
	}
	nodes := make([]*server.Server, 3)
	for i := range nodes {
		var err error
		nodes[i], err = server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
			MaxPayload: 8 << 20, NoSigs: true, NoLog: true, Routes: routes,
			Cluster: server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: ports[i]},
		})
		require.NoError(t, err)
		nodes[i].Start()
		t.Cleanup(func() {
			nodes[i].Shutdown()
			nodes[i].WaitForShutdown()
		})
	}
	return nodes
}

func replicated() jetstream.Config {
	cfg := jetstream.Defaults()
	cfg.Replicas, cfg.AckWait = 3, 2*time.Second
	return cfg
}

func openCluster(t *testing.T, nodes []*server.Server, cfg jetstream.Config) (fixture, natsjs.JetStream) {
	t.Helper()
	var urls []string
	for _, n := range nodes {
		require.True(t, n.ReadyForConnections(patience.Limit))
		urls = append(urls, n.ClientURL())
	}
	nc, err := jetstream.Dial(strings.Join(urls, ","), "", "r1")
	require.NoError(t, err)
	blobs, err := blob.OpenDir(t.TempDir())
	require.NoError(t, err)
	bus, err := jetstream.New(t.Context(), nc, blobs, cfg)
	require.NoError(t, err)
	js, err := natsjs.New(nc)
	require.NoError(t, err)
	t.Cleanup(func() {
		bus.Close()
		_ = blobs.Close()
	})
	return fixture{bus: bus, blobs: blobs}, js
}

// loseLeaderOf stops the server that leads a stream.
func loseLeaderOf(t *testing.T, nodes []*server.Server, js natsjs.JetStream, stream string) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	leader := s.CachedInfo().Cluster.Leader
	for _, n := range nodes {
		if n.Name() == leader {
			n.Shutdown()
			n.WaitForShutdown()
			return
		}
	}
	t.Fatalf("%s is led by %q", stream, leader)
}

func TestClusterThatLosesTheLeaderOfAStreamLosesNothing(t *testing.T) {
	t.Parallel()
	nodes := threeNodes(t)
	f, js := openCluster(t, nodes, replicated())
	q := queue(t, f, jetstream.Prompts)
	journal, _ := openJournal(t, f)
	log, _, err := jetstream.OpenLog[item](t.Context(), f.bus, jetstream.Ledger, "r1")
	require.NoError(t, err)
	for n := range 5 {
		require.NoError(t, q.Publish(t.Context(), "r1", fmt.Sprintf("d-%d", n), item{N: n}))
		require.NoError(t, journal.Append(t.Context(), item{N: n}))
		require.NoError(t, log.Append(t.Context(), item{N: n}))
	}
	held := receive(t, q)

	loseLeaderOf(t, nodes, js, jetstream.JournalStream)
	require.NoError(t, journal.Append(t.Context(), item{N: 5}), "it waits for the next leader")
	seen := map[int]bool{held.Value.N: true}
	require.NoError(t, held.Ack(t.Context()))
	for range 4 {
		m := receive(t, q)
		require.False(t, seen[m.Value.N], "message %d twice", m.Value.N)
		seen[m.Value.N] = true
		require.NoError(t, m.Ack(t.Context()))
	}
	_, entries := openJournal(t, f)
	require.Len(t, entries, 6)
	_, past, err := jetstream.OpenLog[item](t.Context(), f.bus, jetstream.Ledger, "r1")
	require.NoError(t, err)
	require.Len(t, past, 5)
}

func TestLeadPassesOnWhenItsHolderAndTheLeaderOfItsStreamAreLost(t *testing.T) {
	t.Parallel()
	nodes := threeNodes(t)
	f, js := openCluster(t, nodes, replicated())
	first := jetstream.NewLease(f.bus, "r1", jetstream.Defaults().AckWait)
	acquire := func(l *jetstream.Lease, address string) {
		patience.Until(t, address+" leads", func() bool { // while the stream has no leader there is no answer
			try, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			ok, _ := l.TryAcquire(try, address, false)
			return ok
		})
	}
	acquire(first, "a:1")
	// It is never heard of again.
	loseLeaderOf(t, nodes, js, "KV_verigraph_state")
	lost := time.Now()
	second := jetstream.NewLease(f.bus, "r1", jetstream.Defaults().AckWait)
	acquire(second, "b:2")
	patience.Until(t, "every copy names the second one", func() bool { return second.Holder(t.Context()) == "b:2" })
	t.Logf("led again after %s", time.Since(lost))
}

func TestContradictionsBetweenConfigurationAndServerAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*jetstream.Config)
		prepare func(t *testing.T, js natsjs.JetStream)
		want    string
	}{
		"more replicas than servers": {change: func(c *jetstream.Config) { c.Replicas = 3 }, want: "nats.replicas 3 is above what the cluster has servers for"},
		"another storage": {prepare: func(t *testing.T, js natsjs.JetStream) {
			_, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "LEDGER", Subjects: []string{"verigraph.*.ledger.>"}, Storage: natsjs.MemoryStorage})
			require.NoError(t, err)
		}, want: "stream LEDGER: it is stored in Memory and nats.storage says File"},
		"another retention": {prepare: func(t *testing.T, js natsjs.JetStream) {
			_, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "PROMPTS", Subjects: []string{"verigraph.*.prompts.>"}})
			require.NoError(t, err)
		}, want: "stream PROMPTS: its retention is Limits, want WorkQueue"},
		"nobody made them": {change: func(c *jetstream.Config) { c.Manage = false }, want: "nats.manage is off: start a reward server of the run first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := jetstream.StartServer(jetstream.ServerConfig{Dir: t.TempDir()})
			require.NoError(t, err)
			t.Cleanup(s.Stop)
			nc, err := s.Connect()
			require.NoError(t, err)
			t.Cleanup(nc.Close)
			js, err := natsjs.New(nc)
			require.NoError(t, err)
			cfg := jetstream.Defaults()
			if c.prepare != nil {
				c.prepare(t, js)
			}
			if c.change != nil {
				c.change(&cfg)
			}
			_, err = jetstream.New(t.Context(), nc, nil, cfg)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestLimitsOfStreamsAreChangedInPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, stop := start(t, dir, jetstream.Defaults())
	stop()
	cfg := jetstream.Defaults()
	cfg.MaxBytes = map[string]int64{jetstream.Prompts: 1 << 20}
	f, stop := start(t, dir, cfg)
	t.Cleanup(stop)
	q := queue(t, f, jetstream.Prompts)
	var err error
	for n := 0; err == nil && n < 100; n++ {
		err = q.Publish(t.Context(), "r1", fmt.Sprintf("d-%d", n), item{Text: random(t, 60_000)})
	}
	require.ErrorContains(t, err, "maximum bytes exceeded", "what is over it is refused")
	held, err := f.bus.Holds(t.Context(), jetstream.Prompts, "r1", "d-0")
	require.NoError(t, err)
	require.True(t, held, "what was there stays")
}

func TestServerOfAnOlderVersionIsRefused(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"2.10.29": `version "2.10.29", want 2.11 or newer`, "1.99.0": "want 2.11", "": "want 2.11"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() { // the wire's greeting is all that an old server is needed for
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			fmt.Fprintf(c, "INFO {\"server_id\":\"x\",\"version\":%q,\"proto\":1,\"headers\":true,\"jetstream\":true,\"max_payload\":8388608}\r\n", version)
			for r := bufio.NewScanner(c); r.Scan(); {
				if strings.HasPrefix(r.Text(), "PING") {
					fmt.Fprint(c, "PONG\r\n")
				}
			}
		}()
		nc, err := nats.Connect("nats://"+l.Addr().String(), nats.NoReconnect())
		require.NoError(t, err)
		_, err = jetstream.New(t.Context(), nc, nil, jetstream.Defaults())
		require.ErrorContains(t, err, want)
		nc.Close()
	}
}

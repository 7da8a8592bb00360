package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/internal/patience"
)

// stillRun is a run whose status is fixed; it is complete once it was asked completeAt times.
type stillRun struct {
	asked      atomic.Int64
	completeAt int64
	nobody     int64 // leads for so many questions
	requeued   []string
}

func (*stillRun) Next(context.Context, int64, feed.Kind) (feed.Batch, bool, error) {
	return feed.Batch{}, false, nil
}
func (*stillRun) Last(context.Context) (int64, error)  { return 0, nil }
func (*stillRun) Freed(context.Context) (int64, error) { return 0, nil }

func (*stillRun) Position(context.Context, string) (feed.Position, error) {
	return feed.Position{}, nil
}

func (*stillRun) Change(context.Context, string, func(feed.Position) (feed.Position, error)) (feed.Position, error) {
	return feed.Position{}, nil
}

// stillControl answers for the groups that were set aside.
type stillControl struct {
	feed.Control
	run *stillRun
}

func (stillControl) SetAside(context.Context) ([]feed.Aside, error) {
	return []feed.Aside{
		{Dispatch: "17-0", Stage: "rollout", Reason: "the sandbox died 5 times", Deliveries: 5},
		{Dispatch: "18-1", Stage: "score", Reason: "no reference", Deliveries: 1},
	}, nil
}

func (c stillControl) Requeue(_ context.Context, dispatch string) error {
	if dispatch != "17-0" {
		return fmt.Errorf("%w: dispatch %q is not set aside", feed.ErrInvalid, dispatch)
	}
	c.run.requeued = append(c.run.requeued, dispatch)
	return nil
}

func (r *stillRun) status(context.Context) (feed.Status, error) {
	asked := r.asked.Add(1)
	if asked <= r.nobody {
		return feed.Status{}, fmt.Errorf("%w, and this server cannot: nats: no space left", feed.ErrNotLeading)
	}
	return feed.Status{
		Run: "r1", Prompts: 9, Backlog: 4, Groups: 5,
		Ledger:         feed.Ledger{Dispatched: 28, Delivered: 1, Filtered: 2, Stale: 3, Unscored: 4, Failed: 5, SetAside: 6, InFlight: 7},
		BatchesWritten: 3, BatchesAcknowledged: 2, BatchesCommitted: 1, BatchesDropped: 1,
		Policy:             feed.Policy{Version: 12, Incarnation: 2, Endpoints: []string{"http://a", "http://b"}, Paused: true},
		Reasons:            map[string]int64{"too old": 3, "all rewards equal": 2},
		Lengths:            []feed.LengthClass{{UpTo: 1024, Outcomes: map[string]int64{"stale": 1, "delivered": 2}}},
		Ages:               map[int64]int64{1: 2, 0: 1},
		DeliveredPerSecond: 1.5, UnscoredShare: 0.25, Unaccounted: 2,
		Waiting:  []feed.Waiting{{What: "batches", Count: 1, Reason: "the trainer's acknowledgement"}},
		Complete: asked >= r.completeAt,
	}, nil
}

// serveFeed serves a run with the settings of a configuration file and returns its address.
func serveFeed(t *testing.T, run *stillRun, cfg config.Feed) string {
	t.Helper()
	cfg.SendTimeout = time.Minute
	opts, err := cfg.Options()
	require.NoError(t, err)
	server, err := feed.New(feed.Source{
		Batches: run, Objects: noObjects{}, Cursors: run, Status: run.status, Control: stillControl{run: run},
	}, opts)
	require.NoError(t, err)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, lis) }()
	t.Cleanup(func() { cancel(); require.NoError(t, patience.Receive(t, done, "its end")) })
	return lis.Addr().String()
}

type noObjects struct{ feed.Objects }

const statusText = `run          r1, running; 9 prompts, 4 wait for their dispatch
ledger       dispatched 28 = delivered 1 + filtered 2 + stale 3 + unscored 4 + failed 5 + set aside 6 + in flight 7
ALARM        2 rollouts are not accounted for; if this stays, messages were lost
batches      3 written, 2 acknowledged, 1 committed, 1 taken back
policy       version 12, incarnation 2, paused true http://a http://b
rate         1.50 rollouts/s delivered over the last minute, 25.0 % unscored
age          0 versions: 1 batches
age          1 versions: 2 batches
left         2 rollouts: all rewards equal
left         3 rollouts: too old
length       up to 1024 tokens: delivered 2, stale 1
waiting      1 batches for: the trainer's acknowledgement
`

func TestStatusWatchesAsTextUntilTheRunIsComplete(t *testing.T) {
	t.Parallel()
	run := &stillRun{completeAt: 3}
	code, stdout, stderr := verigraph(t, "status", "--feed", serveFeed(t, run, config.Feed{}), "--output", "text", "--watch", "1ms")
	require.Zero(t, code, stderr)
	last := strings.Replace(statusText, "running", "complete", 1)
	require.Equal(t, statusText+"\n"+statusText+"\n"+last, stdout)
	require.Equal(t, int64(3), run.asked.Load())
}

func TestStatusPrintsOneJSONObjectWithoutWatch(t *testing.T) {
	t.Parallel()
	run := &stillRun{completeAt: 100}
	code, stdout, stderr := verigraph(t, "status", "--feed", serveFeed(t, run, config.Feed{}))
	require.Zero(t, code, stderr)
	var got struct {
		Run     string           `json:"run"`
		Ledger  map[string]int64 `json:"ledger"`
		Reasons map[string]int64 `json:"reasons"`
		Ages    map[string]int64 `json:"ages"`
		Waiting []struct {
			What, Reason string
			Count        int64
		} `json:"waiting"`
		Unaccounted int64 `json:"unaccounted"`
		Complete    bool  `json:"complete"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Equal(t, "r1", got.Run)
	require.Equal(t, int64(6), got.Ledger["set_aside"])
	require.Equal(t, map[string]int64{"too old": 3, "all rewards equal": 2}, got.Reasons)
	require.Equal(t, map[string]int64{"0": 1, "1": 2}, got.Ages)
	require.Equal(t, "the trainer's acknowledgement", got.Waiting[0].Reason)
	require.Equal(t, int64(2), got.Unaccounted)
	require.False(t, got.Complete)

	code, _, stderr = verigraph(t, "status", "--feed", "127.0.0.1:1", "--output", "yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, `--output: "yaml"`)
}

func TestStatusWithWatchGoesOnWhileNoServerLeads(t *testing.T) {
	t.Parallel()
	run := &stillRun{nobody: 2, completeAt: 3}
	code, stdout, stderr := verigraph(t, "status", "--feed", serveFeed(t, run, config.Feed{}), "--output", "text", "--watch", "1ms")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "run          r1, complete")
	require.Equal(t, 2, strings.Count(stderr, "this server does not lead the run, and this server cannot: nats: no space left\n"))
	code, _, _ = verigraph(t, "status", "--feed", serveFeed(t, &stillRun{nobody: 2}, config.Feed{}))
	require.Equal(t, cli.ExitFailed, code, "without watching it fails at once")
}

func TestAsideListsGroupsAndSendsThemBack(t *testing.T) {
	t.Parallel()
	run := &stillRun{}
	addr := serveFeed(t, run, config.Feed{})
	code, stdout, stderr := verigraph(t, "aside", "--feed", addr)
	require.Zero(t, code, stderr)
	require.Equal(t, "17-0\trollout\t5 deliveries\tthe sandbox died 5 times\n18-1\tscore\t1 deliveries\tno reference\n", stdout)

	code, stdout, stderr = verigraph(t, "aside", "--feed", addr, "--requeue", "17-0")
	require.Zero(t, code, stderr)
	require.Equal(t, "17-0 requeued\n", stdout)
	require.Equal(t, []string{"17-0"}, run.requeued)

	code, _, stderr = verigraph(t, "aside", "--feed", addr, "--requeue", "99-0")
	require.NotZero(t, code)
	require.Contains(t, stderr, "99-0")

	code, _, stderr = verigraph(t, "aside", "--feed", "")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--feed")
}

// authority makes certificates for one test.
type authority struct {
	t      *testing.T
	dir    string
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	serial int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.sign("ca")
	return a
}

// sign writes NAME.pem and NAME.key; the first is the authority's own.
func (a *authority) sign(name string) (cert, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	require.NoError(a.t, err)
	if a.cert == nil {
		a.key = key
		a.cert, err = x509.ParseCertificate(der)
		require.NoError(a.t, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", keyDER)
}

func (a *authority) write(name, kind string, der []byte) string {
	var b bytes.Buffer
	require.NoError(a.t, pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}))
	path := filepath.Join(a.dir, name)
	require.NoError(a.t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

func TestTheFeedSpeaksTLSToThoseWhoTrustItsAuthority(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	cert, key := ours.sign("feed")
	addr := serveFeed(t, &stillRun{}, config.Feed{TLS: config.TLS{Cert: cert, Key: key}})
	code, stdout, stderr := verigraph(t, "status", "--feed", addr, "--output", "text", "--tls-ca", filepath.Join(ours.dir, "ca.pem"))
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "run          r1")
	code, _, stderr = verigraph(t, "status", "--feed", addr, "--tls-ca", filepath.Join(theirs.dir, "ca.pem"))
	require.NotZero(t, code)
	require.Contains(t, stderr, "certificate signed by unknown authority")
	code, _, stderr = verigraph(t, "status", "--feed", addr)
	require.NotZero(t, code, "in the clear: %s", stderr)
}

func TestTheFeedWithAClientAuthorityAsksForACertificateThatItSigned(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	ca := filepath.Join(ours.dir, "ca.pem")
	cert, key := ours.sign("feed")
	addr := serveFeed(t, &stillRun{}, config.Feed{TLS: config.TLS{Cert: cert, Key: key, ClientCA: ca}})
	clientCert, clientKey := ours.sign("trainer")
	code, stdout, stderr := verigraph(t, "status", "--feed", addr, "--output", "text", "--tls-ca", ca, "--tls-cert", clientCert, "--tls-key", clientKey)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "run          r1")
	code, _, _ = verigraph(t, "status", "--feed", addr, "--tls-ca", ca)
	require.NotZero(t, code, "without a certificate")
	otherCert, otherKey := theirs.sign("trainer")
	code, _, _ = verigraph(t, "status", "--feed", addr, "--tls-ca", ca, "--tls-cert", otherCert, "--tls-key", otherKey)
	require.NotZero(t, code, "with a certificate of another authority")
	code, _, stderr = verigraph(t, "status", "--feed", addr, "--tls-ca", ca, "--tls-cert", clientCert, "--tls-key", otherKey)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--tls-cert")
}

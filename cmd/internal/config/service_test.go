package config_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/internal/patience"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/rpc"
	"github.com/verigraph/verigraph/reward/rules"
)

// authority signs certificates for this host; they and its own lie in dir as NAME.pem and NAME.key.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.issue(t, name)
	return a
}

// issue writes a certificate; the first one is the authority's own.
func (a *authority) issue(t *testing.T, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, SerialNumber: big.NewInt(int64(len(name))), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: a.cert == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	require.NoError(t, err)
	if a.cert == nil {
		a.cert, err = x509.ParseCertificate(der)
		require.NoError(t, err)
		a.key = key
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.file(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(a.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// client is the TLS configuration of a caller that trusts a and shows its certificate where name is given.
func (a *authority) client(t *testing.T, name string) grpc.DialOption {
	t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	c.RootCAs.AddCert(a.cert)
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.file(name+".pem"), a.file(name+".key"))
		require.NoError(t, err)
		c.Certificates = []tls.Certificate{pair}
	}
	return grpc.WithTransportCredentials(credentials.NewTLS(c))
}

// rewardService serves by the configuration's own options and returns its address.
func rewardService(t *testing.T, cfg config.RewardService) string {
	t.Helper()
	preset, err := reward.LoadPreset("official")
	require.NoError(t, err)
	scorer, err := reward.New(reward.Config{Preset: preset, Judge: rules.Judge{}})
	require.NoError(t, err)
	opts, err := cfg.Options()
	require.NoError(t, err)
	server, err := rpc.New(scorer, opts)
	require.NoError(t, err)
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, lis) }()
	t.Cleanup(func() { stop(); require.NoError(t, patience.Receive(t, done, "its end")) })
	return lis.Addr().String()
}

func call(t *testing.T, address string, how grpc.DialOption) error {
	t.Helper()
	conn, err := grpc.NewClient(address, how)
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	_, err = pb.NewRewardServiceClient(conn).Score(ctx, &pb.ScoreRequest{
		Prompt:  &pb.Prompt{Id: "p", DataSource: "dabench", Answers: []*pb.NamedAnswer{{Name: "mean", Value: "34.65"}}},
		Rollout: &pb.Rollout{Form: &pb.Rollout_Answer{Answer: "@mean[34.65]"}},
	})
	return err
}

func TestRewardServiceTalksTLSAndAsksForClientCertificatesAsConfigured(t *testing.T) {
	t.Parallel()
	ours, other := newAuthority(t, "ca"), newAuthority(t, "ca")
	ours.issue(t, "server")
	ours.issue(t, "trainer")
	other.issue(t, "trainer")
	var stranger grpc.DialOption
	{ // trusts the server, yet its certificate is signed by somebody else
		c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
		c.RootCAs.AddCert(ours.cert)
		pair, err := tls.LoadX509KeyPair(other.file("trainer.pem"), other.file("trainer.key"))
		require.NoError(t, err)
		c.Certificates = []tls.Certificate{pair}
		stranger = grpc.WithTransportCredentials(credentials.NewTLS(c))
	}
	tlsOnly := config.TLS{Cert: ours.file("server.pem"), Key: ours.file("server.key")}
	mutual := tlsOnly
	mutual.ClientCA = ours.file("ca.pem")
	one := rewardService(t, config.RewardService{TLS: tlsOnly})
	both := rewardService(t, config.RewardService{TLS: mutual})

	require.NoError(t, call(t, one, ours.client(t, "")))
	require.NoError(t, call(t, both, ours.client(t, "trainer")))
	clear := grpc.WithTransportCredentials(insecure.NewCredentials())
	for name, c := range map[string]struct {
		address string
		how     grpc.DialOption
	}{
		"in the clear":                      {one, clear},
		"an unknown authority":              {one, other.client(t, "")},
		"mTLS, in the clear":                {both, clear},
		"mTLS, no certificate":              {both, ours.client(t, "")},
		"mTLS, a certificate of a stranger": {both, stranger},
	} {
		require.Equal(t, codes.Unavailable, status.Code(call(t, c.address, c.how)), name)
	}
}

func TestVerlsRewardFunctionComesInByTLSWithItsCertificateAndToken(t *testing.T) {
	ours := newAuthority(t, "ca")
	ours.issue(t, "server")
	ours.issue(t, "trainer")
	t.Setenv("VERIGRAPH_TEST_TOKEN", "hunter2")
	address := rewardService(t, config.RewardService{
		TokenEnv: "VERIGRAPH_TEST_TOKEN",
		TLS:      config.TLS{Cert: ours.file("server.pem"), Key: ours.file("server.key"), ClientCA: ours.file("ca.pem")},
	})
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	script := `
from verigraph.reward_client import compute_score
print(compute_score("dabench", "@mean[34.65]", {"mean": 34.65}, {"id": 1})["score"])
`
	env := []string{
		"PATH=" + os.Getenv("PATH"), "PYTHONPATH=" + filepath.Join(root, "clients", "python", "src"), "PYTHONDONTWRITEBYTECODE=1",
		"VERIGRAPH_REWARD=" + address, "VERIGRAPH_REWARD_TOKEN=hunter2", "VERIGRAPH_REWARD_CA=" + ours.file("ca.pem"),
	}
	run := func(more ...string) (string, error) {
		cmd := exec.CommandContext(ctx, filepath.Join(root, ".venv", "client", "bin", "python"), "-c", script)
		cmd.Env = append(env, more...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("VERIGRAPH_REWARD_CERT="+ours.file("trainer.pem"), "VERIGRAPH_REWARD_KEY="+ours.file("trainer.key"))
	require.NoError(t, err, out)
	require.Equal(t, "1.0\n", out)
	out, err = run("VERIGRAPH_REWARD_CERT=" + ours.file("trainer.pem"))
	require.Error(t, err)
	require.Contains(t, out, "go together")
	require.NotContains(t, out, "hunter2")
}

func TestTLSFilesThatAreMissingOrNoCertificatesAreNamed(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t, "ca")
	ours.issue(t, "server")
	for text, c := range map[string]config.TLS{
		"reward.service.tls: cert and key are both needed": {ClientCA: ours.file("ca.pem")},
		"reward.service.tls: open":                         {Cert: "nowhere.pem", Key: "nowhere.key"},
		"reward.service.tls.client_ca: open":               {Cert: ours.file("server.pem"), Key: ours.file("server.key"), ClientCA: "nowhere.pem"},
		"holds no certificate":                             {Cert: ours.file("server.pem"), Key: ours.file("server.key"), ClientCA: ours.file("ca.key")},
	} {
		_, err := config.RewardService{TLS: c}.Options()
		require.ErrorContains(t, err, text)
	}
}

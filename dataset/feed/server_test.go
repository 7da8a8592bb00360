package feed_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/internal/patience"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

func TestEveryCallButHealthNeedsTheToken(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.finish()
	opts := feed.Defaults()
	opts.Token = "s3cret"
	conn := serve(t, m.source(), opts).dial(t)
	client := pb.NewRolloutServiceClient(conn)
	for _, c := range []struct {
		header string
		code   codes.Code
	}{
		{"", codes.Unauthenticated},
		{"Bearer wrong", codes.Unauthenticated},
		{"s3cret", codes.Unauthenticated},
		{"Basic s3cret", codes.Unauthenticated},
		{"Bearer ", codes.Unauthenticated},
		{"bearer s3cret", codes.OK},
	} {
		ctx := t.Context()
		if c.header != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", c.header)
		}
		_, err := client.GetStatus(ctx, &pb.GetStatusRequest{})
		assert.Equal(t, c.code, status.Code(err), "unary with %q", c.header)
		stream, err := client.StreamBatches(ctx, &pb.StreamBatchesRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		if c.code == codes.OK {
			require.ErrorContains(t, err, "EOF")
		} else {
			assert.Equal(t, c.code, status.Code(err), "stream with %q", c.header)
		}
	}
	_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
}

func TestATokenIsNeverPrinted(t *testing.T) {
	t.Parallel()
	opts := feed.Options{Token: "s3cret"}
	asJSON, err := json.Marshal(map[string]any{"token": opts.Token})
	require.NoError(t, err)
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v", opts, opts, opts), fmt.Sprintf("%s %q %x %d", opts.Token, opts.Token, opts.Token, opts.Token),
		string(asJSON),
	} {
		assert.NotContains(t, text, "s3cret")
		assert.NotContains(t, text, "733363726574")
		assert.Contains(t, text, "[redacted]")
	}
}

func TestTheServerSaysWhatItServesAndThatItIsHealthy(t *testing.T) {
	t.Parallel()
	conn := serve(t, newMemory(t).source(), feed.Defaults()).dial(t)
	health, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{
		Service: pb.RolloutService_ServiceDesc.ServiceName,
	})
	require.NoError(t, err)
	assert.Equal(t, healthpb.HealthCheckResponse_SERVING, health.GetStatus())

	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}))
	answer, err := stream.Recv()
	require.NoError(t, err)
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	assert.Contains(t, names, "verigraph.v1.RolloutService")
	require.NoError(t, stream.CloseSend())
}

func TestAStoppingServerSaysSoAndDoesNotWaitForeverForOpenCalls(t *testing.T) {
	t.Parallel()
	opts := feed.Defaults()
	opts.StopTimeout = 2 * time.Second // enough to say so
	server := serve(t, newMemory(t).source(), opts)
	// A health watch never ends on its own side, so that only the timeout can end it.
	watch, err := healthpb.NewHealthClient(server.dial(t)).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	state, err := watch.Recv()
	require.NoError(t, err)
	assert.Equal(t, healthpb.HealthCheckResponse_SERVING, state.GetStatus())
	server.stop()
	state, err = watch.Recv()
	require.NoError(t, err)
	assert.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, state.GetStatus())
	require.NoError(t, patience.Receive(t, server.done, "the end of the server"))
	server.done <- nil
}

func TestTheServerTalksTLSWhenGivenACertificate(t *testing.T) {
	t.Parallel()
	certificate, roots := selfSigned(t)
	opts := feed.Defaults()
	opts.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	server := serve(t, newMemory(t).source(), opts)
	trusting := server.dial(t, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots})))
	_, err := pb.NewRolloutServiceClient(trusting).GetStatus(t.Context(), &pb.GetStatusRequest{})
	require.NoError(t, err)
	_, err = pb.NewRolloutServiceClient(server.dial(t)).GetStatus(t.Context(), &pb.GetStatusRequest{})
	assert.Equal(t, codes.Unavailable, status.Code(err), "in the clear")
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// verlSettings reads its argument as verl's configuration and asks for the policy version.
const verlSettings = `
import json, sys
from verigraph.verl.step import Stepper
sizes = {"prompt_length": 1, "response_length": 1}
config = {"remote_rollout": json.loads(sys.argv[1]), "actor_rollout_ref": {"rollout": sizes}}
print(Stepper.connect(config).service.status().policy_version)
`

func TestTheVerlAdaptersAndTheCommandsSpeakMutualTLSWithATokenOfAFile(t *testing.T) {
	t.Parallel()
	certificate, roots := selfSigned(t)
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	opts := feed.Defaults()
	opts.Token = "right"
	opts.TLS = &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	pemOf := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	m := newMemory(t)
	m.finish()
	source := m.source()
	own := write("cert.pem", pemOf("CERTIFICATE", certificate.Certificate[0]))
	block := map[string]any{
		"endpoint": serve(t, source, opts).addr, "ca": own, "cert": own, "key": write("key.pem", pemOf("PRIVATE KEY", key)),
		"token_file": write("token", []byte("right\n")),
	}
	python := func(args ...string) (string, error) {
		out, err := exec.CommandContext(patience.Context(t), "../../.venv/client/bin/python", args...).CombinedOutput()
		return string(out), err
	}
	run := func() (string, error) {
		data, err := json.Marshal(block)
		require.NoError(t, err)
		return python("-c", verlSettings, string(data))
	}
	out, err := run()
	require.NoError(t, err, out)
	require.Equal(t, "0\n", out)

	command := func(module, tokenFile string, more ...string) (string, error) {
		return python(append([]string{
			"-m", module, "--feed", block["endpoint"].(string), "--ca", own, "--cert", own,
			"--key", block["key"].(string), "--token-file", tokenFile,
		}, more...)...)
	}
	wrong := write("wrong", []byte("wrong"))
	for module, more := range map[string][]string{"verigraph.trainer": nil, "verigraph.dump": {"--out", filepath.Join(dir, "dump")}} {
		out, err = command(module, block["token_file"].(string), more...)
		require.NoError(t, err, out)
		out, err = command(module, wrong, more...)
		require.Error(t, err)
		require.Contains(t, out, "Unauthenticated")
	}
	block["token_file"] = wrong
	out, err = run()
	require.Error(t, err)
	require.Contains(t, out, "Unauthenticated")
}

func TestAServerWithoutAWholeSourceIsRefused(t *testing.T) {
	t.Parallel()
	source := newMemory(t).source()
	_, err := feed.New(source, feed.Options{})
	require.ErrorContains(t, err, "stop timeout")
	source.Objects = nil
	_, err = feed.New(source, feed.Defaults())
	require.ErrorContains(t, err, "Objects")
}

func TestServeReturnsItsErrorWhenTheListenerIsGone(t *testing.T) {
	t.Parallel()
	server, err := feed.New(newMemory(t).source(), feed.Defaults())
	require.NoError(t, err)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, lis.Close())
	require.ErrorContains(t, server.Serve(t.Context(), lis), "feed: serve:")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	lis, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, server.Serve(ended, lis), "a context that has ended is a clean stop")
}

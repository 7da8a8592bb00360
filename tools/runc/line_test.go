package runc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certificate is a kubernetes.io/tls Secret for an address.
func certificate(t *testing.T, address string) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// From a submitted prompt to an acknowledged batch and a corpus, over all programs, each in the container that its pod
// of the chart becomes, with the chart's network policies in force.
func TestARunGoesThroughThePodsOfTheChart(t *testing.T) {
	for set, c := range map[string]struct {
		tier, model string
		access      func(tls map[string][]byte, dir string) []string
	}{
		"confined": {"confined", "qwen3", func(map[string][]byte, string) []string { return nil }},
		"sft":      {"strict", "policy", func(_ map[string][]byte, dir string) []string { return []string{"--tls", "--ca", dir + "/tls.crt"} }},
	} {
		t.Run(set, func(t *testing.T) {
			k := newCluster(t, set)
			k.secrets["feed-tls"] = certificate(t, podAddress["reward"])
			k.write(t, "tls.crt", k.secrets["feed-tls"]["tls.crt"])
			tokenizer, err := os.ReadFile(root + "policy/scripted/tokenizer.json")
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Join(k.claim(t, "models"), "qwen3"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(k.claim(t, "models"), "qwen3/tokenizer.json"), tokenizer, 0o644))
			k.servePolicy(t, c.model)
			nats := k.start(t, "nats")
			k.ready(t, "nats", nats)
			server := k.start(t, "reward")
			k.ready(t, "reward", server)
			worker := k.start(t, "worker")
			k.ready(t, "worker", worker)

			data := "/mnt/dabench/"
			out, err := server.exec("/usr/local/bin/verigraph", "submit", "--config", "/etc/verigraph/config/reward-server.yaml", "--final", "--limit", "3",
				"--format", "dabench", "--prompts", data+"questions.jsonl", "--labels", data+"labels.jsonl", "--data-dir", data+"tables")
			require.NoError(t, err, out)
			args := append([]string{".venv/client/bin/python", "-m", "verigraph.trainer", "--feed", podAddress["reward"] + ":50051"}, c.access(k.secrets["feed-tls"], k.dir)...)
			trained, err := k.beside(args...).CombinedOutput()
			require.NoError(t, err, "%s\n%s\n%s", trained, server.text(), worker.text())
			require.Contains(t, string(trained), "total: 1 batches, 3 groups, 12 rollouts")

			k.checkPorts(t, worker, c.tier)
			checkSharing(t, worker, server)
			if _, ok := k.pods["sft"]; ok {
				k.start(t, "sft").wait(t)
				corpus, err := filepath.Glob(filepath.Join(k.claims["runs"], "sft", "*"))
				require.NoError(t, err)
				require.NotEmpty(t, corpus)
				t.Log(corpus)
			}
			for _, pod := range []*container{worker, server, nats} {
				pod.stop(t)
			}
			t.Logf("%s", trained)
		})
	}
}

// checkPorts asks what answers whom: the network policies open what is needed, and nothing else.
func (c *cluster) checkPorts(t *testing.T, worker *container, tier string) {
	t.Helper()
	for _, part := range []string{"worker", "reward"} {
		admin := "http://" + podAddress[part] + ":9090"
		status, metrics := c.get(monitoring, admin+"/metrics")
		require.Equal(t, http.StatusOK, status, metrics)
		if part == "worker" {
			require.Contains(t, metrics, `verigraph_sandbox_tier{tier="`+tier+`"} 1`)
			require.Contains(t, metrics, `verigraph_sandbox_starts_total{result="failed"} 0`)
		} else {
			require.Contains(t, metrics, `verigraph_ledger_rollouts{state="delivered"} 12`)
			require.Contains(t, metrics, "verigraph_ledger_unaccounted 0")
		}
		status, _ = c.get(stranger, admin+"/metrics")
		require.Zero(t, status, "a stranger reaches the admin port of the "+part)
	}
	status, _ := c.get(monitoring, "http://"+podAddress["nats"]+":8222/jsz?acc=$G&consumers=true")
	require.Equal(t, http.StatusOK, status)
	for address, open := range map[string]bool{
		podAddress["nats"] + ":4222": true, policy + ":8000": true,
		stranger + ":8000": false, podAddress["reward"] + ":50051": false, podAddress["reward"] + ":9090": false, podAddress["nats"] + ":8222": false,
	} {
		host, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		out, err := worker.exec("/opt/verigraph/python/bin/python", "-c", "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)", host, port)
		require.Equal(t, open, err == nil, "the worker's pod and %s: %s", address, out)
	}
}

// What a worker writes to a shared claim, the other pods may change and remove, whatever user each of them is.
func checkSharing(t *testing.T, worker, server *container) {
	t.Helper()
	python := []string{"/opt/verigraph/python/bin/python", "-c"}
	for from, to := range map[*container]*container{worker: server, server: worker} {
		umask, err := from.exec("grep", "Umask", "/proc/1/status")
		require.NoError(t, err, umask)
		require.Contains(t, umask, "0002")
		out, err := from.exec(append(python, `import os; os.umask(2); os.makedirs("/var/lib/verigraph/parts/a"); open("/var/lib/verigraph/parts/a/x", "w")`)...)
		require.NoError(t, err, out)
		out, err = to.exec(append(python, `import shutil; open("/var/lib/verigraph/parts/a/y", "w"); shutil.rmtree("/var/lib/verigraph/parts/a")`)...)
		require.NoError(t, err, out)
		out, err = from.exec(append(python, `import shutil; shutil.rmtree("/var/lib/verigraph/parts")`)...)
		require.NoError(t, err, out)
	}
}

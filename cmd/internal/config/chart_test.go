package config_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/verigraph/verigraph/cmd/internal/config"
)

const helm = "../../../deploy/helm/"

// The golden files are made and checked with Helm's own engine by make test-helm.
func TestTheGoldenFilesAreThoseOfTheChart(t *testing.T) {
	t.Parallel()
	sum := sha256.New()
	for _, dir := range []string{helm + "verigraph", helm + "values"} {
		require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(filepath.Join(dir, p))
			sum.Write([]byte(p + "\n"))
			sum.Write(data)
			return err
		}))
	}
	want, err := os.ReadFile(helm + "golden/chart.sha256")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(want)), hex.EncodeToString(sum.Sum(nil)), "the chart changed: make golden-helm")
}

// rendered is what these tests read of a document of the chart.
type rendered struct {
	Kind string
	Data map[string]string
	Spec struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Env []struct {
						Name      string
						ValueFrom struct {
							SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
							FieldRef     struct {
								FieldPath string `yaml:"fieldPath"`
							} `yaml:"fieldRef"`
						} `yaml:"valueFrom"`
					}
				}
			}
		}
	}
}

// A variable that a configuration names must be one that the chart gives to some pod out of a Secret.
func TestEveryConfigurationOfTheChartLoadsAndIsValid(t *testing.T) {
	files, err := filepath.Glob(helm + "golden/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 6)
	secrets := certificate(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			configs := map[string]string{}
			for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
				var doc rendered
				if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
					break
				} else {
					require.NoError(t, err)
				}
				for name, text := range doc.Data {
					configs[name] = text
				}
				for _, c := range doc.Spec.Template.Spec.Containers {
					for _, e := range c.Env {
						if e.ValueFrom.SecretKeyRef.Name != "" {
							t.Setenv(e.Name, "secret")
						} else if e.ValueFrom.FieldRef.FieldPath != "" {
							t.Setenv(e.Name, "10.1.2.3")
						}
					}
				}
			}
			for _, role := range []string{config.RoleWorker, config.RoleReward} {
				require.Contains(t, configs, role+".yaml")
				path := filepath.Join(t.TempDir(), role+".yaml")
				text := strings.ReplaceAll(configs[role+".yaml"], "/etc/verigraph/tls", secrets)
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
				c, err := config.Load(path)
				require.NoError(t, err)
				c.Resolve()
				require.NoError(t, c.ValidateRole(role))
				require.Equal(t, ":9090", c.Admin.Listen, "the probes ask this port")
			}
		})
	}
}

// certificate writes a server's certificate and key as the Secret of a pod holds them.
func certificate(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	cert, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, &key.PublicKey, key)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: cert}, "tls.key": {Type: "PRIVATE KEY", Bytes: der}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return dir
}

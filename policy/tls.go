package policy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS says whom an https endpoint must prove to be, and who the client is. There is no switch that
// turns verification off: a private authority's certificate goes into CAFile.
type TLS struct {
	// CAFile holds the certificates that are trusted, in PEM; empty takes the system's.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the client's own, for servers that want one.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name in the server's certificate where it is not the URL's host.
	ServerName string `yaml:"server_name"`
}

// build gives nil where the defaults hold.
func (t TLS) build() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	cfg := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("policy: tls.ca_file: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("policy: tls.ca_file: %s holds no certificate", t.CAFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("policy: tls.cert_file and tls.key_file: give both or neither")
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("policy: tls.cert_file: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

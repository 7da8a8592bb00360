package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLS names PEM files. ClientCA asks clients for a certificate that it signed (mTLS).
type TLS struct {
	// Cert and Key are the server's own.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ClientCA signed the certificates that clients must show; empty asks for none.
	ClientCA string `yaml:"client_ca"`
}

// server reads the files of the section named key; nil serves in the clear.
func (t TLS) server(key string) (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	if t.Cert == "" || t.Key == "" {
		return nil, fmt.Errorf("%s: cert and key are both needed", key)
	}
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}
	if t.ClientCA != "" {
		if c.ClientCAs, err = LoadCA(t.ClientCA); err != nil {
			return nil, fmt.Errorf("%s.client_ca: %w", key, err)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// LoadCA reads certificates of authorities.
func LoadCA(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return pool, nil
}

package jetstream

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// maxPayload is what the embedded server accepts; parts above partLimit travel through the blob
// store, so it is never reached.
const maxPayload = 8 << 20

// startTime is what the embedded server may take to start and to greet: its machine may be busy with something else.
const startTime = time.Minute

// Server is an embedded NATS server.
type Server struct {
	ns *server.Server
}

// ServerConfig configures an embedded server.
type ServerConfig struct {
	// Dir holds the store.
	Dir string
	// Listen opens a TCP port on 127.0.0.1 as well (Port 0 chooses one); otherwise only this
	// process reaches the server.
	Listen bool
	Port   int
}

// StartServer starts an embedded server and waits until it accepts connections.
func StartServer(cfg ServerConfig) (*Server, error) {
	if cfg.Dir == "" {
		return nil, errors.New("nats: no store directory")
	}
	port := cfg.Port
	if cfg.Listen && port == 0 {
		port = server.RANDOM_PORT
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: "verigraph", Host: "127.0.0.1", Port: port, DontListen: !cfg.Listen,
		JetStream: true, StoreDir: cfg.Dir, MaxPayload: maxPayload,
		NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	ns.Start()
	if !ns.ReadyForConnections(startTime) {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, fmt.Errorf("nats: store %s: server is not ready after %s", cfg.Dir, startTime)
	}
	return &Server{ns: ns}, nil
}

// URL is the client URL when the server listens.
func (s *Server) URL() string { return s.ns.ClientURL() }

// Port is where the server listens.
func (s *Server) Port() int { return s.ns.Addr().(*net.TCPAddr).Port }

// Connect opens an in-process connection.
func (s *Server) Connect() (*nats.Conn, error) {
	nc, err := nats.Connect("", nats.InProcessServer(s.ns), nats.Name("verigraph"), nats.Timeout(startTime))
	if err != nil {
		return nil, fmt.Errorf("nats: connect in process: %w", err)
	}
	return nc, nil
}

// Stop shuts the server down and waits for it.
func (s *Server) Stop() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
}

// Package process is what the cluster's processes share: flags, signals, exit codes, the connection
// to the broker and the admin port.
package process

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/jetstream"
)

// Part is what a process runs once it is connected.
type Part interface {
	Run(ctx context.Context) error
	Close() error
}

// Paged is a Part with pages of its own on the admin port, by path.
type Paged interface {
	Pages() map[string]http.Handler
}

// Program describes one process.
type Program struct {
	Name string
	// About is shown by --help.
	About string
	// Validate checks the sections that the process uses.
	Validate func(config.Config) error
	// Build makes the part; it is ready to run when Build returns.
	Build func(ctx context.Context, cfg config.Config, bus *jetstream.Bus, blobs *blob.Store, log *zap.Logger) (Part, error)
}

// Main runs the program and exits: 0 done, 1 failed, 2 wrong flags or configuration.
func (p Program) Main() {
	// Workers of tier strict run as another user than the other pods: on a shared volume their group may write too.
	syscall.Umask(0o002)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := p.run(ctx, os.Args[1:], os.Stderr)
	stop()
	os.Exit(code)
}

func (p Program) run(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	path := flags.String("config", "", "configuration file")
	run := flags.String("run", "", "name of the run (wins over the file)")
	url := flags.String("nats", "", "NATS URL (wins over the file)")
	store := flags.String("blob", "", "object store: directory or URL (wins over the file)")
	flags.Usage = func() {
		fmt.Fprintf(stderr, "%s: %s\n\nUsage: %s --config FILE\n\n", p.Name, p.About, p.Name)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	cfg, err := config.LoadOptional(*path)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return 2
	}
	for value, into := range map[*string]*string{run: &cfg.Run, url: &cfg.NATS.URL, store: &cfg.Blob} {
		if *value != "" {
			*into = *value
		}
	}
	cfg.Resolve()
	if err := errors.Join(cfg.External(), p.Validate(cfg)); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return 2
	}
	if err := p.serve(ctx, cfg); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return 1
	}
	return 0
}

// log writes JSON to standard error: of equal messages within a second the first 100, then every 100th.
func (p Program) log() (*zap.Logger, error) {
	log, err := zap.NewProduction()
	return log.Named(p.Name), err
}

func (p Program) serve(ctx context.Context, cfg config.Config) error {
	log, err := p.log()
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	bus, blobs, closeAll, err := line.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer closeAll()
	part, err := p.Build(ctx, cfg, bus, blobs, log)
	if err != nil {
		return err
	}
	log.Info("ready", zap.String("run", cfg.Run))
	defer endInTime(ctx, cfg.Worker.Drain+stopMargin, log)()
	err = runWithAdmin(ctx, cfg.Admin.Listen, part)
	log.Info("stopped", zap.String("run", cfg.Run))
	return errors.Join(err, part.Close())
}

// stopMargin is what handing back, the last answers and the end of all sessions may take after the drain.
const stopMargin = 20 * time.Second

// endInTime ends the process when it has not stopped by itself a while after ctx ended: what it still holds
// is handed out again then, and its sessions end with it.
func endInTime(ctx context.Context, limit time.Duration, log *zap.Logger) (stopped func()) {
	done := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-time.After(limit):
			log.Error("not stopped in time", zap.Duration("limit", limit))
			os.Exit(1)
		}
	})
	return func() {
		unhook()
		close(done)
	}
}

// runWithAdmin runs the part, and beside it health (/healthz, /readyz), metrics and pprof.
func runWithAdmin(ctx context.Context, listen string, part Part) error {
	if listen == "" {
		return part.Run(ctx)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("admin.listen: %w", err)
	}
	var ready atomic.Bool
	ready.Store(true)
	server := &http.Server{Handler: adminMux(&ready, part), ReadHeaderTimeout: 5 * time.Second}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		defer server.Close()
		return part.Run(ctx)
	})
	g.Go(func() error {
		<-ctx.Done() // unready before the drain begins
		ready.Store(false)
		return nil
	})
	return g.Wait()
}

func adminMux(ready *atomic.Bool, part Part) http.Handler {
	mux := http.NewServeMux()
	if p, ok := part.(Paged); ok {
		for path, page := range p.Pages() {
			mux.Handle(path, page)
		}
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "stopping", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

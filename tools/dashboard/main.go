// Command dashboard makes a page of a Grafana dashboard's panels out of processes that run: it scrapes them into
// Prometheus' own store until it is interrupted, asks Prometheus' own engine every panel's queries over that time, and
// draws the answers. It fails where a panel is empty, but for those of empty.
//
//	dashboard DASHBOARD.json PAGE.html TARGET...
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
)

const (
	interval = time.Second // of scrapes and of points
	window   = "10s"       // $__rate_interval
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return errors.New("want DASHBOARD.json PAGE.html TARGET")
	}
	board, err := read(args[0])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "dashboard-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return err
	}
	defer db.Close()
	start := time.Now()
	if err := scrape(ctx, db, args[2:]); err != nil {
		return err
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: time.Minute})
	var empty []string
	for i := range board.Panels {
		p := &board.Panels[i]
		if err := p.ask(context.WithoutCancel(ctx), engine, db, start.Truncate(time.Second), time.Now()); err != nil {
			return fmt.Errorf("%s: %w", p.Title, err)
		}
		if len(p.series) == 0 {
			empty = append(empty, p.Title)
		}
	}
	if len(empty) > 0 {
		return fmt.Errorf("no data in: %s", strings.Join(empty, ", "))
	}
	return os.WriteFile(args[1], []byte(page(board)), 0o644)
}

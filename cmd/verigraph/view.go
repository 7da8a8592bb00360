package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/viewer"
)

// viewTokenEnv names the environment variable with the viewer's token.
const viewTokenEnv = "VERIGRAPH_VIEW_TOKEN"

// viewOptions are the flags of verigraph view.
type viewOptions struct {
	listen, compare, tokenizer string
	hosts                      []string
}

func newView() *cobra.Command {
	var o viewOptions
	cmd := &cobra.Command{
		Use:   "view OUT",
		Short: "Show a run in the browser: progress, rollouts, tokens and evidence",
		Long: `Serves one page that shows an output directory, also of a run that is still going on. It only reads. On a
loopback address everybody on this machine can open it; on any other address a token is needed, which is
printed with the address, or taken from ` + viewTokenEnv + `.`,
		Example: `  verigraph view out/demo
  verigraph view out/demo --compare out/other
  verigraph view out/demo --listen 0.0.0.0:8900 --host trainer.example.org`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runView(cmd.Context(), o, args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "address to serve on; port 0 takes a free one")
	f.StringVar(&o.compare, "compare", "", "output directory of a second run to compare with")
	f.StringVar(&o.tokenizer, "tokenizer", "", "directory or file with the model's tokenizer.json (default OUT/tokenizer.json)")
	f.StringSliceVar(&o.hosts, "host", nil, "name of this machine under which browsers reach it, beside IP addresses and localhost")
	return cmd
}

func runView(ctx context.Context, o viewOptions, out string, stdout io.Writer) (err error) {
	g, err := o.guard()
	if err != nil {
		return cli.Usage(err)
	}
	var runs []*viewer.Run
	defer func() {
		for _, r := range runs {
			err = errors.Join(err, r.Close())
		}
	}()
	for _, dir := range []string{out, o.compare} {
		if dir == "" {
			continue
		}
		if err := checkRunDir(dir); err != nil {
			return cli.Usage(err)
		}
		r, err := viewer.Open(dir, o.tokenizer)
		if err != nil {
			return cli.Usage(err)
		}
		runs = append(runs, r)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.listen)
	if err != nil {
		return cli.Usage(fmt.Errorf("--listen: %w", err))
	}
	query := ""
	if g.Token != "" {
		query = "?token=" + string(g.Token)
	}
	fmt.Fprintf(stdout, "http://%s/%s\n", o.reachable(l.Addr()), query)
	return serveUntil(ctx, l, viewer.Handler(g, runs...))
}

// guard makes a token where the address needs one and none is given.
func (o viewOptions) guard() (viewer.Guard, error) {
	g := viewer.Guard{Token: viewer.Token(os.Getenv(viewTokenEnv)), Hosts: o.hosts}
	err := g.Listen(o.listen)
	if errors.Is(err, viewer.ErrOpen) {
		g.Token = viewer.Token(rand.Text())
		return g, nil
	}
	if err != nil {
		return g, fmt.Errorf("--listen: %w", err)
	}
	return g, nil
}

// reachable is the address for a browser: a server on all addresses is named by its first name.
func (o viewOptions) reachable(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return a.String()
	}
	name := "127.0.0.1"
	if len(o.hosts) > 0 {
		name = o.hosts[0]
	}
	return net.JoinHostPort(name, strconv.Itoa(t.Port))
}

// checkRunDir tells a mistyped directory from a run that has not finished a rollout yet.
func checkRunDir(dir string) error {
	for _, name := range []string{identityName, "trajectories"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s holds no run: neither %s nor trajectories/", dir, identityName)
}

func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("view: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return server.Close() // requests only read, so none needs to be finished
	})
	return g.Wait()
}

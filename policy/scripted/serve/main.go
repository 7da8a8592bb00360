// Command serve answers as a policy endpoint out of a script, for tests that need the policy in a process of its own:
//
//	serve SCRIPT ADDRESS MODEL [LATENCY]
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/verigraph/verigraph/policy/scripted"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 || len(args) > 4 {
		return fmt.Errorf("want SCRIPT ADDRESS MODEL [LATENCY], got %d arguments", len(args))
	}
	script, err := scripted.LoadScript(args[0])
	if err != nil {
		return err
	}
	cfg := scripted.Defaults()
	cfg.Model = args[2]
	if len(args) == 4 {
		latency, err := time.ParseDuration(args[3])
		if err != nil {
			return err
		}
		cfg.Latency = func(scripted.CallInfo) time.Duration { return latency }
	}
	handler, err := scripted.New(script, cfg)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: args[1], Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

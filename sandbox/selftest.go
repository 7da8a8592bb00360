package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// required names the checks that a tier promises; the others are not looked at.
func (t Tier) required() []string {
	always := []string{"read_data", "write_scratch", "descriptors", "environment", "rlimit_nofile", "rlimit_fsize", "rlimit_as", "rlimit_core"}
	filtered := []string{"no_new_privs", "seccomp_filter", "no_capabilities", "no_sockets", "no_processes", "no_signals_to_others"}
	files := []string{"host_file", "host_directory", "host_home", "write_usr", "write_root", "write_data"}
	namespaced := []string{"process_1", "remove_data"}
	switch t {
	case TierStrict:
		return concat(always, filtered, files, namespaced, []string{"empty_bounding_set", "no_host_processes", "landlock", "rlimit_nproc"})
	case TierGVisor:
		return concat(always, filtered, files, namespaced)
	case TierConfined:
		return concat(always, filtered, files)
	}
	return always
}

func concat(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// optional are checks that need a /proc, which some hosts don't let a namespace mount; what they
// look at is set by calls whose failure ends the start.
var optional = map[string]bool{"no_new_privs": true, "seccomp_filter": true, "no_capabilities": true, "empty_bounding_set": true, "no_host_processes": true}

// selfTest runs a real session that tries what the tier forbids. Something that clears the
// temporary directory at that moment takes its files away, which says nothing about isolation.
func (s *Sandbox) selfTest(ctx context.Context) error {
	var err error
	for range 3 {
		var swept bool
		if swept, err = s.selfTestOnce(ctx); !swept {
			break
		}
	}
	return err
}

// selfTestOnce also reports whether its files were gone before it ended.
func (s *Sandbox) selfTestOnce(ctx context.Context) (swept bool, err error) {
	if err := os.MkdirAll(s.scratch, 0o755); err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp(s.scratch, "selftest-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	err = s.selfTestIn(ctx, dir)
	if err != nil {
		_, gone := os.Stat(filepath.Join(dir, "selftest.csv"))
		swept = errors.Is(gone, os.ErrNotExist)
	}
	return swept, err
}

func (s *Sandbox) selfTestIn(ctx context.Context, dir string) error {
	data, secret := filepath.Join(dir, "selftest.csv"), filepath.Join(dir, "secret")
	if err := errors.Join(os.WriteFile(data, []byte("a,b\n"), 0o644), os.WriteFile(secret, []byte("secret"), 0o644),
		os.Chmod(dir, 0o755), os.Chmod(s.scratch, 0o755)); err != nil {
		return err
	}
	if s.beforeSelfTest != nil {
		s.beforeSelfTest(dir)
	}
	slot, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	sess, err := s.start(ctx, slot, []bindFile{{Name: "selftest.csv", Path: data}}, Spec{})
	if err != nil {
		return err
	}
	defer sess.Close()
	// Its report is longer than what some configurations show of a cell.
	sess.limits.OutputBytes = max(sess.limits.OutputBytes, 64<<10)
	res, err := sess.Run(ctx, s.selfTestCell(secret), silent{})
	if err != nil {
		return err
	}
	if res.Status != trajectory.CellOK {
		return fmt.Errorf("self-test: %s: %s%s", res.Status, res.Traceback, res.Output)
	}
	s.checks = nil
	if err := json.Unmarshal([]byte(strings.TrimSpace(res.Output)), &s.checks); err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	return judge(s.tier, s.checks)
}

// Check is one thing that the self-test tried.
type Check struct {
	Name string
	// Problem is empty where it holds.
	Problem string
	// Required: the tier promises it.
	Required bool
}

// Checks are what the self-test found, sorted by name.
func (s *Sandbox) Checks() []Check {
	var out []Check
	for name, problem := range s.checks {
		out = append(out, Check{Name: name, Problem: problem, Required: slices.Contains(s.tier.required(), name)})
	}
	slices.SortFunc(out, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// judge compares what the self-test saw with what the tier promises.
func judge(tier Tier, checks map[string]string) error {
	var errs []error
	for _, name := range tier.required() {
		why, ran := checks[name]
		switch {
		case !ran && !optional[name]:
			errs = append(errs, fmt.Errorf("self-test: %s: did not run", name))
		case why != "":
			errs = append(errs, fmt.Errorf("self-test: %s: %s", name, why))
		}
	}
	return errors.Join(errs...)
}

// selfTestCell is the self-test with what it must know of the host. The directory that it must not see is the one that the
// self-test made: a place where programs lie (/usr/bin, /tmp) may be one that a session has, too.
func (s *Sandbox) selfTestCell(secret string) string {
	l := s.cfg.Limits
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/home"
	}
	var names []string
	for _, v := range environment("", true, 0) {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	sort.Strings(names)
	limits := map[string]int64{"NOFILE": int64(l.OpenFiles), "FSIZE": l.FileBytes, "AS": s.addressSpace(), "CORE": 0}
	if s.tier.namespaces() {
		limits["NPROC"] = int64(l.Processes)
	}
	quote := func(v any) string {
		b, _ := json.Marshal(v) // strings, numbers and lists of them: also Python literals
		return string(b)
	}
	return fmt.Sprintf("HOST_FILE = %s\nHOST_DIR = %s\nHOST_HOME = %s\nENVIRONMENT = %s\nLIMITS = %s\n%s",
		quote(secret), quote(filepath.Dir(secret)), quote(filepath.Join(home, ".ssh")), quote(names), quote(limits), selftestSource)
}

// silent is a Host that has no graph.
type silent struct{}

func (silent) Completed(evidence.Report) {}
func (silent) Taint(int, string)         {}
func (silent) Bind(evidence.BindRequest) (string, string, *evidence.Refusal) {
	return "", "", &evidence.Refusal{Rule: "self_test", Message: "no graph"}
}

func (silent) Infer(evidence.InferRequest) (string, string, *evidence.Refusal) {
	return "", "", &evidence.Refusal{Rule: "self_test", Message: "no graph"}
}

func (silent) Submit(evidence.SubmitRequest) *evidence.Refusal {
	return &evidence.Refusal{Rule: "self_test", Message: "no graph"}
}

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report is what a run gave.
type report struct {
	Commit   string        `json:"commit"`
	Machine  string        `json:"machine"`
	Seed     uint64        `json:"seed"`
	Began    time.Time     `json:"began"`
	Faults   time.Duration `json:"faults_ns"`
	Injected []injected    `json:"injected"`
	// Before and After are groups a minute, over a window of the same length.
	Window   time.Duration `json:"window_ns"`
	Before   float64       `json:"groups_per_minute_before"`
	During   float64       `json:"groups_per_minute_during"`
	After    float64       `json:"groups_per_minute_after"`
	UseFirst use           `json:"use_before"`
	UseLast  use           `json:"use_after"`
	Left     []string      `json:"left"`
	Deaths   []string      `json:"deaths"`
	findings
}

func commit() string {
	cmd := exec.Command("git", "describe", "--always", "--dirty")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func machine() string {
	mem := "?"
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int
		if _, err := fmt.Sscanf(string(data), "MemTotal: %d kB", &kb); err == nil {
			mem = fmt.Sprint(kb >> 20)
		}
	}
	return fmt.Sprintf("%d shared cores, %s GiB", runtime.NumCPU(), mem)
}

// write stores the report as JSON and as a page.
func (r report) write(dir, page string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), data, 0o644); err != nil {
		return err
	}
	if page == "" {
		page = filepath.Join(dir, "report.md")
	}
	return os.WriteFile(page, r.page(), 0o644)
}

func (r report) page() []byte {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Chaos: a cluster under faults\n")
	p("Written by `make chaos`, whose test bed is described in [operations.md](../operations.md#chaos). Machine: %s. Commit %s, seed %d, %s.\n",
		r.Machine, r.Commit, r.Seed, r.Began.UTC().Format(time.DateOnly))
	p("Bed: %d NATS servers (replicas 3), %d workers with real sessions, %d reward servers, a trainer that is restarted from its checkpoint, %d policy",
		nodes, workers, servers, policies)
	p("endpoints and a judge over HTTP. Faults were injected for %s, %d in all.\n", r.Faults, len(r.Injected))
	if len(r.Problems) == 0 {
		p("**Every check held.**\n")
	} else {
		p("**%d checks failed:**\n", len(r.Problems))
		for _, s := range r.Problems[:min(len(r.Problems), 50)] {
			p("- %s", s)
		}
		p("")
	}
	p("## Faults\n\n| fault | times | seconds in all |\n| --- | --- | --- |")
	times, lasted, missed := map[kind]int{}, map[kind]float64{}, map[kind]int{}
	var ledAgain []float64
	for _, in := range r.Injected {
		if strings.HasPrefix(in.Note, "not injected") {
			missed[in.Kind]++
			continue
		}
		times[in.Kind]++
		lasted[in.Kind] += in.Lasted
		if in.LedAgain > 0 {
			ledAgain = append(ledAgain, in.LedAgain)
		}
	}
	for _, k := range allKinds {
		p("| %s | %d | %.0f |", k, times[k], lasted[k])
	}
	for k, n := range missed {
		p("\n%d times there was no victim for \"%s\".", n, k)
	}
	p("\n## Rate\n\nGroups delivered a minute over %s: %.1f before the faults, %.1f while they went on, %.1f after them (%.0f %% of before).\n",
		r.Window, r.Before, r.During, r.After, 100*r.After/max(r.Before, 1e-9))
	if len(ledAgain) > 0 {
		slices.Sort(ledAgain)
		p("After the leader was killed the run was led again after %.1f s (median of %d), %.1f s at the longest.\n", ledAgain[len(ledAgain)/2], len(ledAgain), ledAgain[len(ledAgain)-1])
	}
	p("## Counts\n\n| what | number |\n| --- | --- |")
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		p("| %s | %d |", name, r.Figures[name])
	}
	p("\n## What the processes held\n\n| process | descriptors before, after | resident MB before, after |\n| --- | --- | --- |")
	for _, name := range slices.Sorted(maps.Keys(r.UseLast.Descriptors)) {
		p("| %s | %d, %d | %d, %d |", name, r.UseFirst.Descriptors[name], r.UseLast.Descriptors[name], r.UseFirst.Megabytes[name], r.UseLast.Megabytes[name])
	}
	p("\nProcesses of the bed, sessions among them: %d before, %d after; namespaces: %d, %d. Left after the end: %d things.",
		r.UseFirst.Processes, r.UseLast.Processes, r.UseFirst.Namespaces, r.UseLast.Namespaces, len(r.Left))
	return b.Bytes()
}

package redteam

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of docs/cheating.md")

const (
	tableBegin = "<!-- table: go test ./rollout/redteam -update -->"
	tableEnd   = "<!-- end of table -->"
)

var says = map[defence]string{
	byGraph: "defended: graph", byTaint: "detected: taint", byReplay: "detected: replay",
	bySensitivity: "detected: sensitivity", byReward: "defended: outcome rule", byPreset: "defended: default preset",
	bySupport: "open by default; defended: `answer_needs: support`",
	bySession: "defended: session", byProtocol: "defended: protocol", byNone: "**open**",
}

// checkTable compares docs/cheating.md with what was measured.
func checkTable(t *testing.T, policies []policy) {
	t.Helper()
	if len(verdicts.rows) < len(policies) {
		return // a part of the suite was asked for, or some policy failed and says so itself
	}
	var b strings.Builder
	chapter := ""
	for _, p := range policies {
		if p.chapter != chapter {
			chapter = p.chapter
			fmt.Fprintf(&b, "\n### %s\n\n| policy | trick | what stops it | reward | without it |\n| --- | --- | --- | --: | --: |\n", chapter)
		}
		stops := says[p.defence]
		if p.honest {
			stops = "nothing to stop: the trick had no effect"
			if p.defence == byNone {
				stops = "nothing to stop: honest"
			}
		}
		row, off := verdicts.rows[p.name], "-"
		if !p.honest && p.defence != byNone {
			if len(p.off) > 0 {
				stops += " (" + strings.Join(p.off, ", ") + ")"
			}
			off = fmt.Sprintf("%.2f", row.off)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.2f | %s |\n", p.name, strings.ReplaceAll(p.trick, "|", "\\|"), stops, row.reward, off)
	}
	path := filepath.Join("..", "..", "docs", "cheating.md")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	earns := fmt.Sprintf("An honest wrong answer earns %.2f, the honest solution\n%.2f.", honestBar(t).wrong, honestBar(t).right)
	require.Contains(t, string(data), earns, "what the bar is")
	head, rest, ok := strings.Cut(string(data), tableBegin)
	require.True(t, ok, "docs/cheating.md has no table")
	old, tail, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok, "the table in docs/cheating.md does not end")
	want := "\n" + b.String() + "\n"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(head+tableBegin+want+tableEnd+tail), 0o644))
		return
	}
	require.Equal(t, want, old, "run: go test ./rollout/redteam -update")
}

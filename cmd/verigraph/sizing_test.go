package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/sizing"
)

func TestTheTableOfTheSizingPageIsWhatTheFormulasGive(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := verigraph(t, "sizing")
	require.Zero(t, code, stderr)
	page := readPage(t, "sizing.md")
	start := strings.Index(page, "| GPUs |")
	require.Positive(t, start)
	written := page[start : start+strings.Index(page[start:], "\n\n")+1]
	if *updateDocs {
		page = strings.Replace(page, written, stdout, 1)
		require.NoError(t, os.WriteFile(root+"docs/sizing.md", []byte(page), 0o600))
		written = stdout
	}
	require.Equal(t, stdout, written, "make docs")

	code, stdout, stderr = verigraph(t, "sizing", "--gpus", "64", "--turns", "10")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "\n| 64 | ")
	code, _, stderr = verigraph(t, "sizing", "--gpus", "0")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--gpus: 0, want more than 0")
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(root + "docs/" + name)
	require.NoError(t, err)
	return string(data)
}

// The costs that the sizes are computed from are those of the last level of the measured tables.
func TestSizesRestOnTheMeasuredCosts(t *testing.T) {
	t.Parallel()
	page := readPage(t, "measured/scale.md")
	last := func(header string) []float64 {
		t.Helper()
		_, table, ok := strings.Cut(page, header)
		require.True(t, ok, header)
		table, _, _ = strings.Cut(table, "\n\n")
		table, _, _ = strings.Cut(table, "\n<!--")
		lines := strings.Split(strings.TrimSpace(table), "\n")
		var out []float64
		for _, cell := range strings.Split(strings.Trim(lines[len(lines)-1], "| "), "|") {
			n, err := strconv.ParseFloat(regexp.MustCompile(`[0-9.]+`).FindString(cell), 64)
			require.NoError(t, err, cell)
			out = append(out, n)
		}
		return out
	}
	rates, cpu := last("| at once (peak) |"), last("CPU for each trajectory, in ms:\n\n")
	memory, bytes := last("| at once | worker | session (PSS"), last("| at once | sampled tokens each")
	turns := rates[3]
	m := sizing.Measured
	ms := func(d float64) string { return fmt.Sprintf("%.1f", d) }
	require.Equal(t, ms(cpu[1]/turns), ms(m.Worker.Seconds()*1000), "worker, for each turn")
	require.Equal(t, ms(cpu[2]), ms(m.Session.Seconds()*1000))
	require.Equal(t, ms(cpu[3]), ms(m.Server.Seconds()*1000))
	require.Equal(t, ms(cpu[4]), ms(m.NATS.Seconds()*1000))
	require.InDelta(t, memory[2], m.SessionMiB, 1e-9)
	require.InDelta(t, memory[5], m.WorkerKiB, 1e-9)
	require.InDelta(t, memory[7], m.NATSKiB, 1e-9)
	require.InDelta(t, bytes[2], m.BrokerBytes, 1e-9)
	require.InDelta(t, bytes[3], m.CallBytes, 1e-9)
}

package main

import (
	"bytes"
	goflag "flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

var updateDocs = goflag.Bool("update", false, "write docs/commands.md")

// The page of commands is made from the commands; each has an example that its own flags parse.
func TestThePageOfCommandsIsThatOfTheCommands(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	page.WriteString("# Commands\n\nWhat `verigraph --help` and `verigraph COMMAND --help` print. `verigraph completion bash` (zsh, fish, powershell) prints a\n" +
		"completion script. Exit codes: 0 done; 1 something failed; 2 a mistake in flags, configuration or input files. This page is made\nfrom the code.\n")
	for _, c := range leaves(newRoot()) {
		require.NotEmpty(t, c.Example, "%s has no example", c.CommandPath())
		fmt.Fprintf(&page, "\n## %s\n\n%s.\n\n", c.CommandPath(), c.Short)
		if c.Long != "" {
			fmt.Fprintf(&page, "%s\n\n", c.Long)
		}
		fmt.Fprintf(&page, "```text\n%s\n\n%s\n\n%s```\n", c.UseLine(), c.Example, c.LocalFlags().FlagUsages())
		for _, line := range examples(c.Example) {
			words := strings.Fields(line)
			got, rest, err := newRoot().Find(words[1:])
			require.NoError(t, err, line)
			require.Equal(t, c.CommandPath(), got.CommandPath(), line)
			require.NoError(t, got.ParseFlags(rest), line)
			require.NoError(t, got.Args(got, got.Flags().Args()), line)
		}
	}
	const file = root + "docs/commands.md"
	if *updateDocs {
		require.NoError(t, os.WriteFile(file, page.Bytes(), 0o600))
	}
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, page.String(), string(written), "make docs")
}

func leaves(c *cobra.Command) []*cobra.Command {
	if !c.HasSubCommands() {
		return []*cobra.Command{c}
	}
	var out []*cobra.Command
	for _, sub := range c.Commands() {
		out = append(out, leaves(sub)...)
	}
	return out
}

// examples are the command lines of an example, continued lines joined.
func examples(text string) []string {
	var out []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "verigraph ") {
			line, _, _ = strings.Cut(line, " > ")
			out = append(out, line)
		}
	}
	return out
}

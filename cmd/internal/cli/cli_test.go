package cli

import (
	"bytes"
	"io"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestAnUnknownCommandIsAUsageErrorOnEveryLevelAndNamesTheNearest(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"confg"}, {"config", "chek"}} {
		config := &cobra.Command{Use: "config"}
		config.AddCommand(&cobra.Command{Use: "check", RunE: func(*cobra.Command, []string) error { return nil }})
		root := Root(&cobra.Command{Use: "prog"}, config)
		root.SetArgs(args)
		root.SetOut(io.Discard)
		var errs bytes.Buffer
		require.Equal(t, ExitUsage, ExitCode("prog", root.Execute(), &errs))
		require.Contains(t, errs.String(), "did you mean "+map[int]string{1: "config", 2: "check"}[len(args)]+"?")
	}
}

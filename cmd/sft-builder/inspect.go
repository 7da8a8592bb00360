package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/build"
	"github.com/verigraph/verigraph/sft/output"
)

type inspectOptions struct {
	sample    string
	kind      string
	n         int
	tokenizer string
	color     string
}

func newInspect() *cobra.Command {
	var o inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect DIR",
		Short: "Show samples of a corpus with what is trained in colour",
		Example: `  sft-builder inspect out/sft --kind infer --n 2
  sft-builder inspect out/sft --sample run/p-0/1#trajectory --tokenizer MODEL_DIR`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runInspect(o, args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.sample, "sample", "", "id of one sample")
	f.StringVar(&o.kind, "kind", "", "samples of one kind")
	f.IntVar(&o.n, "n", 1, "number of samples")
	f.StringVar(&o.tokenizer, "tokenizer", "", "directory or file with tokenizer.json: show the tokenized output, token by token")
	f.StringVar(&o.color, "color", "auto", "auto, always, or never: then trained text stands between ⟦ and ⟧")
	return cmd
}

// painter marks what is trained.
type painter struct{ open, close string }

func (o inspectOptions) painter(w io.Writer) (painter, error) {
	file, isFile := w.(*os.File)
	tty := isFile && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""
	switch {
	case o.color == "always", o.color == "auto" && tty:
		return painter{"\x1b[30;42m", "\x1b[0m"}, nil
	case o.color == "never", o.color == "auto":
		return painter{"⟦", "⟧"}, nil
	}
	return painter{}, fmt.Errorf("--color: %q is none of auto, always, never", o.color)
}

// errShown ends the reading.
var errShown = errors.New("shown")

func runInspect(o inspectOptions, dir string, stdout io.Writer) error {
	m, err := build.ReadManifest(dir)
	if err != nil {
		return cli.Usage(err)
	}
	paint, err := o.painter(stdout)
	if err != nil {
		return cli.Usage(err)
	}
	format := "swift"
	var tok *tokenizer.Tokenizer
	if o.tokenizer != "" {
		format = "tokenized"
		if tok, err = tokenizer.Load(o.tokenizer); err != nil {
			return cli.Usage(err)
		}
		if tok.SHA256() != m.Tokenizer {
			return cli.Usage(fmt.Errorf("--tokenizer: its digest %.12s is not that of the corpus, %.12s", tok.SHA256(), m.Tokenizer))
		}
	}
	shown, found := 0, false
	for _, f := range m.Files {
		if f.Format != format {
			continue
		}
		found = true
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		show := func(id string, kind sft.Kind, print func()) error {
			if o.sample != "" && id != o.sample || o.kind != "" && string(kind) != o.kind {
				return nil
			}
			fmt.Fprintf(stdout, "%s\n  %s, %s, stage %d\n", id, kind, f.Split, f.Stage)
			print()
			if shown++; shown >= o.n || o.sample != "" {
				return errShown
			}
			return nil
		}
		if tok != nil {
			err = showIDs(path, tok, paint, stdout, show)
		} else {
			err = showMessages(path, paint, stdout, show)
		}
		if errors.Is(err, errShown) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if !found {
		return cli.Usage(fmt.Errorf("%s holds no %s output", dir, format))
	}
	if shown == 0 {
		return cli.Usage(errors.New("no such sample"))
	}
	return nil
}

func showMessages(path string, paint painter, w io.Writer, show func(string, sft.Kind, func()) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for dec := json.NewDecoder(file); dec.More(); {
		var row output.SwiftRow
		if err := dec.Decode(&row); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		err := show(row.ID, row.Kind, func() {
			for _, m := range row.Messages {
				text := visible(m.Content)
				if m.Trained() {
					text = paint.open + text + paint.close
				}
				fmt.Fprintf(w, "--- %s\n%s\n", m.Role, text)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func showIDs(path string, tok *tokenizer.Tokenizer, paint painter, w io.Writer, show func(string, sft.Kind, func()) error) error {
	for row, err := range output.ReadTokenized(path) {
		if err != nil {
			return err
		}
		err := show(row.ID, sft.Kind(row.Kind), func() {
			fmt.Fprintf(w, "  %d ids, from the rollout: %t\n", len(row.InputIDs), row.Stored)
			for i := 0; i < len(row.InputIDs); {
				n := i
				for n < len(row.InputIDs) && row.LossMask[n] == row.LossMask[i] {
					n++
				}
				text := visible(string(tok.Decode(row.InputIDs[i:n])))
				if row.LossMask[i] == 1 {
					text = paint.open + text + paint.close
				}
				fmt.Fprint(w, text)
				i = n
			}
			fmt.Fprintln(w)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// visible keeps a stored text from steering the terminal.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

package rollout

import (
	"bytes"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// Shown is the beginning of a data file as an agent without tools reads it.
type Shown struct {
	Name, Text string
	// Note says what is not shown.
	Note string
}

// shown are the task's files for an agent without tools. They share as many bytes as a first prompt may have
// tokens, equally, so that they fit beside the question unless they are hard to encode.
func (r *run) shown() []Shown {
	if r.Config.Agent != AgentDirect {
		return nil
	}
	var out []Shown
	left := r.Config.MaxPromptTokens
	for i, f := range r.dispatch.Prompt.Files {
		s := show(f.Name, r.files[f.Name], left/(len(r.dispatch.Prompt.Files)-i))
		left -= len(s.Text)
		out = append(out, s)
	}
	return out
}

// show reads whole lines of a text file, up to limit bytes.
func show(name, path string, limit int) Shown {
	f, err := os.Open(path)
	if err != nil {
		return Shown{Name: name, Note: "it could not be read"}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return Shown{Name: name, Note: "it could not be read"}
	}
	note := ""
	if len(data) > limit {
		data = data[:bytes.LastIndexByte(data[:limit], '\n')+1]
		note = "cut off here"
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return Shown{Name: name, Note: "it is no UTF-8 text and is not shown"}
	}
	return Shown{Name: name, Text: strings.TrimRight(string(data), "\n"), Note: note}
}

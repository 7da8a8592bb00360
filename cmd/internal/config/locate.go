package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

var keyWord = regexp.MustCompile(`^[a-z][a-z0-9_]*`)

// Problems splits an error into its lines, and puts the line of a file's key before those that begin with it:
// "policy.model: must name…" becomes "FILE:12: policy.model: must name…". A key that the file lacks keeps no line.
func Problems(path string, err error) []string {
	if err == nil {
		return nil
	}
	var doc yaml.Node
	if data, rerr := os.ReadFile(path); rerr == nil {
		_ = yaml.Unmarshal(data, &doc) // what can't be read has been reported
	}
	var out []string
	for text := range strings.SplitSeq(err.Error(), "\n") {
		text = strings.TrimPrefix(text, path+": ")
		if rest, ok := strings.CutPrefix(text, "line "); ok {
			line, rest, _ := strings.Cut(rest, ": ")
			text = fmt.Sprintf("%s:%s: %s", path, line, rest)
		} else if line := lineOf(&doc, text); line > 0 {
			text = fmt.Sprintf("%s:%d: %s", path, line, text)
		} else {
			text = path + ": " + text
		}
		if !slices.Contains(out, text) { // two parts of a program may check the same key
			out = append(out, text)
		}
	}
	return out
}

// lineOf follows the keys at a text's start, parted by dots or ": ", as far as the document has them.
func lineOf(n *yaml.Node, text string) (line int) {
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	for n.Kind == yaml.MappingNode {
		word := keyWord.FindString(text)
		i := 0
		for i+1 < len(n.Content) && n.Content[i].Value != word {
			i += 2
		}
		if i+1 >= len(n.Content) {
			break
		}
		line, n = n.Content[i].Line, n.Content[i+1]
		text = strings.TrimLeft(text[len(word):], ".: ")
	}
	return line
}

package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/task"
)

// plainAnswer names the one sub-answer of a reference that is a bare string or number.
const plainAnswer = "answer"

// answer is a reference answer as it stands in a prompts file.
type answer struct {
	named []task.NamedAnswer
	text  string // free text for a judge
}

// parseAnswer reads the forms of an answer: a list of [name, value] pairs, an object name to value,
// a string with @name[value] items, a bare string or number, {"text": …}, or (judged) any string.
func parseAnswer(raw json.RawMessage, judged bool) (answer, error) {
	raw = bytes.TrimSpace(raw)
	var named []task.NamedAnswer
	var err error
	switch raw[0] {
	case '[':
		named, err = parsePairs(raw)
	case '{':
		if text, ok := freeText(raw); ok {
			return nonEmptyText(text)
		}
		named, err = parseNames(raw)
	default:
		var s string
		if s, err = scalar(raw); err != nil {
			break
		}
		if judged && raw[0] == '"' {
			return nonEmptyText(s)
		}
		if strings.TrimSpace(s) == "" {
			return answer{}, errors.New("empty; leave the key out if there is none")
		}
		named, err = parseScalar(s)
	}
	if err == nil {
		err = checkNamed(named)
	}
	return answer{named: named}, err
}

func nonEmptyText(text string) (answer, error) {
	if strings.TrimSpace(text) == "" {
		return answer{}, errors.New("the reference text is empty")
	}
	return answer{text: text}, nil
}

// parsePairs reads [[name, value], …].
func parsePairs(raw json.RawMessage) ([]task.NamedAnswer, error) {
	var pairs [][]json.RawMessage
	if json.Unmarshal(raw, &pairs) != nil {
		return nil, errors.New("want a list of [name, value] pairs")
	}
	named := make([]task.NamedAnswer, 0, len(pairs))
	for i, pair := range pairs {
		if len(pair) != 2 {
			return nil, fmt.Errorf("item %d has %d parts, want [name, value]", i, len(pair))
		}
		var name string
		if json.Unmarshal(pair[0], &name) != nil {
			return nil, fmt.Errorf("item %d: the name %s is no string", i, shorten(pair[0]))
		}
		value, err := scalar(pair[1])
		if err != nil {
			return nil, fmt.Errorf("item %d (%s): %w", i, name, err)
		}
		named = append(named, task.NamedAnswer{Name: name, Value: value})
	}
	return named, nil
}

// parseNames reads {name: value, …} in the order of the file.
func parseNames(raw json.RawMessage) ([]task.NamedAnswer, error) {
	keys, members, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	named := make([]task.NamedAnswer, 0, len(keys))
	for _, key := range keys {
		value, err := scalar(members[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		named = append(named, task.NamedAnswer{Name: key, Value: value})
	}
	return named, nil
}

// freeText recognises {"text": "…"} with no other member.
func freeText(raw json.RawMessage) (string, bool) {
	keys, members, err := decodeObject(raw)
	if err != nil || len(keys) != 1 || keys[0] != "text" {
		return "", false
	}
	var s string
	return s, json.Unmarshal(members["text"], &s) == nil
}

var itemStart = regexp.MustCompile(`@([\pL_][\pL\pN_]*)\[`)

// parseScalar reads the @name[value] items of a string, else takes all of it as one sub-answer.
// Brackets inside a value nest, so that @range[[1, 2]] keeps its value whole.
func parseScalar(s string) ([]task.NamedAnswer, error) {
	var named []task.NamedAnswer
	for rest := s; ; {
		at := itemStart.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		name, body := rest[at[2]:at[3]], rest[at[1]:]
		end := closing(body)
		if end < 0 {
			return nil, fmt.Errorf("@%s[ is never closed", name)
		}
		named = append(named, task.NamedAnswer{Name: name, Value: body[:end]})
		rest = body[end+1:]
	}
	if named == nil {
		named = []task.NamedAnswer{{Name: plainAnswer, Value: s}}
	}
	return named, nil
}

// closing finds the bracket that closes an already opened one, or -1.
func closing(s string) int {
	depth := 1
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// checkNamed refuses sub-answers that no policy could state. An empty value is an answer (DABench has
// them, for "none found"), and a name may come twice (DABench label 734): what that earns is the rule's matter.
func checkNamed(named []task.NamedAnswer) error {
	if len(named) == 0 {
		return errors.New("holds no sub-answer; leave the key out if there is none")
	}
	for _, a := range named {
		if strings.TrimSpace(a.Name) == "" || strings.ContainsAny(a.Name, "[]@\n") {
			return fmt.Errorf("%q is no name for a sub-answer", a.Name)
		}
	}
	return nil
}

// withAnswerForm adds the sentence that tells the policy how to state the sub-answers which the
// question does not name: the outcome rule only finds @name[value].
func withAnswerForm(question string, named []task.NamedAnswer) string {
	var missing []string
	for _, a := range named {
		form := "@" + a.Name + "[value]"
		if !strings.Contains(question, "@"+a.Name+"[") && !slices.Contains(missing, form) {
			missing = append(missing, form)
		}
	}
	switch len(missing) {
	case 0:
		return question
	case 1:
		return question + "\n\nState the answer as " + missing[0] + "."
	}
	return question + "\n\nState the answers as " + strings.Join(missing, ", ") + "."
}

package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"

	"github.com/kaptinlin/jsonrepair"
)

// Limits of what is worth repairing: the library recurses, and no real verdict is near them.
const (
	maxRepair = 64 << 10
	maxDepth  = 32
)

// object is a reply's JSON object, its keys unique.
type object map[string]json.RawMessage

// readReply turns a reply into what accept makes of its object: the whole reply strictly first,
// then the last balanced object after </think>, then that object repaired. A reply that was cut off
// is read strictly only: a repair would complete a verdict that the judge never gave.
func readReply[T any](text string, cut bool, accept func(object) (T, error)) (value T, repaired bool, err error) {
	whole, strictErr := strict(text)
	if strictErr == nil {
		value, err = accept(whole)
		return value, false, err
	}
	if cut {
		return value, false, fmt.Errorf("cut off at its token limit: %w", strictErr)
	}
	if at := strings.LastIndex(text, "</think>"); at >= 0 {
		text = text[at+len("</think>"):]
	}
	found, bare := balanced(text)
	if len(found) == 0 {
		open := strings.IndexByte(text, '{')
		if open < 0 {
			return value, false, errors.New("holds no JSON object")
		}
		found = []string{text[open:]}
	}
	if bare && len(found) > 1 {
		if err := agree(found); err != nil {
			return value, false, err
		}
	}
	last := found[len(found)-1]
	o, err := strict(last)
	if err != nil {
		if o, err = repair(last); err != nil {
			return value, false, err
		}
	}
	value, err = accept(o)
	return value, true, err
}

// strict reads one object with unique keys and nothing after it.
func strict(text string) (object, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	t, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	if t != json.Delim('{') {
		return nil, errors.New("no JSON object")
	}
	o := object{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("broken JSON: %w", err)
		}
		name, _ := key.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, fmt.Errorf("broken JSON: %w", err)
		}
		if _, ok := o[name]; ok {
			return nil, errDoubled{name}
		}
		o[name] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("broken JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the JSON object")
	}
	return o, nil
}

type errDoubled struct{ key string }

func (e errDoubled) Error() string { return fmt.Sprintf("key %q stands twice", e.key) }

// balanced returns the outermost balanced objects of a text, and whether nothing but fences and
// blanks stands around them.
func balanced(text string) (found []string, bare bool) {
	depth, start, inString, escaped := 0, 0, false, false
	var around strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case depth > 0 && c == '"':
			inString = !inString
		case inString:
		case c == '{':
			if depth == 0 {
				start = i
			}
			depth++
		case c == '}' && depth > 0:
			if depth--; depth == 0 {
				found = append(found, text[start:i+1])
			}
		case depth == 0:
			around.WriteByte(c)
		}
	}
	return found, !wordy.MatchString(fence.ReplaceAllString(around.String(), ""))
}

var (
	fence = regexp.MustCompile("```[a-zA-Z]*")
	wordy = regexp.MustCompile(`\pL`)
)

// agree refuses several objects that contradict each other: which one is the answer can't be told.
func agree(found []string) error {
	var first object
	for i, text := range found {
		o, err := strict(text)
		if err != nil {
			return err
		}
		delete(o, "reasoning")
		if i == 0 {
			first = o
			continue
		}
		for key, v := range o {
			if w, ok := first[key]; ok && !bytes.Equal(v, w) {
				return errDoubled{key}
			}
		}
	}
	return nil
}

func repair(text string) (object, error) {
	var doubled errDoubled
	if _, err := strict(text); errors.As(err, &doubled) {
		return nil, err
	}
	if len(text) > maxRepair {
		return nil, errors.New("too long to repair")
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth > maxDepth {
			return nil, errors.New("too deep to repair")
		}
	}
	fixed, err := jsonrepair.Repair(text)
	if err != nil {
		return nil, fmt.Errorf("can't be repaired: %w", err)
	}
	return strict(fixed)
}

// text reads a required string.
func (o object) text(key string) (string, error) {
	raw, ok := o[key]
	if !ok {
		return "", fmt.Errorf("%s is missing", key)
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", fmt.Errorf("%s is no string", key)
	}
	return *s, nil
}

// share reads a required number between 0 and 1; text, booleans and null are none.
func (o object) share(key string) (float64, error) {
	raw, ok := o[key]
	if !ok {
		return 0, fmt.Errorf("%s is missing", key)
	}
	var f *float64
	if err := json.Unmarshal(raw, &f); err != nil || f == nil {
		return 0, fmt.Errorf("%s is no number", key)
	}
	if !(*f >= 0 && *f <= 1) {
		return 0, fmt.Errorf("%s is not between 0 and 1", key)
	}
	return *f, nil
}

// whole reads a required whole number between lo and hi.
func (o object) whole(key string, lo, hi int) (int, error) {
	raw, ok := o[key]
	if !ok {
		return 0, fmt.Errorf("%s is missing", key)
	}
	var f *float64
	if err := json.Unmarshal(raw, &f); err != nil || f == nil {
		return 0, fmt.Errorf("%s is no number", key)
	}
	if *f != math.Trunc(*f) || !(*f >= float64(lo) && *f <= float64(hi)) {
		return 0, fmt.Errorf("%s is no whole number from %d to %d", key, lo, hi)
	}
	return int(*f), nil
}

// choice reads a required string that is one of two words and reports whether it is the first.
func (o object) choice(key, yes, no string) (bool, error) {
	s, err := o.text(key)
	if err != nil {
		return false, err
	}
	if s != yes && s != no {
		return false, fmt.Errorf("%s %.40q is neither %s nor %s", key, s, yes, no)
	}
	return s == yes, nil
}

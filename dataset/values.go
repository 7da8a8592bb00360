package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// promptID reads an id: a non-empty string, or an integer, which becomes its decimal text.
func promptID(o object) (string, error) {
	if !o.has("id") {
		return "", errors.New("missing")
	}
	raw := o.raw["id"]
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if s == "" {
			return "", errors.New("empty")
		}
		return s, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return "", fmt.Errorf("%s is neither a string nor an integer", raw)
	}
	return strconv.FormatInt(n, 10), nil
}

// text reads a string that may be missing.
func (o object) text(key string) (string, error) {
	if !o.has(key) {
		return "", nil
	}
	var s string
	if json.Unmarshal(o.raw[key], &s) != nil {
		return "", errors.New("not a string")
	}
	return s, nil
}

// required reads a string that must be there and not blank.
func (o object) required(key string) (string, error) {
	s, err := o.text(key)
	switch {
	case err != nil:
		return "", err
	case !o.has(key):
		return "", errors.New("missing")
	case len(bytes.TrimSpace([]byte(s))) == 0:
		return "", errors.New("empty")
	}
	return s, nil
}

// scalar reads a string, number or boolean as the text that stands in the file, so that neither
// trailing zeros nor digits are lost.
func scalar(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "", errors.New("missing")
	}
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{', '[':
		return "", fmt.Errorf("want a string, a number or a boolean, got %s", shorten(raw))
	case 'n':
		return "", errors.New("want a string, a number or a boolean, got null")
	}
	return string(raw), nil
}

func shorten(raw []byte) string {
	const limit = 40
	runes := []rune(string(raw))
	if len(runes) <= limit {
		return string(raw)
	}
	return string(runes[:limit]) + "…"
}

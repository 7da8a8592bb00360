package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/verigraph/verigraph/task"
)

// maxArray bounds a file that holds one JSON array, which has to be read whole.
const maxArray = 1 << 30

// readRecords reads a file of JSON objects: one array, or one object per line. allowed nil takes any key.
func readRecords(ctx context.Context, path string, allowed []string, p *problems) []object {
	array, err := startsArray(path)
	if err != nil {
		p.add(path, 0, "", plain(err))
		return nil
	}
	if !array {
		return readObjects(ctx, path, allowed, p)
	}
	data, err := os.ReadFile(path)
	switch {
	case err != nil:
		p.add(path, 0, "", plain(err))
		return nil
	case len(data) > maxArray:
		p.addf(path, 0, "", "the array is longer than %d MiB; write one object per line", maxArray>>20)
		return nil
	case !utf8.Valid(data):
		p.addf(path, 0, "", "not UTF-8 at byte %d of the file", invalidAt(data))
		return nil
	}
	return arrayObjects(path, bytes.TrimPrefix(data, []byte("\ufeff")), allowed, p)
}

func startsArray(path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, err
	}
	return bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(head[:n], []byte("\ufeff"))), []byte("[")), nil
}

// arrayObjects splits an array; each object is known by the line on which it starts.
func arrayObjects(path string, data []byte, allowed []string, p *problems) []object {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		p.add(path, 1, "", jsonError(err))
		return nil
	}
	var objects []object
	for d.More() {
		var raw json.RawMessage
		before := d.InputOffset()
		err := d.Decode(&raw)
		start := int(before)
		for start < len(data) && bytes.IndexByte([]byte(" \t\r\n,"), data[start]) >= 0 {
			start++
		}
		line := 1 + bytes.Count(data[:start], []byte("\n"))
		if err != nil {
			p.add(path, line, "", jsonError(err))
			return objects
		}
		if o, ok := parseLine(path, line, raw, allowed, p); ok {
			objects = append(objects, o)
		}
	}
	if len(objects) == 0 && len(p.list) == 0 {
		p.addf(path, 0, "", "the array is empty")
	}
	return objects
}

// reader takes the keys of one object and reports what is wrong with them.
type reader struct {
	object
	file string
	p    *problems
	bad  bool
}

func (r *reader) fail(key string, err error) {
	if err != nil {
		r.p.add(r.file, r.line, key, err)
		r.bad = true
	}
}

func (r *reader) textOf(key string) string {
	s, err := r.text(key)
	r.fail(key, err)
	return s
}

func (r *reader) requiredOf(key string) string {
	s, err := r.required(key)
	r.fail(key, err)
	return s
}

// member reads a nested object; missing and null are empty ones.
func (r *reader) member(key string) object {
	if !r.has(key) {
		return object{line: r.line}
	}
	keys, raw, err := decodeObject(r.raw[key])
	r.fail(key, err)
	return object{line: r.line, keys: keys, raw: raw}
}

// metaOf keeps some members of an object as meta, untouched.
func metaOf(o object, keys ...string) json.RawMessage {
	kept := map[string]json.RawMessage{}
	for _, key := range keys {
		if o.has(key) {
			kept[key] = o.raw[key]
		}
	}
	return rawObject(kept)
}

func rawObject(members map[string]json.RawMessage) json.RawMessage {
	if len(members) == 0 {
		return nil
	}
	raw, err := json.Marshal(members)
	if err != nil {
		panic(err) // the members were decoded from JSON
	}
	return raw
}

// idOf is the first of the keys that holds an id.
func idOf(o object, keys ...string) (string, error) {
	for _, key := range keys {
		if o.has(key) {
			return promptID(object{raw: map[string]json.RawMessage{"id": o.raw[key]}})
		}
	}
	return "", errors.New("missing: none of " + string(mustJSON(keys)))
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // only strings are handed over
	}
	return raw
}

// reference is the item's answer; an empty one is none.
func reference(it *item, a answer) {
	if len(a.named) == 0 && a.text == "" {
		return
	}
	it.reference = &task.Reference{
		PromptID: it.prompt.ID, DataSource: it.prompt.DataSource, Answers: slices.Clone(a.named), Text: a.text, Meta: it.prompt.Meta,
	}
}

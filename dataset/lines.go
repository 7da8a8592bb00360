package dataset

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"unicode/utf8"
)

// maxLine bounds one JSONL line, so that a file that is no JSONL cannot fill the memory.
const maxLine = 16 << 20

// object is one JSON object with its keys in the order of the line.
type object struct {
	line int
	keys []string
	raw  map[string]json.RawMessage
}

// has reports whether the key is there and not null.
func (o object) has(key string) bool {
	raw, ok := o.raw[key]
	return ok && !bytes.Equal(raw, []byte("null"))
}

// readObjects reads a JSONL file of objects that hold only the allowed keys (nil: any). Lines that cannot be
// used are reported and left out.
func readObjects(ctx context.Context, path string, allowed []string, p *problems) []object {
	file, err := os.Open(path)
	if err != nil {
		p.add(path, 0, "", plain(err))
		return nil
	}
	defer file.Close()
	before := len(p.list)
	var objects []object
	lines := bufio.NewReaderSize(file, 1<<16)
	for n := 1; ctx.Err() == nil; n++ {
		line, err := readLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			p.add(path, n, "", err)
			break
		}
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if o, ok := parseLine(path, n, line, allowed, p); ok {
				objects = append(objects, o)
			}
		}
		if err != nil {
			break
		}
	}
	if len(objects) == 0 && len(p.list) == before && ctx.Err() == nil {
		p.addf(path, 0, "", "the file holds no lines")
	}
	return objects
}

// readLine returns the next line; io.EOF comes with the last one.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("the line is longer than %d MiB", maxLine>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func parseLine(path string, n int, line []byte, allowed []string, p *problems) (object, bool) {
	if !utf8.Valid(line) {
		p.addf(path, n, "", "not UTF-8 at byte %d of the line", invalidAt(line))
		return object{}, false
	}
	keys, raw, err := decodeObject(line)
	if err != nil {
		p.add(path, n, "", err)
		return object{}, false
	}
	ok := true
	for _, key := range keys {
		if allowed != nil && !slices.Contains(allowed, key) {
			p.addf(path, n, key, "unknown key; known are %v", allowed)
			ok = false
		}
	}
	return object{line: n, keys: keys, raw: raw}, ok
}

// decodeObject splits a JSON object into its members without interpreting them. encoding/json
// alone would ignore case, keep the last of two equal keys and accept text after the object.
func decodeObject(data []byte) ([]string, map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	token, err := d.Token()
	if err != nil {
		return nil, nil, jsonError(err)
	}
	if token != json.Delim('{') {
		return nil, nil, errors.New("not a JSON object")
	}
	var keys []string
	raw := map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, nil, jsonError(err)
		}
		key, ok := token.(string)
		if !ok {
			return nil, nil, errors.New("broken JSON: a key is no string")
		}
		if _, again := raw[key]; again {
			return nil, nil, fmt.Errorf("key %q appears twice", key)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, jsonError(err)
		}
		keys, raw[key] = append(keys, key), value
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, jsonError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("broken JSON: text after the object")
	}
	return keys, raw, nil
}

func jsonError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("broken JSON: the line ends inside the object")
	}
	return fmt.Errorf("broken JSON: %w", err)
}

func invalidAt(line []byte) int {
	at := 0
	for at < len(line) {
		r, size := utf8.DecodeRune(line[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at + 1
}

// plain strips the path that the message names already.
func plain(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

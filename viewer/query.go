package viewer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// query says which rollouts are wanted, in which order, and which page of them.
type query struct {
	text          string
	is            map[string][]string // field -> accepted values
	min, max      map[column]float64
	flag          string
	disagree      bool
	sort          column            // ended: the order of the index
	sortText      func(*row) string // in place of sort
	desc          bool
	offset, limit int
}

const (
	ended    = column(-1)
	maxLimit = 500
)

// fields are the texts of a row that a query can ask for, several values separated by commas.
var fields = map[string]func(*row) string{
	"termination": func(r *row) string { return r.termination },
	"status":      func(r *row) string { return r.status },
	"source":      func(r *row) string { return r.source },
	"group":       func(r *row) string { return r.group },
	"prompt":      func(r *row) string { return r.prompt },
	"correct": func(r *row) string {
		return map[int8]string{-1: "none", 0: "no", 1: "yes"}[r.correct]
	},
}

// parseQuery refuses what it does not know, so that a mistyped filter never shows the whole run.
func parseQuery(v url.Values) (query, error) {
	q := query{is: map[string][]string{}, min: map[column]float64{}, max: map[column]float64{}, sort: ended, limit: 100}
	var errs []error
	for key := range v {
		if err := q.set(key, v.Get(key)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	return q, errors.Join(errs...)
}

func (q *query) set(key, value string) (err error) {
	bound, name, _ := strings.Cut(key, ".")
	switch {
	case key == "of":
	case fields[key] != nil:
		q.is[key] = strings.Split(value, ",")
	case key == "q":
		q.text = value
	case key == "flag":
		q.flag = value
	case key == "disagree":
		q.disagree, err = strconv.ParseBool(value)
	case key == "sort":
		q.desc = strings.HasPrefix(value, "-")
		if value = strings.TrimPrefix(value, "-"); value == "ended" {
			break
		}
		if q.sortText = fields[value]; q.sortText != nil {
			break
		}
		c, ok := columnOf(value)
		if !ok {
			return fmt.Errorf("no column %q", value)
		}
		q.sort = c
	case key == "offset":
		q.offset, err = atLeast(value, 0)
	case key == "limit":
		q.limit, err = atLeast(value, 1)
		q.limit = min(q.limit, maxLimit)
	case bound == "min" || bound == "max":
		c, ok := columnOf(name)
		if !ok {
			return fmt.Errorf("no column %q", name)
		}
		to := map[string]map[column]float64{"min": q.min, "max": q.max}[bound]
		if to[c], err = strconv.ParseFloat(value, 64); err == nil && math.IsNaN(to[c]) {
			return errors.New("not a number")
		}
	default:
		return errors.New("no such parameter")
	}
	return err
}

func atLeast(value string, low int) (int, error) {
	n, err := strconv.Atoi(value)
	if err == nil && n < low {
		err = fmt.Errorf("%d, want at least %d", n, low)
	}
	return n, err
}

func (q *query) takes(r *row) bool {
	for key, values := range q.is {
		if !slices.Contains(values, fields[key](r)) {
			return false
		}
	}
	for c, low := range q.min {
		if !(r.num[c] >= low) { // also leaves out null
			return false
		}
	}
	for c, high := range q.max {
		if !(r.num[c] <= high) {
			return false
		}
	}
	if q.flag != "" && !slices.ContainsFunc(r.flags, func(f string) bool { return strings.HasPrefix(f, q.flag) }) {
		return false
	}
	return !q.disagree || r.disagrees()
}

// find returns the positions of the rows that q takes, in its order.
func (x *index) find(s snapshot, q query) ([]int32, error) {
	var found []int32
	for i := range s.rows {
		if q.takes(&s.rows[i]) {
			found = append(found, int32(i))
		}
	}
	if q.text != "" {
		var err error
		if found, err = x.holding(s, found, q.text); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found, func(a, b int32) int { return q.compare(&s.rows[a], &s.rows[b]) })
	return found, nil
}

// compare puts null last in both directions.
func (q *query) compare(a, b *row) int {
	if q.sortText != nil {
		order := cmp.Compare(q.sortText(a), q.sortText(b))
		if q.desc {
			return -order
		}
		return order
	}
	if q.sort == ended {
		if q.desc {
			return cmp.Compare(b.offset, a.offset)
		}
		return cmp.Compare(a.offset, b.offset)
	}
	return compareNull(a.num[q.sort], b.num[q.sort], q.desc)
}

func flagInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// holding keeps the rows whose line (ids, answer, flags, error) holds a text, whatever its case. The file is
// read in one pass, so that no text is held in memory.
func (x *index) holding(s snapshot, rows []int32, text string) ([]int32, error) {
	f, err := x.root.Open(indexPath)
	if err != nil {
		return nil, fmt.Errorf("viewer: %w", err)
	}
	defer f.Close()
	want, err := json.Marshal(text) // as the archive wrote it
	if err != nil {
		return nil, err
	}
	want = lower(want[1 : len(want)-1])
	var out []int32
	var block []byte
	from, to := int64(0), int64(0) // what of the file block holds
	for _, i := range rows {
		r := &s.rows[i]
		end := r.offset + int64(r.length)
		if r.offset < from || end > to {
			block = make([]byte, min(max(int64(r.length), 1<<20), s.end-r.offset))
			if _, err := f.ReadAt(block, r.offset); err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("viewer: %s: %w", indexPath, err)
			}
			block = lower(block)
			from = r.offset
			to = from + int64(len(block))
		}
		if line := block[r.offset-from:]; bytes.Contains(line[:min(len(line), int(r.length))], want) {
			out = append(out, i)
		}
	}
	return out, nil
}

// lower folds ASCII letters in place; a fold that changes lengths would move the lines.
func lower(b []byte) []byte {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return b
}

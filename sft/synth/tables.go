package synth

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table is a real table: its columns, its rows, and which columns hold numbers.
type Table struct {
	Name, SHA256, Source string
	Columns              []string
	Rows                 [][]string
	numeric              []int
	raw                  []byte
}

// maxRows bounds what is kept of a table; observations show no more.
const maxRows = 400

// CSVTables reads the CSV files of a directory in the order of their names; what has no number is left out.
func CSVTables(dir, source string) ([]Table, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("synth: %s: no CSV file", dir)
	}
	slices.Sort(files)
	var out []Table
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("synth: %w", err)
		}
		in := csv.NewReader(bytes.NewReader(data))
		in.LazyQuotes, in.FieldsPerRecord = true, -1
		var rows [][]string
		for len(rows) <= maxRows {
			row, err := in.Read()
			if err != nil {
				break // the end, or not the plain kind of CSV from here on
			}
			rows = append(rows, row)
		}
		if len(rows) < 3 {
			continue
		}
		out = appendTable(out, filepath.Base(f), source, rows[0], rows[1:], data)
	}
	return out, nil
}

// TableBenchTables reads the tables inside a TableBench file.
func TableBenchTables(path string) ([]Table, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("synth: %w", err)
	}
	var out []Table
	seen := map[string]bool{}
	for n, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var item struct {
			ID    string
			Table struct {
				Columns []string
				Data    [][]any
			}
		}
		if err := json.Unmarshal(line, &item); err != nil {
			return nil, fmt.Errorf("synth: %s:%d: %w", path, n+1, err)
		}
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		rows := make([][]string, 0, len(item.Table.Data))
		err := w.Write(item.Table.Columns)
		for _, r := range item.Table.Data {
			row := make([]string, len(r))
			for i, c := range r {
				if c != nil {
					row[i] = fmt.Sprint(c)
				}
			}
			rows = append(rows, row)
			err = errors.Join(err, w.Write(row))
		}
		w.Flush()
		if err := errors.Join(err, w.Error()); err != nil {
			return nil, err
		}
		before := len(out)
		out = appendTable(out, item.ID[:min(8, len(item.ID))]+".csv", "tablebench", item.Table.Columns, rows, b.Bytes())
		if len(out) > before {
			if seen[out[before].SHA256] {
				out = out[:before]
				continue
			}
			seen[out[before].SHA256] = true
		}
	}
	return out, nil
}

func appendTable(out []Table, name, source string, columns []string, rows [][]string, raw []byte) []Table {
	sum := sha256.Sum256(raw)
	t := Table{Name: name, Source: source, SHA256: hex.EncodeToString(sum[:]), raw: raw}
	for _, c := range columns {
		t.Columns = append(t.Columns, tidy(c))
	}
	for _, r := range rows {
		if len(r) == len(columns) {
			for i := range r {
				r[i] = tidy(r[i])
			}
			t.Rows = append(t.Rows, r)
		}
	}
	for i := range t.Columns {
		n := 0
		for _, r := range t.Rows {
			if _, err := strconv.ParseFloat(r[i], 64); err == nil {
				n++
			}
		}
		if t.Columns[i] != "" && 2*n > len(t.Rows) {
			t.numeric = append(t.numeric, i)
		}
	}
	if len(t.Rows) < 3 || len(t.numeric) == 0 {
		return out
	}
	return append(out, t)
}

// tidy makes a cell fit for one line of text. Addresses of the real tables are taken out: what is personal
// in a synthetic trajectory is planted.
func tidy(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	s = strings.Join(strings.Fields(s), " ")
	s = strings.NewReplacer("@", " at ", "+", "plus ").Replace(s)
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60])
	}
	return s
}

// summary of a numeric column.
type summary struct {
	n                            int
	mean, std, low, high, median float64
}

func (t *Table) summary(column int) summary {
	var v []float64
	for _, r := range t.Rows {
		if x, err := strconv.ParseFloat(r[column], 64); err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
			v = append(v, x)
		}
	}
	var s summary
	if s.n = len(v); s.n == 0 {
		return s
	}
	slices.Sort(v)
	for _, x := range v {
		s.mean += x / float64(s.n)
	}
	for _, x := range v {
		s.std += (x - s.mean) * (x - s.mean)
	}
	s.std = math.Sqrt(s.std / math.Max(1, float64(s.n-1)))
	s.low, s.high, s.median = v[0], v[s.n-1], v[s.n/2]
	return s
}

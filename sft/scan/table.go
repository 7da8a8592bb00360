package scan

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Fingerprint names the content of a delimited table apart from its spelling: delimiter, quotes, line ends,
// the order of rows, blanks, letter case and the form of numbers do not count. Empty for what is no table.
func Fingerprint(data []byte) string {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	best, most := ',', 0
	for _, d := range ",;\t|" {
		if n := bytes.Count(line, []byte(string(d))); n > most {
			best, most = d, n
		}
	}
	in := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	in.Comma, in.LazyQuotes, in.FieldsPerRecord, in.ReuseRecord = best, true, -1, true
	var rows []string
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return ""
		}
		cells := make([]string, len(record))
		for i, c := range record {
			cells[i] = canonical(c)
		}
		rows = append(rows, strings.Join(cells, "\x1f"))
	}
	if len(rows) < 2 {
		return ""
	}
	slices.Sort(rows[1:])
	h := sha256.New()
	for _, r := range rows {
		_, _ = io.WriteString(h, r+"\n")
	}
	return "table:" + hex.EncodeToString(h.Sum(nil))
}

func canonical(cell string) string {
	cell = strings.ToLower(strings.Join(strings.Fields(cell), " "))
	if v, err := strconv.ParseFloat(cell, 64); err == nil {
		return strconv.FormatFloat(v, 'g', 12, 64)
	}
	return cell
}

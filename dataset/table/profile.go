package table

import "fmt"

// Options declare what the file does not say about itself. Zero values mean the plain case.
type Options struct {
	// Encoding is utf-8, utf-16le, utf-16be, latin-1, windows-1252, shift-jis (CP932) or gb18030.
	Encoding string
	// Delimiter separates fields; 0 means a comma unless the whole file says otherwise.
	Delimiter rune
	// Header is the line of the header, from 1; 0 means the first record.
	Header int
}

// Profile is what a file holds.
type Profile struct {
	// Kind is table, workbook, text (no table: JSON, Markdown, …) or binary.
	Kind      string `json:"kind"`
	Encoding  string `json:"encoding,omitempty"`
	BOM       bool   `json:"bom,omitempty"`
	Delimiter string `json:"delimiter,omitempty"`
	// LineEnd is lf, crlf, cr or mixed.
	LineEnd string `json:"line_end,omitempty"`
	// Rows counts the records below the header.
	Rows    int      `json:"rows"`
	Columns []Column `json:"columns,omitempty"`
	// Sheets are the tables of a workbook.
	Sheets []Sheet `json:"sheets,omitempty"`
	// Findings are in the order in which they were made; one that is Fatal makes the file unusable as a
	// table until the user declares something.
	Findings []Finding `json:"findings,omitempty"`
}

// Column is one column, judged over every row.
type Column struct {
	Name string `json:"name"`
	// Kind is integer, decimal, boolean, text or empty. Digits with leading zeros, more than 15 digits, a
	// decimal comma or a thousands separator are text: reading them as numbers would change them.
	Kind string `json:"kind"`
	// Missing counts empty cells; Distinct counts different non-empty ones, compared as text.
	Missing  int `json:"missing,omitempty"`
	Distinct int `json:"distinct"`
	// Notes say what a reader with default settings would get wrong.
	Notes []string `json:"notes,omitempty"`
}

// Sheet is one sheet of a workbook.
type Sheet struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
	Rows    int      `json:"rows"`
}

// Finding is one remark about a file.
type Finding struct {
	// Code is stable: encoding, bom, empty, delimiter, ragged, header, duplicate, quote, line_end.
	Code string `json:"code"`
	// Line is 1-based; 0 when the whole file is meant. Offset is the byte in the file, for encoding only.
	Line   int    `json:"line,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Text   string `json:"text"`
	Fatal  bool   `json:"fatal,omitempty"`
}

func (f Finding) String() string {
	if f.Line > 0 {
		return fmt.Sprintf("line %d: %s", f.Line, f.Text)
	}
	return f.Text
}

// Fatal returns the first finding that makes the file unusable, if any.
func (p Profile) Fatal() (Finding, bool) {
	for _, f := range p.Findings {
		if f.Fatal {
			return f, true
		}
	}
	return Finding{}, false
}

func (p *Profile) note(code string, line int, format string, args ...any) {
	p.Findings = append(p.Findings, Finding{Code: code, Line: line, Text: fmt.Sprintf(format, args...)})
}

func (p *Profile) refuse(code string, line int, format string, args ...any) {
	p.Findings = append(p.Findings, Finding{Code: code, Line: line, Text: fmt.Sprintf(format, args...), Fatal: true})
}

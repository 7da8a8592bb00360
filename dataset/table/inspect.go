package table

import (
	"bytes"
	"path/filepath"
	"strings"
)

// Extensions of files that hold a delimited table.
var tableExtensions = map[string]bool{".csv": true, ".tsv": true, ".tab": true, ".ssv": true, ".psv": true}

// Inspect judges a whole file by its name and content.
func Inspect(name string, data []byte, o Options) Profile {
	p := Profile{Kind: "text"}
	extension := strings.ToLower(filepath.Ext(name))
	if tableExtensions[extension] {
		p.Kind = "table"
	}
	switch {
	case len(data) == 0:
		p.refuse("empty", 0, "the file is empty")
		return p
	case extension == ".xlsx":
		p.Kind = "workbook"
		workbook(data, &p)
		return p
	case p.Kind == "text" && bytes.IndexByte(data, 0) >= 0 && o.Encoding == "":
		p.Kind = "binary"
		return p
	}
	if o.Encoding != "" {
		canonical, err := CanonicalEncoding(o.Encoding)
		if err != nil {
			p.refuse("encoding", 0, "%v", err)
			return p
		}
		o.Encoding = canonical
	}
	text, ok := decode(data, o.Encoding, &p)
	if !ok || p.Kind == "text" {
		return p
	}
	if strings.TrimSpace(text) == "" {
		p.refuse("empty", 0, "the file holds no line")
		return p
	}
	if o.Delimiter == 0 && (extension == ".tsv" || extension == ".tab") {
		o.Delimiter = '\t'
	}
	inspectTable(text, o, &p)
	return p
}

func inspectTable(text string, o Options, p *Profile) {
	p.LineEnd = lineEnd(text)
	if p.LineEnd == "cr" {
		p.note("line_end", 0, "lines end with CR alone: some readers see one line")
	}
	f, ok := choose(text, o.Delimiter, p)
	if !ok {
		return
	}
	p.Delimiter = string(f.delimiter)
	if f.unclosed > 0 {
		p.refuse("quote", f.unclosed, "a quoted field starts here and never ends")
		return
	}
	names, rows := header(f, o.Header, p)
	if names == nil {
		return
	}
	p.Rows, p.Columns = len(rows), columns(names, rows)
}

// Records returns the decoded cells of a table, header first, or the finding that refuses it.
func Records(name string, data []byte, o Options) ([][]string, []int, Profile) {
	p := Inspect(name, data, o)
	if _, bad := p.Fatal(); bad || p.Kind != "table" {
		return nil, nil, p
	}
	encoding := p.Encoding
	for _, m := range marks {
		if p.BOM && m.name == encoding {
			data = data[len(m.mark):]
		}
	}
	text, _ := strict(data, encoding)
	records, _ := split(text, []rune(p.Delimiter)[0])
	var cells [][]string
	var lines []int
	for _, r := range records {
		if r.line >= o.Header {
			cells, lines = append(cells, r.fields), append(lines, r.line)
		}
	}
	return cells, lines, p
}

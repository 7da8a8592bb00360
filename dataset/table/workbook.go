package table

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// maxPart bounds one unpacked part of a workbook, so that a small archive cannot fill the memory.
const maxPart = 256 << 20

// workbook lists the sheets of an Office Open XML workbook with their first row and their size.
func workbook(data []byte, p *Profile) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		p.refuse("workbook", 0, "no workbook: %v", err)
		return
	}
	b := book{archive: archive}
	if err := b.read(p); err != nil {
		p.refuse("workbook", 0, "broken workbook: %v", err)
	}
}

type book struct {
	archive *zip.Reader
	shared  []string
}

type sheetList struct {
	Sheets []struct {
		Name string `xml:"name,attr"`
		ID   string `xml:"id,attr"`
	} `xml:"sheets>sheet"`
}

type relations struct {
	Items []struct {
		ID     string `xml:"Id,attr"`
		Target string `xml:"Target,attr"`
	} `xml:"Relationship"`
}

type sharedStrings struct {
	Items []struct {
		Text string   `xml:"t"`
		Runs []string `xml:"r>t"`
	} `xml:"si"`
}

type sheetRow struct {
	Cells []struct {
		Type   string `xml:"t,attr"`
		Value  string `xml:"v"`
		Inline string `xml:"is>t"`
	} `xml:"c"`
}

func (b *book) read(p *Profile) error {
	var sheets sheetList
	var rels relations
	var shared sharedStrings
	if err := b.part("xl/workbook.xml", &sheets); err != nil {
		return err
	}
	if err := b.part("xl/_rels/workbook.xml.rels", &rels); err != nil {
		return err
	}
	if err := b.part("xl/sharedStrings.xml", &shared); err != nil && !errors.Is(err, errNoPart) {
		return err
	}
	for _, s := range shared.Items {
		b.shared = append(b.shared, s.Text+strings.Join(s.Runs, ""))
	}
	targets := map[string]string{}
	for _, r := range rels.Items {
		targets[r.ID] = r.Target
	}
	for _, s := range sheets.Sheets {
		sheet, err := b.sheet(s.Name, targets[s.ID])
		if err != nil {
			return fmt.Errorf("sheet %q: %w", s.Name, err)
		}
		p.Sheets = append(p.Sheets, sheet)
	}
	if len(p.Sheets) > 1 {
		p.note("workbook", 0, "%d sheets: readers take the first", len(p.Sheets))
	}
	return nil
}

func (b *book) sheet(name, target string) (Sheet, error) {
	in, err := b.open(path.Join("xl", strings.TrimPrefix(target, "/xl/")))
	if err != nil {
		return Sheet{}, err
	}
	defer in.Close()
	sheet := Sheet{Name: name, Columns: []string{}}
	first := true
	d := xml.NewDecoder(io.LimitReader(in, maxPart))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return sheet, nil
		}
		if err != nil {
			return Sheet{}, err
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "row" {
			continue
		}
		if !first {
			sheet.Rows++
			if err := d.Skip(); err != nil {
				return Sheet{}, err
			}
			continue
		}
		var row sheetRow
		if err := d.DecodeElement(&row, &start); err != nil {
			return Sheet{}, err
		}
		for _, c := range row.Cells {
			sheet.Columns = append(sheet.Columns, b.text(c.Type, c.Value, c.Inline))
		}
		first = false
	}
}

func (b *book) text(kind, value, inline string) string {
	if kind == "s" {
		if i, err := strconv.Atoi(value); err == nil && i >= 0 && i < len(b.shared) {
			return b.shared[i]
		}
	}
	return value + inline
}

var errNoPart = errors.New("part missing")

func (b *book) open(name string) (io.ReadCloser, error) {
	for _, f := range b.archive.File {
		if f.Name == name {
			return f.Open()
		}
	}
	return nil, fmt.Errorf("%s: %w", name, errNoPart)
}

func (b *book) part(name string, into any) error {
	in, err := b.open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	return xml.NewDecoder(io.LimitReader(in, maxPart)).Decode(into)
}

package table

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

// Encodings that a user may declare, besides utf-8. latin-1 takes every byte, so that it never fails.
var encodings = map[string]encoding.Encoding{
	"latin-1":      charmap.ISO8859_1,
	"windows-1252": charmap.Windows1252,
	"shift-jis":    japanese.ShiftJIS,
	"gb18030":      simplifiedchinese.GB18030,
	"utf-16le":     unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
	"utf-16be":     unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
}

// likely are the encodings that are offered when a file is no UTF-8, most telling first: nearly any
// bytes are valid in the single-byte ones.
var likely = []string{"shift-jis", "gb18030", "windows-1252", "latin-1"}

var aliases = map[string]string{
	"utf8": "utf-8", "utf-8-sig": "utf-8", "latin1": "latin-1", "iso-8859-1": "latin-1", "cp1252": "windows-1252",
	"cp932": "shift-jis", "sjis": "shift-jis", "gbk": "gb18030", "gb2312": "gb18030", "utf16le": "utf-16le", "utf16be": "utf-16be",
}

// CanonicalEncoding returns the name used here, or an error that lists the known ones.
func CanonicalEncoding(name string) (string, error) {
	n := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	if a, ok := aliases[n]; ok {
		n = a
	}
	if _, ok := encodings[n]; ok || n == "utf-8" {
		return n, nil
	}
	known := []string{"utf-8"}
	for k := range encodings {
		known = append(known, k)
	}
	slices.Sort(known)
	return "", fmt.Errorf("encoding %q is not one of %s", name, strings.Join(known, ", "))
}

var marks = []struct {
	name string
	mark []byte
}{{"utf-8", []byte("\xef\xbb\xbf")}, {"utf-16le", []byte("\xff\xfe")}, {"utf-16be", []byte("\xfe\xff")}}

// decode turns a whole file into text without its byte-order mark. A file that does not decode to its
// last byte gets a fatal finding with the offset of the first byte that is wrong.
func decode(data []byte, declared string, p *Profile) (string, bool) {
	p.Encoding = declared
	for _, m := range marks {
		if !bytes.HasPrefix(data, m.mark) {
			continue
		}
		if declared != "" && declared != m.name {
			p.refuse("encoding", 0, "declared %s, but the file starts with the byte-order mark of %s", declared, m.name)
			return "", false
		}
		p.Encoding, p.BOM = m.name, true
		if m.name != "utf-8" {
			p.note("encoding", 0, "%s, as its byte-order mark says", m.name)
		}
		p.note("bom", 0, "starts with a byte-order mark; it is no part of the first column's name")
		return decodeAs(data[len(m.mark):], m.name, int64(len(m.mark)), p)
	}
	if declared == "" {
		if name := looksUTF16(data); name != "" {
			p.refuse("encoding", 0, "looks like %s without a byte-order mark: declare the encoding", name)
			return "", false
		}
		p.Encoding = "utf-8"
	}
	return decodeAs(data, p.Encoding, 0, p)
}

func decodeAs(data []byte, name string, base int64, p *Profile) (string, bool) {
	text, bad := strict(data, name)
	if bad < 0 {
		return text, true
	}
	shown := data[bad:min(len(data), bad+4)]
	message := fmt.Sprintf("not %s at byte %d of the file (% x)", name, base+int64(bad), shown)
	if name == "utf-8" {
		message += candidates(data)
	}
	p.Findings = append(p.Findings, Finding{Code: "encoding", Offset: base + int64(bad), Text: message, Fatal: true})
	return "", false
}

// candidates names what the whole file could be instead. It is an offer, never a choice.
func candidates(data []byte) string {
	var fit []string
	for _, name := range likely {
		if _, bad := strict(data, name); bad < 0 {
			fit = append(fit, name)
		}
	}
	return "; the whole file decodes as " + strings.Join(fit, ", ") + ": declare the right one"
}

// strict decodes all of data and returns the offset of the first byte that is wrong, or -1.
func strict(data []byte, name string) (string, int) {
	if name == "utf-8" {
		if utf8.Valid(data) {
			return string(data), -1
		}
		return "", invalidAt(data)
	}
	out, err := encodings[name].NewDecoder().Bytes(data)
	if err == nil && !bytes.ContainsRune(out, utf8.RuneError) {
		return string(out), -1
	}
	return "", replacedAt(data, encodings[name])
}

func invalidAt(data []byte) int {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return at
}

// replacedAt decodes rune by rune, since a decoder replaces what it can't read and says nothing. The
// encodings here have no state between runes.
func replacedAt(data []byte, e encoding.Encoding) int {
	decoder := e.NewDecoder()
	var rune8 [utf8.UTFMax]byte
	at := 0
	for at < len(data) {
		decoder.Reset()
		written, read, _ := decoder.Transform(rune8[:], data[at:min(len(data), at+4)], true)
		if r, _ := utf8.DecodeRune(rune8[:written]); read == 0 || r == utf8.RuneError {
			return at
		}
		at += firstRuneBytes(e, data[at:], read)
	}
	return at
}

// firstRuneBytes finds how many bytes the first rune took, where several fitted into one step.
func firstRuneBytes(e encoding.Encoding, data []byte, read int) int {
	for n := 1; n < read; n++ {
		out, err := e.NewDecoder().Bytes(data[:n])
		if err == nil && utf8.RuneCount(out) == 1 && !bytes.ContainsRune(out, utf8.RuneError) {
			return n
		}
	}
	return read
}

// looksUTF16 recognises text whose every other byte is NUL, as in mostly-ASCII UTF-16.
func looksUTF16(data []byte) string {
	var zeros [2]int
	for i, b := range data {
		if b == 0 {
			zeros[i%2]++
		}
	}
	half := len(data) / 2
	switch {
	case half == 0 || len(data)%2 != 0:
		return ""
	case zeros[1]*2 > half && zeros[0] == 0:
		return "utf-16le"
	case zeros[0]*2 > half && zeros[1] == 0:
		return "utf-16be"
	}
	return ""
}

package evidence

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// A template is a Python format string. The parse here follows str.format of the session's
// interpreter: what Python would refuse is refused, and Python's fields in Python's order are ours.

// templatePart is literal text, or a replacement field when field is set.
type templatePart struct {
	literal string
	field   *templateField
}

// templateField is one {name.attribute[index]!conversion:spec}.
type templateField struct {
	name       string
	access     string // .attribute and [index] parts as written
	conversion string
	spec       []templatePart // a spec may hold fields of its own, one level deep
}

var (
	errPositional = errors.New("a placeholder needs a name")
	errBrace      = errors.New("a single { or }: write {{ or }} for a literal brace")
)

// parseTemplate splits a template into literal parts and fields.
func parseTemplate(s string) ([]templatePart, error) {
	return parseFormat(s, 2)
}

func parseFormat(s string, depth int) ([]templatePart, error) {
	if depth == 0 && strings.ContainsAny(s, "{}") {
		return nil, errors.New("placeholders are nested too deep")
	}
	var parts []templatePart
	var literal strings.Builder
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case (c == '{' || c == '}') && i+1 < len(s) && s[i+1] == c:
			literal.WriteByte(c)
			i += 2
		case c == '}':
			return nil, errBrace
		case c == '{':
			field, length, err := parseField(s[i+1:], depth)
			if err != nil {
				return nil, err
			}
			if literal.Len() > 0 {
				parts = append(parts, templatePart{literal: literal.String()})
				literal.Reset()
			}
			parts = append(parts, templatePart{field: field})
			i += 1 + length
		default:
			literal.WriteByte(c)
			i++
		}
	}
	if literal.Len() > 0 {
		parts = append(parts, templatePart{literal: literal.String()})
	}
	return parts, nil
}

// parseField parses what follows a field's opening brace, up to and with its closing brace.
func parseField(s string, depth int) (*templateField, int, error) {
	end := fieldNameEnd(s)
	if end == len(s) {
		return nil, 0, errBrace
	}
	if s[end] == '{' {
		return nil, 0, errors.New("unexpected { inside a placeholder's name")
	}
	f := &templateField{}
	if err := f.setName(s[:end]); err != nil {
		return nil, 0, err
	}
	if s[end] == '!' {
		r, size := utf8.DecodeRuneInString(s[end+1:])
		if size == 0 || !strings.ContainsRune("rsa", r) {
			return nil, 0, errors.New("the conversion after ! must be r, s or a")
		}
		f.conversion = string(r)
		end += 1 + size
		if end == len(s) || s[end] != ':' && s[end] != '}' {
			return nil, 0, errors.New("expected : or } after a conversion")
		}
	}
	if s[end] == '}' {
		return f, end + 1, nil
	}
	spec, length, err := specText(s[end+1:])
	if err != nil {
		return nil, 0, err
	}
	if f.spec, err = parseFormat(spec, depth-1); err != nil {
		return nil, 0, err
	}
	return f, end + 1 + length + 1, nil
}

// fieldNameEnd finds the first of {, }, ! and : outside an [index].
func fieldNameEnd(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '[':
			for i < len(s) && s[i] != ']' {
				i++
			}
		case '{', '}', '!', ':':
			return i
		}
	}
	return len(s)
}

// specText returns a format spec up to the brace that closes its field.
func specText(s string) (string, int, error) {
	open := 1
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return s[:i], i, nil
			}
		}
	}
	return "", 0, errBrace
}

func (f *templateField) setName(s string) error {
	end := strings.IndexAny(s, ".[")
	if end < 0 {
		end = len(s)
	}
	f.name, f.access = s[:end], s[end:]
	if strings.Trim(f.name, "0123456789") == "" {
		return errPositional
	}
	for rest := f.access; rest != ""; {
		var size int
		if rest[0] == '[' {
			size = strings.IndexByte(rest, ']') + 1
			if size <= 2 {
				return errors.New("an [index] is empty or not closed")
			}
		} else if rest[0] == '.' {
			if size = strings.IndexAny(rest[1:], ".[") + 1; size == 0 {
				size = len(rest)
			}
			if size == 1 {
				return errors.New("an attribute's name is empty")
			}
		} else {
			return errors.New("only . or [ may follow ]")
		}
		rest = rest[size:]
	}
	return nil
}

// topFields are the fields that are rendered, in order; the names inside specs are not among them.
func topFields(parts []templatePart) []*templateField {
	var out []*templateField
	for _, p := range parts {
		if p.field != nil {
			out = append(out, p.field)
		}
	}
	return out
}

// nestedNames are the names inside a field's spec.
func (f *templateField) nestedNames() []string {
	var out []string
	for _, p := range f.spec {
		if p.field != nil {
			out = append(out, p.field.name)
		}
	}
	return out
}

// printsDigits reports whether a format spec can put digits of its own into the text: a digit as
// fill, zeros after the value (format(3, "<05d") is 30000), or text inside a date's pattern. nested
// gives the text of the spec's own fields.
func (f *templateField) printsDigits(kind string, nested func(name string) string) bool {
	var b strings.Builder
	for _, p := range f.spec {
		if p.field != nil {
			b.WriteString(nested(p.field.name))
		} else {
			b.WriteString(p.literal)
		}
	}
	spec := []rune(b.String())
	if len(spec) == 0 {
		return false
	}
	numeric := (kind == KindNumber || kind == KindBoolean) && f.conversion == "" && f.access == ""
	if kind == KindDate || kind == KindOther || f.access != "" && kind != KindNumber {
		// The object's own __format__ sees the spec; a date prints every digit of it.
		return hasDigit(b.String()) && !plainPrecision(b.String())
	}
	align := rune(0)
	switch {
	case len(spec) > 1 && strings.ContainsRune("<>=^", spec[1]):
		zeroPad := spec[0] == '0' && (spec[1] == '>' || spec[1] == '=')
		return hasDigit(string(spec[0])) && !zeroPad
	case strings.ContainsRune("<>=^", spec[0]):
		align, spec = spec[0], spec[1:]
	}
	for len(spec) > 0 && strings.ContainsRune("+- z#", spec[0]) {
		spec = spec[1:]
	}
	zeroFill := len(spec) > 0 && spec[0] == '0'
	return zeroFill && (!numeric || align == '<' || align == '^')
}

// plainPrecision accepts what numbers need, such as .2f or ,.1%, on an object of unknown kind.
func plainPrecision(spec string) bool {
	rest := strings.TrimLeft(spec, "+- ,_")
	if !strings.HasPrefix(rest, ".") {
		return false
	}
	rest = strings.TrimLeft(rest[1:], "0123456789")
	return rest == "" || len(rest) == 1 && strings.Contains("eEfFgGn%", rest)
}

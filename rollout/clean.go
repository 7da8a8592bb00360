package rollout

import "strings"

// clean turns the tag's content into source: line ends unified, one surrounding fence removed,
// dedented, then blank lines at both ends stripped (in this order: stripping blanks before the
// dedent would break code whose every line is indented).
func clean(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	s = trimBlankLines(s)
	s = removeFence(s)
	s = dedent(s)
	return strings.TrimRight(trimBlankLines(s), " \t\n")
}

func trimBlankLines(s string) string {
	for {
		line, rest, found := strings.Cut(s, "\n")
		if !found || strings.TrimSpace(line) != "" {
			break
		}
		s = rest
	}
	for {
		i := strings.LastIndexByte(s, '\n')
		if i < 0 || strings.TrimSpace(s[i:]) != "" {
			return s
		}
		s = s[:i]
	}
}

// removeFence drops one ``` line at the start, with or without a language, and one at the end; and
// a first line that is only the language's name.
func removeFence(s string) string {
	first, rest, found := strings.Cut(s, "\n")
	head := strings.TrimSpace(first)
	if lang, ok := strings.CutPrefix(head, "```"); ok && isLanguage(lang) && found {
		s = rest
	} else if found && head != "" && isLanguage(head) {
		s = rest
	}
	if i := strings.LastIndexByte(s, '\n'); strings.TrimSpace(s[i+1:]) == "```" {
		s = s[:max(i, 0)]
	}
	return s
}

func isLanguage(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "python", "py", "python3":
		return true
	}
	return false
}

// dedent removes the indentation that all non-blank lines share. A first line that stands directly
// after the tag may lack it; it then does not count.
func dedent(s string) string {
	lines := strings.Split(s, "\n")
	from := 0
	if len(lines) > 1 && indent(lines[0]) == "" && !opensBlock(lines[0]) && allIndented(lines[1:]) {
		from = 1
	}
	var common string
	seen := false
	for _, l := range lines[from:] {
		if strings.TrimSpace(l) == "" {
			continue
		}
		in := indent(l)
		if !seen {
			common, seen = in, true
			continue
		}
		for !strings.HasPrefix(in, common) {
			common = common[:len(common)-1]
		}
	}
	for i := from; i < len(lines); i++ {
		lines[i] = strings.TrimPrefix(lines[i], common)
	}
	return strings.Join(lines, "\n")
}

func indent(l string) string { return l[:len(l)-len(strings.TrimLeft(l, " \t"))] }

// opensBlock: the next line belongs to this one, so its indentation is real.
func opensBlock(l string) bool {
	l = strings.TrimRight(l, " \t")
	if l == "" {
		return false
	}
	switch l[len(l)-1] {
	case ':', '(', '[', '{', ',', '\\':
		return true
	}
	return strings.HasPrefix(l, "#") || strings.Contains(l, `"""`) || strings.Contains(l, `'''`)
}

func allIndented(lines []string) bool {
	any := false
	for _, l := range lines {
		if strings.TrimSpace(l) == "" {
			continue
		}
		if indent(l) == "" {
			return false
		}
		any = true
	}
	return any
}

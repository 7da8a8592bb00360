package tokenizer

import (
	"sort"
	"strings"
)

// matcher finds added tokens, leftmost first and the longest of those.
type matcher struct {
	byFirst [256][]needle
	any     bool
}

type needle struct {
	text string
	id   int32
}

func (m *matcher) add(text string, id int32) {
	first := text[0]
	list := append(m.byFirst[first], needle{text, id})
	sort.SliceStable(list, func(i, j int) bool { return len(list[i].text) > len(list[j].text) })
	m.byFirst[first] = list
	m.any = true
}

// split calls yield for every non-empty plain stretch and every token of text, in order.
func (m *matcher) split(text string, yield func(plain string, id int32, isToken bool)) {
	start := 0
	for i := 0; m.any && i < len(text); {
		n := m.at(text[i:])
		if n == nil {
			i++
			continue
		}
		if start < i {
			yield(text[start:i], 0, false)
		}
		yield("", n.id, true)
		i += len(n.text)
		start = i
	}
	if start < len(text) {
		yield(text[start:], 0, false)
	}
}

func (m *matcher) at(text string) *needle {
	list := m.byFirst[text[0]]
	for i := range list {
		if strings.HasPrefix(text, list[i].text) {
			return &list[i]
		}
	}
	return nil
}

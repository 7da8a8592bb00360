package sft

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A corpus filter must be sure only of what it keeps: a language with a script of its own is told by the
// letters, one in Latin letters by its most frequent words. Code is left out of the look.

// functionWords are words that are frequent in one language and not words of the others.
var functionWords = map[string][]string{
	"en": {"the", "and", "of", "is", "to", "that", "with", "this", "for", "are", "will", "we", "it", "be", "from", "have", "need"},
	"de": {"der", "die", "das", "und", "ist", "nicht", "ein", "eine", "mit", "für", "auf", "den", "wir", "werden", "ich", "zu", "von"},
	"fr": {"le", "la", "les", "et", "est", "une", "des", "pour", "dans", "que", "nous", "qui", "du", "sur", "avec", "pas", "je"},
	"es": {"el", "los", "las", "y", "es", "una", "para", "con", "por", "del", "se", "lo", "como", "más", "vamos", "que", "está"},
	"pt": {"o", "os", "as", "e", "é", "uma", "para", "com", "não", "do", "da", "em", "um", "mais", "vamos", "são", "dos"},
	"it": {"il", "gli", "e", "è", "una", "per", "con", "che", "non", "di", "della", "sono", "questo", "nel", "del", "più", "dei"},
}

var scripts = map[string][]*unicode.RangeTable{
	"zh": {unicode.Han}, "ja": {unicode.Hiragana, unicode.Katakana}, "ko": {unicode.Hangul}, "ru": {unicode.Cyrillic},
	"ar": {unicode.Arabic}, "el": {unicode.Greek}, "he": {unicode.Hebrew}, "th": {unicode.Thai}, "hi": {unicode.Devanagari},
}

// Languages are the codes that select.languages may hold.
func Languages() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for code := range maps.Keys(functionWords) {
			if !yield(code) {
				return
			}
		}
		for code := range maps.Keys(scripts) {
			if !yield(code) {
				return
			}
		}
	})
}

func knownLanguage(code string) bool { return slices.Contains(Languages(), code) }

var codeBlock = regexp.MustCompile(`(?s)<code_interpreter>.*?</code_interpreter>`)

// spoken reports whether the prose of a text is in one of the languages. Text with hardly any prose is taken.
func spoken(text string, wanted []string) bool {
	got := language(codeBlock.ReplaceAllString(text, " "))
	return got == "" || slices.Contains(wanted, got)
}

// language of a text; empty where it has too little prose to tell.
func language(prose string) string {
	letters, byScript := 0, map[string]int{}
	for _, r := range prose {
		if !unicode.IsLetter(r) {
			continue
		}
		letters++
		if r < 0x370 {
			continue
		}
		for code, tables := range scripts {
			if unicode.In(r, tables...) {
				byScript[code]++
			}
		}
	}
	if letters < 20 {
		return ""
	}
	if byScript["ja"] > 0 && 10*byScript["ja"] > byScript["zh"] { // Japanese is written with Han as well
		byScript["ja"], byScript["zh"] = byScript["ja"]+byScript["zh"], 0
	}
	for code, n := range byScript {
		if 5*n > letters*2 {
			return code
		}
	}
	return latin(prose)
}

func latin(prose string) string {
	counts := map[string]int{}
	for _, w := range strings.FieldsFunc(strings.ToLower(prose), func(r rune) bool { return !unicode.IsLetter(r) }) {
		counts[w]++
	}
	best, most := "", 0
	for _, code := range slices.Sorted(maps.Keys(functionWords)) {
		n := 0
		for _, w := range functionWords[code] {
			n += counts[w]
		}
		if n > most {
			best, most = code, n
		}
	}
	return best
}

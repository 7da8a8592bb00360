package evidence

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// UnfitText says what makes text unfit for people, judges and the number rule to read alike, "" if
// nothing does: bytes that are not UTF-8, invisible characters, look-alikes.
func UnfitText(s string) string { return badText(s) }

// badText names what makes text unfit to stand in a claim, "" if nothing does. Invisible and
// direction-changing characters, and digits that only look like digits, would let a text read
// differently to a person, a judge and the number rule.
func badText(s string) string {
	if !utf8.ValidString(s) {
		return "bytes that are not UTF-8"
	}
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
		case unicode.Is(unicode.Cc, r), unicode.In(r, unicode.Zl, unicode.Zp):
			return "a control character"
		case unicode.Is(unicode.Cf, r), r == '\u115F', r == '\u1160', r == '\u3164', r == '\uFFA0',
			r >= '\uFE00' && r <= '\uFE0F', r >= 0xE0100 && r <= 0xE01EF:
			return "an invisible character"
		case r > unicode.MaxASCII && unicode.Is(unicode.Nd, r):
			return "a look-alike digit (" + string(r) + ")"
		case unicode.Is(unicode.Co, r):
			return "a private-use character"
		}
	}
	if word := mixedScript(s); word != "" {
		return "a word of mixed alphabets (" + short(word) + ")"
	}
	return ""
}

// mixedScript finds a word that mixes Latin and Cyrillic letters. Greek beside Latin is how units
// and statistics are written.
func mixedScript(s string) string {
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) }) {
		latin, cyrillic := false, false
		for _, r := range word {
			latin = latin || unicode.Is(unicode.Latin, r)
			cyrillic = cyrillic || unicode.Is(unicode.Cyrillic, r)
		}
		if latin && cyrillic {
			return word
		}
	}
	return ""
}

func hasDigit(s string) bool { return strings.ContainsFunc(s, unicode.IsNumber) }

// words splits text into lower-case words: runs of letters and digits with the point or comma
// inside a number, and pairs of neighbouring characters in scripts that write no blanks.
func words(s string) []string {
	var out []string
	runes := []rune(strings.ToLower(s))
	for i := 0; i < len(runes); {
		r := runes[i]
		switch {
		case unblanked(r):
			j := i + 1
			for j < len(runes) && unblanked(runes[j]) {
				out = append(out, string(runes[j-1:j+1]))
				j++
			}
			if j == i+1 {
				out = append(out, string(r))
			}
			i = j
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			j := i + 1
			for j < len(runes) && inWord(runes, j) {
				j++
			}
			out = append(out, string(runes[i:j]))
			i = j
		default:
			i++
		}
	}
	return out
}

func inWord(runes []rune, j int) bool {
	r := runes[j]
	if (r == '.' || r == ',') && j+1 < len(runes) {
		return unicode.IsDigit(runes[j-1]) && unicode.IsDigit(runes[j+1])
	}
	return (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)) && !unblanked(r)
}

func unblanked(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}

// contentWord reports whether a word says something about the matter.
func contentWord(w string) bool {
	if len(w) == 0 || unicode.IsDigit([]rune(w)[0]) {
		return false
	}
	if unblanked([]rune(w)[0]) {
		return utf8.RuneCountInString(w) == 2
	}
	return utf8.RuneCountInString(w) >= 4 && !emptyWords[w]
}

// emptyWords are words that fit any reasoning about anything.
var emptyWords = wordSet(`this that these those with from into onto upon have been were they them
their there here then than thus hence therefore because since when where which what while
whereas also only just both each such some more most very well will would could should must
follows follow following followed conclude concludes concluded conclusion conclusions answer
answers result results shown show shows given gives clear clearly obvious obviously known data
dataset above below about according based support supports supported supporting imply implies
implied true correct directly simply reasoning reason reasons fact facts evidence information
being made make makes using used question task`)

// fillers carry no content when two sentences are compared; negations are not among them.
var fillers = wordSet(`a an the is are was were be been of in on at to for by as and or so it its
this that these those there which with we have has had do does did therefore thus hence overall`)

var negations = wordSet(`not no none never neither nor cannot isn aren wasn weren doesn didn
without insignificant nonsignificant`)

func wordSet(s string) map[string]bool { return nameSet(strings.Fields(s)) }

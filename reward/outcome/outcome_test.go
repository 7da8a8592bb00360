package outcome_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward/outcome"
	"github.com/verigraph/verigraph/task"
)

type label struct {
	ID      int         `json:"id"`
	Answers [][2]string `json:"common_answers"`
}

func (l label) named() []task.NamedAnswer {
	var out []task.NamedAnswer
	for _, a := range l.Answers {
		out = append(out, task.NamedAnswer{Name: a[0], Value: a[1]})
	}
	return out
}

func (l label) answer() string {
	var parts []string
	for _, a := range l.Answers {
		parts = append(parts, fmt.Sprintf("@%s[%s]", a[0], a[1]))
	}
	return strings.Join(parts, ", ")
}

func labels(t *testing.T) []label {
	t.Helper()
	f, err := os.Open("testdata/dabench-labels.jsonl")
	require.NoError(t, err)
	defer f.Close()
	var out []label
	for s := bufio.NewScanner(f); s.Scan(); {
		var l label
		require.NoError(t, json.Unmarshal(s.Bytes(), &l))
		out = append(out, l)
	}
	require.Len(t, out, 257)
	return out
}

// claim is a grounded claim whose whole text comes from one placeholder.
func claim(id, text string) outcome.Claim {
	return outcome.Claim{
		Node:       evidence.Node{ID: id, Kind: evidence.NodeAtomic, Text: text, Fields: []evidence.Field{{Name: "x", Text: text}}},
		Structural: true, Lexical: true,
	}
}

func TestEveryDABenchReferenceGetsFullMarksFromItsOwnScorer(t *testing.T) {
	t.Parallel()
	// Label faults: what a reference can't get from a scorer that is otherwise right, and why.
	faults := map[int]string{
		734: "two names stand in the label with several values each; the training rule takes those for guesses",
	}
	var questions [][]outcome.SubAnswer
	for _, l := range labels(t) {
		official := outcome.Official(l.answer(), l.named())
		questions = append(questions, official)
		require.True(t, outcome.AllRight(official), "official %d: %+v", l.ID, official)
		training := outcome.Training([]outcome.Claim{claim("c1", l.answer())}, l.named(), true)
		if reason, ok := faults[l.ID]; ok {
			require.False(t, outcome.AllRight(training), "%d is listed as a fault (%s) and gets full marks", l.ID, reason)
			continue
		}
		require.True(t, outcome.AllRight(training), "training %d: %+v", l.ID, training)
	}
	m := outcome.Measure(questions)
	require.Equal(t, outcome.Metrics{Questions: 257, SubAnswers: 456, ABQ: 1, PSAQ: 1, UASQ: 1}, m)
}

func TestOfficialRuleReadsAnswersAsTheScriptDoes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, answer, value string
		want                bool
	}{
		{"equal strings", "@x[34.65]", "34.65", true},
		{"equal numbers", "@x[34.650]", "34.65", true},
		{"closer than a millionth", "@x[34.6500005]", "34.65", true},
		{"farther than a millionth", "@x[34.650002]", "34.65", false},
		{"more precision is wrong", "@x[34.654]", "34.65", false},
		{"blanks around a number", "@x[ 34.65 ]", "34.65", true},
		{"blanks around text", "@x[ Nigeria ]", "Nigeria", false},
		{"case matters", "@x[true]", "True", false},
		{"exponent", "@x[3.465e1]", "34.65", true},
		{"underscores between digits", "@x[1_000]", "1000", true},
		{"underscore at the end is no float", "@x[1000_]", "1000", false},
		{"two underscores are no float", "@x[1__000]", "1000", false},
		{"point first", "@x[.5]", "0.5", true},
		{"point last", "@x[5.]", "5", true},
		{"point alone is no float", "@x[.]", "0", false},
		{"exponent without digits is no float", "@x[5e]", "5", false},
		{"signed exponent", "@x[+5e-1]", "0.5", true},
		{"hexadecimal is no float", "@x[0x10]", "16", false},
		{"thousands separator is no float", "@x[1,000]", "1000", false},
		{"percent is no float", "@x[50%]", "50", false},
		{"nan is equal as text only", "@x[nan]", "nan", true},
		{"NaN is not nan", "@x[NaN]", "nan", false},
		{"inf minus inf is no small number", "@x[Infinity]", "inf", false},
		{"last value wins", "@x[1] @x[34.65]", "34.65", true},
		{"last value wins, wrong", "@x[34.65] @x[1]", "34.65", false},
		{"extra names are ignored", "@y[2] @x[34.65]", "34.65", true},
		{"empty label, empty value", "@x[]", "", true},
		{"empty label, no answer", "nothing", "", false},
		{"nested brackets are cut", "@x[[1, 2]]", "[1, 2", true},
		{"no value across a line break", "@x[34\n.65]", "34\n.65", false},
		{"a later tag after a broken one", "@x[34\n@x[34.65]", "34.65", true},
		{"unicode name", "@é[34.65] @x[1]", "34.65", false},
		{"plain text", "The mean is 34.65.", "34.65", false},
		{"numpy repr", "@x[np.float64(34.65)]", "34.65", false},
		{"unanswered", "", "34.65", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			subs := outcome.Official(c.answer, []task.NamedAnswer{{Name: "x", Value: c.value}})
			require.Equal(t, c.want, outcome.AllRight(subs), "%+v", subs)
		})
	}
}

func FuzzScannerFindsWhatTheScriptsRegularExpressionFinds(f *testing.F) {
	pattern := regexp.MustCompile(`@([\p{L}\p{N}_]+)\[(.*?)\]`)
	for _, seed := range []string{"@x[1]", "@x[\n@x[2]]", "@@x[1]", "@x[@y[1]]", "@é_1[]", "@x [1]", "@x[", "@x]@y[1]", "@x[[1], [2]]", "@x[a\n]@y[b]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError) {
			t.Skip()
		}
		want := map[string]string{}
		for _, m := range pattern.FindAllStringSubmatch(s, -1) {
			want[m[1]] = m[2]
		}
		for name, value := range want {
			subs := outcome.Official(s, []task.NamedAnswer{{Name: name, Value: value}})
			require.Equal(t, value, subs[0].Got)
		}
		require.False(t, outcome.Official(s, []task.NamedAnswer{{Name: "absent name", Value: ""}})[0].Answered)
		if len(want) == 0 {
			require.False(t, outcome.Official(s, []task.NamedAnswer{{Name: "x", Value: ""}})[0].Answered)
		}
	})
}

func TestSetMetricsCountUnansweredQuestionsAsWrongAndRoundToFourPlaces(t *testing.T) {
	t.Parallel()
	two := []task.NamedAnswer{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}
	three := append(two, task.NamedAnswer{Name: "c", Value: "3"})
	m := outcome.Measure([][]outcome.SubAnswer{
		outcome.Official("@a[1] @b[2]", two),
		outcome.Official("@a[1] @b[9] @c[3]", three),
		outcome.Official("", two),
	})
	// ABQ 1/3; PSAQ (1 + 2/3 + 0)/3; UASQ 4/7
	require.Equal(t, outcome.Metrics{Questions: 3, SubAnswers: 7, ABQ: 0.3333, PSAQ: 0.5556, UASQ: 0.5714}, m)
	require.Equal(t, outcome.Metrics{}, outcome.Measure(nil))
}

func TestTrainingRuleDemandsOneRightValueInAGroundedClaim(t *testing.T) {
	t.Parallel()
	derived := func(text string) outcome.Claim {
		c := claim("c2", text)
		c.Node.Kind, c.Node.Fields = evidence.NodeDerived, nil
		return c
	}
	with := func(c outcome.Claim, change func(*outcome.Claim)) outcome.Claim { change(&c); return c }
	fields := func(text string, fields ...string) outcome.Claim {
		c := claim("c1", text)
		c.Node.Fields = nil
		for _, f := range fields {
			c.Node.Fields = append(c.Node.Fields, evidence.Field{Name: "f", Text: f})
		}
		return c
	}
	cases := []struct {
		name   string
		claims []outcome.Claim
		value  string
		want   string // empty: right; else the reason
	}{
		{"right", []outcome.Claim{claim("c1", "@x[0.35]")}, "0.35", ""},
		{"wrong", []outcome.Claim{claim("c1", "@x[0.36]")}, "0.35", "wrong value"},
		{"absent", []outcome.Claim{claim("c1", "The value is 0.35")}, "0.35", "not answered"},
		{"no claims", nil, "0.35", "not answered"},
		{"not grounded", []outcome.Claim{with(claim("c1", "@x[0.35]"), func(c *outcome.Claim) { c.Structural = false })}, "0.35", "the claim is not structurally grounded"},
		{"new numbers", []outcome.Claim{with(claim("c1", "@x[0.35]"), func(c *outcome.Claim) { c.Lexical = false })}, "0.35", "the claim brings new numbers"},
		{"typed into the template", []outcome.Claim{fields("@x[0.35] over 715 rows", "715")}, "0.35", "the number does not come from a placeholder"},
		{"sign typed into the template", []outcome.Claim{fields("@x[-0.35]", "0.35")}, "-0.35", "the number does not come from a placeholder"},
		{"signed by the placeholder", []outcome.Claim{fields("@x[-0.35]", "-0.35")}, "-0.35", ""},
		{"two placeholders in a list", []outcome.Claim{fields("@x[1, 2018]", "1", "2018")}, "1, 2018", ""},
		{"date of three placeholders", []outcome.Claim{fields("@x[2018-01-26]", "2018", "01", "26")}, "2018-01-26", ""},
		{"words may be typed", []outcome.Claim{fields("@x[significant], p = 0.01", "0.01")}, "significant", ""},
		{"derived", []outcome.Claim{derived("@x[0.35]")}, "0.35", ""},
		{"several values", []outcome.Claim{claim("c1", "@x[0.34]"), claim("c2", "@x[0.35]")}, "0.35", "several different values"},
		{"several values in one claim", []outcome.Claim{claim("c1", "@x[0.35] @x[0.34]")}, "0.35", "several different values"},
		{"one value twice", []outcome.Claim{claim("c1", "@x[0.35]"), claim("c2", "@x[0.350]")}, "0.35", ""},
		{"grounded the second time", []outcome.Claim{with(claim("c1", "@x[0.35]"), func(c *outcome.Claim) { c.Structural = false }), claim("c2", "@x[0.35]")}, "0.35", ""},
		{"numpy float", []outcome.Claim{claim("c1", "@x[np.float64(0.35)]")}, "0.35", ""},
		{"numpy bool", []outcome.Claim{claim("c1", "@x[np.True_]")}, "True", ""},
		{"numpy int", []outcome.Claim{claim("c1", "@x[np.int64(35)]")}, "35", ""},
		{"numpy string", []outcome.Claim{claim("c1", "@x[np.str_('Congo')]")}, "Congo", ""},
		{"numpy list", []outcome.Claim{claim("c1", "@x[np.float64(0.35), np.int64(2)]")}, "0.35, 2", ""},
		{"decimal", []outcome.Claim{claim("c1", "@x[Decimal('0.35')]")}, "0.35", ""},
		{"typographic minus", []outcome.Claim{claim("c1", "@x[−5]")}, "-5", ""},
		{"sign is never stripped", []outcome.Claim{claim("c1", "@x[-5]")}, "5", "wrong value"},
		{"code is not run", []outcome.Claim{claim("c1", "@x[2+3]")}, "5", "wrong value"},
		{"a power is not run", []outcome.Claim{claim("c1", "@x[9**9**9]")}, "5", "wrong value"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			subs := outcome.Training(c.claims, []task.NamedAnswer{{Name: "x", Value: c.value}}, true)
			require.Len(t, subs, 1)
			require.Equal(t, c.want, subs[0].Reason)
			require.Equal(t, c.want == "", subs[0].Right)
		})
	}
}

func TestTrainingRuleWithoutFaithfulnessLooksAtTheValueOnly(t *testing.T) {
	t.Parallel()
	c := claim("c1", "@x[0.35]")
	c.Structural, c.Lexical, c.Node.Fields = false, false, nil
	require.True(t, outcome.AllRight(outcome.Training([]outcome.Claim{c}, []task.NamedAnswer{{Name: "x", Value: "0.35"}}, false)))
}

func TestPathologicalAnswersEndWithinLimits(t *testing.T) {
	t.Parallel()
	want := []task.NamedAnswer{{Name: "x", Value: "0.35"}}
	for name, answer := range map[string]string{
		"a tower of powers":   "@x[9**9**9]",
		"an import":           `@x[__import__("os").system("touch pwned")]`,
		"200 kB of digits":    "@x[" + strings.Repeat("9", 200_000) + "]",
		"200 kB of text":      "@x[" + strings.Repeat("a b ", 50_000) + "]",
		"5000 brackets":       "@x[" + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "]",
		"5000 calls":          "@x[" + strings.Repeat("np.float64(", 5000) + "1" + strings.Repeat(")", 5000) + "]",
		"100 000 open tags":   strings.Repeat("@x[", 100_000),
		"50 000 values":       strings.Repeat("@x[1]", 50_000),
		"50 000 other names":  strings.Repeat("@y[1]", 50_000) + "@x[2]",
		"200 kB of minuses":   "@x[" + strings.Repeat("-", 200_000) + "1]",
		"a large exponent":    "@x[1e999999999]",
		"null bytes":          "@x[\x00\x00]",
		"half a character":    "@x[\xff\xfe]",
		"underscores only":    "@x[" + strings.Repeat("_", 100_000) + "]",
		"digits and breaks":   "@x[" + strings.Repeat("1_", 100_000) + "]",
		"commas":              "@x[" + strings.Repeat("1,", 100_000) + "]",
		"dots":                "@x[" + strings.Repeat("1.", 100_000) + "]",
		"a very long name":    "@" + strings.Repeat("x", 200_000) + "[1]",
		"a name that is open": "@" + strings.Repeat("x", 200_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			require.False(t, outcome.AllRight(outcome.Official(answer, want)))
			require.False(t, outcome.AllRight(outcome.Training([]outcome.Claim{claim("c1", answer)}, want, true)))
			require.Less(t, time.Since(start), 10*time.Second)
		})
	}
}

func TestShareIsAlwaysBetweenZeroAndOne(t *testing.T) {
	t.Parallel()
	require.Zero(t, outcome.Share(nil))
	require.False(t, math.IsNaN(outcome.Share([]outcome.SubAnswer{})))
	require.False(t, outcome.AllRight(nil))
	require.InDelta(t, 0.5, outcome.Share([]outcome.SubAnswer{{Right: true, Score: 1}, {}}), 0)
}

func TestAttemptNeedsARequiredNameInAGroundedClaim(t *testing.T) {
	t.Parallel()
	want := []task.NamedAnswer{{Name: "x", Value: "1"}}
	require.True(t, outcome.DABench().Attempted([]outcome.Claim{claim("c1", "@x[2]")}, want))
	require.False(t, outcome.DABench().Attempted([]outcome.Claim{claim("c1", "@y[2]")}, want))
	ungrounded := claim("c1", "@x[2]")
	ungrounded.Structural = false
	require.False(t, outcome.DABench().Attempted([]outcome.Claim{ungrounded}, want))
}

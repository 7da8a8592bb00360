package sandbox

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/trajectory"
)

func clean(limit int64, parts ...string) string {
	o := newOutput(limit)
	for _, p := range parts {
		_, _ = o.Write([]byte(p))
	}
	return o.text()
}

func TestOutputIsCleaned(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\n":                           "plain\n",
		"no end":                            "no end",
		"a\r\nb\r\n":                        "a\nb\n",
		"10%\r20%\r100%\n":                  "100%\n",
		"left\r":                            "left",
		"\x1b[31mred\x1b[0m\n":              "red\n",
		"\x1b]0;title\x07x\n":               "x\n",
		"\x1b]8;;u\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1b[2K\x1b[1Gline":                "line",
		"bad \xff\xfe utf":                  "bad \ufffd\ufffd utf",
		"cut \xe4\xbd":                      "cut \ufffd",
		"bell\x07 null\x00 tab\t|":          "bell null tab\t|",
		"\x1b[ never ends\nnext":            "ever ends\nnext",
	} {
		require.Equal(t, want, clean(1<<10, in), "%q", in)
	}
}

func TestACharacterSplitOverWritesIsWhole(t *testing.T) {
	t.Parallel()
	text := "né 你好 😀\n"
	for i := range len(text) {
		require.Equal(t, text, clean(1<<10, text[:i], text[i:]), i)
		for j := i; j < len(text); j++ {
			require.Equal(t, text, clean(1<<10, text[:i], text[i:j], text[j:]), "%d %d", i, j)
		}
	}
}

func TestLongOutputKeepsHeadAndTailAndStatesTheTotal(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for i := range 100_000 {
		fmt.Fprintln(&all, i)
	}
	got := clean(1000, all.String())
	require.True(t, strings.HasPrefix(got, "0\n1\n2\n"))
	require.True(t, strings.HasSuffix(got, "99998\n99999\n"))
	require.Contains(t, got, fmt.Sprintf("of %d bytes left out", all.Len()))
	require.Less(t, len(got), 1100)

	require.Equal(t, strings.Repeat("x", 1000), clean(1000, strings.Repeat("x", 1000)))
	require.NotEqual(t, strings.Repeat("x", 1001), clean(1000, strings.Repeat("x", 1001)))
}

func TestOutputIsCutAtCharacters(t *testing.T) {
	t.Parallel()
	for limit := int64(8); limit < 40; limit++ {
		for n := range 30 {
			text := strings.Repeat("a", n%4) + strings.Repeat("你", n)
			got := clean(limit, text)
			require.True(t, utf8.ValidString(got))
			require.NotContains(t, got, "\ufffd")
			if len(text) <= int(limit) {
				require.Equal(t, text, got)
			}
		}
	}
}

func TestTheTotalAddsUp(t *testing.T) {
	t.Parallel()
	for n := range 200 {
		text := strings.Repeat("你b\n", n)
		got := clean(64, text)
		before, rest, cut := strings.Cut(got, "\n[... ")
		if !cut {
			require.Equal(t, text, got)
			continue
		}
		var left, total int
		_, err := fmt.Sscanf(rest, "%d of %d bytes left out ...]", &left, &total)
		require.NoError(t, err)
		_, tail, _ := strings.Cut(rest, " ...]\n")
		require.Equal(t, len(text), total)
		require.Equal(t, total, left+len(before)+len(tail))
	}
}

func TestCellsMayPrintWhateverTheyLike(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "import time, sys\nb = 'né 你好'.encode()\nsys.stdout.buffer.write(b[:6]); sys.stdout.flush()\ntime.sleep(0.05)\nsys.stdout.buffer.write(b[6:])\nsys.stdout.flush()")
	require.Equal(t, "né 你好", res.Output)
	res = run(t, sess, `print("x" * 70000); print("end")`)
	require.Contains(t, res.Output, "of 70005 bytes left out")
	require.True(t, strings.HasSuffix(res.Output, "x\nend\n"))
	res = run(t, sess, "_ = sys.stderr.write('w' * 200_000)")
	require.Equal(t, trajectory.CellOK, res.Status)
	require.Contains(t, res.Output, "of 200000 bytes left out")
	res = run(t, sess, "import os\nprint('a'); os.write(1, b'b\\n'); print('c', file=sys.stderr); os.write(2, b'd\\n'); sys.__stdout__.write('e\\n')\nNone")
	require.Equal(t, "a\nb\nc\nd\ne\n", res.Output)
	res = run(t, sess, `print('\ud800', b'\xff'.decode('latin1'))`)
	require.Equal(t, "\\ud800 ÿ\n", res.Output)
	res = run(t, sess, "import warnings; warnings.warn('careful')")
	require.Contains(t, res.Output, "<cell 6>:1: UserWarning: careful")
	res = run(t, sess, "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as s: print('hidden')\nprint(repr(s.getvalue()))")
	require.Equal(t, "'hidden\\n'\n", res.Output)
}

func TestAMillionLinesAreCutAtTheSource(t *testing.T) {
	t.Parallel()
	sess := timed(t, func(l *Limits) { l.CellWall = patience.Limit })
	res := run(t, sess, "for i in range(10**6): print(i)")
	require.Equal(t, trajectory.CellOK, res.Status)
	require.Contains(t, res.Output, "of 6888890 bytes left out")
	require.True(t, strings.HasPrefix(res.Output, "0\n1\n"))
	require.True(t, strings.HasSuffix(res.Output, "999999\n"))
	require.Less(t, len(res.Output), 17<<10)
	require.Equal(t, "1\n", run(t, sess, "1").Output)
}

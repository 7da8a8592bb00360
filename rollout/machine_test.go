package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/trajectory"
)

// output is one thing that a policy may write in a turn, and the rule that says what becomes of it.
type output struct {
	rule string
	text string
	// overrun is what the engine sampled past the place where it stopped.
	overrun string
	// finish is how the engine ended it; "" stops at each closing code tag, and else at the end of turn.
	finish string
	// code is the cell that runs; end is why the trajectory ends if none does.
	code string
	end  trajectory.Termination
	// absent must not be in what is kept.
	absent string
}

const (
	open     = "<code_interpreter>"
	fence    = "```"
	think    = "<think>\nhm\n</think>\n"
	cutShort = "length"
	noCode   = trajectory.NoSubmission
)

func block(code string) string { return open + code + codeClose }

var outputs = []output{
	// Where the code is.
	{rule: "the block's content is the cell", text: block("\nx = 1\n"), code: "x = 1"},
	{rule: "code may stand on the tag's own line", text: block("x = 1"), code: "x = 1"},
	{rule: "prose before the block is no code", text: "I will count.\n" + block("n = 1"), code: "n = 1"},
	{rule: "reasoning before the block is no code", text: think + block("n = 1"), code: "n = 1"},
	{rule: "the block may follow the reasoning directly", text: "<think>a</think>" + block("n = 1"), code: "n = 1"},
	{rule: "an empty block is a cell without statements", text: block(""), code: ""},
	{rule: "a block of blank lines is a cell without statements", text: block("\n\n  \n"), code: ""},
	{rule: "only the first of several blocks runs", text: block("a = 1") + "\nthen\n" + block("b = 2"), code: "a = 1", absent: "b = 2"},
	{rule: "of three blocks the first runs", text: block("a") + block("b") + block("c"), code: "a", absent: block("b")},
	{rule: "prose after the block is dropped", text: block("a"), overrun: " done, the answer is 7", code: "a", absent: "answer"},
	{rule: "unicode in code is kept", text: block("s = '数据 é 🙂'"), code: "s = '数据 é 🙂'"},
	{rule: "a NUL in code reaches the compiler", text: block("x\x00y"), code: "x\x00y"},
	{rule: "an opening tag inside the block is code", text: block("a\n" + open + "\nb"), code: "a\n" + open + "\nb"},
	{rule: "upper-case tags are prose", text: "<CODE_INTERPRETER>x</CODE_INTERPRETER>", end: noCode},
	{rule: "a tag with attributes is prose", text: "<code_interpreter lang=py>x", end: noCode},
	{rule: "a fence without the tag is prose", text: fence + "python\nprint(1)\n" + fence, end: noCode},
	{rule: "another tag is prose", text: "<python>print(1)</python>", end: noCode},
	// Fences.
	{rule: "a python fence is removed", text: block("\n" + fence + "python\nprint(1)\n" + fence + "\n"), code: "print(1)"},
	{rule: "a py fence is removed", text: block(fence + "py\nprint(1)\n" + fence), code: "print(1)"},
	{rule: "a python3 fence is removed", text: block(fence + "python3\nprint(1)\n" + fence), code: "print(1)"},
	{rule: "a fence without a language is removed", text: block(fence + "\nprint(1)\n" + fence), code: "print(1)"},
	{rule: "a fence is removed once", text: block(fence + "\n" + fence + "\nx\n" + fence + "\n" + fence), code: fence + "\nx\n" + fence},
	{rule: "an opening fence alone is removed", text: block(fence + "python\nprint(1)\n"), code: "print(1)"},
	{rule: "a closing fence alone is removed", text: block("\nprint(1)\n" + fence), code: "print(1)"},
	{rule: "a language on line one is removed", text: block("\nPython\nprint(1)\n"), code: "print(1)"},
	{rule: "a fence of another language stays and fails to compile", text: block(fence + "bash\nls\n" + fence), code: fence + "bash\nls"},
	{rule: "a fence around indented code is removed", text: block("  " + fence + "python\n  x = 1\n  " + fence + "\n"), code: "x = 1"},
	{rule: "a fence with CRLF is removed", text: block("\r\n" + fence + "python\r\nprint(1)\r\n" + fence + "\r\n"), code: "print(1)"},
	{rule: "backticks in a string stay", text: block("s = '" + fence + "'\nprint(s)"), code: "s = '" + fence + "'\nprint(s)"},
	{rule: "a fence in a docstring stays", text: block("d = '''\n" + fence + "\nx\n" + fence + "\n'''\nprint(d)"), code: "d = '''\n" + fence + "\nx\n" + fence + "\n'''\nprint(d)"},
	// Line ends and indentation.
	{rule: "CRLF becomes LF", text: block("\r\nx = 1\r\ny = 2\r\n"), code: "x = 1\ny = 2"},
	{rule: "a lone CR becomes LF", text: block("x = 1\ry = 2"), code: "x = 1\ny = 2"},
	{rule: "common indentation is removed", text: block("\n    x = 1\n    for i in y:\n        x += i\n"), code: "x = 1\nfor i in y:\n    x += i"},
	{rule: "indentation after a first line on the tag is removed", text: block("x = 1\n    for i in y:\n        x += i\n"), code: "x = 1\nfor i in y:\n    x += i"},
	{rule: "an indented first line on the tag counts", text: block("    x = 1\n    y = 2\n"), code: "x = 1\ny = 2"},
	{rule: "tabs are indentation", text: block("\n\tif x:\n\t\ty = 2\n"), code: "if x:\n\ty = 2"},
	{rule: "a first line that opens a block keeps its body indented", text: block("if x:\n    y = 1\n"), code: "if x:\n    y = 1"},
	{rule: "tabs and blanks share no indentation", text: block("\n\tx = 1\n    y = 2\n"), code: "\tx = 1\n    y = 2"},
	{rule: "blank lines do not count for indentation", text: block("\n    x = 1\n\n    y = 2\n"), code: "x = 1\n\ny = 2"},
	{rule: "trailing blanks are stripped", text: block("\nx = 1   \n\n\n"), code: "x = 1"},
	// Reasoning.
	{rule: "a draft in the reasoning does not run", text: "<think>" + block("draft") + "</think>" + block("real"), code: "real"},
	{rule: "three drafts in the reasoning do not run", text: "<think>" + block("a") + block("b") + block("c") + "</think>\n" + block("real"), code: "real"},
	{rule: "an opening tag in the reasoning opens nothing", text: "<think>use " + open + " then</think>" + block("real"), code: "real"},
	{rule: "a closing tag in the reasoning closes nothing", text: "<think>end with " + codeClose + "</think>" + block("real"), code: "real"},
	{rule: "reasoning that never closes runs nothing", text: "<think>\n" + block("draft"), end: noCode},
	{rule: "reasoning that is cut runs nothing", text: "<think>\nlong", finish: cutShort, end: trajectory.TurnTruncated},
	{rule: "a draft in reasoning that is cut runs nothing", text: "<think>\n" + block("draft") + " and", finish: cutShort, end: trajectory.TurnTruncated},
	{rule: "a nested opening of reasoning is text", text: "<think>a <think> b</think>" + block("real"), code: "real"},
	{rule: "a stray closing of reasoning is text", text: "a</think>" + block("real"), code: "real"},
	{rule: "reasoning may open twice", text: "<think>a</think>b<think>" + block("draft") + "</think>" + block("real"), code: "real"},
	{rule: "reasoning tags inside code are code", text: block("print('<think>')"), code: "print('<think>')"},
	{rule: "a closing reasoning tag inside code is code", text: block("print('</think>')"), code: "print('</think>')"},
	{rule: "reasoning alone is no submission", text: "<think>a</think>", end: noCode},
	{rule: "an empty reasoning is allowed", text: "<think>\n\n</think>\n\n" + block("x"), code: "x"},
	// Unclosed, stray and quoted tags.
	{rule: "an unclosed block runs nothing", text: open + "\nx = 1\n", end: noCode},
	{rule: "an unclosed block that is cut is truncated", text: open + "\nx = 1\n", finish: cutShort, end: trajectory.TurnTruncated},
	{rule: "a stray closing tag is no code", text: "x" + codeClose, end: noCode},
	{rule: "a stray closing tag hides a later block", text: "x" + codeClose + block("y"), end: noCode, absent: "y</"},
	{rule: "a quoted opening tag opens", text: "the tag `" + open + "` starts; " + block("x"), code: "` starts; " + open + "x"},
	{rule: "a closing tag in a string ends the block there", text: block("print(\"" + codeClose + "\")"), code: "print(\"", absent: "\")"},
	{rule: "a closing tag in a docstring ends the block there", text: block("'''\n" + codeClose + "\n'''\nx = 1"), code: "'''", absent: "x = 1"},
	{rule: "a closing tag in a comment ends the block there", text: block("x = 1 # " + codeClose + "\ny = 2"), code: "x = 1 #", absent: "y = 2"},
	{rule: "a tag built by code is code", text: block("print('</code_' + 'interpreter>')"), code: "print('</code_' + 'interpreter>')"},
	{rule: "a tag with a blank is no tag", text: open + "x</code_interpreter >", end: noCode},
	// Invented responses and control tokens.
	{rule: "an invented response is never kept", text: block("uuid()"), overrun: "\n<tool_response>\n550e8400\n</tool_response>\nso", code: "uuid()", absent: "550e"},
	{rule: "an invented response without a block is the policy's own text", text: "<tool_response>\n7\n</tool_response>", end: noCode},
	{rule: "an invented response before the block changes nothing", text: "<tool_response>\n7\n</tool_response>\n" + block("x"), code: "x"},
	{rule: "an invented submission after the block is dropped", text: block("x"), overrun: "\n" + block("submit_answer(c)"), code: "x", absent: "submit"},
	{rule: "control-token text in code stays characters", text: block("print('<|im_end|>')"), code: "print('<|im_end|>')"},
	{rule: "control-token text in prose stays characters", text: "say <|im_start|>user", end: noCode},
	{rule: "a block that prints our tags is one block", text: block("print('" + open + "')"), code: "print('" + open + "')"},
	{rule: "a block that prints a response tag is one block", text: block("print('</tool_response>')"), code: "print('</tool_response>')"},
	// Overruns.
	{rule: "an overrun of a line break is at most the token's rest", text: block("x"), overrun: "\n", code: "x"},
	{rule: "an overrun of several tokens is trimmed", text: block("x"), overrun: "\n\nNow the next step is to", code: "x", absent: "Now"},
	{rule: "an overrun that joins the tag's last token is trimmed", text: block("x"), overrun: "<x><y>", code: "x", absent: "<y>"},
	{rule: "an overrun past a draft's tag is reasoning", text: "<think>" + block("d"), overrun: " hm</think>" + block("real"), code: "real"},
	// Empty turns and engine ends.
	{rule: "an empty turn is a turn without submission", text: "", end: noCode},
	{rule: "a turn of blanks is a turn without submission", text: "  \n\n ", end: noCode},
	{rule: "a plain answer is no submission", text: "The mean is 34.65.", end: noCode},
	{rule: "a repetition stop runs nothing", text: open + "x x x x", finish: "repetition", end: trajectory.TurnTruncated},
	{rule: "a complete block counts although the turn was cut behind it", text: block("x"), overrun: " more", finish: cutShort, code: "x", absent: "more"},
	{rule: "a complete block counts although the engine saw a repetition", text: block("x"), finish: "repetition", code: "x"},
	// Size.
	{rule: "a turn of 512 kB of code is parsed", text: block("x = '" + strings.Repeat("a b ", 128<<10) + "'"), code: "x = '" + strings.Repeat("a b ", 128<<10) + "'"},
	{rule: "a turn of 512 kB of reasoning is parsed", text: "<think>" + strings.Repeat("<co", 170<<10) + "</think>" + block("x"), code: "x"},
	{rule: "a turn of 512 kB of line breaks is parsed", text: block(strings.Repeat("\n", 512<<10)), code: ""},
}

// withThink is a tokenizer whose reasoning tags are added tokens, as in Qwen3.
func withThink(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	var root map[string]any
	require.NoError(t, json.Unmarshal(scripted.TokenizerJSON(), &root))
	root["added_tokens"] = append(root["added_tokens"].([]any),
		map[string]any{"id": 5000, "content": "<think>"}, map[string]any{"id": 5001, "content": "</think>"})
	data, err := json.Marshal(root)
	require.NoError(t, err)
	tok, err := tokenizer.Parse(data)
	require.NoError(t, err)
	return tok
}

// encoding is one way to write the same text in ids.
type encoding struct {
	name   string
	tok    *tokenizer.Tokenizer
	encode func(string) []int32
}

func encodings(t testing.TB) []encoding {
	tiny, err := scripted.Tokenizer()
	require.NoError(t, err)
	qwen := withThink(t)
	reasoning := func(text string) (out []int32) { // only the reasoning tags as added tokens
		for len(text) > 0 {
			at, tag := len(text), ""
			for _, s := range []string{"<think>", "</think>"} {
				if i := strings.Index(text, s); i >= 0 && i < at {
					at, tag = i, s
				}
			}
			out = append(out, qwen.Encode(text[:at])...)
			if tag != "" {
				id, _ := qwen.Special(tag)
				out = append(out, id)
			}
			text = text[at+len(tag):]
		}
		return out
	}
	return []encoding{
		{"canonical", tiny, tiny.Encode},
		{"byte by byte", tiny, func(text string) (out []int32) {
			for i := range len(text) {
				id, _ := tiny.TokenID([]byte{text[i]})
				out = append(out, id)
			}
			return out
		}},
		{"reasoning tags as tokens", qwen, reasoning},
	}
}

// bigConfig has room for every output.
func bigConfig() Config {
	c := Defaults()
	c.MaxTurnTokens, c.MaxResponseTokens, c.MaxPromptTokens = 1<<21, 1<<21, 1<<21
	return c
}

func newMachine(t testing.TB, tok *tokenizer.Tokenizer, cfg Config) *Machine {
	t.Helper()
	ml, err := chat.New(tok)
	require.NoError(t, err)
	return NewMachine(cfg, tok, ml, ml.Prompt("s", "u"))
}

// call is what one policy call samples.
type call struct {
	ids    []int32
	finish string
	stop   string
}

// calls plays the engine: it stops at every closing code tag, and at the end of the turn.
func (o output) calls(e encoding, end int32) []call {
	var out []call
	rest := o.text
	for {
		i := strings.Index(rest, codeClose)
		if i < 0 {
			break
		}
		piece := rest[:i+len(codeClose)]
		rest = rest[len(piece):]
		out = append(out, call{e.encode(piece), "stop", codeClose})
	}
	ids := e.encode(rest)
	switch {
	case o.finish != "" && len(out) > 0 && rest == "":
		out[len(out)-1].finish, out[len(out)-1].stop = o.finish, ""
	case o.finish != "":
		out = append(out, call{ids, o.finish, ""})
	case rest != "" || len(out) == 0 || o.end == noCode:
		out = append(out, call{append(ids, end), "stop", ""})
	}
	if o.overrun != "" {
		last := &out[len(out)-1]
		last.ids = append(last.ids, e.encode(o.overrun)...)
	}
	return out
}

// play feeds calls while the turn goes on and checks that every prompt extends the one before.
func play(t testing.TB, m *Machine, calls []call) {
	t.Helper()
	start := m.Next().(Generate).Prompt
	var fed []int32
	for _, c := range calls {
		g, more := m.Next().(Generate)
		if !more {
			return
		}
		require.Equal(t, len(start)+len(fed), len(g.Prompt))
		require.True(t, slices.Equal(fed, g.Prompt[len(start):]), "ids only grow")
		lps := make([]float32, len(c.ids))
		m.Sampled(policy.Completion{IDs: c.ids, LogProbs: lps, Finish: c.finish, StopString: c.stop}, 3, 3)
		fed = append(fed, c.ids...)
	}
}

func (o output) check(t testing.TB, m *Machine) {
	t.Helper()
	switch s := m.Next().(type) {
	case RunCell:
		require.Empty(t, o.end, "a cell runs")
		require.True(t, o.code == s.Code, "code is %q", head(s.Code))
	case End:
		require.Equal(t, o.end, s.Reason, "%v", s.Err)
	default:
		require.Fail(t, "the turn goes on")
	}
	segments := m.Segments()
	require.NoError(t, m.Check(segments))
	if o.absent != "" {
		require.NotContains(t, string(m.tok.Decode(segments[0].ResponseIDs)), o.absent)
	}
}

func TestEveryModelOutputFollowsItsRule(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(outputs), 80)
	seen := map[string]bool{}
	encs := encodings(t)
	for _, o := range outputs {
		require.False(t, seen[o.rule], o.rule)
		seen[o.rule] = true
		t.Run(o.rule, func(t *testing.T) {
			t.Parallel()
			for _, e := range encs {
				m := newMachine(t, e.tok, bigConfig())
				play(t, m, o.calls(e, m.chat.EndOfTurn()))
				o.check(t, m)
			}
		})
	}
}

func TestCallsThatSplitATurnAnywhereGiveTheSameParse(t *testing.T) {
	t.Parallel()
	encs := encodings(t)
	for _, o := range outputs {
		if len(o.text) > 4096 {
			continue
		}
		t.Run(o.rule, func(t *testing.T) {
			t.Parallel()
			for _, e := range encs {
				whole := newMachine(t, e.tok, bigConfig())
				calls := o.calls(e, whole.chat.EndOfTurn())
				play(t, whole, calls)
				step := 1
				if e.name == "byte by byte" { // four times as many ids: every third place does
					step = 3
				}
				for at := 0; at < len(calls[0].ids); at += step {
					split := append([]call{
						{calls[0].ids[:at], "abort", ""},
						{calls[0].ids[at:], calls[0].finish, calls[0].stop},
					}, calls[1:]...)
					m := newMachine(t, e.tok, bigConfig())
					play(t, m, split)
					o.check(t, m)
					require.Equal(t, whole.turns[0].Text, m.turns[0].Text, "split at %d", at)
					require.Equal(t, whole.Segments()[0].ResponseIDs, m.Segments()[0].ResponseIDs)
				}
			}
		})
	}
}

func TestATurnCutAtAnyByteOfATagRunsNothingAndSaysWhy(t *testing.T) {
	t.Parallel()
	e := encodings(t)[1] // one id for each byte: every cut is possible
	for _, text := range []string{think + open + "x = 1" + codeClose, "<think>a</think>" + block("y")} {
		for n := range len(text) {
			for _, tc := range []struct {
				finish string
				want   trajectory.Termination
			}{{cutShort, trajectory.TurnTruncated}, {"", noCode}} {
				o := output{text: text[:n], finish: tc.finish, end: tc.want}
				m := newMachine(t, e.tok, bigConfig())
				play(t, m, o.calls(e, m.chat.EndOfTurn()))
				o.check(t, m)
			}
		}
	}
}

func TestIDsAfterTheEndOfTheTurnAreNeverKept(t *testing.T) {
	t.Parallel()
	for _, e := range encodings(t) {
		m := newMachine(t, e.tok, bigConfig())
		end := m.chat.EndOfTurn()
		ids := slices.Concat(e.encode("The answer."), []int32{end}, e.encode("\nuser\n"+block("evil()")))
		play(t, m, []call{{ids, "stop", codeClose}})
		require.Equal(t, noCode, m.Next().(End).Reason)
		seg := m.Segments()[0]
		require.Equal(t, end, seg.ResponseIDs[len(seg.ResponseIDs)-1])
		require.NotContains(t, string(e.tok.Decode(seg.ResponseIDs)), "evil")
	}
}

func TestAStopThatTheIDsDoNotShowIsTheServersFault(t *testing.T) {
	t.Parallel()
	e := encodings(t)[0]
	m := newMachine(t, e.tok, bigConfig())
	play(t, m, []call{{e.encode("no tag here"), "stop", codeClose}})
	end := m.Next().(End)
	require.Equal(t, trajectory.PolicyUnavailable, end.Reason)
	require.ErrorContains(t, end.Err, "do not hold")
}

func TestATurnIsNotResumedForEver(t *testing.T) {
	t.Parallel()
	e := encodings(t)[0]
	m := newMachine(t, e.tok, bigConfig())
	n := 0
	for ; n < 2*maxResumes; n++ {
		if _, more := m.Next().(Generate); !more {
			break
		}
		m.Sampled(policy.Completion{Finish: "abort"}, 0, 0)
	}
	require.Equal(t, maxResumes, n)
	require.Equal(t, trajectory.PolicyUnavailable, m.Next().(End).Reason)
}

func TestTheMachineIgnoresAnswersThatItDidNotAskFor(t *testing.T) {
	t.Parallel()
	e := encodings(t)[0]
	m := newMachine(t, e.tok, bigConfig())
	m.Observed("x", true)
	require.IsType(t, Generate{}, m.Next())
	play(t, m, output{text: block("x")}.calls(e, m.chat.EndOfTurn()))
	m.Sampled(policy.Completion{IDs: []int32{1}, LogProbs: []float32{0}, Finish: "stop"}, 0, 0)
	m.Failed(fmt.Errorf("late"))
	require.IsType(t, RunCell{}, m.Next())
	m.Stop(trajectory.Canceled, nil)
	m.Stop(trajectory.Stale, nil)
	require.Equal(t, trajectory.Canceled, m.Next().(End).Reason)
}

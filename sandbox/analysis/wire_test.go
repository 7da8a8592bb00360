package analysis_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

// full is an analysis that has every field.
func full() evidence.Analysis {
	template := "The mean is {m}. \"quoted\" \\ é 漢 😀\x01\n"
	names := []string{"a", "b_1", "é"}
	state := map[string]json.RawMessage{
		"text":  json.RawMessage(`"df:0,1:-:\"\\é"`),
		"gone":  json.RawMessage("null"),
		"value": json.RawMessage(`{"k":"any","o":[0,1,-5,1000000],"f":[null,{"t":"f","z":true,"d":{"x":false,"y":{}}}],"e":[]}`),
	}
	return evidence.Analysis{Error: "none", Statements: []evidence.Statement{{}, {
		Line: 3, EndLine: 1 << 20, Reads: names, Control: names[:1], Writes: names, MaybeWrites: names, Mutates: names[1:],
		Deletes: names, Files: names, DynamicFiles: true, FilePatterns: []string{"*.csv"}, WrittenFiles: names, DynamicWrites: true,
		Flows:     map[string]evidence.Flow{"a": {Reads: names, Files: true}, "b": {}},
		Untracked: names, Taints: names, Raised: state, Definitions: state,
		Calls: []evidence.PrimitiveCall{{
			Primitive: "bind", Line: 3, Column: 4, EndLine: 5, EndColumn: 6, Template: &template, Dynamic: true,
			Arguments: []evidence.Argument{{
				Name: "m", Expression: "f(x)", Reads: names, Control: names, Files: names, DynamicFiles: true,
				FilePatterns: names, Untracked: true, Variable: "x",
			}},
		}},
	}}}
}

// zeroFields are the fields of v, and of what it holds, that have no value.
func zeroFields(v reflect.Value, path string) (out []string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.IsZero() {
				out = append(out, path+"."+v.Type().Field(i).Name)
			} else {
				out = append(out, zeroFields(f, path+"."+v.Type().Field(i).Name)...)
			}
		}
	case reflect.Slice:
		if v.Len() > 0 {
			out = zeroFields(v.Index(v.Len()-1), path)
		}
	}
	return out
}

// marshalled is what Python's marshal makes of JSON texts.
func marshalled(t testing.TB, texts ...string) (out [][]byte) {
	t.Helper()
	cmd := exec.Command("python3", "-c", `import json, marshal, sys
for line in sys.stdin:
    print(marshal.dumps(json.loads(line), 2).hex())`)
	cmd.Stdin = strings.NewReader(strings.Join(texts, "\n"))
	lines, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(lines)) {
		body, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, body)
	}
	if len(out) != len(texts) {
		t.Fatalf("%d of %d texts", len(out), len(texts))
	}
	return out
}

func TestAnAnswerReadsAsItsJSONDoes(t *testing.T) {
	t.Parallel()
	want := full()
	if missing := zeroFields(reflect.ValueOf(want), "Analysis"); missing != nil {
		t.Fatalf("not part of the test: %v", missing)
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	body := marshalled(t, string(text))[0]
	got, _, err := analysis.DecodeAnalysis(body)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\n%+v, want\n%+v", err, got, want)
	}
	for n := range body {
		if _, _, err := analysis.DecodeAnalysis(body[:n]); err == nil {
			t.Fatalf("%d of %d bytes are taken for an answer", n, len(body))
		}
	}
}

func TestTextsThatAreNoUTF8ReadAsJSONDoes(t *testing.T) {
	t.Parallel()
	texts := []string{`"\ud800.csv"`, `"a\udfff"`, `"\udc00\ud800"`, `"\u0000\u001f\u007f"`}
	var answers []string
	for _, text := range texts {
		answers = append(answers, `{"statements":[{"files":[`+text+`],"definitions":{"x":`+text+`}}]}`)
	}
	for i, body := range marshalled(t, answers...) {
		text := texts[i]
		got, _, err := analysis.DecodeAnalysis(body)
		if err != nil {
			t.Fatal(err)
		}
		var want string
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if s := got.Statements[0]; s.Files[0] != want || string(s.Definitions["x"]) != text && want != "\x00\x1f\x7f" {
			t.Errorf("%s: %q, %s", text, s.Files, s.Definitions["x"])
		}
	}
}

func TestAnAnswerWithWhatTheGraphDoesNotKnowIsRefused(t *testing.T) {
	t.Parallel()
	texts := []string{
		`[]`, `{"statement":[]}`, `{"statements":{}}`, `{"statements":[{"lines":1}]}`, `{"statements":[{"line":"1"}]}`, `{"statements":[{"line":1.5}]}`,
		`{"statements":[{"reads":[1]}]}`, `{"statements":[{"dynamic_files":1}]}`, `{"statements":[{"calls":[{"x":1}]}]}`,
		`{"statements":[{"flows":{"a":{"x":1}}}]}`, `{"statements":[{"definitions":{"a":1.5}}]}`, `{"error":1}`,
	}
	for i, body := range marshalled(t, texts...) {
		if got, _, err := analysis.DecodeAnalysis(body); err == nil {
			t.Errorf("%s: %+v", texts[i], got)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	text, err := json.Marshal(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(marshalled(f, string(text))[0])
	f.Add(bytes.Repeat([]byte{'['}, 1000))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, _, err := analysis.DecodeAnalysis(body)
		if err != nil {
			return
		}
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("%q: %v", body, err)
		}
	})
}

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

func TestFramesThatCannotBeTrueAreRefused(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty object":          `{}`,
		"no body":               `{"nonce":"n"}`,
		"two bodies":            `{"nonce":"n","ready":{"version":""},"failed":{"error":""}}`,
		"wrong nonce":           `{"nonce":"m","ready":{"version":""}}`,
		"unknown kind":          `{"nonce":"n","score":{"r":1}}`,
		"unknown field":         `{"nonce":"n","taint":{"statement":0,"construct":"x","extra":1}}`,
		"trailing data":         `{"nonce":"n","ready":{"version":""}} {}`,
		"bare NaN":              `{"nonce":"n","ready":{"version":NaN}}`,
		"not UTF-8":             "{\"nonce\":\"n\",\"ready\":{\"version\":\"\xff\"}}",
		"array":                 `[]`,
		"null":                  `null`,
		"negative statement":    `{"nonce":"n","taint":{"statement":-1,"construct":"x"}}`,
		"negative index":        `{"nonce":"n","completed":{"index":-1}}`,
		"float index":           `{"nonce":"n","completed":{"index":1.5}}`,
		"status of ours":        `{"nonce":"n","done":{"status":"timeout","statements":0,"completed":0,"traceback":"","exception":"","environment":[]}}`,
		"no status":             `{"nonce":"n","done":{"status":"","statements":0,"completed":0,"traceback":"","exception":"","environment":[]}}`,
		"ok but incomplete":     `{"nonce":"n","done":{"status":"ok","statements":2,"completed":1,"traceback":"","exception":"","environment":[]}}`,
		"failed but complete":   `{"nonce":"n","done":{"status":"ok","statements":2,"completed":2,"traceback":"","exception":"KeyError","environment":[]}}`,
		"more than there is":    `{"nonce":"n","done":{"status":"exception","statements":2,"completed":3,"traceback":"","exception":"E","environment":[]}}`,
		"unknown value kind":    `{"nonce":"n","bind":{"statement":0,"line":1,"template":"","fields":[],"values":[{"name":"a","kind":"truth","type":"int","repr":"1"}]}}`,
		"long repr":             `{"nonce":"n","bind":{"statement":0,"line":1,"template":"","fields":[],"values":[{"name":"a","kind":"number","type":"int","repr":"` + strings.Repeat("1", 201) + `"}]}}`,
		"long name":             `{"nonce":"n","completed":{"index":0,"bound":["` + strings.Repeat("a", maxNameBytes+1) + `"]}}`,
		"long value":            `{"nonce":"n","done":{"status":"ok","statements":0,"completed":0,"traceback":"","exception":"","environment":[{"name":"a","type":"int","value":"` + strings.Repeat("1", 81) + `"}]}}`,
		"negative line":         `{"nonce":"n","bind":{"statement":0,"line":-1,"template":"","fields":[],"values":[]}}`,
		"too many names":        `{"nonce":"n","completed":{"index":0,"bound":[` + strings.Repeat(`"a",`, maxNames) + `"a"]}}`,
		"too many variables":    `{"nonce":"n","done":{"status":"ok","statements":0,"completed":0,"traceback":"","exception":"","environment":[` + strings.Repeat(`{"name":"a","type":"b"},`, maxEnvironment) + `{"name":"a","type":"b"}]}}`,
		"deep nesting":          `{"nonce":` + strings.Repeat("[", 100_000) + `}`,
		"key in another case":   `{"nonce":"n","Ready":{"version":""}}`,
		"folded letter":         "{\"nonce\":\"n\",\"ſubmit\":{\"statement\":0,\"claims\":[]}}",
		"escaped key":           `{"nonce":"n","\u0072eady":{"version":""}}`,
		"key twice":             `{"nonce":"n","ready":{"version":"a"},"ready" :{"version":"b"}}`,
		"nonce twice":           `{"nonce":"m","nonce":"n","ready":{"version":""}}`,
		"key of an item twice":  `{"nonce":"n","taint":{"statement":0,"statement":1,"construct":"x"}}`,
		"completed of a string": `{"nonce":"n","completed":"all"}`,
	} {
		_, err := parseFrame([]byte(body), "n")
		require.ErrorIs(t, err, errFrame, name)
	}
	// A text that looks like a key is a text, and another object may hold the same key.
	_, err := parseFrame([]byte(`{"nonce":"n","done":{"status":"ok","statements":0,"completed":0,"traceback":"{\"Nonce\":1,\"nonce\"","exception":"","environment":[{"name":"a","type":"X"},{"name":"b\\","type":":"}]}}`), "n")
	require.NoError(t, err)
	f, err := parseFrame([]byte(`{"nonce":"n","completed":{"index":3,"bound":["a"],"unbound":null}}`), "n")
	require.NoError(t, err)
	require.Equal(t, 3, f.Completed.Index)
}

func TestFrameLengthsAreBounded(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x00\x00\x00\x11"} {
		_, err := readFrame(strings.NewReader(head+strings.Repeat("x", 17)), 16)
		require.ErrorIs(t, err, errFrame)
	}
	_, err := readFrame(strings.NewReader("\x00\x00\x00\x10half"), 16)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = readFrame(strings.NewReader(""), 16)
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, writeFrame(io.Discard, strings.Repeat("x", 32), 16), errTooLarge)

	var buf bytes.Buffer
	require.NoError(t, writeFrame(&buf, cellRequest{Nonce: "n", Cell: 1, Code: "é"}, 1<<10))
	body, err := readFrame(&buf, 1<<10)
	require.NoError(t, err)
	var got cellRequest
	require.NoError(t, json.Unmarshal(body, &got))
	require.Equal(t, cellRequest{Nonce: "n", Cell: 1, Code: "é"}, got)
}

// FuzzFrame: whatever arrives is refused, or satisfies the bounds and survives a round trip.
func FuzzFrame(f *testing.F) {
	for _, seed := range []string{
		`{"nonce":"n","ready":{"version":"3"}}`,
		`{"nonce":"n","completed":{"index":0,"bound":["a"],"unbound":[],"opened":["a.csv"]}}`,
		`{"nonce":"n","bind":{"statement":0,"line":1,"template":"{x}","fields":[{"name":"x","text":"1"}],"values":[{"name":"x","kind":"number","type":"int","repr":"1"}]}}`,
		`{"nonce":"n","infer":{"statement":0,"premises":["c1"],"conclusion":"a","reasoning":"b"}}`,
		`{"nonce":"n","submit":{"statement":0,"claims":["c1"]}}`,
		`{"nonce":"n","taint":{"statement":0,"construct":"gc"}}`,
		`{"nonce":"n","done":{"status":"ok","statements":1,"completed":1,"traceback":"","exception":"","environment":[{"name":"a","type":"int","value":"1"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		fr, err := parseFrame(body, "n")
		if err != nil {
			if !errors.Is(err, errFrame) {
				t.Fatalf("not a frame error: %v", err)
			}
			return
		}
		if fr.Nonce != "n" || fr.check() != nil {
			t.Fatalf("accepted %q", body)
		}
		if fr.Done != nil && fr.Done.Status == trajectory.CellTimeout {
			t.Fatal("a session can't time itself out")
		}
		again, err := json.Marshal(fr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseFrame(again, "n"); err != nil {
			t.Fatalf("%q: round trip: %v", body, err)
		}
	})
}

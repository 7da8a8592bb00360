package scan

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/trajectory"
)

func TestEachRuleFindsItsKindAndLeavesOrdinaryTextAlone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"-----BEGIN RSA PRIVATE " + "KEY-----\nMII":                                 "private_key",
		"key AKIA" + "ABCDEFGHIJKLMNOP here":                                        "aws_key",
		"ghp_" + strings.Repeat("a1", 18):                                           "github_token",
		"x = 'sk-" + strings.Repeat("Ab3", 10) + "'":                                "openai_key",
		"hf_" + strings.Repeat("aB", 17):                                            "huggingface_token",
		"postgres://user:hunter22@db/x":                                             "url_password",
		`password = "correct-horse-7"`:                                              "password",
		"write to jane.doe@mail.co.uk":                                              "email",
		"IBAN: DE89 3704 0044 0532 0130 00":                                         "iban",
		"card 4111 1111 1111 1111":                                                  "card_number",
		"call +49 (30) 1234-5678 now":                                               "phone",
		"SSN 123-45-6789":                                                           "social_security_number",
		"mean 34.65, @mean_fare[34.65], df['a@b'], 2024-01-02, +1.5":                "",
		"IBAN: DE89 3704 0044 0532 0130 01, card 4111 1111 1111 1112":               "",
		"sk-learn, hf_dataset, https://host/path?a=b, password: str, x@example.com": "",
		"0.123-45-6789 and 123-45-6789":                                             "",
	} {
		var got []string
		for _, f := range Text(text) {
			got = append(got, f.Rule)
		}
		require.Equal(t, want, strings.Join(got, ","), text)
	}
}

func benchmarks(t *testing.T) *Benchmarks {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	write("t.csv", "City,Fare\nBonn,1.50\nKöln,2\n")
	prompts := write("q.jsonl", `{"id":"1","question":"What is the mean fare that adult passengers paid in the second class of ships?\nRound to two decimals.","files":["t.csv"],"answer":[["mean_fare_second_class","34.65"],["count","12"]],"data_source":"b"}
{"id":"3","question":"Which one?","files":["t.csv"],"answer":"Central American and Caribbean Junior Championships of that year","data_source":"b"}
{"id":"2","question":"Why do fares differ?","files":["t.csv"],"answer":"Fares differ since the distance that a passenger travels decides the price of every ticket sold.","data_source":"b"}
`)
	b, err := Load(t.Context(), []sft.Benchmark{{
		Name: "b", Prompts: prompts, Format: "jsonl", DataDir: dir, Match: []string{sft.MatchQuestions, sft.MatchAnswers, sft.MatchTables},
	}})
	require.NoError(t, err)
	return b
}

func record(question, said, answer string) *sft.Record {
	return &sft.Record{Scored: &trajectory.Scored{Trajectory: trajectory.Trajectory{
		Answer:   answer,
		Messages: []trajectory.Message{{Role: "user", Content: question}, {Role: "assistant", Content: said}},
	}}}
}

func TestQuestionsAnswersAndTablesOfABenchmarkAreRecognised(t *testing.T) {
	t.Parallel()
	b := benchmarks(t)
	for _, c := range []struct {
		name, want string
		record     *sft.Record
	}{
		{"another question", "", record("What is the median fare of children in the first class of trains?", "x", "@count[12]")},
		{"the question with other words around it", "1/questions", record("Please: WHAT is the mean fare, that adult passengers paid in the second class of ships? Thanks. Give five decimals.", "x", "")},
		{"most of the question", "1/questions", record("Tell me what is the mean fare that adult passengers paid in the second class", "x", "")},
		{"half of it", "", record("What is the mean fare that adult passengers paid", "x", "")},
		{"the answers under another question", "1/answers", record("Describe the file.", "x", "@mean_fare_second_class[34.65] and @count[12]")},
		{"one of the answers", "", record("Describe the file.", "x", "@mean_fare_second_class[34.65]")},
		{"a long answer in the assistant's text", "2/answers", record("Say something.", "I think fares differ since the distance that a passenger travels decides the price of every ticket sold!", "")},
		{"a name of many words is no answer of its own", "", record("Say something.", "The Central American and Caribbean Junior Championships of that year", "")},
		{"a long answer in the question", "", record("Fares differ since the distance that a passenger travels decides the price of every ticket sold.", "x", "")},
	} {
		hit, found := b.Record(c.record)
		got := ""
		if found {
			got = hit.Item + "/" + hit.Match
		}
		require.Equal(t, c.want, got, c.name)
	}
	r := record("Describe the file.", "x", "")
	r.Scored.Trajectory.Graph.Nodes = []evidence.Node{{Kind: evidence.NodeSource, SHA256: "77"}}
	r.DataDir = t.TempDir()
	_, found := b.Record(r)
	require.False(t, found, "the file is not there to be looked at")
	b = benchmarks(t)
	require.NoError(t, os.WriteFile(filepath.Join(r.DataDir, "77"), []byte("\ufeffcity;fare\r\n Köln ;2.0\r\n\"Bonn\";1.5\r\n"), 0o644))
	hit, found := b.Record(r)
	require.True(t, found, "the same table spelt differently")
	require.Equal(t, sft.MatchTables, hit.Match)
}

func TestAFingerprintIsOfTheContentAndNotOfItsSpelling(t *testing.T) {
	t.Parallel()
	base := Fingerprint([]byte("a,b\n1,x\n2,y\n"))
	require.NotEmpty(t, base)
	var quoted strings.Builder
	w := csv.NewWriter(&quoted)
	w.UseCRLF = true
	require.NoError(t, w.WriteAll([][]string{{"A", "B"}, {"2.00", " y "}, {"1", "x"}}))
	require.Equal(t, base, Fingerprint([]byte(quoted.String())))
	for _, other := range []string{"a,b\n1,x\n2,z\n", "a,c\n1,x\n2,y\n", "a,b\n1,x\n", "b,a\nx,1\ny,2\n", "no table"} {
		require.NotEqual(t, base, Fingerprint([]byte(other)), other)
	}
}

func TestABenchmarkThatCannotBeReadIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	_, err := Load(t.Context(), []sft.Benchmark{{Name: "b", Prompts: "missing.jsonl", Format: "jsonl", Match: []string{sft.MatchQuestions}}})
	require.ErrorContains(t, err, "decontaminate[0] b: ")
	require.ErrorContains(t, err, "missing.jsonl")
}

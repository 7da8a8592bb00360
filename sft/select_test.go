package sft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/sfttest"
	"github.com/verigraph/verigraph/trajectory"
)

func TestTheFirstReasonInTheDocumentedOrderCounts(t *testing.T) {
	t.Parallel()
	half, one, none := 0.5, 1.0, 0
	yes, no := true, false
	for _, c := range []struct {
		name string
		set  func(*sft.Config, *sft.Record)
		want sft.Reason
	}{
		{"a good one", func(*sft.Config, *sft.Record) {}, ""},
		{"unscored", func(_ *sft.Config, r *sft.Record) { r.Scored.Score.Status = trajectory.ScoreUnscored }, sft.NotScored},
		{"lost for our reasons", func(_ *sft.Config, r *sft.Record) { r.Scored.Trajectory.Termination = trajectory.SandboxLost }, sft.NotScored},
		{"a finished sample", func(_ *sft.Config, r *sft.Record) {
			r.Scored, r.Finished = nil, []sft.Message{{Role: "user", Content: "q"}}
		}, sft.NoEvidence},
		{"no licence", func(_ *sft.Config, r *sft.Record) { r.Licence = "" }, sft.NoLicence},
		{"licence by data source", func(c *sft.Config, r *sft.Record) {
			r.Licence, c.Licences = "", map[string]string{"test": "MIT"}
		}, ""},
		{"not submitted", func(_ *sft.Config, r *sft.Record) { r.Scored.Trajectory.Termination = trajectory.MaxTurns }, sft.BadTermination},
		{"wrong and without reward", func(c *sft.Config, r *sft.Record) {
			c.Select.MinAccuracy, c.Select.MinReward, r.Scored.Score.Accuracy, r.Scored.Score.Reward = &one, &one, 0, 0
		}, sft.LowAccuracy},
		{"low reward", func(c *sft.Config, r *sft.Record) { c.Select.MinReward, r.Scored.Score.Reward = &half, 0.4 }, sft.LowReward},
		{"low part", func(c *sft.Config, r *sft.Record) { c.Select.MinInfer, r.Scored.Score.Infer = &half, -0.5 }, sft.LowPart},
		{"not grounded", func(c *sft.Config, r *sft.Record) {
			c.Select.MinStructural = &one
			r.Scored.Trajectory.Graph.Grounding = []evidence.ClaimGrounding{{Structural: &yes}, {Structural: &no}}
		}, sft.Structural},
		{"not replayed at all", func(c *sft.Config, r *sft.Record) {
			c.Select.MinReplayed = &half
			r.Scored.Trajectory.Graph.Grounding = []evidence.ClaimGrounding{{Replayed: &yes}, {}}
		}, sft.Replayed},
		{"a number of its own", func(c *sft.Config, r *sft.Record) {
			c.Select.MinLexical = &one
			r.Scored.Trajectory.Graph.Grounding = []evidence.ClaimGrounding{{Lexical: &no}}
		}, sft.Lexical},
		{"not entailed", func(c *sft.Config, r *sft.Record) {
			c.Select.MaxNotEntailed = &none
			r.Scored.Score.Verdicts = []trajectory.Verdict{{Kind: trajectory.Entailed}, {Kind: trajectory.NotEntailed}}
		}, sft.NotEntailed},
		{"verdicts that the input does not keep", func(c *sft.Config, r *sft.Record) { c.Select.MaxNotEntailed, r.Verdicts = &none, false }, sft.NoVerdicts},
		{"too many turns", func(c *sft.Config, _ *sft.Record) { c.Select.MaxTurns = 1 }, sft.Turns},
		{"too few turns", func(c *sft.Config, _ *sft.Record) { c.Select.MinTurns = 3 }, sft.Turns},
		{"a failed cell", func(c *sft.Config, r *sft.Record) {
			c.Select.MaxFailedCells, r.Scored.Trajectory.Turns[0].Status = &none, trajectory.CellMemory
		}, sft.Failed},
		{"tainted", func(_ *sft.Config, r *sft.Record) { r.Scored.Trajectory.Flags = []string{"tainted:exec"} }, sft.Flagged},
		{"too long", func(c *sft.Config, _ *sft.Record) { c.Select.MaxCharacters = 40 }, sft.TooManyChars},
		{"another language", func(c *sft.Config, _ *sft.Record) { c.Select.Languages = []string{"de"} }, sft.Language},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := game(2)
			g.Turns[0].Text = "<think>\nWe need to load the file and look at it, and this is the first of the steps.\n</think>\n<code_interpreter>\nx\n</code_interpreter>"
			r, _ := sfttest.Play(t, g)
			cfg := sft.Defaults()
			c.set(&cfg, &r)
			require.Equal(t, c.want, cfg.Reject(&r))
		})
	}
}

func TestEveryReasonStandsOnceInTheOrder(t *testing.T) {
	t.Parallel()
	seen := map[sft.Reason]bool{}
	for _, r := range sft.Reasons {
		require.False(t, seen[r], r)
		seen[r] = true
	}
	require.Len(t, sft.Reasons, 26)
}

func TestLanguagesAreToldByTheirWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"The mean of the column is what we need, and this will be the first step.":      "en",
		"Die Tabelle ist nicht sauber, und wir müssen die Werte mit der Spalte prüfen.": "de",
		"Nous devons lire les données et calculer la moyenne pour chaque groupe.":       "fr",
		"我们需要先读取数据文件，然后计算每一列的平均值和标准差。":                                                  "zh",
		"データを読み込んで、列の平均を計算してから、結果を確認します。":                                               "ja",
		"Сначала нужно загрузить таблицу и посмотреть на столбцы.":                      "ru",
	} {
		g := game(1)
		g.Turns[0].Text = "<think>\n" + text + "\n</think>\n<code_interpreter>\nthe = and + of\n</code_interpreter>"
		r, _ := sfttest.Play(t, g)
		for _, code := range []string{"en", "de", "fr", "zh", "ja", "ru"} {
			cfg := sft.Defaults()
			cfg.Select.Languages = []string{code}
			require.Equal(t, code == want, cfg.Reject(&r) == "", "%s as %s", text, code)
		}
	}
}

package openai

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
)

func TestOpenGradesOfOneToFiveMapToZeroToOne(t *testing.T) {
	t.Parallel()
	for grade, want := range map[string]float64{
		"1": 0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1, "5.0": 1,
		"0": -1, "6": -1, "3.5": -1, `"3"`: -1, "null": -1, "true": -1, "1e999": -1, "-1": -1, "[3]": -1,
	} {
		t.Run(grade, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, _ int, _ chatRequest) {
				say(w, `{"reasoning": "r", "content": `+grade+`, "format": 1}`, "stop")
			})
			v, err := newJudge(t, url, nil).Outcome(t.Context(), reward.OutcomeItem{Task: reward.TaskOpen, Question: "q", Rubric: "covers x", Answer: "a"})
			if want < 0 {
				require.ErrorIs(t, err, reward.ErrNoVerdict)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []reward.Axis{{Name: "content", Value: want}, {Name: "format", Value: 0}}, v.Axes)
		})
	}
}

func TestClosedAnswersAreRightOrWrongAndNothingBetween(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[string]float64{`"right"`: 1, `"wrong"`: 0, `"partially"`: -1, `"True"`: -1, "1": -1, "true": -1, `"not right"`: -1} {
		url := serve(t, func(w http.ResponseWriter, _ int, r chatRequest) {
			if strings.Contains(r.user(), "the-evidence") {
				http.Error(w, "closed answers go without evidence", http.StatusTeapot)
				return
			}
			say(w, `{"reasoning": "r", "verdict": `+verdict+`}`, "stop")
		})
		v, err := newJudge(t, url, nil).Outcome(t.Context(), reward.OutcomeItem{Task: reward.TaskClosed, Question: "q", Reference: "r", Answer: "a", Evidence: "the-evidence"})
		if want < 0 {
			require.ErrorIs(t, err, reward.ErrNoVerdict, verdict)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []reward.Axis{{Name: "correctness", Value: want}}, v.Axes)
	}
}

func TestBlockVerdictNamesAStepOfTheBlockOrNothing(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]int{"0": -1, "1": 0, "2": 1, "3": -2, "-1": -2, "1.5": -2, `"1"`: -2, "null": -2, "true": -2} {
		url := serve(t, func(w http.ResponseWriter, _ int, _ chatRequest) {
			say(w, `{"reasoning": "r", "first_error": `+at+`}`, "stop")
		})
		first, v, err := newJudge(t, url, nil).EntailsBlock(t.Context(), reward.Block{Given: []string{"g"}, Steps: []reward.Step{step, step}})
		if want == -2 {
			require.ErrorIs(t, err, reward.ErrNoVerdict, at)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, first)
		require.Equal(t, "judge-model", v.Judge)
		require.Empty(t, v.Kind, "the scorer gives each step its kind")
	}
}

func TestUnitsAndWholeSolutionsAreChecked(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ int, r chatRequest) {
		if strings.Contains(r.user(), `"units"`) {
			say(w, `{"reasoning": "r", "first_error": 2}`, "stop")
			return
		}
		verdict := "correct"
		if strings.Contains(r.user(), "1 + 1 = 3") {
			verdict = "incorrect"
		}
		say(w, fmt.Sprintf(`{"reasoning": "r", "verdict": %q}`, verdict), "stop")
	})
	j := newJudge(t, url, nil)
	for unit, want := range map[string]bool{"1 + 1 = 2": true, "1 + 1 = 3": false} {
		ok, err := j.Correct(t.Context(), "add", []string{"earlier"}, unit)
		require.NoError(t, err)
		require.Equal(t, want, ok)
	}
	first, err := j.FirstError(t.Context(), "add", []string{"a", "b"})
	require.NoError(t, err)
	require.Equal(t, 1, first)
	_, err = j.FirstError(t.Context(), "add", []string{"a"})
	require.ErrorIs(t, err, reward.ErrNoVerdict, "unit 2 of 1")
}

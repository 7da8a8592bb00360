package evidence

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGraphsOfASharedTaskReadItsQuestionOnceAndJudgeAlike(t *testing.T) {
	task := Task{Question: "Use 0.25 as the cut; there are 12 tables.", Sources: []Source{{Name: "a.csv"}}}
	shared := task.Shared()
	bind := func(task Task) (new []string) {
		g := New(task, Config{})
		new = append(new, allRules.newNumbers("12 and 77", nil, g.task.given.excused())...)
		return append(new, givenRules.newNumbers("0.25 and 0.3", nil, g.task.given.bound())...)
	}
	want := bind(task)
	require.Equal(t, []string{"77", "0.3"}, want)
	var graphs sync.WaitGroup
	for range 8 {
		graphs.Go(func() {
			if got := bind(shared); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
	graphs.Wait()
	require.Same(t, New(shared, Config{}).task.given.excused(), New(shared, Config{}).task.given.excused())
	long := Task{Question: longQuestion()}.Shared()
	New(long, Config{}).task.given.excused()
	require.Less(t, testing.AllocsPerRun(10, func() { New(long, Config{}).task.given.excused() }), 30.0, "a graph of a long question is as cheap as one of a short question")
}

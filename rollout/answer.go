package rollout

import (
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

const (
	codeOpen    = "<code_interpreter>"
	answerOpen  = "<answer>"
	answerClose = "</answer>"
)

// answerIn is the first complete answer after the reasoning. Nothing inside reasoning that is still open is one.
func answerIn(text string) (string, bool) {
	if at := strings.LastIndex(text, "</think>"); at >= 0 {
		text = text[at+len("</think>"):]
	}
	if strings.Contains(text, "<think>") {
		return "", false
	}
	_, text, found := strings.Cut(text, answerOpen)
	answer, _, closed := strings.Cut(text, answerClose)
	answer = strings.TrimSpace(answer)
	return answer, found && closed && answer != ""
}

// answerNode is the id of an answer in words.
const answerNode = "answer"

// inWords makes a baseline's answer the one submitted claim of the graph. It rests on nothing, so it is
// never structurally grounded; whatever the cells may have bound or submitted does not count.
func inWords(t *trajectory.Trajectory, agent Agent, answer string) {
	t.Agent, t.Answer = string(agent), answer
	g := &t.Graph
	g.Submitted, g.SubmitTurn, g.Grounding = []string{}, -1, []evidence.ClaimGrounding{}
	if answer == "" {
		return
	}
	g.Nodes = append(g.Nodes, evidence.Node{ID: answerNode, Kind: evidence.NodeAtomic, Turn: len(t.Turns) - 1, Text: answer})
	g.Submitted, g.SubmitTurn = []string{answerNode}, len(t.Turns)-1
	g.Grounding = g.ComputeGrounding()
}

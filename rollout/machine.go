package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/trajectory"
)

// maxResumes bounds how often one turn is resumed after an abort or inside open reasoning.
const maxResumes = 256

// Step is what a trajectory needs next: Generate, RunCell or End.
type Step interface{ step() }

// Generate asks for a policy call.
type Generate struct {
	Turn int
	// Prompt is the whole context, ids of this turn that were sampled before included. It must not
	// be changed.
	Prompt    []int32
	MaxTokens int
	// Sampled is how many ids of this turn were sampled before, by calls that were cut short.
	Sampled int
}

// RunCell asks for a cell to be run in the session.
type RunCell struct {
	Turn int
	Code string
}

// End says that the trajectory is over. Err is the failure where the reason is ours.
type End struct {
	Reason trajectory.Termination
	Err    error
}

func (Generate) step() {}
func (RunCell) step()  {}
func (End) step()      {}

// Machine is one trajectory without any I/O: it says what is needed next and takes what came of it.
// A driver calls Next, does what the step says, and answers with Sampled or Failed after Generate
// and with Observed after RunCell; once Next gives End it always gives that End.
//
// Invariants: the ids of every prompt that it asks for begin with those of the one before, within a
// segment; the parse depends on the turn's ids alone and not on how calls split them; nothing after
// the closing code tag, or after the end of the turn, is kept.
type Machine struct {
	cfg  Config
	tok  Tokenizer
	chat Chat

	prompt   []int32
	log      *tokenLog
	done     []trajectory.Segment
	history  []pastTurn
	turns    []trajectory.Turn
	messages []trajectory.Message

	turn    int
	current turnTokens
	resumes int
	finish  string
	seconds float64
	closed  bool
	// answer is what a baseline agent said in words.
	answer string
	next   Step
}

// pastTurn is a finished turn as a compressed context repeats it.
type pastTurn struct {
	ids    []int32
	closed bool
}

// NewMachine starts a trajectory whose first context is prompt.
func NewMachine(cfg Config, tok Tokenizer, chat Chat, prompt []int32) *Machine {
	log := newTokenLog(prompt)
	m := &Machine{cfg: cfg, tok: tok, chat: chat, prompt: log.ids[:len(prompt):len(prompt)], log: log}
	if len(prompt) == 0 || len(prompt) > cfg.MaxPromptTokens {
		m.next = End{trajectory.ContextFull, fmt.Errorf("prompt has %d tokens, the limit is %d", len(prompt), cfg.MaxPromptTokens)}
		return m
	}
	m.ask()
	return m
}

// Next says what is needed now.
func (m *Machine) Next() Step { return m.next }

// Stop ends the trajectory from outside.
func (m *Machine) Stop(reason trajectory.Termination, err error) {
	if _, over := m.next.(End); !over {
		m.next = End{reason, err}
	}
}

// ask plans the next call of the turn, or ends it at a limit.
func (m *Machine) ask() {
	budget, cut := m.budget()
	switch {
	case budget < 1:
		m.cut(cut)
	case m.resumes == maxResumes:
		m.next = End{trajectory.PolicyUnavailable, fmt.Errorf("policy: turn %d was resumed %d times", m.turn, maxResumes)}
	default:
		prompt := m.log.context()
		if m.current.len() > 0 {
			prompt = slices.Concat(prompt, m.current.ids())
		}
		m.next = Generate{Turn: m.turn, Prompt: prompt, MaxTokens: budget, Sampled: m.current.len()}
	}
}

// budget is what the next call may sample, and which limit is the tightest.
func (m *Machine) budget() (int, trajectory.Termination) {
	best, reason := m.cfg.MaxTurnTokens-m.current.len(), trajectory.TurnTruncated
	if room, why := m.room(m.log.responseLen() + m.current.len()); room < best {
		best, reason = room, why
	}
	return best, reason
}

// room is how many ids still fit after a response of n ids, and which limit says so.
func (m *Machine) room(n int) (int, trajectory.Termination) {
	room, reason := m.cfg.MaxResponseTokens-n, trajectory.MaxTokens
	if m.cfg.MaxContext > 0 {
		if r := m.cfg.MaxContext - len(m.prompt) - n; r < room {
			room, reason = r, trajectory.ContextFull
		}
	}
	return room, reason
}

// Sampled takes the answer of a policy call. version and versionEnd are the policy's versions when
// the call was sent and when its answer came.
func (m *Machine) Sampled(c policy.Completion, version, versionEnd int64) {
	if _, ok := m.next.(Generate); !ok {
		return
	}
	m.seconds += c.Duration.Seconds()
	m.finish = c.Finish
	m.resumes++
	m.current.add(sampled{ids: c.IDs, logProbs: c.LogProbs, version: version, versionEnd: max(version, versionEnd)})
	m.settle(c)
}

// settle decides whether the turn is over.
func (m *Machine) settle(c policy.Completion) {
	ids := m.current.ids()
	scan := policy.ScanTurn(m.tok, ids, codeClose)
	// An engine that runs past the end of the turn (speculative decoding, an ignored stop id) adds
	// what would be read as somebody else's turn.
	if end := slices.Index(ids, m.chat.EndOfTurn()); end >= 0 && end < scan.N {
		m.current.trim(end + 1)
		m.closed = true
		m.prose(ids[:end+1])
		return
	}
	switch {
	case scan.Found:
		m.current.trim(scan.N)
		m.block(ids[:scan.N], scan)
	case c.Finish == "length":
		_, reason := m.budget()
		m.cut(reason)
	case c.Finish == "abort", c.Finish == "stop" && c.StopString == codeClose && scan.ThinkOpen:
		m.ask() // the turn goes on from the same ids
	case c.Finish == "stop" && c.StopString == codeClose:
		m.next = End{trajectory.PolicyUnavailable, &policy.Error{
			Outcome: policy.Rejected, Err: fmt.Errorf("the server stopped at %s, which its token ids do not hold", codeClose),
		}}
	case c.Finish == "stop":
		m.prose(ids)
	default: // the engine ended the turn on its own (repetition): nothing of it runs
		m.cut(trajectory.TurnTruncated)
	}
}

// block finishes a turn that closes a code block, or holds a stray closing tag.
func (m *Machine) block(ids []int32, scan policy.Scan) {
	m.record(ids)
	if !scan.HasCode {
		m.next = End{Reason: trajectory.NoSubmission}
		return
	}
	code := clean(valid(m.tok.Decode(ids)[scan.CodeStart:scan.CodeEnd]))
	before := m.tok.Decode(ids)[:scan.CodeStart]
	if m.answers(strings.TrimSuffix(valid(before), codeOpen)) || m.cfg.Agent == AgentDirect {
		return
	}
	t := &m.turns[m.turn]
	t.Code, t.HasCode = code, true
	m.next = RunCell{Turn: m.turn, Code: code}
}

// prose finishes a turn without a closed code block: no code and no submission.
func (m *Machine) prose(ids []int32) {
	m.record(ids)
	m.answers(m.text(ids))
}

// answers ends the trajectory: with a baseline's answer in words, if there is one, else without submission.
func (m *Machine) answers(text string) bool {
	m.next = End{Reason: trajectory.NoSubmission}
	if m.cfg.Agent == AgentVeriGraph {
		return false
	}
	answer, ok := answerIn(text)
	if ok {
		m.answer, m.next = answer, End{Reason: trajectory.Submitted}
	}
	return ok
}

// cut finishes a turn at a limit; nothing of it runs.
func (m *Machine) cut(reason trajectory.Termination) {
	m.record(m.current.ids())
	m.next = End{Reason: reason}
}

// record appends the finished turn to the token log and to the readable record.
func (m *Machine) record(ids []int32) {
	for _, p := range m.current.pieces {
		m.log.appendSampled(m.turn, p)
	}
	text := m.text(ids)
	m.turns = append(m.turns, trajectory.Turn{
		Text: text, FinishReason: m.finish, SampledIDs: len(ids), GenerateS: m.seconds,
	})
	m.messages = append(m.messages, trajectory.Message{Role: "assistant", Content: text})
	m.history = append(m.history, pastTurn{ids: ids, closed: m.closed})
}

// Failed takes a policy call that brought no answer. The context limit is the policy's own end once
// anything was sampled.
func (m *Machine) Failed(err error) {
	if _, ok := m.next.(Generate); !ok {
		return
	}
	var pe *policy.Error
	if !errors.As(err, &pe) {
		m.next = End{trajectory.Canceled, err}
		return
	}
	switch {
	case pe.Outcome != policy.ContextFull:
		m.next = End{trajectory.PolicyUnavailable, err}
	case m.current.len() > 0 || m.log.sampledAny() || len(m.done) > 0:
		m.cut(trajectory.ContextFull)
	default:
		m.next = End{trajectory.ContextFull, err}
	}
}

// Observed takes the observation of a cell; submitted says that the graph holds a submission.
func (m *Machine) Observed(observation string, submitted bool) {
	if _, ok := m.next.(RunCell); !ok {
		return
	}
	switch {
	case submitted:
		m.next = End{Reason: trajectory.Submitted}
		return
	case m.turn+1 == m.cfg.MaxTurns:
		m.next = End{Reason: trajectory.MaxTurns}
		return
	}
	delta := m.chat.Delta(m.closed, observation)
	if reason := m.extend(delta); reason != "" {
		m.next = End{Reason: reason} // the row ends with the sampled turn
		return
	}
	m.messages = append(m.messages, trajectory.Message{Role: "user", Content: observation})
	m.turn++
	m.current, m.resumes, m.finish, m.seconds, m.closed = turnTokens{}, 0, "", 0, false
	m.ask()
}

// extend appends an observation, in a new segment where the context has to be compressed for it;
// it gives the reason to end where there is no room for it and one more token.
func (m *Machine) extend(delta []int32) trajectory.Termination {
	room, reason := m.room(m.log.responseLen() + len(delta))
	if m.cfg.Context == ContextCompress && room < m.reserve() && m.compress(delta) {
		return ""
	}
	if room < 1 {
		return reason
	}
	m.log.appendMasked(trajectory.SpanObservation, m.turn, delta)
	return ""
}

// text is the readable form of ids: valid UTF-8, the end-of-turn marker left out.
func (m *Machine) text(ids []int32) string {
	if n := len(ids); n > 0 && ids[n-1] == m.chat.EndOfTurn() {
		ids = ids[:n-1]
	}
	return valid(m.tok.Decode(ids))
}

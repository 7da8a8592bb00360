package rollout

import "github.com/verigraph/verigraph/trajectory"

// OmittedObservation stands where an old observation was in a compressed context.
const OmittedObservation = "<tool_response>\n(omitted: an earlier observation)\n</tool_response>"

// reserve is the room for a turn under which the context is compressed: a whole turn, but no more
// than a quarter of what a segment can hold.
func (m *Machine) reserve() int {
	all, _ := m.room(0)
	return min(m.cfg.MaxTurnTokens, all/4)
}

// compress begins a new segment whose context is the prompt, the sampled ids of all turns exactly
// as they were, and of the observations only the newest. All of it but the prompt stands in the
// response with mask 0, so that no prompt outgrows its limit. It reports false, with nothing
// changed, where that frees no room or leaves none to sample in.
func (m *Machine) compress(delta []int32) bool {
	var kept []int32
	last := len(m.history) - 1
	for i, past := range m.history {
		kept = append(kept, past.ids...)
		if i < last {
			kept = append(kept, m.chat.Delta(past.closed, OmittedObservation)...)
		}
	}
	total := len(kept) + len(delta)
	if room, _ := m.room(total); room < 1 || total >= m.log.responseLen()+len(delta) {
		return false
	}
	m.closeSegment()
	m.log = newTokenLog(m.prompt)
	m.log.appendMasked(trajectory.SpanHistory, m.turn, kept)
	m.log.appendMasked(trajectory.SpanObservation, m.turn, delta)
	return true
}

// closeSegment puts the log away. A segment without a sampled token is no row.
func (m *Machine) closeSegment() {
	if seg, ok := m.log.segment(); ok {
		m.done = append(m.done, seg)
	}
}

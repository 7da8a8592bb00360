package leader

// History is what the two logs of a run say, booked as it is read, so that a server that stands by can lead at once
// however long the run is. The logs are merged by what an entry says of the other: a ledger entry names the batch that
// was being filled, so that the batches before it come first where the order matters. However the entries were cut
// into calls of Add, the books are the same.
type History struct {
	books   *books
	events  []Event       // that name a batch which was not read yet, and those after
	batches []BatchRecord // that no event named so far
}

// NewHistory begins with the logs' entries, which may be none.
func NewHistory(events []Event, batches []BatchRecord) *History {
	h := &History{books: newBooks()}
	h.Add(events, batches)
	return h
}

// Add books further entries, of either log in order.
func (h *History) Add(events []Event, batches []BatchRecord) {
	h.events, h.batches = append(h.events, events...), append(h.batches, batches...)
	for len(h.events) > 0 {
		e := h.events[0]
		if e.ordered() {
			h.bookBefore(e.Sequence)
			if h.books.next() < e.Sequence { // the other log is read later, or from a copy that is behind
				return
			}
		}
		h.books.event(e)
		h.events = h.events[1:]
	}
	h.events = nil
}

func (h *History) bookBefore(sequence int64) {
	for len(h.batches) > 0 && h.batches[0].Sequence < sequence {
		h.books.batch(h.batches[0])
		h.batches = h.batches[1:]
	}
}

// end books what is left, once both logs are known to be read whole.
func (h *History) end() *books {
	for _, e := range h.events {
		if e.ordered() {
			h.bookBefore(e.Sequence)
		}
		h.books.event(e)
	}
	for _, r := range h.batches {
		h.books.batch(r)
	}
	h.events, h.batches = nil, nil
	return h.books
}

// ordered: the batches before it come first.
func (e Event) ordered() bool {
	return e.Kind == Restored || e.Kind == Committed || e.Kind == PolicySet
}

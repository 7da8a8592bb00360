package task

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// maxSlug bounds the prompt part of a dispatch id, so that ids stay usable as subject tokens and file names.
const maxSlug = 80

// Slug renders a prompt id as a token safe in NATS subjects, HTTP headers, file names and verl
// uids: letters and digits stay, any other byte becomes ~XX (so there is no underscore, dot,
// slash or blank). Ids that would grow past 80 bytes are replaced by a digest.
func Slug(promptID string) string {
	var b strings.Builder
	for i := 0; i < len(promptID); i++ {
		c := promptID[i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "~%02X", c)
	}
	if b.Len() == 0 || b.Len() > maxSlug {
		sum := sha256.Sum256([]byte(promptID))
		return "h" + hex.EncodeToString(sum[:16])
	}
	return b.String()
}

// NewDispatchID names the count-th dispatch (from 0) of a prompt.
func NewDispatchID(promptID string, count int) string {
	return Slug(promptID) + "-" + strconv.Itoa(count)
}

// RolloutID is the identity of one rollout: run/dispatch/sample.
type RolloutID struct {
	Run      string `json:"run"`
	Dispatch string `json:"dispatch"`
	Sample   int    `json:"sample"`
}

func (id RolloutID) String() string {
	return id.Run + "/" + id.Dispatch + "/" + strconv.Itoa(id.Sample)
}

// RequestID is the X-Request-Id of one policy call: run/dispatch/sample.attempt.turn.
func (id RolloutID) RequestID(attempt, turn int) string {
	return fmt.Sprintf("%s.%d.%d", id, attempt, turn)
}

// ParseRequestID splits run/dispatch/sample.attempt.turn. The run may hold slashes.
func ParseRequestID(s string) (id RolloutID, attempt, turn int, err error) {
	bad := func() (RolloutID, int, int, error) {
		return RolloutID{}, 0, 0, fmt.Errorf("request id %q: want run/dispatch/sample.attempt.turn", s)
	}
	tail := strings.LastIndexByte(s, '/')
	if tail < 0 {
		return bad()
	}
	mid := strings.LastIndexByte(s[:tail], '/')
	if mid < 0 {
		return bad()
	}
	parts := strings.Split(s[tail+1:], ".")
	if len(parts) != 3 {
		return bad()
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 {
			return bad()
		}
		n[i] = v
	}
	return RolloutID{Run: s[:mid], Dispatch: s[mid+1 : tail], Sample: n[0]}, n[1], n[2], nil
}

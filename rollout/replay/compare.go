package replay

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// volatile are the tokens that a run may change without anybody's doing: addresses, paths of the
// session's own directories, and readings of a clock.
var volatile = regexp.MustCompile(strings.Join([]string{
	`0x[0-9a-fA-F]{6,16}`,
	`/(?:tmp|scratch|proc/\d+)(?:/[\w.+-]+)+`,
	`\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?`,
	`\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b`,
	`\b1[5-9]\d{8}(?:\.\d+)?\b`,
}, "|"))

// SameText compares a stored text with a replayed one. Addresses and paths of the session compare as
// equal. A date or time does so only if the replayed one is a reading of the clock while the replay
// ran: a date of the data never is, so a forged one is found.
func SameText(stored, replayed string, began, ended time.Time) bool {
	if stored == replayed {
		return true
	}
	a, b := split(stored), split(replayed)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		if i%2 == 0 || shape(a[i]) != shape(b[i]) {
			return false
		}
		if shape(a[i]) == shapeClock && !readingOf(b[i], began, ended) {
			return false
		}
	}
	return true
}

// split returns the text between the volatile tokens at even places and the tokens at odd ones.
func split(s string) []string {
	var out []string
	from := 0
	for _, at := range volatile.FindAllStringIndex(s, -1) {
		out = append(out, s[from:at[0]], s[at[0]:at[1]])
		from = at[1]
	}
	return append(out, s[from:])
}

type tokenShape int

const (
	shapeAddress tokenShape = iota
	shapePath
	shapeClock
)

func shape(token string) tokenShape {
	switch {
	case strings.HasPrefix(token, "0x"):
		return shapeAddress
	case strings.HasPrefix(token, "/"):
		return shapePath
	}
	return shapeClock
}

// clockSlack covers the rounding of a reading to minutes, and a session whose clock started early.
const clockSlack = time.Minute

// readingOf reports whether a token is a time between began and ended, in UTC or in local time.
func readingOf(token string, began, ended time.Time) bool {
	began, ended = began.Add(-clockSlack), ended.Add(clockSlack)
	within := func(t time.Time) bool { return !t.Before(began) && !t.After(ended) }
	if seconds, err := strconv.ParseFloat(token, 64); err == nil {
		return within(time.Unix(int64(seconds), 0))
	}
	token = strings.Replace(strings.Replace(token, "T", " ", 1), ",", ".", 1)
	for _, zone := range []*time.Location{time.UTC, time.Local} {
		from, to := began.In(zone), ended.In(zone)
		for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00"} {
			if t, err := time.ParseInLocation(layout, token, zone); err == nil && within(t) {
				return true
			}
		}
		if token == from.Format(time.DateOnly) || token == to.Format(time.DateOnly) {
			return true
		}
		if t, err := time.ParseInLocation("2006-01-02 15:04:05", from.Format(time.DateOnly)+" "+pad(token), zone); err == nil && (within(t) || within(t.AddDate(0, 0, 1))) {
			return true
		}
	}
	return false
}

// pad writes 9:05:00 as 09:05:00.
func pad(clock string) string {
	if strings.IndexByte(clock, ':') == 1 {
		return "0" + clock
	}
	return clock
}

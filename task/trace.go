package task

import "regexp"

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-([0-9a-f]{2})$`)

// TraceID is the trace id of a W3C traceparent, 32 hexadecimal digits, and whether the trace is kept.
func TraceID(parent string) (id string, sampled bool) {
	m := traceparent.FindStringSubmatch(parent)
	if m == nil {
		return "", false
	}
	flags := m[2][1]
	digit := flags - '0'
	if flags >= 'a' {
		digit = flags - 'a' + 10
	}
	return m[1], digit&1 == 1
}

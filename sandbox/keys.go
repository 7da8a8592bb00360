package sandbox

// plainKeys checks that a JSON text that has been decoded could mean one thing only: encoding/json takes a key in
// another case or written with escapes for the field's own, and of a key that comes twice the last. Our
// frames hold no maps, so that every key is a field's name: lower-case letters and _, each once in its object.
func plainKeys(body []byte) error {
	var open []map[string]bool // the keys of each object that is not closed; nil for an array
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{':
			open = append(open, map[string]bool{})
		case '[':
			open = append(open, nil)
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			from := i + 1
			for i++; body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
			if !isKey(body[i+1:]) {
				continue
			}
			key := string(body[from:i])
			for _, c := range []byte(key) {
				if (c < 'a' || c > 'z') && c != '_' {
					return badFrame("key %.40q", key)
				}
			}
			seen := open[len(open)-1]
			if seen[key] {
				return badFrame("key %.40q twice", key)
			}
			seen[key] = true
		}
	}
	return nil
}

// isKey reports whether a string that rest follows was a key.
func isKey(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == ':'
		}
	}
	return false
}

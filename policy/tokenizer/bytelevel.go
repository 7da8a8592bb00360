package tokenizer

import "fmt"

// The byte-level alphabet writes each byte as one printable character: printable Latin-1 bytes
// stand for themselves, the other 68 are numbered from U+0100 on (GPT-2's table).
var byteOfRune = func() map[rune]byte {
	m := make(map[rune]byte, 256)
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if r >= '!' && r <= '~' || r >= 0xA1 && r <= 0xAC || r >= 0xAE && r <= 0xFF {
			m[r] = byte(b)
			continue
		}
		m[next] = byte(b)
		next++
	}
	return m
}()

func fromByteLevel(text string) ([]byte, error) {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		b, ok := byteOfRune[r]
		if !ok {
			return nil, fmt.Errorf("%q is not in the byte-level alphabet", r)
		}
		out = append(out, b)
	}
	return out, nil
}

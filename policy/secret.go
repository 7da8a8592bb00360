package policy

import "fmt"

// Secret is a key that never reaches a log, an error or a dump of the configuration.
type Secret string

const redacted = "[redacted]"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format keeps every verb from printing it.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText keeps encoders from writing it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads it from a configuration.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}

// Reveal gives the key itself.
func (s Secret) Reveal() string { return string(s) }

package policy

import "fmt"

// Secret is a key that never reaches a log, an error or a dump of the configuration. The value
// stands behind a pointer because fmt ignores the methods of unexported fields: printing a struct
// that holds a Secret somewhere shows an address, not the key.
type Secret struct{ value *string }

const redacted = "[redacted]"

// NewSecret wraps a key; an empty one is the zero Secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// Reveal gives the key itself.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether there is no key.
func (s Secret) IsZero() bool { return s.value == nil }

func (s Secret) String() string {
	if s.IsZero() {
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
	*s = NewSecret(string(text))
	return nil
}

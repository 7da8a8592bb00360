// Package scan looks for what must not be trained on: secrets, personal data, and benchmark items.
//
// Invariants: a finding names a rule and never repeats what it found; a rule begins at a literal, so that the
// look costs little on text that holds none.
package scan

import (
	"regexp"
	"strings"
)

// Class of a rule.
type Class string

// Classes.
const (
	Secrets      Class = "secret"
	PersonalData Class = "personal"
)

// rule finds one kind of text: around every place of a literal the expression is tried, and valid, where
// set, has the last word.
type rule struct {
	name     string
	class    Class
	literals []string
	// before is how far the match may begin before the literal, and after how far it may go on.
	before, after int
	match         *regexp.Regexp
	valid         func(string) bool
}

func secret(name string, match string, literals ...string) rule {
	return rule{name: name, class: Secrets, literals: literals, before: 1, after: 300, match: regexp.MustCompile(match)}
}

var rules = []rule{
	secret("private_key", `-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----`, "-----BEGIN "),
	secret("aws_key", `\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`, "AKIA", "ASIA"),
	secret("github_token", `\bgh[pousr]_[A-Za-z0-9]{36,}`, "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
	secret("github_token", `\bgithub_pat_[A-Za-z0-9_]{22,}`, "github_pat_"),
	secret("openai_key", `\bsk-(?:proj-|ant-|svcacct-)?[A-Za-z0-9_-]{24,}`, "sk-"),
	secret("huggingface_token", `\bhf_[A-Za-z0-9]{30,}`, "hf_"),
	secret("slack_token", `\bxox[abprs]-[A-Za-z0-9-]{10,}`, "xox"),
	secret("google_key", `\bAIza[0-9A-Za-z_-]{35}`, "AIza"),
	secret("stripe_key", `\b[rs]k_live_[0-9A-Za-z]{20,}`, "k_live_"),
	secret("json_web_token", `\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`, "eyJ"),
	{
		name: "url_password", class: Secrets, literals: []string{"://"}, before: 12, after: 200,
		match: regexp.MustCompile(`[a-z][a-z0-9+.-]*://[^\s/:@"']+:[^\s/@"']{3,}@[A-Za-z0-9.-]+`),
	},
	{
		name: "password", class: Secrets, literals: []string{"assword", "ecret", "api_key", "apikey", "access_token", "API_KEY", "ASSWORD"}, before: 24, after: 120,
		match: regexp.MustCompile(`(?i)(?:password|passwd|client_secret|secret_key|api_?key|access_token)["']?\s*[:=]\s*["']([^"'\s]{8,})["']`),
		valid: func(s string) bool { return strings.ContainsAny(s, "0123456789") },
	},
	{
		name: "email", class: PersonalData, literals: []string{"@"}, before: 64, after: 80,
		match: regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b`),
		valid: notExample,
	},
	{
		name: "iban", class: PersonalData, literals: []string{"IBAN", "iban"}, before: 0, after: 48,
		match: regexp.MustCompile(`\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b`), valid: validIBAN,
	},
	{
		name: "card_number", class: PersonalData, literals: []string{"card", "Card", "CARD", "visa", "Visa"}, before: 0, after: 60,
		match: regexp.MustCompile(`\b[3-6][0-9]{3}[ -]?[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{1,7}\b`), valid: luhn,
	},
	{
		name: "phone", class: PersonalData, literals: []string{"+"}, before: 0, after: 24,
		match: regexp.MustCompile(`^\+[1-9][0-9]{0,2}[ .-]?\(?[0-9]{2,4}\)?[ .-][0-9]{3,4}[ .-]?[0-9]{3,5}\b`),
	},
	{
		name: "social_security_number", class: PersonalData, literals: []string{"SSN", "ssn", "ocial security", "ocial Security"}, before: 0, after: 60,
		match: regexp.MustCompile(`\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b`),
	},
}

// Finding is a rule that held.
type Finding struct {
	Class Class
	Rule  string
}

// Text gives each rule that holds somewhere in the text, once.
func Text(text string) []Finding {
	var out []Finding
	for i := range rules {
		r := &rules[i]
		if r.holds(text) && !has(out, r.name) {
			out = append(out, Finding{r.class, r.name})
		}
	}
	return out
}

func has(found []Finding, name string) bool {
	for _, f := range found {
		if f.Rule == name {
			return true
		}
	}
	return false
}

func (r *rule) holds(text string) bool {
	for _, literal := range r.literals {
		for at := 0; ; {
			i := strings.Index(text[at:], literal)
			if i < 0 {
				break
			}
			at += i
			from, to := max(at-r.before, 0), min(at+len(literal)+r.after, len(text))
			for _, m := range r.match.FindAllString(text[from:to], -1) {
				if r.valid == nil || r.valid(m) {
					return true
				}
			}
			at += len(literal)
		}
	}
	return false
}

// notExample leaves out addresses that exist for documentation.
func notExample(s string) bool {
	s = strings.ToLower(s)
	for _, end := range []string{"@example.com", "@example.org", "@example.net", ".example", "@localhost.local"} {
		if strings.HasSuffix(s, end) {
			return false
		}
	}
	return true
}

func luhn(s string) bool {
	sum, n := 0, 0
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] < '0' || s[i] > '9' {
			continue
		}
		d := int(s[i] - '0')
		if n%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		n++
	}
	return n >= 13 && n <= 19 && sum%10 == 0
}

// validIBAN checks the digits by ISO 13616: modulo 97 is 1.
func validIBAN(s string) bool {
	s = strings.ReplaceAll(s, " ", "")
	if len(s) < 15 || len(s) > 34 {
		return false
	}
	rest := 0
	for _, c := range s[4:] + s[:4] {
		switch {
		case c >= '0' && c <= '9':
			rest = (rest*10 + int(c-'0')) % 97
		case c >= 'A' && c <= 'Z':
			rest = (rest*100 + int(c-'A') + 10) % 97
		default:
			return false
		}
	}
	return rest == 1
}

package viewer

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Guard decides who may read. Without a token only the loopback interface may be listened on; see Listen.
type Guard struct {
	// Token is asked for when it is not empty.
	Token Token
	// Hosts are names under which the server is reached, beside IP addresses and localhost.
	Hosts []string
}

// Token is a secret that no format verb and no encoder prints.
type Token string

func (Token) String() string { return "[redacted]" }

// GoString implements fmt.GoStringer.
func (Token) GoString() string { return "[redacted]" }

// MarshalText keeps encoders from writing it.
func (Token) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// ErrOpen says that a run would be readable for everybody who reaches the address.
var ErrOpen = errors.New("viewer: an address beyond this machine needs a token")

// Listen checks an address before it is listened on.
func (g Guard) Listen(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if g.Token != "" || host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return nil
	}
	return ErrOpen
}

// policy is the content security policy: nothing from elsewhere, no inline script or style, no markup made
// from text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Wrap guards a handler.
func (g Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			h.Set(name, value)
		}
		switch {
		case !g.knows(req.Host):
			// A foreign name that resolves to this machine is how a web site reads from it (DNS rebinding).
			http.Error(w, "this name of the server is not allowed; see --host", http.StatusMisdirectedRequest)
		case req.Method != http.MethodGet && req.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the viewer only reads", http.StatusMethodNotAllowed)
		case req.Header.Get("Sec-Fetch-Site") == "cross-site" && req.Header.Get("Sec-Fetch-Mode") != "navigate":
			http.Error(w, "asked by another site", http.StatusForbidden)
		case g.Token == "" || g.holds(req):
			next.ServeHTTP(w, req)
		case g.Token.equals(req.URL.Query().Get("token")):
			g.admit(w, req)
		default:
			http.Error(w, "a token is needed: open the address that the viewer printed, or send Authorization: Bearer TOKEN", http.StatusUnauthorized)
		}
	})
}

func (g Guard) knows(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true // an address can't be rebound
	}
	return strings.EqualFold(host, "localhost") || slices.ContainsFunc(g.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// admit puts the token into a cookie and takes it out of the address bar.
func (g Guard) admit(w http.ResponseWriter, req *http.Request) {
	http.SetCookie(w, &http.Cookie{
		Name: g.cookieName(), Value: g.cookieValue(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: req.TLS != nil,
	})
	w.Header().Set("Location", "./") // relative, so that it also holds where the viewer is mounted below a path
	w.WriteHeader(http.StatusSeeOther)
}

func (g Guard) holds(req *http.Request) bool {
	if scheme, given, _ := strings.Cut(req.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "bearer") && g.Token.equals(given) {
		return true
	}
	c, err := req.Cookie(g.cookieName())
	return err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(g.cookieValue())) == 1
}

// The cookie holds a digest, so that it can't be used as the token elsewhere; its name differs by token,
// since browsers share cookies between the ports of a machine.
func (g Guard) cookieValue() string { return g.mac("cookie") }

func (g Guard) cookieName() string { return "verigraph_" + g.mac("name")[:12] }

func (g Guard) mac(of string) string {
	m := hmac.New(sha256.New, []byte(g.Token))
	m.Write([]byte(of))
	return hex.EncodeToString(m.Sum(nil))
}

// equals takes the same time for every guess; hashing hides the length too.
func (t Token) equals(given string) bool {
	want, got := sha256.Sum256([]byte(t)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"
)

// Fault is one way in which a policy server, or what stands before it, misbehaves.
type Fault string

// Faults. Those that change an answer change nothing else of it.
const (
	NoFault           Fault = ""
	IgnoresTokenIDs   Fault = "ignored return_token_ids"
	NoLogprobs        Fault = "logprobs null"
	ShortLogprobs     Fault = "a log-prob short"
	ClampedLogprob    Fault = "a clamped log-prob"
	WrongEcho         Fault = "another prompt echoed"
	WrongUsage        Fault = "usage that doesn't agree"
	WrongPromptUsage  Fault = "usage of another prompt"
	AbortPartial      Fault = "abort with half of the ids"
	AbortEmpty        Fault = "abort without ids"
	VersionFlip       Fault = "weights updated inside the call"
	ContextLimit      Fault = "400 at the context limit"
	TooMany           Fault = "429"
	TooManyWait       Fault = "429 with Retry-After"
	BadGateway        Fault = "502 with HTML"
	Unavailable       Fault = "503"
	UnavailableWait   Fault = "503 with Retry-After"
	EngineDead        Fault = "500"
	HTMLPage          Fault = "200 with HTML"
	ErrorUnder200     Fault = "200 with an error object"
	FlatErrorUnder200 Fault = "200 with SGLang's error"
	StringError       Fault = "401 with a string"
	DropBefore        Fault = "connection closed before the answer"
	DropInside        Fault = "connection closed inside the answer"
	Trickle           Fault = "a blank now and then, for ever"
	Silence           Fault = "no answer, ever"
	TruncatedJSON     Fault = "JSON that ends early"
	EmptyBody         Fault = "200 with nothing"
)

// Faulty is a Server behind which completions go wrong as Pick says; all other routes work. Pick
// gets the number of the completion call, from 0, and its X-Request-Id.
type Faulty struct {
	Server *Server
	Pick   func(call int, requestID string) Fault
	calls  atomic.Int64
}

func (f *Faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/completions" {
		f.Server.ServeHTTP(w, r)
		return
	}
	fault := f.Pick(int(f.calls.Add(1)-1), r.Header.Get("X-Request-Id"))
	answer := httptest.NewRecorder()
	f.Server.ServeHTTP(answer, r) // reads the body, without which the server can't see the client leave
	body := answer.Body.Bytes()
	if answer.Code == http.StatusOK {
		body = breakAnswer(fault, body)
	}
	if f.refuse(fault, w, r, body) {
		return
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}

// Calls is how many completions were asked for.
func (f *Faulty) Calls() int { return int(f.calls.Load()) }

// refuse does what a fault does in place of the answer.
func (f *Faulty) refuse(fault Fault, w http.ResponseWriter, r *http.Request, body []byte) bool {
	say := func(status int, text string) bool {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
		return true
	}
	switch fault {
	case VersionFlip:
		f.Server.SetVersion(f.Server.version.Load() + 1)
		return false
	case ContextLimit:
		return say(400, `{"error":{"message":"This model's maximum context length is 8 tokens. However, you requested 4 output tokens and your prompt contains 9 input tokens","type":"BadRequestError","param":"input_tokens","code":400}}`)
	case TooMany:
		return say(429, `{"error":{"message":"slow down"}}`)
	case TooManyWait, UnavailableWait:
		w.Header().Set("Retry-After", "1")
		return say(map[Fault]int{TooManyWait: 429, UnavailableWait: 503}[fault], "")
	case BadGateway:
		return say(502, "<html><body>Bad gateway</body></html>")
	case Unavailable:
		return say(503, `{"object":"error","message":"queue full","type":"ServiceUnavailable","code":503}`)
	case EngineDead:
		return say(500, `{"error":{"message":"EngineCore encountered an issue","type":"InternalServerError","code":500}}`)
	case HTMLPage:
		return say(200, "<html>sign in</html>")
	case ErrorUnder200:
		return say(200, `{"error":{"message":"engine is gone","type":"InternalServerError","code":500}}`)
	case FlatErrorUnder200:
		return say(200, `{"object":"error","message":"queue full","type":"ServiceUnavailable","param":null,"code":503}`)
	case StringError:
		return say(401, `{"error":"Unauthorized"}`)
	case DropBefore:
		panic(http.ErrAbortHandler)
	case DropInside:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	case TruncatedJSON:
		return say(200, string(body[:len(body)*2/3]))
	case EmptyBody:
		return say(200, "")
	case Silence:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case Trickle:
		for waitFor(r, 20*time.Millisecond) {
			_, _ = w.Write([]byte(" "))
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
	return false
}

// breakAnswer changes one thing in a good answer.
func breakAnswer(fault Fault, body []byte) []byte {
	var a completionResponse
	if json.Unmarshal(body, &a) != nil {
		return body
	}
	ch := &a.Choices[0]
	switch fault {
	case IgnoresTokenIDs:
		ch.TokenIDs, ch.PromptTokenIDs = nil, nil
	case NoLogprobs:
		ch.Logprobs = nil
	case ShortLogprobs:
		ch.Logprobs.TokenLogprobs = ch.Logprobs.TokenLogprobs[1:]
	case ClampedLogprob:
		ch.Logprobs.TokenLogprobs[0] = -9999
	case WrongEcho:
		ch.PromptTokenIDs[len(ch.PromptTokenIDs)/2]++
	case WrongUsage:
		a.Usage.CompletionTokens++
	case WrongPromptUsage:
		a.Usage.PromptTokens--
	case AbortPartial:
		abort(&a, len(ch.TokenIDs)/2)
	case AbortEmpty:
		abort(&a, 0)
	default:
		return body
	}
	var out bytes.Buffer
	_ = json.NewEncoder(&out).Encode(a) // it was decoded from JSON
	return out.Bytes()
}

func abort(a *completionResponse, n int) {
	ch := &a.Choices[0]
	ch.FinishReason, ch.StopReason, ch.Text = "abort", nil, ""
	ch.TokenIDs = ch.TokenIDs[:n]
	ch.Logprobs.Tokens, ch.Logprobs.TokenLogprobs = ch.Logprobs.Tokens[:n], ch.Logprobs.TokenLogprobs[:n]
	ch.Logprobs.TopLogprobs, ch.Logprobs.TextOffset = ch.Logprobs.TopLogprobs[:n], ch.Logprobs.TextOffset[:n]
	a.Usage.CompletionTokens, a.Usage.TotalTokens = n, a.Usage.PromptTokens+n
}

var _ http.Handler = (*Faulty)(nil)

func (f Fault) String() string {
	if f == NoFault {
		return "no fault"
	}
	return fmt.Sprintf("fault %q", string(f))
}

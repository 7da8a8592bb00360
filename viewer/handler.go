package viewer

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

//go:embed dist/index.html dist/app.js dist/app.css dist/icon.svg
var page embed.FS

// Handler serves the page and its data: one run, or two to compare. It expects to be mounted at a path that
// ends with a slash and is stripped, and guards itself.
func Handler(g Guard, runs ...*Run) http.Handler {
	s := &server{runs: runs}
	mux := http.NewServeMux()
	for path, file := range map[string]string{"/{$}": "index.html", "/app.js": "app.js", "/app.css": "app.css", "/icon.svg": "icon.svg"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, req *http.Request) { http.ServeFileFS(w, req, page, "dist/"+file) })
	}
	for path, answer := range map[string]func(*Run, url.Values) (any, error){
		"run": s.run, "rollouts": s.rollouts, "groups": s.groups, "group": s.group, "rollout": s.rollout,
		"text": s.text, "tokens": s.tokens, "report": s.report, "compare": s.compare,
	} {
		mux.HandleFunc("GET /api/"+path, s.json(answer))
	}
	mux.HandleFunc("GET /api/graph", s.graph)
	return g.Wrap(mux)
}

type server struct{ runs []*Run }

func (s *server) of(v url.Values) (*Run, error) {
	i := 0
	if v.Has("of") {
		var err error
		if i, err = strconv.Atoi(v.Get("of")); err != nil {
			return nil, badRequest{fmt.Errorf("of: %w", err)}
		}
	}
	if i < 0 || i >= len(s.runs) {
		return nil, badRequest{fmt.Errorf("of: run %d of %d", i, len(s.runs))}
	}
	return s.runs[i], nil
}

// badRequest is a mistake of the one who asks.
type badRequest struct{ error }

func (s *server) json(answer func(*Run, url.Values) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		v := req.URL.Query()
		r, err := s.of(v)
		var out any
		if err == nil {
			out, err = answer(r, v)
		}
		if err != nil {
			fail(w, err)
			return
		}
		data, err := json.Marshal(out) // escapes <, > and & too
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(data) // an error means that the reader has left
	}
}

func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	var bad badRequest
	switch {
	case errors.As(err, &bad), errors.Is(err, errOutside):
		code = http.StatusBadRequest
	case errors.Is(err, errNoRollout), errors.Is(err, fs.ErrNotExist), errors.Is(err, errNothingSubmitted):
		code = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

// Two is what the page asks first: the run, and whether there is another to compare with.
type Two struct {
	Overview
	Runs []string `json:"runs"`
}

func (s *server) run(r *Run, _ url.Values) (any, error) {
	o, err := r.overview(time.Now())
	two := Two{Overview: o}
	for _, r := range s.runs {
		two.Runs = append(two.Runs, r.name)
	}
	return two, err
}

func (s *server) rollouts(r *Run, v url.Values) (any, error) {
	q, err := parseQuery(v)
	if err != nil {
		return nil, badRequest{err}
	}
	return r.list(q)
}

func (s *server) groups(r *Run, v url.Values) (any, error) {
	by := v.Get("by")
	v.Del("by")
	v.Del("sort")
	q, err := parseQuery(v)
	if err != nil {
		return nil, badRequest{err}
	}
	name := strings.TrimPrefix(by, "-")
	if groupSorts[name] == nil && name != "" && name != "ended" {
		return nil, badRequest{fmt.Errorf("by: no column %q", name)}
	}
	return r.groups(q, name, strings.HasPrefix(by, "-"))
}

func (s *server) group(r *Run, v url.Values) (any, error) {
	members, err := r.group(v.Get("id"))
	return GroupView{columnNames[:], members}, err
}

func (s *server) rollout(r *Run, v url.Values) (any, error) {
	scored, err := r.rollout(v.Get("id"))
	if err != nil {
		return nil, err
	}
	return viewRollout(scored), nil
}

func (s *server) text(r *Run, v url.Values) (any, error) {
	scored, err := r.rollout(v.Get("id"))
	if err != nil {
		return nil, err
	}
	turn, err := number(v, "turn", 0)
	if err != nil {
		return nil, err
	}
	text, err := wholeText(&scored.Trajectory, v.Get("part"), turn)
	if err != nil {
		return nil, badRequest{err}
	}
	return map[string]string{"text": text}, nil
}

func (s *server) tokens(r *Run, v url.Values) (any, error) {
	scored, err := r.rollout(v.Get("id"))
	if err != nil {
		return nil, err
	}
	segment, err1 := number(v, "segment", 0)
	offset, err2 := number(v, "offset", 0)
	limit, err3 := number(v, "limit", 1000)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return tokenPage(&scored.Trajectory, r.tokens, segment, offset, limit)
}

func (s *server) report(r *Run, v url.Values) (any, error) {
	scored, err := r.rollout(v.Get("id"))
	if err != nil {
		return nil, err
	}
	return r.report(scored)
}

func (s *server) compare(_ *Run, v url.Values) (any, error) {
	if len(s.runs) < 2 {
		return nil, badRequest{errors.New("one run only: start the viewer with --compare")}
	}
	offset, err1 := number(v, "offset", 0)
	limit, err2 := number(v, "limit", 200)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return compareRuns(s.runs[0], s.runs[1], offset, min(limit, maxLimit))
}

// number reads a count from a query; an own mistake otherwise.
func number(v url.Values, name string, fallback int) (int, error) {
	if !v.Has(name) {
		return fallback, nil
	}
	n, err := atLeast(v.Get(name), 0)
	if err != nil {
		return 0, badRequest{fmt.Errorf("%s: %w", name, err)}
	}
	return n, nil
}

// graph is the evidence DAG as a file.
func (s *server) graph(w http.ResponseWriter, req *http.Request) {
	v := req.URL.Query()
	r, err := s.of(v)
	if err != nil {
		fail(w, err)
		return
	}
	scored, err := r.rollout(v.Get("id"))
	if err != nil {
		fail(w, err)
		return
	}
	g, ext := &scored.Trajectory.Graph, ""
	if v.Get("only") == "submitted" {
		sub := g.Subgraph()
		g = &sub
	}
	var data []byte
	switch v.Get("format") {
	case "json":
		data, err = json.MarshalIndent(g, "", "  ")
		ext = "json"
	case "mermaid":
		data, ext = []byte(g.Mermaid()), "mmd"
	case "dot":
		data, ext = []byte(g.DOT()), "dot"
	default:
		err = badRequest{fmt.Errorf("format: %q, want json, mermaid or dot", v.Get("format"))}
	}
	if err != nil {
		fail(w, err)
		return
	}
	name := strings.NewReplacer("/", "-", `"`, "", "\\", "").Replace(v.Get("id"))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.%s"`, name, ext))
	_, _ = w.Write(data)
}

package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// often is how long a state of Gantry is waited for before it is looked at again.
const often = 20 * time.Millisecond

// Server is how to reach the server under test: one client per recorded user (admin, alice, bob,
// carol-cert, anonymous, invalid).
type Server struct {
	URL   string
	Users map[string]*http.Client
	// Other is set when another program than Gantry answers: it is given the recorded pauses in
	// full, and asked again when it says.
	Other bool
}

// answer is what came back.
type answer struct {
	code    int
	headers http.Header
	body    []byte
}

// cacheStarting says whether the watch cache of the kind has not read its first list yet: every
// API server answers so for a moment after a CustomResourceDefinition came, and clients ask again.
func (a answer) cacheStarting() bool {
	return a.code == http.StatusTooManyRequests && bytes.Contains(a.body, []byte("storage is (re)initializing"))
}

// retryAfter is what the answer's header asks clients to wait; zero without one.
func (a answer) retryAfter() time.Duration {
	seconds, _ := strconv.Atoi(a.headers.Get("Retry-After")) // what is no number means at once
	return time.Duration(max(seconds, 0)) * time.Second
}

func (a answer) json() any {
	var v any
	if json.Unmarshal(a.body, &v) != nil {
		return nil
	}
	return v
}

func (a answer) lines() []any {
	var out []any
	s := bufio.NewScanner(bytes.NewReader(a.body))
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		var v any
		if json.Unmarshal(s.Bytes(), &v) == nil {
			out = append(out, v)
		}
	}
	return out
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// session replays one case: captured variables live as long.
type session struct {
	server  Server
	vars    map[string]string
	created []string // paths of objects that were created, newest last
}

func (s *session) fill(text string) string {
	return variable.ReplaceAllStringFunc(text, func(m string) string {
		if v, ok := s.vars[variable.FindStringSubmatch(m)[1]]; ok {
			return v
		}
		return m
	})
}

func (s *session) send(ctx context.Context, r Request, as string) (answer, error) {
	if err := s.pause(ctx, r); err != nil {
		return answer{}, err
	}
	if r.As != "" {
		as = r.As
	}
	client := s.server.Users[as]
	if client == nil {
		return answer{}, fmt.Errorf("no client for user %q", as)
	}
	for {
		a, err := s.do(ctx, client, r)
		if err != nil {
			return answer{}, err
		}
		if !a.cacheStarting() {
			s.capture(r, a)
			return a, nil
		}
		after := a.retryAfter()
		if !s.server.Other {
			after = min(after, often)
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return a, ctx.Err()
		}
	}
}

// pause waits as long as the recording did before a request. What it waited for has no signal of
// its own: a cache catching up, a deadline passing. Only a definition's kind is there when
// discovery lists it, and that ends the pause.
func (s *session) pause(ctx context.Context, r Request) error {
	if r.WaitSeconds <= 0 {
		return nil
	}
	over := time.After(time.Duration(r.WaitSeconds * float64(time.Second)))
	for !s.isServed(ctx, r) {
		select {
		case <-over:
			return nil
		case <-time.After(often):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// isServed reports whether r reads a CustomResourceDefinition that is established, and discovery
// lists its kind.
func (s *session) isServed(ctx context.Context, r Request) bool {
	client := s.server.Users["admin"]
	if s.server.Other || client == nil || r.Method != http.MethodGet ||
		!strings.Contains(r.Path, "/customresourcedefinitions/") {
		return false
	}
	var definition struct {
		Spec struct {
			Group    string
			Names    struct{ Plural string }
			Versions []struct{ Name string }
		}
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	a, err := s.do(ctx, client, Request{Method: http.MethodGet, Path: r.Path})
	if err != nil || json.Unmarshal(a.body, &definition) != nil || len(definition.Spec.Versions) == 0 {
		return false
	}
	for _, c := range definition.Status.Conditions {
		if c.Type != "Established" || c.Status != "True" {
			continue
		}
		list, err := s.do(ctx, client, Request{Method: http.MethodGet,
			Path: "/apis/" + definition.Spec.Group + "/" + definition.Spec.Versions[0].Name})
		return err == nil && list.code == http.StatusOK &&
			bytes.Contains(list.body, []byte(strconv.Quote(definition.Spec.Names.Plural)))
	}
	return false
}

// do sends r once and reads the whole answer.
func (s *session) do(ctx context.Context, client *http.Client, r Request) (answer, error) {
	req, err := s.request(ctx, r)
	if err != nil {
		return answer{}, err
	}
	res, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: reading the answer: %w", r.Method, r.Path, err)
	}
	return answer{res.StatusCode, res.Header, body}, nil
}

func (s *session) request(ctx context.Context, r Request) (*http.Request, error) {
	var body io.Reader
	hasBody := true
	switch {
	case r.BodyText != nil:
		body = strings.NewReader(s.fill(*r.BodyText))
	case r.BodyBase64 != nil:
		raw, err := base64.StdEncoding.DecodeString(*r.BodyBase64)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	case r.BodyRepeat != nil:
		body = strings.NewReader(r.BodyRepeat.Prefix + strings.Repeat(r.BodyRepeat.Unit, r.BodyRepeat.Count) +
			r.BodyRepeat.Suffix)
	case r.Body != nil:
		body = strings.NewReader(s.fill(string(r.Body)))
	default:
		hasBody = false
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, s.server.URL+s.fill(r.Path), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "recorder/1.0")
	if hasBody && r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range r.Headers {
		if v == nil {
			req.Header[http.CanonicalHeaderKey(k)] = nil
			req.Header.Del(k)
			continue
		}
		req.Header.Set(k, s.fill(*v))
	}
	return req, nil
}

func (s *session) capture(r Request, a answer) {
	v := a.json()
	for name, path := range r.Capture {
		if x, ok := dig(v, path); ok {
			s.vars[name] = fmt.Sprint(x)
		}
	}
	if a.code == http.StatusCreated && (r.Method == http.MethodPost || r.Method == http.MethodPatch ||
		r.Method == http.MethodPut) {
		path, _, _ := strings.Cut(s.fill(r.Path), "?")
		if r.Method == http.MethodPost {
			name, ok := dig(v, "metadata.name")
			if !ok || name == "" {
				return
			}
			path += "/" + fmt.Sprint(name)
		}
		s.created = append(s.created, path)
	}
}

// dig follows a dotted path with list indexes ("items.0.metadata.name").
func dig(v any, path string) (any, bool) {
	for _, key := range strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(path), ".") {
		switch x := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = x[key]; !ok {
				return nil, false
			}
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, v != nil
}

// clean removes what the case made: grace 0, finalizers cleared; definitions and namespaces are
// waited for.
func (s *session) clean(ctx context.Context) {
	for i := len(s.created) - 1; i >= 0; i-- {
		path := s.created[i]
		del := Request{Method: http.MethodDelete, Path: path + "?gracePeriodSeconds=0"}
		a, err := s.send(ctx, del, "admin")
		if err != nil {
			return
		}
		if f, ok := dig(a.json(), "metadata.finalizers"); ok && f != nil {
			merge := "application/merge-patch+json"
			clear := Request{Method: http.MethodPatch, Path: path, Headers: map[string]*string{"Content-Type": &merge},
				Body: json.RawMessage(`{"metadata":{"finalizers":null}}`)}
			if _, err := s.send(ctx, clear, "admin"); err != nil {
				return
			}
		}
		if strings.Contains(path, "/customresourcedefinitions/") ||
			strings.Contains(path, "/api/v1/namespaces/") && strings.Count(path, "/") == 4 {
			s.waitDeleted(ctx, path)
		}
		if namespace, _, quota := strings.Cut(path, "/resourcequotas/"); quota {
			s.waitForgotten(ctx, namespace)
		}
	}
}

// waitForgotten waits until admission counts nothing for a quota that was deleted: it goes by a
// cache. A Pod without requests is refused as long as there is a quota of requests; it is not made.
func (s *session) waitForgotten(ctx context.Context, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, staleFor)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	try := Request{Method: http.MethodPost, Path: namespace + "/pods?dryRun=All", Body: json.RawMessage(
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"quota"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)}
	for ctx.Err() == nil {
		a, err := s.send(ctx, try, "admin")
		if err != nil || !bytes.Contains(a.body, []byte("failed quota")) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (s *session) waitDeleted(ctx context.Context, path string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		a, err := s.send(ctx, Request{Method: http.MethodGet, Path: path}, "admin")
		if err != nil || a.code == http.StatusNotFound {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

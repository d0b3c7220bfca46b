package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"sort"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/test/replay"
)

// Level is how equal an answer is.
type Level int

// From lenient to strict; each includes those before it.
const (
	Unequal    Level = iota
	SameCode         // same code and reason
	SameReason       // and the same set of causes
	Same             // same code, kept headers and body
)

// Result is the outcome of one case.
type Result struct {
	Family, Name string
	Level        Level
	Differences  []replay.Difference
	Err          error // the case could not be replayed
}

// Run replays one case and compares every recorded answer.
func Run(ctx context.Context, server Server, family string, c Case) Result {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	s := &session{server: server, vars: map[string]string{}}
	defer s.clean(context.WithoutCancel(ctx))
	r := Result{Family: family, Name: c.Name, Level: Same}
	for _, q := range c.Setup {
		a, err := s.send(ctx, q, "admin")
		if err != nil || a.code >= 300 {
			r.Level, r.Err = Unequal, fmt.Errorf("setup %s %s: code %d %s: %v", q.Method, q.Path, a.code,
				first(a.body, 200), err)
			return r
		}
	}
	for i, x := range append([]Exchange{{c.Request, c.Response}}, c.Then...) {
		diffs, level, err := s.exchange(ctx, x, c)
		if err != nil {
			r.Level, r.Err = Unequal, err
			return r
		}
		for _, d := range diffs {
			if i > 0 {
				d.Path = fmt.Sprintf("then[%d]%s", i-1, d.Path)
			}
			r.Differences = append(r.Differences, d)
		}
		r.Level = min(r.Level, level)
	}
	return r
}

// staleFor is how long a read of any state is asked again.
const staleFor = 10 * time.Second

// exchange sends a request and compares the answer. A read of any state (Request.anyState) may be
// older than the writes before it: it is asked again until it has them, or staleFor is over.
func (s *session) exchange(ctx context.Context, x Exchange, c Case) ([]replay.Difference, Level, error) {
	for startedAt := time.Now(); ; {
		a, err := s.send(ctx, x.Request, c.As)
		if err != nil {
			return nil, Unequal, err
		}
		diffs, level := compareExchange(x, a, c.ManagedFields == "kept")
		if level == Same || !x.Request.anyState() || time.Since(startedAt) > staleFor {
			return diffs, level, nil
		}
		select {
		case <-time.After(50 * time.Millisecond): // no signal tells that the cache has caught up
		case <-ctx.Done():
			return diffs, level, nil
		}
	}
}

// anyState tells whether the request reads what a cache has, though it may be older than the last
// writes: a get, list, or begin of a watch at resourceVersion 0, and a get or list at another one
// that is not an exact state.
func (r Request) anyState() bool {
	path, query, _ := strings.Cut(r.Path, "?")
	q, err := url.ParseQuery(query)
	if err != nil || r.Method != http.MethodGet || q.Get("continue") != "" {
		return false
	}
	watch := strings.Contains(path, "/watch/") || q.Get("watch") != "" && q.Get("watch") != "false" &&
		q.Get("watch") != "0"
	exact := q.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact)
	revision := q.Get("resourceVersion")
	return revision == "0" || revision != "" && !exact && !watch
}

func first(b []byte, n int) string {
	if len(b) > n {
		return string(b[:n]) + "…"
	}
	return string(b)
}

func compareExchange(x Exchange, a answer, keepManaged bool) ([]replay.Difference, Level) {
	want := x.Response
	var out []replay.Difference
	if want.Code != a.code {
		out = append(out, replay.Difference{Path: "code", Want: fmt.Sprint(want.Code),
			Got: fmt.Sprintf("%d %s", a.code, first(a.body, 400))})
		return out, Unequal
	}
	out = append(out, headers(want, a)...)
	got := a.json()
	switch {
	case want.BodyLines != nil:
		w, g := strip(want.BodyLines, keepManaged), strip(a.lines(), keepManaged)
		if startsWithState(x.Request.Path) {
			sortState(w)
			sortState(g)
		}
		out = append(out, replay.Compare("lines", w, g)...)
	case want.BodyText != nil:
		out = append(out, replay.Compare("text", *want.BodyText, string(a.body))...)
	case want.BodyPrefixHex != "":
		if prefix, err := hex.DecodeString(want.BodyPrefixHex); err != nil || !strings.HasPrefix(string(a.body),
			string(prefix)) {
			out = append(out, replay.Difference{Path: "body", Want: want.BodyPrefixHex,
				Got: hex.EncodeToString([]byte(first(a.body, 16)))})
		}
	default:
		if a.code == http.StatusOK && (strings.HasPrefix(x.Request.Path, "/openapi/") || x.Request.Path == "/") {
			got = reduceOpenAPI(got)
		}
		w, g := want.Body, strip(got, keepManaged)
		sortRules(w)
		sortRules(g)
		sortManagers(w)
		sortManagers(g)
		out = append(out, replay.Compare("", w, g)...)
	}
	if want.DecodedToken != nil {
		token, _ := dig(got, x.Request.DecodeToken)
		out = append(out, replay.Compare("token", any(want.DecodedToken), decodeToken(fmt.Sprint(token)))...)
	}
	if len(out) == 0 {
		return nil, Same
	}
	w, _ := want.Body.(map[string]any)
	g, _ := got.(map[string]any)
	if a.code < 400 {
		if slices.ContainsFunc(out, func(d replay.Difference) bool {
			return !strings.HasPrefix(d.Path, "header ") || d.Path == "header Content-Type"
		}) {
			return out, SameCode
		}
		return out, SameReason // the object is equal: a warning or a hint for caches differs
	}
	if !reflect.DeepEqual(w["reason"], g["reason"]) {
		return out, Unequal
	}
	if slices.EqualFunc(causes(w), causes(g), func(x, y string) bool { return len(replay.Compare("", x, y)) == 0 }) {
		return out, SameReason
	}
	return out, SameCode
}

func causes(v map[string]any) []string {
	d, _ := v["details"].(map[string]any)
	cs, _ := d["causes"].([]any)
	out := make([]string, 0, len(cs))
	for _, c := range cs {
		raw, _ := json.Marshal(c)
		out = append(out, string(raw))
	}
	sort.Strings(out)
	return out
}

// comparedHeaders are the answer headers that recordings keep.
var comparedHeaders = []string{"Content-Type", "Warning", "Retry-After", "Location", "Allow", "Www-Authenticate",
	"Accept-Post", "Accept-Patch", "Vary", "Etag", "Deprecation"}

func headers(want Response, a answer) []replay.Difference {
	var out []replay.Difference
	for _, name := range comparedHeaders {
		var w []string
		switch v := want.Headers[name].(type) {
		case string:
			w = []string{v}
		case []any:
			for _, x := range v {
				w = append(w, fmt.Sprint(x))
			}
		}
		g := a.headers.Values(name)
		if len(w) != len(g) {
			out = append(out, replay.Difference{Path: "header " + name, Want: fmt.Sprint(w), Got: fmt.Sprint(g)})
			continue
		}
		for i := range w {
			out = append(out, replay.Compare("header "+name, w[i], g[i])...)
		}
	}
	return out
}

// strip copies v without managedFields, unless they are kept.
func strip(v any, keepManaged bool) any {
	if keepManaged {
		return v
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return v
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return v
	}
	replay.DropManagedFields(out)
	return out
}

// sortManagers sorts an object's managedFields by manager: the server sorts entries of one second
// by manager and others by time, so their order depends on when the second changed.
func sortManagers(v any) {
	managed, _ := dig(v, "metadata.managedFields")
	list, _ := managed.([]any)
	key := func(x any) string {
		m, _ := x.(map[string]any)
		return fmt.Sprint(m["manager"], m["operation"], m["subresource"], m["apiVersion"])
	}
	slices.SortStableFunc(list, func(x, y any) int { return strings.Compare(key(x), key(y)) })
}

// startsWithState reports whether a watch begins with the current state, whose objects come in no
// fixed order.
func startsWithState(path string) bool {
	u, err := url.Parse(path)
	if err != nil {
		return false
	}
	rv := u.Query().Get("resourceVersion")
	return rv == "" || rv == "0" || u.Query().Get("sendInitialEvents") == "true"
}

// sortState sorts the leading ADDED lines of a watch by name.
func sortState(lines any) {
	list, _ := lines.([]any)
	n := slices.IndexFunc(list, func(l any) bool { t, _ := dig(l, "type"); return t != "ADDED" })
	if n < 0 {
		n = len(list)
	}
	slices.SortStableFunc(list[:n], func(x, y any) int {
		a, _ := dig(x, "object.metadata.name")
		b, _ := dig(y, "object.metadata.name")
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

// sortRules sorts the rules of a rules review: upstream lists them in no fixed order.
func sortRules(v any) {
	if kind, _ := dig(v, "kind"); kind != "SelfSubjectRulesReview" {
		return
	}
	for _, at := range []string{"status.resourceRules", "status.nonResourceRules"} {
		rules, _ := dig(v, at)
		list, _ := rules.([]any)
		slices.SortFunc(list, func(x, y any) int {
			a, _ := json.Marshal(x)
			b, _ := json.Marshal(y)
			return bytes.Compare(a, b)
		})
	}
}

// reduceOpenAPI keeps of a document what the recordings keep: title, sorted paths, sorted schema
// names.
func reduceOpenAPI(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for _, part := range []struct{ from, to string }{{"paths", "paths"}, {"definitions", "schemas"},
		{"components.schemas", "schemas"}} {
		if p, ok := dig(v, part.from); ok {
			out[part.to] = sortedNames(p)
		}
	}
	if info, ok := m["info"].(map[string]any); ok {
		out["info"] = map[string]any{"title": info["title"]}
	}
	return out
}

// sortedNames are the keys of an object, or the elements of a list.
func sortedNames(v any) []any {
	var names []string
	switch v := v.(type) {
	case map[string]any:
		names = slices.Collect(maps.Keys(v))
	case []any:
		for _, x := range v {
			names = append(names, fmt.Sprint(x))
		}
	}
	slices.Sort(names)
	out := make([]any, 0, len(names))
	for _, n := range names {
		out = append(out, n)
	}
	return out
}

func decodeToken(token string) any {
	parts := strings.Split(token, ".")
	out := map[string]any{}
	for i, name := range []string{"header", "claims"} {
		if i >= len(parts) {
			return out
		}
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		var v map[string]any
		if err != nil || json.Unmarshal(raw, &v) != nil {
			return out
		}
		out[name] = v
	}
	if c, ok := out["claims"].(map[string]any); ok {
		exp, _ := c["exp"].(float64)
		iat, _ := c["iat"].(float64)
		c["lifetimeSeconds"] = exp - iat
	}
	return out
}

// Prepare sends the prelude and waits until namespace rec has its account and its CA.
func Prepare(ctx context.Context, server Server, prelude []Request) error {
	s := &session{server: server, vars: map[string]string{}}
	for _, q := range prelude {
		a, err := s.send(ctx, q, "admin")
		if err != nil || a.code >= 300 && a.code != http.StatusConflict {
			return fmt.Errorf("prelude %s %s: code %d %s: %v", q.Method, q.Path, a.code, first(a.body, 300), err)
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, path := range []string{"/api/v1/namespaces/rec/serviceaccounts/default",
		"/api/v1/namespaces/rec/configmaps/kube-root-ca.crt"} {
		for {
			a, err := s.send(ctx, Request{Method: http.MethodGet, Path: path}, "admin")
			if err != nil {
				return err
			}
			if a.code == http.StatusOK {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("%s did not appear: %w", path, ctx.Err())
			}
		}
	}
	return nil
}

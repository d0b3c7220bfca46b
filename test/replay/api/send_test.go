package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestStartingWatchCacheIsAskedAgain: an API server whose watch cache of a kind has not read its
// first list is asked again after Retry-After; another 429 is the answer itself.
func TestStartingWatchCacheIsAskedAgain(t *testing.T) {
	for _, c := range []struct {
		message  string
		requests int
		code     int
	}{
		{"storage is (re)initializing", 3, http.StatusOK},
		{"Cannot evict pod as it would violate the pod's disruption budget.", 1, http.StatusTooManyRequests},
	} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests == 3 {
				return
			}
			w.Header().Set("Retry-After", "0")
			http.Error(w, c.message, http.StatusTooManyRequests)
		}))
		s := &session{server: Server{URL: server.URL, Users: map[string]*http.Client{"admin": server.Client()}}}
		a, err := s.send(t.Context(), Request{Method: http.MethodGet, Path: "/"}, "admin")
		if err != nil || a.code != c.code || requests != c.requests {
			t.Errorf("%s: got code %d, error %v after %d requests, want %d after %d",
				c.message, a.code, err, requests, c.code, c.requests)
		}
		server.Close()
	}
}

// TestReadOfAnyStateIsAskedAgain: what a cache may answer may lack the last writes, and is asked
// again until it has them; the newest state, an exact one and what follows a revision are not.
func TestReadOfAnyStateIsAskedAgain(t *testing.T) {
	want := "new"
	for query, requests := range map[string]int{"?resourceVersion=0&limit=1": 3, "": 1,
		"?resourceVersion=0&watch=1": 3, "?watch=1": 1, "?resourceVersion=1&resourceVersionMatch=NotOlderThan": 3,
		"?resourceVersion=1": 3, "?resourceVersion=1&resourceVersionMatch=Exact": 1,
		"?resourceVersion=1&watch=true": 1} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked == 3 {
				_, _ = w.Write([]byte(want))
				return
			}
			_, _ = w.Write([]byte("old"))
		}))
		s := &session{server: Server{URL: server.URL, Users: map[string]*http.Client{"admin": server.Client()}}}
		x := Exchange{Request{Method: http.MethodGet, Path: "/" + query},
			Response{Code: http.StatusOK, BodyText: &want,
				Headers: map[string]any{"Content-Type": "text/plain; charset=utf-8"}}}
		_, level, err := s.exchange(t.Context(), x, Case{As: "admin"})
		if err != nil || asked != requests || (level == Same) != (requests == 3) {
			t.Errorf("%q: got level %d, error %v after %d requests, want %d requests", query, level, err, asked,
				requests)
		}
		server.Close()
	}
}

// TestPauseEndsWhenTheKindIsServed: a pause before a definition is read ends when discovery lists
// its kind; one before anything else, or of another program, takes as long as it did.
func TestPauseEndsWhenTheKindIsServed(t *testing.T) {
	const crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.rec.example.com"
	for _, c := range []struct {
		name, path string
		other      bool
		asked      int // how often discovery says no before it lists the kind
		full       bool
	}{
		{"a definition", crd, false, 2, false},
		{"a definition that is never served", crd, false, 1000, true},
		{"of another program", crd, true, 0, true},
		{"something else", "/api/v1/namespaces/rec/limitranges", false, 0, true},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == crd:
				_, _ = w.Write([]byte(`{"spec":{"group":"rec.example.com","names":{"plural":"foos"},` +
					`"versions":[{"name":"v1"}]},"status":{"conditions":[{"type":"Established","status":"True"}]}}`))
			case r.URL.Path == "/apis/rec.example.com/v1" && asked >= c.asked:
				_, _ = w.Write([]byte(`{"resources":[{"name":"foos"}]}`))
			default:
				asked++
				http.NotFound(w, r)
			}
		}))
		s := &session{server: Server{URL: server.URL, Users: map[string]*http.Client{"admin": server.Client()},
			Other: c.other}}
		recorded := time.Minute
		if c.full {
			recorded = 200 * time.Millisecond
		}
		began := time.Now()
		err := s.pause(t.Context(), Request{Method: http.MethodGet, Path: c.path, WaitSeconds: recorded.Seconds()})
		if took := time.Since(began); err != nil || c.full && took < recorded {
			t.Errorf("%s: got %v after %s, want no error after %s", c.name, err, took, recorded)
		}
		if !c.full && asked != c.asked {
			t.Errorf("%s: asked %d times while it was not served, want %d", c.name, asked, c.asked)
		}
		server.Close()
	}
}

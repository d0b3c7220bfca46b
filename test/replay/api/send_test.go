package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
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
		s := &session{server: Server{server.URL, map[string]*http.Client{"admin": server.Client()}}}
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
		s := &session{server: Server{server.URL, map[string]*http.Client{"admin": server.Client()}}}
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

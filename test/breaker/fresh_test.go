package breaker

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/testcluster"
)

// freshQuick are the kinds, by parts of their names, that `make test` plays.
const freshQuick = "webhook that answers too late|webhook with another cert|names searched in another|refuses a " +
	"sysctl|binary data|group with one letter wrong|selector with a label too"

// As TestTheBreakIsNamed, with kinds that were written before the rules of why were read;
// GANTRY_FRESH plays all, otherwise a few.
func TestTheFreshBreakIsNamed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays dozens of breaks")
	}
	seed, seeds := number("GANTRY_SEED", 1), number("GANTRY_SEEDS", 1)
	b, r := start(t), newTotals()
	b.more = serveHooks(t)
	for s := seed; s < seed+seeds; s++ {
		b.playAll(t.Context(), r, s, slices.DeleteFunc(freshKinds(), func(k kind) bool {
			return os.Getenv("GANTRY_FRESH") == "" && !inField(k.name, freshQuick)
		}))
	}
	r.report(t, leastFreshPercent)
}

// leastFreshPercent of the points has to be reached.
const leastFreshPercent = 85

func freshKinds() []kind {
	return slices.Concat(freshContainerKinds, freshNetworkKinds, freshRightKinds, freshStorageKinds, fresherKinds)
}

// serveHooks serves webhooks that say yes, no, nothing in time or something else, and returns the
// words about them.
func serveHooks(t *testing.T) words {
	mux := http.NewServeMux()
	for path, allowed := range map[string]bool{"/yes": true, "/no": false} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			var review admissionv1.AdmissionReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
				http.Error(w, "no review", http.StatusBadRequest)
				return
			}
			review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: allowed}
			if !allowed {
				review.Response.Result = &metav1.Status{Message: "the label owner is missing", Code: 403}
			}
			review.Request = nil
			_ = json.NewEncoder(w).Encode(review) // whoever asked has gone
		})
	}
	mux.HandleFunc("/error", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no database", http.StatusInternalServerError)
	})
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "<html>hello</html>") })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	})
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return words{"$HOOK": s.URL, "$LOCAL": strings.Replace(s.URL, "127.0.0.1", "localhost", 1),
		"$CA": base64.StdEncoding.EncodeToString(ca)}
}

// Nodes' lives, each in a cluster of its own; GANTRY_FRESH plays them.
func TestTheFreshNodeBreakIsNamed(t *testing.T) {
	t.Parallel()
	if testing.Short() || os.Getenv("GANTRY_FRESH") == "" {
		t.Skip("starts a cluster for each break")
	}
	r, seed := newTotals(), number("GANTRY_SEED", 1)
	free := make(chan struct{}, 4)
	var wait sync.WaitGroup
	for i, k := range freshNodes {
		if !inField(k.name, os.Getenv("GANTRY_ONLY")) {
			continue
		}
		wait.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			t.Run(k.name, func(t *testing.T) {
				c := testcluster.Start(t, append(k.options, testcluster.WithNodes(k.nodes...))...)
				images(c)
				s, err := newScene(c, int64(seed*1000+i), fmt.Sprintf("n%d-%d", seed, i), false)
				if err == nil {
					err = s.setUp(t.Context(), k)
				}
				if err != nil {
					t.Errorf("%s: set-up: got %v, want no error", k.name, err)
					r.add(k.name, points{missed: []string{"set-up: " + err.Error()}}, "")
					return
				}
				p, text, err := s.ask(t.Context(), k)
				if err != nil {
					t.Errorf("%s: asking why: got error %v, want an answer", k.name, err)
				}
				r.add(k.name, p, text)
			})
		})
	}
	wait.Wait()
	r.report(t, leastFreshPercent)
}

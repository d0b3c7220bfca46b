package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/gantry-project/gantry/internal/scheduler/config"
)

// fakeLeases is an API server with one Lease, whose writes need the newest version of it.
type fakeLeases struct {
	mu       sync.Mutex
	lease    *coordination.Lease
	made     int
	given    int             // back
	refusing map[string]bool // who gets 500
}

// serve answers one of those who ask.
func (l *fakeLeases) serve(name string, w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fail := func(code int, reason metav1.StatusReason) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusFailure, Reason: reason, Code: int32(code)})
	}
	if l.refusing[name] {
		fail(http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	}
	if r.Method != http.MethodGet {
		next := &coordination.Lease{}
		if err := json.NewDecoder(r.Body).Decode(next); err != nil {
			fail(http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		if l.lease != nil && next.ResourceVersion != l.lease.ResourceVersion {
			fail(http.StatusConflict, metav1.StatusReasonConflict)
			return
		}
		if l.made++; next.Spec.HolderIdentity == nil || *next.Spec.HolderIdentity == "" {
			l.given++
		}
		next.ResourceVersion = strconv.Itoa(l.made)
		next.APIVersion, next.Kind = "coordination.k8s.io/v1", "Lease"
		l.lease = next
	}
	if l.lease == nil {
		fail(http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(l.lease)
}

// Of two schedulers one works. The other follows at once when it goes, and when it can renew its
// lease no longer, but never beside it.
func TestOneSchedulerWorksAtATime(t *testing.T) {
	t.Parallel()
	api := &fakeLeases{refusing: map[string]bool{}}
	cfg := config.Default()
	cfg.LeaderElection.LeaseDuration.Duration, cfg.LeaderElection.RenewDeadline.Duration,
		cfg.LeaderElection.RetryPeriod.Duration = 2*time.Second, time.Second, 100*time.Millisecond
	var mu sync.Mutex
	at := map[string]bool{}
	leading := make(chan string, 3)
	run := func(name string) (stop func(), ended chan error) {
		server := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.serve(name, w, r) }))
		t.Cleanup(server.Close)
		ctx, cancel := context.WithCancel(t.Context())
		ended = make(chan error, 1)
		go func() {
			ended <- runWithLeaderElection(ctx,
				Options{Config: cfg,
					KubeConfig: &rest.Config{Host: server.URL,
						ContentConfig: rest.ContentConfig{ContentType: "application/json"}}},
				leaderelection.NewLeaderHealthzAdaptor(healthTimeout), func(ctx context.Context) error {
					mu.Lock()
					at[name] = true
					if len(at) > 1 {
						t.Errorf("%v work at once", at)
					}
					mu.Unlock()
					leading <- name
					<-ctx.Done()
					mu.Lock()
					delete(at, name)
					mu.Unlock()
					return nil
				})
		}()
		return cancel, ended
	}
	next := func(want string) {
		t.Helper()
		select {
		case got := <-leading:
			if got != want {
				t.Fatalf("%s works, want %s", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s never works", want)
		}
	}
	stopA, endA := run("a")
	next("a")
	stopB, endB := run("b")
	stopA() // the lease is given back
	if err := <-endA; err != nil {
		t.Errorf("a ends with %v, want no error", err)
	}
	api.mu.Lock()
	if api.given != 1 {
		t.Errorf("the lease was given back %d times, want 1", api.given)
	}
	api.mu.Unlock()
	next("b")
	stopC, endC := run("c")
	api.mu.Lock()
	api.refusing["b"] = true
	api.mu.Unlock()
	if err := <-endB; !errors.Is(err, errLeaseLost) {
		t.Errorf("b lost its lease and ends with %v", err)
	}
	next("c")
	stopB()
	stopC()
	if err := <-endC; err != nil {
		t.Errorf("c ends with %v, want no error", err)
	}
}

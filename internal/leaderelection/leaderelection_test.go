package leaderelection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/config/v1alpha1"

	"github.com/gantry-project/gantry/internal/leaderelection/config"
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

// Of two processes one works. The other follows at once when it goes, and when it can renew its
// lease no longer, but never beside it.
func TestOneWorksAtATime(t *testing.T) {
	t.Parallel()
	api := &fakeLeases{refusing: map[string]bool{}}
	cfg := config.Default("worker")
	cfg.LeaseDuration.Duration, cfg.RenewDeadline.Duration, cfg.RetryPeriod.Duration = 2*time.Second, time.Second,
		100*time.Millisecond
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
			ended <- Run(ctx,
				Options{Config: cfg, Name: "worker", Health: leaderelection.NewLeaderHealthzAdaptor(HealthTimeout),
					KubeConfig: &rest.Config{Host: server.URL,
						ContentConfig: rest.ContentConfig{ContentType: "application/json"}}},
				func(ctx context.Context) error {
					mu.Lock()
					at[name] = true
					if len(at) > 1 {
						t.Errorf("got %v at work, want one", at)
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
	if err := <-endB; !errors.Is(err, ErrLost) {
		t.Errorf("b lost its lease and ends with %v", err)
	}
	next("c")
	stopB()
	stopC()
	if err := <-endC; err != nil {
		t.Errorf("c ends with %v, want no error", err)
	}
}

// A request for the Lease that is never answered ends after half of the renew deadline, at least a
// second: the next one may find a server that answers.
func TestARequestForTheLeaseEnds(t *testing.T) {
	t.Parallel()
	api := &fakeLeases{}
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			<-r.Context().Done()
			return
		}
		api.serve("a", w, r)
	}))
	defer server.Close()
	cfg := config.Default("worker")
	cfg.RenewDeadline.Duration, cfg.RetryPeriod.Duration = 2*time.Second, 100*time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	leads := false
	err := Run(ctx, Options{Config: cfg, Name: "worker", KubeConfig: &rest.Config{Host: server.URL,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}},
		func(context.Context) error { leads = true; cancel(); return nil })
	if err != nil || !leads {
		t.Errorf("after a request without an answer it leads: %v, error %v; want true and none", leads, err)
	}
}

// Without an election work runs at once, and what it returns is returned.
func TestWithoutElection(t *testing.T) {
	cfg := config.Default("worker")
	cfg.LeaderElect = false
	want := errors.New("work's own")
	err := Run(t.Context(), Options{Config: cfg}, func(context.Context) error { return want })
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// What a flag says counts, what none says stays as the file says.
func TestFlagsOverrideTheFile(t *testing.T) {
	for flag, want := range map[string]string{
		"":                                       "true 1m0s 10s 2s leases worker kube-system",
		"--leader-elect=false":                   "false 1m0s 10s 2s leases worker kube-system",
		"--leader-elect-lease-duration=20s":      "true 20s 10s 2s leases worker kube-system",
		"--leader-elect-renew-deadline=3s":       "true 1m0s 3s 2s leases worker kube-system",
		"--leader-elect-retry-period=1s":         "true 1m0s 10s 1s leases worker kube-system",
		"--leader-elect-resource-lock=x":         "true 1m0s 10s 2s x worker kube-system",
		"--leader-elect-resource-name=other":     "true 1m0s 10s 2s leases other kube-system",
		"--leader-elect-resource-namespace=mine": "true 1m0s 10s 2s leases worker mine",
	} {
		var f Flags
		set := pflag.NewFlagSet("worker", pflag.ContinueOnError)
		f.Add(set, "worker")
		if err := set.Parse(strings.Fields(flag)); err != nil {
			t.Fatal(err)
		}
		d := config.Default("worker")
		file := v1alpha1.LeaderElectionConfiguration{LeaderElect: new(true), RenewDeadline: d.RenewDeadline,
			LeaseDuration: metav1.Duration{Duration: time.Minute}, RetryPeriod: d.RetryPeriod,
			ResourceLock: d.ResourceLock, ResourceName: d.ResourceName, ResourceNamespace: d.ResourceNamespace}
		f.Override(&file)
		e := config.FromV1alpha1(file)
		got := fmt.Sprint(e.LeaderElect, e.LeaseDuration.Duration, e.RenewDeadline.Duration, e.RetryPeriod.Duration,
			" ", e.ResourceLock, " ", e.ResourceName, " ", e.ResourceNamespace)
		if got != want {
			t.Errorf("%q: got %s, want %s", flag, got, want)
		}
	}
}

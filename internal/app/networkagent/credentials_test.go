package networkagent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/kubelet/certs"
	"github.com/gantry-project/gantry/internal/options"
)

// A node asks for its network agent's credentials when it has none, or when those it asked for have
// ended; what was brought there is left alone.
func TestNodeWithoutNetworkCredentialsAsksForThem(t *testing.T) {
	dir := t.TempDir()
	c := Credentials{Kubeconfig: filepath.Join(dir, "network.kubeconfig"), Instance: &options.Instance{DataDir: dir}}
	now := time.Now()
	if !c.missing(now) {
		t.Error("without a kubeconfig it does not ask")
	}
	if err := os.WriteFile(c.Kubeconfig, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := []bool{
		c.missing(now), c.missing(now.AddDate(20, 0, 0)),
	}, []bool{false, false}; !slices.Equal(got, want) {
		t.Errorf("it asks though somebody brought a kubeconfig: got %v, want %v", got, want)
	}
	pem, _, err := cert.GenerateSelfSignedCertKey("n", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := certs.AgentFile(filepath.Join(dir, "kubelet-pki"))
	for name, content := range map[string][]byte{"damaged": []byte("x"), "good": pem} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := c.missing(now); got != (name == "damaged") {
			t.Errorf("%s: asks %v, want %v", name, got, (name == "damaged"))
		}
	}
	if err := os.WriteFile(file, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	if !c.missing(now.AddDate(20, 0, 0)) {
		t.Error("it goes on with a certificate that has ended")
	}
}

// An API server that is not ready is waited for; one that does not let the node in answers.
func TestAnAPIServerThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	for name, answers := range map[string][]int{"not ready, then ready": {500, 503, 200}, "not let in": {403},
		"not known": {401}} {
		var requested atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(answers[min(int(requested.Add(1)), len(answers))-1])
		}))
		client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		if err := waitForAPIServer(t.Context(), client, time.Millisecond); err != nil ||
			int(requested.Load()) != len(answers) {
			t.Errorf("%s: asked %d times, want %d: %v", name, requested.Load(), len(answers), err)
		}
		s.Close()
	}
}

// A request that is denied or deleted ends no node: it goes on without policies and routes, says
// once what to do, and is let in when somebody approves.
func TestANodeThatIsNotLetInGoesOn(t *testing.T) {
	refused := cli.WithFix(errors.New("denied"), "kubectl delete csr x")
	var requested atomic.Int64
	got, err := waitForCredentials(t.Context(), time.Millisecond, func(context.Context) (string, error) {
		if requested.Add(1) < 4 {
			return "", refused
		}
		return "in", nil
	})
	if got != "in" || err != nil || requested.Load() != 4 {
		t.Errorf("%q after %d times: %v, want in, no error, 4", got, requested.Load(), err)
	}
	// While it is not, what it runs beside goes on.
	ctx, cancel := context.WithCancel(t.Context())
	tries, beside := make(chan struct{}, 100), errors.New("ended by itself")
	err = noderole.RunAll(ctx, func(ctx context.Context) error {
		_, err := waitForCredentials(ctx, time.Millisecond, func(context.Context) (string, error) {
			select {
			case tries <- struct{}{}:
			default:
			}
			return "", refused
		})
		return err
	}, func(ctx context.Context) error {
		for range 3 {
			select {
			case <-tries:
			case <-ctx.Done():
				return errors.New("ended by the other")
			}
		}
		cancel()
		return beside
	})
	if err == nil || err.Error() != beside.Error() {
		t.Errorf("together: %v", err)
	}
	var lines []string
	logf := skipRepeated(func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) })
	logf("approve %s", "a")
	logf("approve %s", "a")
	logf("approve %s", "b")
	if fmt.Sprint(lines) != "[approve a approve b]" {
		t.Errorf("got %v, want each text once", lines)
	}
}

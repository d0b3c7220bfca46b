package podsource

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
	"github.com/gantry-project/gantry/test/expect"
)

// updateChan receives updates by the Pods' names.
type updateChan chan string

func (l updateChan) Put(_ string, p *v1.Pod)            { l <- p.Name }
func (l updateChan) Remove(_ string, p *v1.Pod, _ bool) { l <- "-" + p.Name }
func (l updateChan) Complete(string)                    {}

func (l updateChan) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-l:
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	case <-time.After(expect.Patience(time.Minute)):
		t.Fatalf("nothing, want %s", want)
	}
}

// firstReading tells when its source has been read once.
type firstReading struct {
	updateChan
	done func()
}

func (r firstReading) Complete(string) { r.done() }

func manifest(name string) string {
	return fmt.Sprintf(
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"containers": [{"name": "c", "image": `+
			`"i"}]}}`, name)
}

// Both sources are read periodically, whether a change is notified or not: a directory that
// was not there when it was to be watched is found, and an answer that changed is seen.
//
// row: KSL-27
func TestSourcesAreReadPeriodically(t *testing.T) {
	s := func(l updateChan) StaticOptions {
		return StaticOptions{Receiver: l, Node: "n1", Interval: 30 * time.Millisecond,
			Rules: static.Rules{Default: func(*v1.Pod) {}, Validate: func(*v1.Pod) field.ErrorList { return nil }}}
	}
	t.Run("file", func(t *testing.T) {
		dir, received := filepath.Join(t.TempDir(), "later"), make(updateChan, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		read := make(chan struct{})
		options := s(received)
		options.Receiver = firstReading{received, sync.OnceFunc(func() { close(read) })}
		go func() { defer close(done); WatchFiles(ctx, dir, options) }()
		defer func() { cancel(); <-done }()
		<-read
		made := dir + ".new" // with its file, so that nothing happens in it after it is there
		if err := os.Mkdir(made, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(made, "a.json"), []byte(manifest("a")), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(made, dir); err != nil {
			t.Fatal(err)
		}
		received.expect(t, "a-n1")
	})
	t.Run("URL", func(t *testing.T) {
		now := atomic.Pointer[string]{}
		first, second := manifest("a"), manifest("b")
		now.Store(&first)
		srv := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(*now.Load())) }))
		defer srv.Close()
		received := make(updateChan, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); PollURL(ctx, URL{Address: srv.URL}, s(received)) }()
		defer func() { cancel(); <-done }()
		received.expect(t, "a-n1")
		now.Store(&second)
		received.expect(t, "-a-n1")
		received.expect(t, "b-n1")
	})
}

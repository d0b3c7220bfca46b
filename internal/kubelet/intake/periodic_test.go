package intake

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/kubelet/intake/static"
)

// listener hears of Pods by name.
type listener chan string

func (l listener) Put(_ string, p *v1.Pod)          { l <- p.Name }
func (l listener) Gone(_ string, p *v1.Pod, _ bool) { l <- "-" + p.Name }
func (l listener) Complete(string)                  {}

func (l listener) hears(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-l:
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("nothing, want %s", want)
	}
}

func manifest(name string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, name)
}

// Both sources are read periodically, whether somebody tells of a change or not: a directory that was not there when it was to be watched is found, and an answer
// that changed is seen.
//
// row: KSL-27
func TestSourcesAreReadPeriodically(t *testing.T) {
	s := func(l listener) Static {
		return Static{To: l, Node: "n1", Every: 30 * time.Millisecond, Rules: static.Rules{Default: func(*v1.Pod) {}, Validate: func(*v1.Pod) field.ErrorList { return nil }}}
	}
	t.Run("file", func(t *testing.T) {
		dir, heard := filepath.Join(t.TempDir(), "later"), make(listener, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); Files(ctx, dir, s(heard)) }()
		defer func() { cancel(); <-done }()
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
		heard.hears(t, "a-n1")
	})
	t.Run("URL", func(t *testing.T) {
		now := atomic.Pointer[string]{}
		first, second := manifest("a"), manifest("b")
		now.Store(&first)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(*now.Load())) }))
		defer srv.Close()
		heard := make(listener, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); Ask(ctx, URL{Address: srv.URL}, s(heard)) }()
		defer func() { cancel(); <-done }()
		heard.hears(t, "a-n1")
		now.Store(&second)
		heard.hears(t, "-a-n1")
		heard.hears(t, "b-n1")
	})
}

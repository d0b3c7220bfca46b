package gather

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/options"
)

// doctor asks the scheduler of the instance in --data-dir, wherever it serves, and never another
// one's on the usual port.
func TestDoctorAsksTheSchedulerOfItsOwnInstance(t *testing.T) {
	requested := 0
	s := httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { requested++; w.WriteHeader(http.StatusOK) }))
	defer s.Close()
	own := strings.TrimPrefix(s.URL, "https://")
	const usual = "127.0.0.1:10259"
	dir := t.TempDir()
	if got := options.SchedulerAddress(dir, usual); got != usual {
		t.Errorf("no instance: asks %q, want the usual port", got)
	}
	options.RecordPartAddress(dir, options.SchedulerPart, own)
	options.RecordPartAddress(dir, "other", "127.0.0.1:1")
	if got := options.SchedulerAddress(dir, usual); got != own {
		t.Errorf("asks %q, want %q", got, own)
	}
	found := (&Gatherer{Instance: &options.Instance{DataDir: dir}}).Scheduler(t.Context(), &rest.Config{})
	if found == nil || found.Address != own || requested != 1 {
		t.Errorf("asked %d times, found %+v", requested, found)
	}
	options.RecordPartAddress(dir, options.SchedulerPart, "")
	if got := options.SchedulerAddress(dir, usual); got != "" {
		t.Errorf("a scheduler without a port: asks %q, want none", got)
	}
	if (&Gatherer{Instance: &options.Instance{DataDir: dir}}).Scheduler(t.Context(), &rest.Config{}) != nil {
		t.Error("a scheduler that serves nothing was found")
	}
	server := t.TempDir() // of `gantry server`, whose scheduler is elsewhere
	if err := os.WriteFile(filepath.Join(server, "kubeconfig"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := options.SchedulerAddress(server, usual); got != "" {
		t.Errorf("an instance without scheduler: asks %q, want none", got)
	}
}

package gather

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gantry-project/gantry/internal/doctor"
)

// The doctor names each check of /readyz that fails, with the reason that the check gives by
// itself.
func TestDoctorAsksWhyTheServerIsNotReady(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		if r.URL.Path == "/readyz/watch-cache-progress" {
			fmt.Fprint(w, "internal server error: the watch cache of pods has stood still\n")
			return
		}
		fmt.Fprint(w, "[+]ping ok\n[-]watch-cache-progress failed: reason withheld\nreadyz check failed\n")
	}))
	defer s.Close()
	want := []doctor.FailingCheck{{Name: "watch-cache-progress", Reason: "the watch cache of pods has stood still"}}
	if got := failingChecks(t.Context(), s.Client(), s.URL); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %v", got, want)
	}
}

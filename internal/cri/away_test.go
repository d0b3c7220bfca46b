package cri_test

import (
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/cri"
)

// Dial retries if the runtime dies during one of its calls.
func TestDialRetriesWhenTheRuntimeDies(t *testing.T) {
	for _, method := range []string{"Version", "ImageFsInfo"} {
		f := start(t)
		if err := f.Fault(method, "2*drop->ok"); err != nil {
			t.Fatal(err)
		}
		dial(t, cri.Options{Endpoint: f.Endpoint(), ConnectTimeout: time.Minute})
		if got := f.Count(method); got != 3 {
			t.Errorf("%s: got %d calls, want 3", method, got)
		}
	}
}

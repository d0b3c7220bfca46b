package scheduler

import (
	"flag"
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestMain takes off client-go's brake on errors: it counts in the time of the first error, which
// is another for each bubble of virtual time, and would sleep for years. Most tests wait, for
// back-off above all, so that many may run at once however few cores there are.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

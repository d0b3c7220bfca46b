package kubelet_test

import (
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestMain takes off client-go's brake on errors: it counts in the time of the first error, which
// is another for each bubble of virtual time, and would sleep for years.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

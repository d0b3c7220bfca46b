package clustertrustbundlepublisher

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics/testutil"
)

// Syncs count by the HTTP status of their error.
func TestSyncsAreCounted(t *testing.T) {
	countSync(time.Second, nil)
	countSync(time.Second, apierrors.NewForbidden(certificatesv1.Resource("clustertrustbundles"), "x", nil))
	for _, code := range []string{"200", "403"} {
		got, err := testutil.GetCounterMetricValue(syncs.WithLabelValues(code))
		if err != nil || got != 1 {
			t.Errorf("syncs with %s: got %v and %v, want 1", code, got, err)
		}
	}
}

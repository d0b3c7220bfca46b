package certs

import (
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
)

// Rotations and failed renewals are counted under upstream's names.
//
// row: OPS-11
func TestCertificateRenewalsAreCounted(t *testing.T) {
	rotated, failed := servingMetrics()
	rotated.Observe(100)
	failed.Inc()
	clientMetrics().Inc()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
	}
	for name, want := range map[string]float64{
		"kubelet_certificate_manager_server_rotation_seconds": 100, "kubelet_server_expiration_renew_errors": 1,
		"kubelet_certificate_manager_client_expiration_renew_errors": 1,
	} {
		if got[name] < want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

package plan

import (
	"net/netip"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The Service has upstream's port and annotations for metrics, and the slice the port where this
// server has them.
func TestMetricsAreFoundByTheService(t *testing.T) {
	s := Service(netip.MustParseAddr("10.96.0.10"))
	last := s.Spec.Ports[len(s.Spec.Ports)-1]
	if last.Name != "metrics" || last.Port != 9153 || last.Protocol != v1.ProtocolTCP ||
		s.Annotations["prometheus.io/port"] != "9153" || s.Annotations["prometheus.io/scrape"] != "true" {
		t.Errorf("ports %+v, annotations %v", s.Spec.Ports, s.Annotations)
	}
	if WithDefaults(s) != nil {
		t.Error("what lacks nothing is completed")
	}
	old := s.DeepCopy()
	old.Spec.Ports, old.Annotations = old.Spec.Ports[:2], map[string]string{"prometheus.io/scrape": "false"}
	done := WithDefaults(old)
	if done == nil || len(done.Spec.Ports) != 3 || done.Annotations["prometheus.io/port"] != "9153" ||
		done.Annotations["prometheus.io/scrape"] != "false" {
		t.Errorf("completed %+v", done)
	}
	if len(old.Spec.Ports) != 2 || len(old.Annotations) != 1 {
		t.Errorf("what was given is changed: got %d ports and %d annotations, want 2 and 1", len(old.Spec.Ports),
			len(old.Annotations))
	}
	at := netip.MustParseAddrPort("10.72.0.1:53")
	if ports := Slice(Server{Node: "n1", At: at, Metrics: 40001}).Ports; len(ports) != 3 ||
		*ports[2].Name != "metrics" || *ports[2].Port != 40001 {
		t.Errorf("got %+v, want 3 in ports, Name metrics and Port 40001", ports)
	}
	if ports := Slice(Server{Node: "n1", At: at}).Ports; len(ports) != 2 {
		t.Errorf("a server without metrics: %+v, want 2 of them", ports)
	}
}

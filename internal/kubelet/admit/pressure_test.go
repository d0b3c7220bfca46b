package admit_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/admit"
)

// row: EVC-33
func TestAdmissionUnderPressure(t *testing.T) {
	tolerates := func(key string) *v1.Pod {
		return pod(func(p *v1.Pod) {
			p.Spec.Tolerations = []v1.Toleration{{Key: key, Operator: v1.TolerationOpExists}}
		})
	}
	critical := pod(func(p *v1.Pod) { n := int32(2_000_000_000); p.Spec.Priority = &n })
	static := pod(func(p *v1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "file"} })
	memory, disk, pid := v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure
	for _, c := range []struct {
		name    string
		pod     *v1.Pod
		has     []v1.NodeConditionType
		refused string
	}{
		{"no pressure", pod(nil), nil, ""},
		{"BestEffort, short of memory", pod(nil), []v1.NodeConditionType{memory}, "[MemoryPressure]"},
		{"Burstable, short of memory", pod(withRequests("0", "1Mi")), []v1.NodeConditionType{memory}, ""},
		{"tolerated", tolerates(v1.TaintNodeMemoryPressure), []v1.NodeConditionType{memory}, ""},
		{"another toleration", tolerates(v1.TaintNodeDiskPressure), []v1.NodeConditionType{memory}, "[MemoryPressure]"},
		{"critical", critical, []v1.NodeConditionType{disk, memory}, ""},
		{"static", static, []v1.NodeConditionType{disk}, ""},
		{"Burstable, short of disk", pod(withRequests("0", "1Mi")), []v1.NodeConditionType{disk}, "[DiskPressure]"},
		{"short of disk, tolerated", tolerates(v1.TaintNodeDiskPressure), []v1.NodeConditionType{disk},
			"[DiskPressure]"},
		{"short of ids", pod(withRequests("0", "1Mi")), []v1.NodeConditionType{pid}, "[PIDPressure]"},
		{"short of two", pod(withRequests("0", "1Mi")), []v1.NodeConditionType{disk, memory},
			"[DiskPressure MemoryPressure]"},
	} {
		r := admit.Admit(admit.In{Pod: c.pod, Pressure: c.has})
		want := "The node had condition: " + c.refused + ". "
		if (r != nil) != (c.refused != "") || r != nil && (string(r.Code) != "Evicted" || r.Detail != want) {
			t.Errorf("%s: got %+v, want %q", c.name, r, c.refused)
		}
	}
}

package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTableRow(t *testing.T) {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: metav1.NewTime(time.Unix(0, 0)),
			Labels: map[string]string{
				"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "",
				"kubernetes.io/role": "x",
			}},
		Spec: v1.NodeSpec{Unschedulable: true},
		Status: v1.NodeStatus{
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
			Addresses:  []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}},
			NodeInfo:   v1.NodeSystemInfo{KubeletVersion: "v1.37.2", ContainerRuntimeVersion: "containerd://2.4.2"},
		},
	}
	want := "[n Ready,SchedulingDisabled control-plane,worker,x 3h v1.37.2 10.0.0.1 <none> <unknown> <unknown> " +
		"containerd://2.4.2]"
	if got := fmt.Sprint(Row(n, metav1.NewTime(time.Unix(3*60*60, 0)))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUpdateRules(t *testing.T) {
	old := &v1.Node{Spec: v1.NodeSpec{PodCIDR: "10.1.0.0/24", ProviderID: "a://b"},
		Status: v1.NodeStatus{Capacity: v1.ResourceList{"cpu": resource.MustParse("2")}}}
	Default(old)
	if len(old.Spec.PodCIDRs) != 1 || old.Status.Allocatable.Cpu().String() != "2" {
		t.Errorf("defaults: %+v", old)
	}
	now := old.DeepCopy()
	now.Spec.PodCIDRs, now.Spec.ProviderID = []string{"10.2.0.0/24"}, "c://d"
	now.Spec.Taints = []v1.Taint{{Key: "k", Effect: "Sometimes"}}
	var got []string
	for _, e := range ValidateUpdate(now, old) {
		got = append(got, e.Error())
	}
	want := `metadata.taints[0].effect: Unsupported value: "Sometimes": supported values: ` +
		`"NoSchedule", "PreferNoSchedule", "NoExecute"
spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid
spec.providerID: Invalid value: null: field cannot be modified once set`
	if strings.Join(got, "\n") != want {
		t.Errorf("got %v, want %v", strings.Join(got, "\n"), want)
	}
}

// A Node without swap may say so in its status; the Node itself may not be written with it.
func TestSwapOfNothing(t *testing.T) {
	none := int64(0)
	n := &v1.Node{Status: v1.NodeStatus{NodeInfo: v1.NodeSystemInfo{Swap: &v1.NodeSwapStatus{Capacity: &none}}}}
	if errs := ValidateStatusUpdate(n, &v1.Node{}); len(errs) > 0 {
		t.Errorf("status: got %v, want no error", errs)
	}
	if errs := ValidateUpdate(n, &v1.Node{}); len(errs) != 1 {
		t.Errorf("got %v, want one error", errs)
	}
}

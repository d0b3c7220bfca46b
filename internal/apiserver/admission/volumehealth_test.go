package admission_test

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gantry-project/gantry/internal/apiserver/admission/noderestriction"
)

// With the gate CSIVolumeHealth a node writes the status of its own CSINode, and nothing else that
// way; without it, nothing at all.
func TestNodesWriteTheHealthOfTheirStorage(t *testing.T) {
	node := func(name string, drivers ...string) *storagev1.CSINode {
		n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, d := range drivers {
			n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: d, NodeID: name})
		}
		return n
	}
	agent := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}
	for _, c := range []struct {
		gate     bool
		old, obj *storagev1.CSINode
		want     string
	}{
		{true, node("n1", "a"), node("n1", "a"), ""},
		{false, node("n1"), node("n1"), "CSIVolumeHealth feature gate is disabled"},
		{true, node("n1"), node("n1", "a"), `node "n1" is not allowed to modify CSINode spec via status`},
		{true, node("n2"), node("n2"), "can only access CSINode with the same name as the requesting node"},
	} {
		expect(t, run(t, noderestriction.New(c.gate), attributesCase{obj: c.obj, old: c.old, sub: "status",
			op: admission.Update, by: agent}), c.want)
	}
}

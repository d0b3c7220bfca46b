package cri

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gantry-project/gantry/internal/cli"
)

// The node is the one that the name says, or the one that this machine is; a name that the API does
// not know is refused.
func TestNodeIsFoundByNameOrBootID(t *testing.T) {
	node := func(name, boot string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: boot}}}
	}
	client := fake.NewClientset(node("demo", "1"), node("other", "2"), node("a", "3"), node("b", "3"))
	for _, c := range []struct{ name, boot, want, fix string }{
		{"other", "1", "other", ""},
		{"host", "1", "demo", ""},
		{"host", "", "", "name this machine's node with --node-name; kubectl get nodes lists them"},
		{"host", "9", "", "name this machine's node with --node-name; kubectl get nodes lists them"},
		{"host", "3", "", "this machine has several nodes: give one with --node-name, of a, b"},
	} {
		got, err := findLocalNode(t.Context(), client, c.name, c.boot)
		var r cli.ErrorWithFix
		if errors.As(err, &r); got != c.want || r.Fix != c.fix || (err == nil) != (c.fix == "") {
			t.Errorf("%s, boot %q: %q, %v (%s)", c.name, c.boot, got, err, r.Fix)
		}
	}
}

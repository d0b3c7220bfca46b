package nodetaint_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gantry-project/gantry/internal/apiserver/admission/nodetaint"
)

// Which objects get the taint, and which have it already.
func TestTaint(t *testing.T) {
	const notReady = "node.kubernetes.io/not-ready:NoSchedule "
	node := func(taints ...v1.Taint) *v1.Node { return &v1.Node{Spec: v1.NodeSpec{Taints: taints}} }
	for name, c := range map[string]struct {
		object        runtime.Object
		resource, sub string
		want          string
	}{
		"a node":                               {node(), "nodes", "", notReady},
		"a node's status":                      {node(), "nodes", "status", ""},
		"a node in another resource's request": {node(), "pods", "", ""},
		"no node":                              {&v1.Pod{}, "nodes", "", ""},
		"the taint, with a value": {node(v1.Taint{Key: v1.TaintNodeNotReady, Value: "v",
			Effect: v1.TaintEffectNoSchedule}), "nodes", "", "node.kubernetes.io/not-ready=v:NoSchedule "},
		"another effect": {node(v1.Taint{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoExecute}), "nodes", "",
			"node.kubernetes.io/not-ready:NoExecute " + notReady},
		"another taint": {node(v1.Taint{Key: "k", Effect: v1.TaintEffectNoSchedule}), "nodes", "",
			"k:NoSchedule " + notReady},
	} {
		err := nodetaint.New().Admit(t.Context(), admission.NewAttributesRecord(c.object, nil,
			schema.GroupVersionKind{},
			"", "n", v1.SchemeGroupVersion.WithResource(c.resource), c.sub, admission.Create, nil, false, nil), nil)
		got := ""
		if n, ok := c.object.(*v1.Node); ok {
			for _, t := range n.Spec.Taints {
				got += t.ToString() + " "
			}
		}
		if got != c.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
	p := nodetaint.New()
	if create, update := p.Handles(admission.Create), p.Handles(admission.Update); !create || update {
		t.Errorf("it handles creations: %t, updates: %t, want creations alone", create, update)
	}
}

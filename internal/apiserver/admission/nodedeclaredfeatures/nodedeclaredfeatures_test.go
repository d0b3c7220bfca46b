package nodedeclaredfeatures

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gantry-project/gantry/internal/apiserver/admission/nodelister/nodelistertest"
	"github.com/gantry-project/gantry/test/wrappers"
)

const feature = "InPlacePodVerticalScalingInitContainers"

// sized is a Pod with an init container and a container of these sizes.
func sized(node, init, main string) *corev1.Pod {
	c := func(name, cpu string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	p := wrappers.MakePod().Namespace("ns").Name("p").Node(node).Obj()
	p.Spec.InitContainers, p.Spec.Containers = []corev1.Container{c("setup", init)}, []corev1.Container{c("app", main)}
	return p
}

// An update of a bound Pod is refused when its node does not declare what the update needs.
func TestUpdatesThatTheNodeCannotServe(t *testing.T) {
	node := func(name string, features ...string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{DeclaredFeatures: features}}
	}
	unseen := node("new", feature)
	p := New()
	nodelistertest.Initialize(t, p, unseen, node("able", "AnotherFeature", feature), node("plain"))
	more := sized("plain", "1", "1")
	more.Spec.InitContainers = append(more.Spec.InitContainers, corev1.Container{Name: "more"})
	const missing = `pods "p" is forbidden: pod update requires features ` + feature +
		` which are not available on node "plain"`
	for name, c := range map[string]struct {
		node, subresource, init, main string
		want                          string
	}{
		"declared":            {"able", "resize", "2", "1", ""},
		"not declared":        {"plain", "resize", "2", "1", missing},
		"by an update":        {"plain", "", "2", "1", missing},
		"of the status":       {"plain", "status", "2", "1", ""},
		"another container":   {"plain", "resize", "1", "2", ""},
		"not bound":           {"", "resize", "2", "1", ""},
		"no such node":        {"none", "resize", "2", "1", `pods "p" is forbidden: node "none" not found`},
		"a node not seen yet": {"new", "resize", "2", "1", ""},
	} {
		if got := refusal(t, p, sized(c.node, "1", "1"), sized(c.node, c.init, c.main), c.subresource); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := refusal(t, p, sized("plain", "1", "1"), more, ""); got != "" {
		t.Errorf("more init containers: got %q, want it left to validation", got)
	}
}

func refusal(t *testing.T, p *Plugin, old, cur *corev1.Pod, subresource string) string {
	t.Helper()
	a := admission.NewAttributesRecord(cur, old, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), subresource, admission.Update, nil, false, &user.DefaultInfo{})
	if err := p.Validate(t.Context(), a, nil); err != nil {
		return err.Error()
	}
	return ""
}

package podresize

import (
	"testing"

	"github.com/gantry-project/gantry/internal/apiserver/admission/nodelister/nodelistertest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory)}
}

// The refusals are those of kube-apiserver v1.37.2, asked by hack/apidiff/scripts/known.yaml.
func TestResizeBeyondTheNode(t *testing.T) {
	node := func(name, os string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{corev1.LabelOSStable: os}},
			Status: corev1.NodeStatus{Allocatable: list("1", "1Gi")}}
	}
	seen, unseen := node("small", "linux"), node("new", "")
	p := New()
	nodelistertest.Initialize(t, p, unseen, seen, node("win", "windows"))
	for name, c := range map[string]struct {
		node, cpu, memory, subresource, want string
	}{
		"fits": {"small", "1", "1Gi", "resize", ""},
		"processors": {"small", "2", "1Mi", "resize",
			`pods "p" is forbidden: node didn't have enough allocatable resources: cpu, requested: 2000,` +
				` allocatable: ` +
				`1000`},
		"memory": {"small", "100m", "2Gi", "resize",
			`pods "p" is forbidden: node didn't have enough allocatable resources: memory, requested: 2147483648,` +
				` allocatable: 1073741824`},
		"both": {"small", "1001m", "2Gi", "resize",
			`pods "p" is forbidden: node didn't have enough allocatable resources: cpu, requested: 1001,` +
				` allocatable: ` +
				`1000; memory, requested: 2147483648, allocatable: 1073741824`},
		"other system": {"win", "1", "1Mi", "resize",
			`pods "p" is forbidden: pod resize is only supported on linux nodes, node "win" is "windows"`},
		"no such node":    {"none", "1", "1Mi", "resize", `pods "p" is forbidden: node "none" not found`},
		"new node":        {"new", "1", "1Mi", "resize", ""},
		"not bound":       {"", "1k", "1Mi", "resize", ""},
		"another request": {"small", "2", "1Mi", "status", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"},
				Spec: corev1.PodSpec{NodeName: c.node, Containers: []corev1.Container{
					{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(c.cpu, c.memory)}}}}}
			a := admission.NewAttributesRecord(pod, pod.DeepCopy(), corev1.SchemeGroupVersion.WithKind("Pod"), "ns",
				"p", corev1.SchemeGroupVersion.WithResource("pods"), c.subresource,
				admission.Update, nil, false, &user.DefaultInfo{})
			got := ""
			if err := p.Validate(t.Context(), a, nil); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

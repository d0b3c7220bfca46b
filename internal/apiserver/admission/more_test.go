package admission_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gantry-project/gantry/internal/apiserver/registry/journal"
	facts "github.com/gantry-project/gantry/internal/journal"
)

func TestIngressClass(t *testing.T) {
	class := func(name, standard string) *networkingv1.IngressClass {
		return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: standard}}}
	}
	ingress := func(class *string, notes map[string]string) *networkingv1.Ingress {
		return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "i", Annotations: notes},
			Spec: networkingv1.IngressSpec{IngressClassName: class}}
	}
	objects := []runtime.Object{class("b", "true"), class("a", "true"), class("c", "false")}
	for name, c := range map[string]struct {
		objects []runtime.Object
		obj     *networkingv1.Ingress
		want    string
	}{
		"none named":  {objects, ingress(nil, nil), "a"},
		"named":       {objects, ingress(ptr("c"), nil), "c"},
		"old way":     {objects, ingress(nil, map[string]string{"kubernetes.io/ingress.class": "x"}), ""},
		"no standard": {[]runtime.Object{class("c", "false")}, ingress(nil, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, run(t, plugin(t, "DefaultIngressClass", c.objects...),
				attributesCase{obj: c.obj, resource: "ingresses"}), "")
			got := ""
			if n := c.obj.Spec.IngressClassName; n != nil {
				got = *n
			}
			if got != c.want {
				t.Errorf("class %q, want %q", got, c.want)
			}
		})
	}
}

func TestTopologyLabels(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: "z",
		corev1.LabelTopologyRegion: "r", "other": "o"}}}
	for node, want := range map[string]int{"n": 2, "": 0, "gone": 0} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
			Spec: corev1.PodSpec{NodeName: node}}
		expect(t, run(t, plugin(t, "PodTopologyLabels", n), attributesCase{obj: p}), "")
		if len(p.Labels) != want {
			t.Errorf("on node %q: labels %v, want %v", node, p.Labels, want)
		}
	}
}

// A node reports on Pods bound to it and on itself, on nothing else.
func TestNodeFacts(t *testing.T) {
	bound := func(name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u-1"},
			Spec: corev1.PodSpec{NodeName: node}}
	}
	p := plugin(t, "NodeRestriction", bound("mine", "n1"), bound("theirs", "n2")).(admission.MutationInterface)
	agent, other := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}},
		&user.DefaultInfo{Name: "system:kube-scheduler"}
	for name, c := range map[string]struct {
		by   user.Info
		ref  facts.Ref
		want string
	}{
		"mine": {agent, facts.Ref{Namespace: "ns", Name: "mine", UID: "u-1"}, ""},
		"theirs": {agent, facts.Ref{Namespace: "ns", Name: "theirs", UID: "u-1"},
			`entries[1].ref: node "n1" can only tell of Pods bound to it, and ns/theirs is bound to "n2"`},
		"an earlier theirs": {agent, facts.Ref{Namespace: "ns", Name: "theirs", UID: "u-0"}, ""},
		"gone":              {agent, facts.Ref{Namespace: "ns", Name: "gone", UID: "u-7"}, ""},
		"itself":            {agent, facts.Ref{Kind: "Node", Name: "n1"}, ""},
		"another node": {agent, facts.Ref{Kind: "Node", Name: "n2"},
			`node "n1" can only tell of itself, not of node "n2"`},
		"something else": {agent, facts.Ref{Kind: "Service", Name: "s"}, "not of a Service"},
		"no node":        {other, facts.Ref{Namespace: "ns", Name: "theirs", UID: "u-1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			batch := &journal.PodJournal{
				Entries: []facts.Entry{{Ref: facts.Ref{Namespace: "ns", Name: "mine", UID: "u-1"}}, {Ref: c.ref}}}
			gv := journal.GroupVersion
			a := admission.NewAttributesRecord(batch, nil, gv.WithKind("PodJournal"), "ns",
				"batch", gv.WithResource(journal.Resource), "", admission.Create, nil, false, c.by)
			expect(t, p.Admit(t.Context(), a, nil), c.want)
		})
	}
}

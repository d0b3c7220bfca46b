package apps

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// workloadRules is the part of a spec that chooses Pods and says what they look like.
type workloadRules struct {
	selector             *metav1.LabelSelector
	template             *corev1.PodTemplateSpec
	emptySelectorMessage string // the noun in the refusal of an empty selector
	noun                 string // the noun in the refusal of a deadline
	badSelectorMessage   string // what is said of a selector that cannot be read
}

func spec() *field.Path { return field.NewPath("spec") }

// check validates selector and template of a Deployment, ReplicaSet or StatefulSet.
func (w workloadRules) check(f *typed.Errors) {
	path := spec().Child("selector")
	if w.selector == nil {
		f.Required(path, "")
	} else {
		f.LabelSelector(path, w.selector)
		w.notEmpty(f)
	}
	s, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil {
		f.Invalid(path, w.selector, w.badSelectorMessage)
		return
	}
	if !s.Empty() {
		w.matches(f, s)
	}
	w.checkTemplate(f)
}

func (w workloadRules) notEmpty(f *typed.Errors) {
	if s := w.selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		f.Invalid(spec().Child("selector"), s, "empty selector is invalid for "+w.emptySelectorMessage)
	}
}

func (w workloadRules) matches(f *typed.Errors, s labels.Selector) {
	if !s.Matches(labels.Set(w.template.Labels)) {
		f.Invalid(spec().Child("template", "metadata", "labels"), w.template.Labels,
			"`selector` does not match template `labels`")
	}
}

// checkTemplate validates the template: that of a Pod which always restarts and has no deadline.
func (w workloadRules) checkTemplate(f *typed.Errors) {
	path := spec().Child("template")
	f.Add(podspec.ValidatePodTemplateSpec(w.template, path)...)
	if p := w.template.Spec.RestartPolicy; p != corev1.RestartPolicyAlways {
		f.Add(field.NotSupported(path.Child("spec", "restartPolicy"), p,
			[]corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if w.template.Spec.ActiveDeadlineSeconds != nil {
		f.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in "+w.noun+" is not Supported")
	}
}

// warn says what a client should know about an accepted template.
func warn(t *corev1.PodTemplateSpec) []string {
	return podspec.Warnings(&t.Spec, t.Annotations, spec().Child("template"))
}

// warnChanged is warn for an update, which says nothing if it left the spec as it was.
func warnChanged(t *corev1.PodTemplateSpec, generation, previous int64) []string {
	if generation == previous {
		return nil
	}
	return warn(t)
}

// replicaCounts are the counters of a status that may not exceed the number of replicas.
type replicaCounts struct {
	replicas int32
	parts    []part
}

type part struct {
	name  string
	count int32
}

func (r replicaCounts) notNegative(f *typed.Errors) {
	f.NotNegative(status().Child("replicas"), int64(r.replicas))
	for _, p := range r.parts {
		f.NotNegative(status().Child(p.name), int64(p.count))
	}
}

func (r replicaCounts) atMostReplicas(f *typed.Errors) {
	for _, p := range r.parts {
		f.NotGreater(status().Child(p.name), p.count, r.replicas, "cannot be greater than status.replicas")
	}
}

func status() *field.Path { return field.NewPath("status") }

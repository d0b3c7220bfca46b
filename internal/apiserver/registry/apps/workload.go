package apps

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

// templateColumns are the wide columns over a Pod template and its selector.
func templateColumns(selector string) []metav1.TableColumnDefinition {
	return column.Wide(
		column.Def("Containers", "Names of each container in the template."),
		column.Def("Images", "Images referenced by each container in the template."),
		column.Def("Selector", selector),
	)
}

// workload is the part of a spec that chooses Pods and says what they look like.
type workload struct {
	selector *metav1.LabelSelector
	template *corev1.PodTemplateSpec
	empty    string // the noun in the refusal of an empty selector
	noun     string // the noun in the refusal of a deadline
	broken   string // what is said of a selector that cannot be read
}

func spec() *field.Path { return field.NewPath("spec") }

// check judges selector and template of a Deployment, ReplicaSet or StatefulSet.
func (w workload) check(f *row.Findings) {
	path := spec().Child("selector")
	if w.selector == nil {
		f.Required(path, "")
	} else {
		f.Selector(path, w.selector)
		w.notEmpty(f)
	}
	s, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil {
		f.Invalid(path, w.selector, w.broken)
		return
	}
	if !s.Empty() {
		w.matches(f, s)
	}
	w.checkTemplate(f)
}

func (w workload) notEmpty(f *row.Findings) {
	if s := w.selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		f.Invalid(spec().Child("selector"), s, "empty selector is invalid for "+w.empty)
	}
}

func (w workload) matches(f *row.Findings, s labels.Selector) {
	if !s.Matches(labels.Set(w.template.Labels)) {
		f.Invalid(spec().Child("template", "metadata", "labels"), w.template.Labels, "`selector` does not match template `labels`")
	}
}

// checkTemplate judges the template: that of a Pod which always restarts and has no deadline.
func (w workload) checkTemplate(f *row.Findings) {
	path := spec().Child("template")
	f.Add(template.ValidatePodTemplateSpec(w.template, path)...)
	if p := w.template.Spec.RestartPolicy; p != corev1.RestartPolicyAlways {
		f.Add(field.NotSupported(path.Child("spec", "restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if w.template.Spec.ActiveDeadlineSeconds != nil {
		f.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in "+w.noun+" is not Supported")
	}
}

// warn says what a client should know about an accepted template.
func warn(t *corev1.PodTemplateSpec) []string {
	return template.Warnings(&t.Spec, t.Annotations, spec().Child("template"))
}

// warnName tells of names that make poor Pod names.
func warnName(name string) []string {
	if bad := validation.IsDNS1123Label(name); len(bad) > 0 {
		return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", bad)}
	}
	return nil
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

func (r replicaCounts) notNegative(f *row.Findings) {
	f.NotNegative(status().Child("replicas"), int64(r.replicas))
	for _, p := range r.parts {
		f.NotNegative(status().Child(p.name), int64(p.count))
	}
}

func (r replicaCounts) atMostReplicas(f *row.Findings) {
	for _, p := range r.parts {
		f.NotGreater(status().Child(p.name), p.count, r.replicas, "cannot be greater than status.replicas")
	}
}

func status() *field.Path { return field.NewPath("status") }

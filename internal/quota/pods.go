package quota

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"

	ownpod "github.com/gantry-project/gantry/internal/pod"
)

const (
	requests = "requests."
	limits   = "limits."
)

// pods evaluates Pods: their effective requests and limits until they end, and their number.
func pods(list func(schema.GroupResource) generic.ListFuncByNamespace, now func() time.Time) quota.Evaluator {
	gr := schema.GroupResource{Resource: "pods"}
	return &evaluator[*corev1.Pod]{
		resource: gr, list: list(gr),
		operations:  map[string][]admission.Operation{"": {admission.Create}, "resize": {admission.Update}},
		counts:      isPodResource,
		usage:       func(p *corev1.Pod) corev1.ResourceList { return podUsage(p, now()) },
		scope:       podScope,
		constraints: podConstraints,
	}
}

// isComputeResource reports whether quotas have the resource also under its plain name.
func isComputeResource(n corev1.ResourceName) bool {
	return n == corev1.ResourceCPU || n == corev1.ResourceMemory || n == corev1.ResourceEphemeralStorage
}

func hugePages(n corev1.ResourceName) bool {
	return strings.HasPrefix(string(n), corev1.ResourceHugePagesPrefix)
}

// extended reports whether it is an extended resource; quotas only limit their requests.
func extended(n corev1.ResourceName) bool {
	domain, _, ok := strings.Cut(string(n), "/")
	return ok && !strings.HasSuffix(domain, "kubernetes.io")
}

func isPodResource(n corev1.ResourceName) bool {
	if n == corev1.ResourcePods || isComputeResource(n) || hugePages(n) {
		return true
	}
	if r, ok := strings.CutPrefix(string(n), requests); ok {
		requested := corev1.ResourceName(r)
		return isComputeResource(requested) || hugePages(requested) || extended(requested)
	}
	l, ok := strings.CutPrefix(string(n), limits)
	return ok && isComputeResource(corev1.ResourceName(l))
}

// podUsage returns a Pod's usage. One that has ended, or whose deletion deadline has passed, only
// counts as a stored object.
func podUsage(p *corev1.Pod, now time.Time) corev1.ResourceList {
	out := corev1.ResourceList{"count/pods": *resource.NewQuantity(1, resource.DecimalSI)}
	overdue := p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil &&
		now.After(p.DeletionTimestamp.Add(ownpod.Seconds(*p.DeletionGracePeriodSeconds)))
	if ownpod.IsTerminal(p) || overdue {
		return out
	}
	out[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return quota.Add(out, byName(ownpod.Requests(p), ownpod.Limits(p)))
}

// byName returns requests and limits under their quota resource names.
func byName(requested, bound corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for n, q := range requested {
		if isComputeResource(n) || hugePages(n) {
			out[n] = q
		}
		if isComputeResource(n) || hugePages(n) || extended(n) {
			out[requests+n] = q
		}
	}
	for n, q := range bound {
		if isComputeResource(n) {
			out[limits+n] = q
		}
	}
	return out
}

// podConstraints refuses a Pod with a container without a cpu or memory amount that a quota limits,
// unless the Pod level has it.
func podConstraints(required []corev1.ResourceName, p *corev1.Pod) error {
	var must []corev1.ResourceName
	for _, n := range required {
		_, r, ok := strings.Cut(string(n), ".")
		if !ok {
			r = string(n)
		}
		if r == string(corev1.ResourceCPU) || r == string(corev1.ResourceMemory) {
			must = append(must, n)
		}
	}
	slices.Sort(must)
	var whole corev1.ResourceList
	if r := p.Spec.Resources; r != nil {
		whole = byName(r.Requests, r.Limits)
	}
	var missing []string
	for _, n := range must {
		if _, ok := whole[n]; ok {
			continue
		}
		scope := sets.New[string]()
		for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
			if _, ok := byName(c.Resources.Requests, c.Resources.Limits)[n]; !ok {
				scope.Insert(c.Name)
			}
		}
		if len(scope) > 0 {
			missing = append(missing, fmt.Sprintf("%s for: %s", n, strings.Join(sets.List(scope), ",")))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("must specify %s", strings.Join(missing, "; "))
	}
	return nil
}

// podScope reports whether a Pod is in a scope.
func podScope(s corev1.ScopedResourceSelectorRequirement, p *corev1.Pod) (bool, error) {
	ends := p.Spec.ActiveDeadlineSeconds != nil && *p.Spec.ActiveDeadlineSeconds >= 0
	best := ownpod.QOS(p) == corev1.PodQOSBestEffort
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return ends, nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !ends, nil
	case corev1.ResourceQuotaScopeBestEffort:
		return best, nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !best, nil
	case corev1.ResourceQuotaScopePriorityClass:
		return named(s, p.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(p.Spec.Affinity), nil
	}
	return false, nil
}

// crossesNamespaces reports whether a Pod affinity or anti-affinity term covers other namespaces.
func crossesNamespaces(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, w := range preferred {
			terms = append(terms, w.PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms,
		func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

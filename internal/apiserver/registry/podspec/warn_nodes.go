package podspec

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const nullSelector = "a null labelSelector results in matching no pod"

// DeprecatedNodeLabel returns the warning about a deprecated label of Nodes; "" for others.
func DeprecatedNodeLabel(key string) string {
	switch key {
	case "beta.kubernetes.io/arch":
		return `deprecated since v1.14; use "kubernetes.io/arch" instead`
	case "beta.kubernetes.io/os":
		return `deprecated since v1.14; use "kubernetes.io/os" instead`
	case "failure-domain.beta.kubernetes.io/region":
		return `deprecated since v1.17; use "topology.kubernetes.io/region" instead`
	case "failure-domain.beta.kubernetes.io/zone":
		return `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`
	case "beta.kubernetes.io/instance-type":
		return `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`
	}
	return ""
}

// NodeTermWarnings returns the warnings about a node selector term; preference adds those about
// values that no label can have.
func NodeTermWarnings(t *v1.NodeSelectorTerm, preference bool, path *field.Path) []string {
	w := &warnings{}
	for i, e := range t.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		if text := DeprecatedNodeLabel(e.Key); text != "" {
			w.add(at.Child("key"), "%s is %s", e.Key, text)
		}
		for k, v := range e.Values {
			for _, text := range validation.IsValidLabelValue(v) {
				if preference {
					w.add(at.Child("values").Index(k), "%s is invalid, %s", v, text)
				}
			}
		}
	}
	return w.out
}

// nodes warns of the spec's node selector and node affinity.
func (w *warnings) nodes() {
	for _, k := range slices.Sorted(maps.Keys(w.spec.NodeSelector)) {
		if text := DeprecatedNodeLabel(k); text != "" {
			w.add(w.path.Child("nodeSelector").Key(k), "%s", text)
		}
	}
	if a := w.spec.Affinity; a != nil && a.NodeAffinity != nil {
		path, n := w.path.Child("affinity", "nodeAffinity"), a.NodeAffinity
		if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			for i := range r.NodeSelectorTerms {
				w.out = append(w.out, NodeTermWarnings(&r.NodeSelectorTerms[i], false,
					path.Child(requiredTerms, "nodeSelectorTerms").Index(i))...)
			}
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			t := &n.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference
			w.out = append(w.out, NodeTermWarnings(t, true, path.Child(preferredTerms).Index(i).Child("preference"))...)
		}
	}
	for i, c := range w.spec.TopologySpreadConstraints {
		at := w.path.Child("topologySpreadConstraints").Index(i)
		if text := DeprecatedNodeLabel(c.TopologyKey); text != "" {
			w.add(at.Child("topologyKey"), "%s is %s", c.TopologyKey, text)
		}
		if c.LabelSelector == nil {
			w.add(at.Child("labelSelector"), nullSelector)
		}
	}
}

// affinity warns of Pod affinity terms that match no Pods.
func (w *warnings) affinity() {
	a := w.spec.Affinity
	if a == nil {
		return
	}
	terms := func(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm, at *field.Path) {
		for i := range required {
			if required[i].LabelSelector == nil {
				w.add(at.Child(requiredTerms).Index(i).Child("labelSelector"), nullSelector)
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				w.add(at.Child(preferredTerms).Index(i).Child("podAffinityTerm", "labelSelector"), nullSelector)
			}
		}
	}
	if p := a.PodAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution,
			w.path.Child("affinity", "podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution,
			w.path.Child("affinity", "podAntiAffinity"))
	}
}

package podspec

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MergeMatchLabelKeys adds, at creation, the Pod's labels named by matchLabelKeys and
// mismatchLabelKeys to the selectors of affinity terms and topology spread constraints, so that the
// scheduler reads selectors alone.
func MergeMatchLabelKeys(p *v1.Pod) {
	if a := p.Spec.Affinity; a != nil {
		var terms []*v1.PodAffinityTerm
		if a.PodAffinity != nil {
			terms = append(terms, affinityTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
				a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)...)
		}
		if a.PodAntiAffinity != nil {
			terms = append(terms, affinityTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
				a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)...)
		}
		for _, t := range terms {
			mergeKeys(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, p.Labels)
			mergeKeys(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, p.Labels)
		}
	}
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		mergeKeys(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, p.Labels)
	}
}

// affinityTerms returns pointers to all terms.
func affinityTerms(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) []*v1.PodAffinityTerm {
	var out []*v1.PodAffinityTerm
	for i := range required {
		out = append(out, &required[i])
	}
	for i := range preferred {
		out = append(out, &preferred[i].PodAffinityTerm)
	}
	return out
}

// mergeKeys adds a requirement for each key that the Pod has a label for; nothing without a
// selector.
func mergeKeys(s *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator, labels map[string]string) {
	if s == nil {
		return
	}
	for _, k := range keys {
		if v, ok := labels[k]; ok {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: k, Operator: op,
				Values: []string{v}})
		}
	}
}

package snapshot

import (
	"encoding/binary"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
)

// affinityTerms are a Pod's inter-Pod affinity, read.
type affinityTerms struct {
	affinity            []framework.AffinityTerm
	antiAffinity        []framework.AffinityTerm
	preferred           []framework.WeightedAffinityTerm
	preferredAnti       []framework.WeightedAffinityTerm
	nonHostAntiAffinity bool // a required anti-affinity term with a topology other than the host name
}

// affinityTermsOf reads them. The error is about a term whose selector cannot be read; the others
// are there.
func affinityTermsOf(p *v1.Pod) (affinityTerms, error) {
	var (
		t    affinityTerms
		errs [4]error
	)
	a := p.Spec.Affinity
	if a == nil {
		return t, nil
	}
	if a.PodAffinity != nil {
		t.affinity, errs[0] = framework.GetAffinityTerms(p, framework.GetPodAffinityTerms(a))
		t.preferred, errs[1] = framework.GetWeightedAffinityTerms(p,
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		t.antiAffinity, errs[2] = framework.GetAffinityTerms(p, framework.GetPodAntiAffinityTerms(a))
		t.preferredAnti, errs[3] = framework.GetWeightedAffinityTerms(p,
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	t.nonHostAntiAffinity = slices.ContainsFunc(t.antiAffinity,
		func(t framework.AffinityTerm) bool { return t.TopologyKey != v1.LabelHostname })
	for _, err := range errs {
		if err != nil {
			return t, fmt.Errorf("affinity of Pod %s: %w", pod.Key(p), err)
		}
	}
	return t, nil
}

// AppendTerms appends all that a Pod's inter-Pod affinity terms say, so that Pods of one namespace
// of which it appends the same have equal terms.
func AppendTerms(to []byte, p *v1.Pod) []byte {
	a := p.Spec.Affinity
	if a == nil {
		return to
	}
	if x := a.PodAffinity; x != nil {
		to = appendTerms(append(to, 1), x.RequiredDuringSchedulingIgnoredDuringExecution)
		to = appendWeighted(append(to, 2), x.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if x := a.PodAntiAffinity; x != nil {
		to = appendTerms(append(to, 3), x.RequiredDuringSchedulingIgnoredDuringExecution)
		to = appendWeighted(append(to, 4), x.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return to
}

func appendTerms(to []byte, all []v1.PodAffinityTerm) []byte {
	to = appendLen(to, len(all))
	for i := range all {
		to = appendTerm(to, &all[i])
	}
	return to
}

func appendWeighted(to []byte, all []v1.WeightedPodAffinityTerm) []byte {
	to = appendLen(to, len(all))
	for i := range all {
		to = appendTerm(binary.AppendVarint(to, int64(all[i].Weight)), &all[i].PodAffinityTerm)
	}
	return to
}

func appendTerm(to []byte, t *v1.PodAffinityTerm) []byte {
	to = appendString(to, t.TopologyKey)
	to = AppendSelector(to, t.LabelSelector)
	to = AppendSelector(to, t.NamespaceSelector)
	for _, list := range [][]string{t.Namespaces, t.MatchLabelKeys, t.MismatchLabelKeys} {
		to = appendStrings(to, list)
	}
	return to
}

// AppendSelector appends all that a selector says; equal selectors append the same.
func AppendSelector(to []byte, s *metav1.LabelSelector) []byte {
	if s == nil {
		return append(to, 0)
	}
	to = AppendLabels(append(to, 1), s.MatchLabels)
	to = appendLen(to, len(s.MatchExpressions))
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		to = appendStrings(appendString(appendString(to, e.Key), string(e.Operator)), e.Values)
	}
	return to
}

// AppendLabels appends labels in the order of their keys.
func AppendLabels(to []byte, l map[string]string) []byte {
	var room [16]string
	keys := room[:0]
	for key := range l {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	to = appendLen(to, len(keys))
	for _, key := range keys {
		to = appendString(appendString(to, key), l[key])
	}
	return to
}

func appendStrings(to []byte, list []string) []byte {
	to = appendLen(to, len(list))
	for _, s := range list {
		to = appendString(to, s)
	}
	return to
}

func appendString(to []byte, s string) []byte { return append(appendLen(to, len(s)), s...) }

func appendLen(to []byte, n int) []byte { return binary.AppendUvarint(to, uint64(n)) }

// maxCachedTerms bounds how many different terms are remembered.
const maxCachedTerms = 512

// affinityTermsCache are terms that were read, by namespace and what AppendTerms says of them: the
// Pods of a workload have the same.
type affinityTermsCache struct {
	byKey map[string]*affinityTerms
	key   []byte
}

// terms reads a Pod's terms, or finds those read before.
func (r *affinityTermsCache) terms(p *v1.Pod) affinityTerms {
	if a := p.Spec.Affinity; a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil {
		return affinityTerms{}
	}
	r.key = AppendTerms(appendString(r.key[:0], p.Namespace), p)
	if t := r.byKey[string(r.key)]; t != nil {
		return *t
	}
	t, _ := affinityTermsOf(p) // a term that cannot be read binds nobody
	if r.byKey == nil || len(r.byKey) >= maxCachedTerms {
		r.byKey = map[string]*affinityTerms{}
	}
	r.byKey[string(r.key)] = &t
	return t
}

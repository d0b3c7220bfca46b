package podspec

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const (
	requiredTerms  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferredTerms = "preferredDuringSchedulingIgnoredDuringExecution"
	noSelector     = "must not be specified when labelSelector is not set"
)

// affinity validates node and Pod affinity.
func (j *validator) affinity(path *field.Path) {
	a := j.spec.Affinity
	if a == nil {
		return
	}
	if n := a.NodeAffinity; n != nil {
		at := path.Child("nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			j.Add(ValidateNodeSelector(n.RequiredDuringSchedulingIgnoredDuringExecution, at.Child(requiredTerms))...)
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			t, at := &n.PreferredDuringSchedulingIgnoredDuringExecution[i], at.Child(preferredTerms).Index(i)
			j.weight(t.Weight, at)
			j.Add(validateNodeSelectorTerm(&t.Preference, true, at.Child("preference"))...)
		}
	}
	if p := a.PodAffinity; p != nil {
		j.podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution,
			path.Child("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		j.podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution,
			path.Child("podAntiAffinity"))
	}
}

func (j *validator) weight(w int32, path *field.Path) {
	if w < 1 || w > 100 {
		j.Invalid(path.Child("weight"), w, "must be in the range 1-100")
	}
}

// ValidateNodeSelector validates a node selector: at least one term, each valid.
func ValidateNodeSelector(s *v1.NodeSelector, path *field.Path) field.ErrorList {
	var f typed.Errors
	if len(s.NodeSelectorTerms) == 0 {
		f.Required(path.Child("nodeSelectorTerms"), "must have at least one node selector term")
	}
	for i := range s.NodeSelectorTerms {
		f.Add(validateNodeSelectorTerm(&s.NodeSelectorTerms[i], false, path.Child("nodeSelectorTerms").Index(i))...)
	}
	return f.List()
}

// validateNodeSelectorTerm validates one term. A preferred term may have values that no label can
// have, for which NodeTermWarnings warns.
func validateNodeSelectorTerm(t *v1.NodeSelectorTerm, preference bool, path *field.Path) field.ErrorList {
	var f typed.Errors
	for i := range t.MatchExpressions {
		r, at := &t.MatchExpressions[i], path.Child("matchExpressions").Index(i)
		switch r.Operator {
		case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
			if len(r.Values) == 0 {
				f.Required(at.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'")
			}
		case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				f.Forbidden(at.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
			}
		case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
			if len(r.Values) != 1 {
				f.Required(at.Child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")
			}
		default:
			f.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator")
		}
		f.Add(metavalidation.ValidateLabelName(r.Key, at.Child("key"))...)
		for k, v := range r.Values {
			if !preference {
				f.InvalidEach(at.Child("values").Index(k), v, validation.IsValidLabelValue(v))
			}
		}
	}
	for i := range t.MatchFields {
		f.Add(validateFieldTerm(&t.MatchFields[i], path.Child("matchFields").Index(i))...)
	}
	return f.List()
}

// validateFieldTerm validates one requirement of matchFields.
func validateFieldTerm(r *v1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var f typed.Errors
	switch r.Operator {
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			f.Required(path.Child("values"),
				"must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
		}
	default:
		f.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator")
	}
	if r.Key != metav1.ObjectNameField {
		f.Invalid(path.Child("key"), r.Key, "not a valid field selector key")
		return f.List()
	}
	for i, v := range r.Values {
		f.InvalidEach(path.Child("values").Index(i), v, validation.IsDNS1123Subdomain(v))
	}
	return f.List()
}

func (j *validator) podTerms(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm, path *field.Path) {
	for i := range required {
		j.podTerm(&required[i], path.Child(requiredTerms).Index(i))
	}
	for i := range preferred {
		at := path.Child(preferredTerms).Index(i)
		j.weight(preferred[i].Weight, at)
		j.podTerm(&preferred[i].PodAffinityTerm, at.Child("podAffinityTerm"))
	}
}

// podTerm validates one Pod affinity term.
func (j *validator) podTerm(t *v1.PodAffinityTerm, path *field.Path) {
	o := metavalidation.LabelSelectorValidationOptions{}
	j.Add(metavalidation.ValidateLabelSelector(t.LabelSelector, o, path.Child("labelSelector"))...)
	j.Add(metavalidation.ValidateLabelSelector(t.NamespaceSelector, o, path.Child("namespaceSelector"))...)
	for _, n := range t.Namespaces {
		j.DNSLabel(path.Child("namespace"), n)
	}
	j.termKeys(t.MatchLabelKeys, t.LabelSelector, path.Child("matchLabelKeys"))
	j.termKeys(t.MismatchLabelKeys, t.LabelSelector, path.Child("mismatchLabelKeys"))
	j.noDuplicateMatchLabelKeys(t.MatchLabelKeys, t.LabelSelector, path)
	mismatch := sets.New(t.MismatchLabelKeys...)
	for i, k := range t.MatchLabelKeys {
		if mismatch.Has(k) {
			j.Invalid(path.Child("matchLabelKeys").Index(i), k, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
	if t.TopologyKey == "" {
		j.Required(path.Child("topologyKey"), "can not be empty")
	}
	j.Add(metavalidation.ValidateLabelName(t.TopologyKey, path.Child("topologyKey"))...)
}

// termKeys validates the label keys of an affinity term; without a selector there is one error and
// no more.
func (j *validator) termKeys(keys []string, s *metav1.LabelSelector, path *field.Path) {
	if s == nil && len(keys) > 0 {
		j.Forbidden(path, noSelector)
		return
	}
	j.matchKeys(keys, s, path)
}

// matchKeys validates matchLabelKeys or mismatchLabelKeys.
func (j *validator) matchKeys(keys []string, s *metav1.LabelSelector, path *field.Path) {
	if len(keys) == 0 {
		return
	}
	if s == nil {
		j.Forbidden(path, noSelector)
		return
	}
	for i, k := range keys {
		j.Add(metavalidation.ValidateLabelName(k, path.Index(i))...)
	}
}

// noDuplicateMatchLabelKeys rejects a key of matchLabelKeys that the selector also has, beyond the
// requirement that MergeMatchLabelKeys has added.
func (j *validator) noDuplicateMatchLabelKeys(keys []string, s *metav1.LabelSelector, path *field.Path) {
	if s == nil {
		return
	}
	index, seen := map[string]int{}, sets.KeySet(s.MatchLabels)
	for i, k := range keys {
		index[k] = i
	}
	for _, e := range s.MatchExpressions {
		if i, ok := index[e.Key]; ok && seen.Has(e.Key) {
			j.Invalid(path.Index(i), e.Key, "exists in both matchLabelKeys and labelSelector")
		}
		seen.Insert(e.Key)
	}
}

// topologySpreadConstraints validates spec.topologySpreadConstraints.
func (j *validator) topologySpreadConstraints(path *field.Path) {
	for i := range j.spec.TopologySpreadConstraints {
		c, at := &j.spec.TopologySpreadConstraints[i], path.Index(i)
		if c.MaxSkew <= 0 {
			j.Invalid(at.Child("maxSkew"), c.MaxSkew, "must be greater than zero")
		}
		if c.TopologyKey == "" {
			j.Required(at.Child("topologyKey"), "can not be empty")
		}
		typed.Supported(&j.Errors, at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, v1.DoNotSchedule,
			v1.ScheduleAnyway)
		for k := i + 1; k < len(j.spec.TopologySpreadConstraints); k++ {
			if o := &j.spec.TopologySpreadConstraints[k]; o.TopologyKey == c.TopologyKey &&
				o.WhenUnsatisfiable == c.WhenUnsatisfiable {
				j.Add(field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"),
					"{"+c.TopologyKey+", "+string(c.WhenUnsatisfiable)+"}"))
			}
		}
		if d := c.MinDomains; d != nil {
			if *d <= 0 {
				j.Invalid(at.Child("minDomains"), *d, "must be greater than zero")
			}
			if c.WhenUnsatisfiable != v1.DoNotSchedule {
				j.Invalid(at.Child("minDomains"), *d,
					"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "+string(c.WhenUnsatisfiable))
			}
		}
		if p := c.NodeAffinityPolicy; p != nil {
			typed.Supported(&j.Errors, at.Child("nodeAffinityPolicy"), *p, v1.NodeInclusionPolicyHonor,
				v1.NodeInclusionPolicyIgnore)
		}
		if p := c.NodeTaintsPolicy; p != nil {
			typed.Supported(&j.Errors, at.Child("nodeTaintsPolicy"), *p, v1.NodeInclusionPolicyHonor,
				v1.NodeInclusionPolicyIgnore)
		}
		j.matchKeys(c.MatchLabelKeys, c.LabelSelector, at.Child("matchLabelKeys"))
		if c.LabelSelector != nil {
			for k, key := range c.MatchLabelKeys {
				if _, ok := c.LabelSelector.MatchLabels[key]; ok && j.template {
					j.Invalid(at.Child("matchLabelKeys").Index(k), key,
						"exists in both matchLabelKeys and labelSelector")
				}
			}
		}
		j.Add(metavalidation.ValidateLabelSelector(c.LabelSelector, metavalidation.LabelSelectorValidationOptions{},
			at.Child("labelSelector"))...)
	}
}

// ValidateTolerations validates a list of tolerations.
func ValidateTolerations(list []v1.Toleration, path *field.Path) field.ErrorList {
	var j validator
	j.tolerations(list, path)
	return j.List()
}

func (j *validator) tolerations(list []v1.Toleration, path *field.Path) {
	for i := range list {
		j.toleration(&list[i], path.Index(i))
	}
}

func (j *validator) toleration(t *v1.Toleration, path *field.Path) {
	if t.Key != "" {
		j.Add(metavalidation.ValidateLabelName(t.Key, path.Child("key"))...)
	}
	op := path.Child("operator")
	if t.Key == "" && t.Operator != v1.TolerationOpExists {
		j.Invalid(op, t.Operator,
			"operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
	}
	if t.TolerationSeconds != nil && t.Effect != v1.TaintEffectNoExecute {
		j.Invalid(path.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
	}
	switch t.Operator {
	case v1.TolerationOpEqual, "":
		if messages := validation.IsValidLabelValue(t.Value); len(messages) > 0 {
			j.Invalid(op, t.Value, strings.Join(messages, ";"))
		}
	case v1.TolerationOpExists:
		if t.Value != "" {
			j.Invalid(op, t.Value, "value must be empty when `operator` is 'Exists'")
		}
	case v1.TolerationOpLt, v1.TolerationOpGt: // behind a gate that is off; named all the same
		j.Add(field.NotSupported(op, t.Operator,
			[]v1.TolerationOperator{v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpLt, v1.TolerationOpGt}))
	default:
		j.Add(field.NotSupported(op, t.Operator, []v1.TolerationOperator{v1.TolerationOpEqual, v1.TolerationOpExists}))
	}
	switch t.Effect {
	case "", v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
	default:
		j.Add(field.NotSupported(path.Child("effect"), t.Effect,
			[]v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}))
	}
}

package podtopologyspread

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/gantry-project/gantry/internal/pod/fit"
)

// constraint is a topology spread constraint with its selector compiled and defaults filled in.
type constraint struct {
	maxSkew      int32
	key          string
	selector     labels.Selector
	minDomains   int32
	honorTaints  bool // nodes with untolerated taints are no domains
	skipAffinity bool // nodes the Pod's affinity rules out are domains all the same
}

// systemDefaultConstraints are upstream's default constraints; they only score.
func systemDefaultConstraints() []v1.TopologySpreadConstraint {
	return []v1.TopologySpreadConstraint{
		{TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 3},
		{TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 5},
	}
}

// constraints gives those of the Pod with the action, or the defaults when the Pod has none at all.
func (pl *Plugin) constraints(p *v1.Pod, action v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var selector labels.Selector
	if len(p.Spec.TopologySpreadConstraints) == 0 && slices.ContainsFunc(pl.defaults,
		func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == action }) {
		selector = pl.defaultSelector(p)
	}
	return pl.constraintsWith(p, selector, action)
}

// constraintsWith does so for a Pod whose default constraints have the selector; nil: none have.
func (pl *Plugin) constraintsWith(p *v1.Pod, selector labels.Selector,
	action v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	if len(p.Spec.TopologySpreadConstraints) > 0 {
		return compile(p.Spec.TopologySpreadConstraints, p.Labels, action)
	}
	out, err := compile(pl.defaults, p.Labels, action)
	if err != nil || selector == nil {
		return nil, err
	}
	for i := range out {
		out[i].selector = selector
	}
	return out, nil
}

// defaultSelector is the selector that default constraints have for a Pod, of its Service or
// controller; nil when no default applies to it.
func (pl *Plugin) defaultSelector(p *v1.Pod) labels.Selector {
	if len(pl.defaults) == 0 || pl.selectorOf == nil {
		return nil
	}
	if selector := pl.selectorOf(p); selector != nil && !selector.Empty() {
		return selector
	}
	return nil
}

func compile(all []v1.TopologySpreadConstraint, own labels.Set,
	action v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var out []constraint
	for i := range all {
		c := &all[i]
		if c.WhenUnsatisfiable != action {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("topologySpreadConstraints[%d].labelSelector: %w", i, err)
		}
		if len(c.MatchLabelKeys) > 0 {
			same := labels.Set{}
			for _, key := range c.MatchLabelKeys {
				if v, ok := own[key]; ok {
					same[key] = v
				}
			}
			if more, selectable := labels.SelectorFromSet(same).Requirements(); selectable {
				selector = selector.Add(more...)
			}
		}
		one := constraint{maxSkew: c.MaxSkew, key: c.TopologyKey, selector: selector, minDomains: 1}
		if c.MinDomains != nil {
			one.minDomains = *c.MinDomains
		}
		one.honorTaints = c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor
		one.skipAffinity = c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == v1.NodeInclusionPolicyIgnore
		out = append(out, one)
	}
	return out, nil
}

// includes tells whether the constraint's policies let a node count as (part of) a domain for the
// Pod.
func (c *constraint) includes(p *v1.Pod, n *v1.Node, required nodeaffinity.RequiredNodeAffinity) bool {
	if !c.skipAffinity {
		if ok, _ := required.Match(n); !ok { // terms that cannot be read match nothing
			return false
		}
	}
	if c.honorTaints {
		if _, bad := fit.Untolerated(n.Spec.Taints, p.Spec.Tolerations, v1.TaintEffectNoSchedule,
			v1.TaintEffectNoExecute); bad {
			return false
		}
	}
	return true
}

func hasAllKeys(n *v1.Node, all []constraint) bool {
	for i := range all {
		if _, ok := n.Labels[all[i].key]; !ok {
			return false
		}
	}
	return true
}

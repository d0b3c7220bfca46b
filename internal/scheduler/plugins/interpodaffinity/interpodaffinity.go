package interpodaffinity

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

const (
	// Name of the plugin.
	Name = "InterPodAffinity"
	// Upstream's texts.
	ReasonAffinity     = "node(s) didn't match pod affinity rules"
	ReasonAntiAffinity = "node(s) didn't match pod anti-affinity rules"
	ReasonExisting     = "node(s) didn't satisfy existing pods anti-affinity rules"

	filterKey framework.StateKey = "PreFilter" + Name
	scoreKey  framework.StateKey = "PreScore" + Name
)

// Namespaces gives the labels of a namespace; none for one that is not known.
type Namespaces func(name string) labels.Set

// Plugin implements the extension points of this package.
type Plugin struct {
	hardWeight      int64 // what a required affinity term of a Pod already there counts when it matches
	ignorePreferred bool  // preferred terms of Pods already there do not count for Pods without such terms
	namespaces      Namespaces

	affinityStatus, antiAffinityStatus, existingAntiAffinityStatus *framework.Status
}

// New makes the plugin from defaulted arguments. namespaces may be nil: selectors of namespaces
// then see no labels.
func New(args *config.InterPodAffinityArgs, namespaces Namespaces) *Plugin {
	if namespaces == nil {
		namespaces = func(string) labels.Set { return nil }
	}
	p := &Plugin{
		hardWeight: 1, namespaces: namespaces,
		affinityStatus: framework.NewStatus(framework.UnschedulableAndUnresolvable,
			ReasonAffinity).WithPlugin(Name),
		antiAffinityStatus:         framework.NewStatus(framework.Unschedulable, ReasonAntiAffinity).WithPlugin(Name),
		existingAntiAffinityStatus: framework.NewStatus(framework.Unschedulable, ReasonExisting).WithPlugin(Name),
	}
	if args != nil {
		p.ignorePreferred = args.IgnorePreferredTermsOfExistingPods
		if args.HardPodAffinityWeight != nil {
			p.hardWeight = int64(*args.HardPodAffinityWeight)
		}
	}
	return p
}

var (
	_ framework.PreFilterPlugin     = (*Plugin)(nil)
	_ framework.PreFilterExtensions = (*Plugin)(nil)
	_ framework.FilterPlugin        = (*Plugin)(nil)
	_ framework.PreScorePlugin      = (*Plugin)(nil)
	_ framework.ScorePlugin         = (*Plugin)(nil)
	_ framework.EnqueueExtensions   = (*Plugin)(nil)
	_ framework.SignPlugin          = (*Plugin)(nil)
	_ schedule.Explainer            = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

// matches tells whether a term means the Pod: by its namespace, or the labels of that, and by its
// own labels.
func (pl *Plugin) matches(t *framework.AffinityTerm, p *v1.Pod) bool {
	if !t.Selector.Matches(labels.Set(p.Labels)) {
		return false
	}
	if t.Namespaces.Has(p.Namespace) {
		return true
	}
	if t.NamespaceSelector == nil {
		return false
	}
	if _, selects := t.NamespaceSelector.Requirements(); !selects { // selects nothing
		return false
	}
	return t.NamespaceSelector.Empty() || t.NamespaceSelector.Matches(pl.namespaces(p.Namespace))
}

// matchesAll tells whether every term means the Pod; no terms mean nobody.
func (pl *Plugin) matchesAll(terms []framework.AffinityTerm, p *v1.Pod) bool {
	for i := range terms {
		if !pl.matches(&terms[i], p) {
			return false
		}
	}
	return len(terms) > 0
}

func (pl *Plugin) matchesAny(terms []framework.AffinityTerm, p *v1.Pod) bool {
	for i := range terms {
		if pl.matches(&terms[i], p) {
			return true
		}
	}
	return false
}

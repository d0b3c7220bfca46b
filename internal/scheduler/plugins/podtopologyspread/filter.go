package podtopologyspread

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic" //nolint:depguard // what was chosen for a Pod is kept from one question of a cycle to the next

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

const (
	// Name of the plugin.
	Name = "PodTopologySpread"
	// Upstream's texts.
	ReasonSkew  = "node(s) didn't match pod topology spread constraints"
	ReasonLabel = ReasonSkew + " (missing required label)"

	filterKey framework.StateKey = "PreFilter" + Name
	scoreKey  framework.StateKey = "PreScore" + Name
)

// Plugin is the judge.
type Plugin struct {
	defaults         []v1.TopologySpreadConstraint
	systemDefaulting bool // defaults are the system's
	selectorOf       func(*v1.Pod) labels.Selector

	skewStatus, missingLabelStatus *framework.Status

	lastSelector atomic.Pointer[chosenSelector] // for the Pod that Tallied was asked about last
}

// New makes the judge from defaulted arguments. selectorOf finds the selector of the Service or
// controller a Pod belongs to, for default constraints; nil: Pods without constraints of their own
// are left alone.
func New(args *config.PodTopologySpreadArgs, selectorOf func(*v1.Pod) labels.Selector) *Plugin {
	p := &Plugin{
		selectorOf:         selectorOf,
		skewStatus:         framework.NewStatus(framework.Unschedulable, ReasonSkew).WithPlugin(Name),
		missingLabelStatus: framework.NewStatus(framework.UnschedulableAndUnresolvable, ReasonLabel).WithPlugin(Name),
	}
	if p.systemDefaulting = args == nil || args.DefaultingType == config.SystemDefaulting; p.systemDefaulting {
		p.defaults = systemDefaultConstraints()
	} else {
		p.defaults = args.DefaultConstraints
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

// preFilterState is how matching Pods stand, by constraint.
type preFilterState struct {
	constraints []constraint
	domains     []domainCounts
}

// domainCounts counts matching Pods by domain of one constraint, and remembers the least count.
type domainCounts struct {
	pods           map[string]int
	domainsByCount map[int]int // number of domains by their count
	minMatch       int
}

// Clone copies the counts.
func (s *preFilterState) Clone() framework.StateData {
	c := &preFilterState{constraints: s.constraints, domains: make([]domainCounts, len(s.domains))}
	for i, d := range s.domains {
		c.domains[i] = domainCounts{pods: maps.Clone(d.pods), domainsByCount: maps.Clone(d.domainsByCount),
			minMatch: d.minMatch}
	}
	return c
}

// updateMinMatch computes the least count after the domains were filled.
func (d *domainCounts) updateMinMatch() {
	d.domainsByCount = map[int]int{}
	first := true
	for _, n := range d.pods {
		d.domainsByCount[n]++
		if first || n < d.minMatch {
			d.minMatch, first = n, false
		}
	}
}

// add changes a domain's count by one.
func (d *domainCounts) add(domain string, by int) {
	was, ok := d.pods[domain]
	if !ok {
		return
	}
	is := was + by
	d.pods[domain] = is
	d.domainsByCount[was]--
	d.domainsByCount[is]++
	if is < d.minMatch || was == d.minMatch && d.domainsByCount[was] == 0 {
		d.minMatch = is
	}
}

// PreFilter counts matching Pods by domain.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	all, err := pl.constraints(p, v1.DoNotSchedule)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if len(all) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	s := &preFilterState{constraints: all, domains: make([]domainCounts, len(all))}
	for i := range all {
		s.domains[i].pods = map[string]int{}
	}
	required := nodeaffinity.GetRequiredNodeAffinity(p)
	for _, n := range nodes {
		node := n.Node()
		if !hasAllKeys(node, all) {
			continue
		}
		for i := range all {
			if c := &all[i]; c.includes(p, node, required) {
				s.domains[i].pods[node.Labels[c.key]] += count(n.GetPods(), c.selector, p.Namespace)
			}
		}
	}
	for i := range s.domains {
		s.domains[i].updateMinMatch()
	}
	state.Write(filterKey, s)
	return nil, nil
}

// PreFilterExtensions follows Pods that are added or removed in thought.
func (pl *Plugin) PreFilterExtensions() framework.PreFilterExtensions { return pl }

// AddPod counts a Pod in.
func (pl *Plugin) AddPod(_ context.Context, state framework.CycleState, p *v1.Pod, other framework.PodInfo,
	n framework.NodeInfo) *framework.Status {
	return pl.updateCounts(state, p, podChange{other.GetPod(), n.Node(), 1})
}

// RemovePod counts a Pod out.
func (pl *Plugin) RemovePod(_ context.Context, state framework.CycleState, p *v1.Pod, other framework.PodInfo,
	n framework.NodeInfo) *framework.Status {
	return pl.updateCounts(state, p, podChange{other.GetPod(), n.Node(), -1})
}

type podChange struct {
	pod  *v1.Pod
	node *v1.Node
	by   int
}

func (pl *Plugin) updateCounts(state framework.CycleState, p *v1.Pod, m podChange) *framework.Status {
	s, err := preFilterStateOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	if m.pod.Namespace != p.Namespace || m.node == nil || !hasAllKeys(m.node, s.constraints) {
		return nil
	}
	required := nodeaffinity.GetRequiredNodeAffinity(p)
	for i := range s.constraints {
		if c := &s.constraints[i]; c.selector.Matches(labels.Set(m.pod.Labels)) && c.includes(p, m.node, required) {
			s.domains[i].add(m.node.Labels[c.key], m.by)
		}
	}
	return nil
}

func preFilterStateOf(state framework.CycleState) (*preFilterState, error) {
	v, err := state.Read(filterKey)
	if err != nil {
		return nil, fmt.Errorf("reading %q from the cycle state: %w", filterKey, err)
	}
	s, ok := v.(*preFilterState)
	if !ok {
		return nil, fmt.Errorf("%q in the cycle state is a %T", filterKey, v)
	}
	return s, nil
}

// Filter refuses nodes whose domain would stand out by more than maxSkew.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	s, err := preFilterStateOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	for i := range s.constraints {
		domain, ok := n.Node().Labels[s.constraints[i].key]
		if !ok {
			return pl.missingLabelStatus
		}
		if skew, _, _ := s.skew(i, domain, p); skew > int(s.constraints[i].maxSkew) {
			return pl.skewStatus
		}
	}
	return nil
}

// skew is that of a domain with the Pod in it: matching Pods there, the Pod itself if it matches,
// less the least of any domain (0 when there are too few domains).
func (s *preFilterState) skew(i int, domain string, p *v1.Pod) (skew, there, least int) {
	d, c := &s.domains[i], &s.constraints[i]
	least = d.minMatch
	if len(d.pods) < int(c.minDomains) {
		least = 0
	}
	there = d.pods[domain]
	skew = there - least
	if c.selector.Matches(labels.Set(p.Labels)) {
		skew++
	}
	return skew, there, least
}

// Explain gives the counts behind the skew.
func (pl *Plugin) Explain(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	s, err := preFilterStateOf(state)
	if err != nil {
		return schedule.Explanation{}
	}
	for i := range s.constraints {
		c := &s.constraints[i]
		domain, ok := n.Node().Labels[c.key]
		if !ok {
			return schedule.Explanation{Code: reason.SpreadKeyMissing, Detail: "no label " + c.key,
				Fix: fmt.Sprintf("kubectl label node %s %s=VALUE", n.Node().Name, c.key)}
		}
		skew, there, least := s.skew(i, domain, p)
		if skew <= int(c.maxSkew) {
			continue
		}
		detail := fmt.Sprintf("%s=%s has %d matching Pods, the least of any is %d: skew would be %d, at most %d "+
			"allowed", c.key, domain, there, least, skew, c.maxSkew)
		if k := len(s.domains[i].pods); k < int(c.minDomains) {
			detail += fmt.Sprintf(" (%d of at least %d domains exist)", k, c.minDomains)
		}
		return schedule.Explanation{Code: reason.SpreadExceeded, Detail: detail,
			Fix: fmt.Sprintf(
				"make room in the domains of %s with fewer Pods, raise maxSkew, or use whenUnsatisfiable: "+
					"ScheduleAnyway", c.key)}
	}
	return schedule.Explanation{}
}

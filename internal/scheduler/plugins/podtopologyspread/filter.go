package podtopologyspread

import (
	"context"
	"fmt"

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

// Plugin implements the extension points of this package.
type Plugin struct {
	defaults         []v1.TopologySpreadConstraint
	systemDefaulting bool // defaults are the system's
	selectorOf       func(*v1.Pod) labels.Selector

	skewStatus, missingLabelStatus *framework.Status
}

// New makes the plugin from defaulted arguments. selectorOf finds the selector of the Service or
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

// preFilterState is how matching Pods are spread, by constraint.
type preFilterState struct {
	constraints []constraint
	domains     []domainCounts
}

// Clone copies the counts.
func (s *preFilterState) Clone() framework.StateData {
	c := &preFilterState{constraints: s.constraints, domains: make([]domainCounts, len(s.domains))}
	for i := range s.domains {
		c.domains[i] = s.domains[i].clone()
	}
	return c
}

// PreFilter counts matching Pods by domain.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	hard, err := pl.constraints(p, v1.DoNotSchedule)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if len(hard) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	return nil, pl.newAggregateOver(nodes, p, hard, nil).PreFilter(state, p)
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
			if n, known := s.domains[i].pods[m.node.Labels[c.key]]; known {
				s.domains[i].set(m.node.Labels[c.key], n+m.by)
			}
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

// Filter refuses nodes whose domain would have more matching Pods than maxSkew allows.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	s, err := preFilterStateOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	var room [4]int
	maxMatch := room[:0]
	for i := range s.constraints {
		c := &s.constraints[i]
		maxMatch = append(maxMatch, int(c.maxSkew)-s.domains[i].skewOfEmptyDomain(c, p))
	}
	return pl.filter(maxMatch, func(i int) (int, bool) {
		domain, has := n.Node().Labels[s.constraints[i].key]
		return s.domains[i].pods[domain], has
	})
}

// filter is the rule, of a node or a row: maxMatch is how many matching Pods a domain may have, by
// constraint, and matchingPods returns how many the node's domain has, and whether the node has the
// topology key.
func (pl *Plugin) filter(maxMatch []int, matchingPods func(i int) (n int, has bool)) *framework.Status {
	for i, most := range maxMatch {
		if n, has := matchingPods(i); !has {
			return pl.missingLabelStatus
		} else if n > most {
			return pl.skewStatus
		}
	}
	return nil
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
		there, least := s.domains[i].pods[domain], s.domains[i].globalMinimum(c)
		skew := there + s.domains[i].skewOfEmptyDomain(c, p)
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

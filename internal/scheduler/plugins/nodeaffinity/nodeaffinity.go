package nodeaffinity

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

const (
	// Name of the plugin.
	Name = "NodeAffinity"
	// Upstream's texts.
	ReasonPod      = "node(s) didn't match Pod's node affinity/selector"
	ReasonEnforced = "node(s) didn't match scheduler-enforced node affinity"
	ReasonConflict = "pod affinity terms conflict"

	filterKey framework.StateKey = "PreFilter" + Name
	scoreKey  framework.StateKey = "PreScore" + Name
)

// Plugin implements the extension points of this package.
type Plugin struct {
	added            *v1.NodeAffinity // the profile's; nil: none
	addedAffinity    *nodeaffinity.NodeSelector
	addedPreferences *nodeaffinity.PreferredSchedulingTerms

	podStatus, enforcedStatus *framework.Status
}

// New makes the plugin; args may be nil. The error is about a term of addedAffinity that cannot be
// read.
func New(args *config.NodeAffinityArgs) (*Plugin, error) {
	refuse := func(text string) *framework.Status {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, text).WithPlugin(Name)
	}
	p := &Plugin{podStatus: refuse(ReasonPod), enforcedStatus: refuse(ReasonEnforced)}
	if args == nil || args.AddedAffinity == nil {
		return p, nil
	}
	p.added = args.AddedAffinity
	var err error
	if req := args.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution; req != nil {
		if p.addedAffinity, err = nodeaffinity.NewNodeSelector(req); err != nil {
			return nil, fmt.Errorf("addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
	}
	if terms := args.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(terms) > 0 {
		if p.addedPreferences, err = nodeaffinity.NewPreferredSchedulingTerms(terms); err != nil {
			return nil, fmt.Errorf("addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
	}
	return p, nil
}

var (
	_ framework.PreFilterPlugin   = (*Plugin)(nil)
	_ framework.FilterPlugin      = (*Plugin)(nil)
	_ framework.PreScorePlugin    = (*Plugin)(nil)
	_ framework.ScorePlugin       = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
	_ framework.SignPlugin        = (*Plugin)(nil)
	_ schedule.Explainer          = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

type required struct {
	nodeaffinity.RequiredNodeAffinity
}

// Clone shares: nothing changes it.
func (r required) Clone() framework.StateData { return r }

func terms(p *v1.Pod) *v1.NodeSelector {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// PreFilter compiles the terms, and names the nodes when every term names some by metadata.name.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	want := terms(p)
	if want == nil && pl.addedAffinity == nil && len(p.Spec.NodeSelector) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(filterKey, required{nodeaffinity.GetRequiredNodeAffinity(p)})
	if want == nil || len(want.NodeSelectorTerms) == 0 {
		return nil, nil
	}
	names := sets.Set[string]{}
	for _, t := range want.NodeSelectorTerms {
		named := nodeNamesOf(t)
		if named == nil {
			return nil, nil
		}
		names = names.Union(named)
	}
	if len(names) == 0 {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, ReasonConflict)
	}
	return &framework.PreFilterResult{NodeNames: names}, nil
}

// nodeNamesOf gives the nodes a term names by metadata.name; nil when it names none.
func nodeNamesOf(t v1.NodeSelectorTerm) sets.Set[string] {
	var out sets.Set[string]
	for _, r := range t.MatchFields {
		if r.Key != metav1.ObjectNameField || r.Operator != v1.NodeSelectorOpIn {
			continue
		}
		if s := sets.New(r.Values...); out == nil {
			out = s
		} else {
			out = out.Intersection(s)
		}
	}
	return out
}

// PreFilterExtensions has none: other Pods do not matter.
func (*Plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// Filter refuses nodes that do not match.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	v, err := state.Read(filterKey)
	want, ok := v.(required)
	if err != nil || !ok {
		want = required{nodeaffinity.GetRequiredNodeAffinity(p)}
	}
	return pl.filter(want, n.Node())
}

func (pl *Plugin) filter(want required, n *v1.Node) *framework.Status {
	if pl.addedAffinity != nil && !pl.addedAffinity.Match(n) {
		return pl.enforcedStatus
	}
	if match, _ := want.Match(n); !match { // terms that cannot be read match nothing
		return pl.podStatus
	}
	return nil
}

type preferred struct {
	*nodeaffinity.PreferredSchedulingTerms
}

// Clone shares: nothing changes it.
func (p preferred) Clone() framework.StateData { return p }

func preferredOf(p *v1.Pod) (preferred, error) {
	terms := preferences(p)
	if len(terms) == 0 {
		return preferred{}, nil
	}
	t, err := nodeaffinity.NewPreferredSchedulingTerms(terms)
	return preferred{t}, err
}

// PreScore compiles preferred terms; without any there is nothing to score.
func (pl *Plugin) PreScore(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) *framework.Status {
	own, err := preferredOf(p)
	if err != nil {
		return framework.AsStatus(err)
	}
	if own.PreferredSchedulingTerms == nil && pl.addedPreferences == nil {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(scoreKey, own)
	return nil
}

// Score sums the weights of the preferred terms that match.
func (pl *Plugin) Score(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	v, err := state.Read(scoreKey)
	own, ok := v.(preferred)
	if err != nil || !ok {
		if own, err = preferredOf(p); err != nil {
			return 0, framework.AsStatus(err)
		}
	}
	return pl.score(own, n.Node()), nil
}

func (pl *Plugin) score(own preferred, n *v1.Node) (sum int64) {
	if pl.addedPreferences != nil {
		sum += pl.addedPreferences.Score(n)
	}
	if own.PreferredSchedulingTerms != nil {
		sum += own.Score(n)
	}
	return sum
}

// ScoreExtensions normalises.
func (pl *Plugin) ScoreExtensions() framework.ScoreExtensions { return pl }

// NormalizeScore gives the node with the largest sum the best score.
func (*Plugin) NormalizeScore(_ context.Context, _ framework.CycleState, _ *v1.Pod,
	scores framework.NodeScoreList) *framework.Status {
	schedule.Normalize(scores, false)
	return nil
}

// SignPod signs selector and affinity.
func (pl *Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	a, err := framework.NodeAffinitySigner(p)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	return []framework.SignFragment{
		{Key: framework.NodeAffinitySignerName, Value: a},
		{Key: framework.NodeSelectorSignerName, Value: p.Spec.NodeSelector},
	}, nil
}

// Explain says which label is missing or different.
func (pl *Plugin) Explain(_ context.Context, _ framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	node := n.Node()
	if pl.addedAffinity != nil && !pl.addedAffinity.Match(node) {
		return schedule.Explanation{Code: reason.LabelsNotMatched,
			Detail: "the profile's addedAffinity leaves the node out",
			Fix:    "choose another schedulerName, or change addedAffinity in the scheduler's configuration"}
	}
	detail, fix := explainMismatch(p, node)
	return schedule.Explanation{Code: reason.LabelsNotMatched, Detail: detail, Fix: fix}
}

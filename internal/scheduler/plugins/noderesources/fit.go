package noderesources

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

const (
	// FitName of the plugin.
	FitName = "NodeResourcesFit"
	// TooManyPods is upstream's text when the node's limit of Pods is reached; of other resources
	// it says "Insufficient NAME".
	TooManyPods = "Too many pods"

	filterKey framework.StateKey = "PreFilter" + FitName
	fitKey    framework.StateKey = "PreScore" + FitName
)

// Fit is NodeResourcesFit.
type Fit struct {
	ignored, ignoredGroups []string
	// by a device class, on nodes without a device plugin for it; nil: none is
	servedByDevices func(v1.ResourceName) bool
	resourceScorer
	// refusals by which of pods, cpu, memory and ephemeral storage are short, when removing Pods
	// may help
	statusCache       [16]*framework.Status
	unresolvableCache [16]*framework.Status // the same when it cannot
}

// NewFit makes the plugin from defaulted arguments.
func NewFit(args *config.NodeResourcesFitArgs) (*Fit, error) {
	s, err := newResourceScorer(args.ScoringStrategy)
	if err != nil {
		return nil, err
	}
	f := &Fit{ignored: args.IgnoredResources, ignoredGroups: args.IgnoredResourceGroups, resourceScorer: s}
	for mask := range f.statusCache {
		var texts []string
		for i, name := range commonResources {
			if mask&(1<<i) != 0 {
				texts = append(texts, insufficientText(name))
			}
		}
		f.statusCache[mask] = framework.NewStatus(framework.Unschedulable, texts...).WithPlugin(FitName)
		f.unresolvableCache[mask] = framework.NewStatus(framework.UnschedulableAndUnresolvable,
			texts...).WithPlugin(FitName)
	}
	return f, nil
}

// SetServedByDevices makes the plugin pass over resources that a node does not offer and a device
// class serves: DynamicResources checks these (KEP-5004).
func (f *Fit) SetServedByDevices(served func(v1.ResourceName) bool) { f.servedByDevices = served }

// shortagesToReport takes out what DynamicResources checks.
func (f *Fit) shortagesToReport(short []fit.Shortage) []fit.Shortage {
	if f.servedByDevices == nil {
		return short
	}
	return slices.DeleteFunc(short, func(s fit.Shortage) bool {
		return s.Available == 0 && fit.IsScalar(s.Resource) && f.servedByDevices(s.Resource)
	})
}

// anyServedByDevices tells whether any resource that is asked for is left to DynamicResources on
// some nodes.
func (f *Fit) anyServedByDevices(requests *fit.Vector) bool {
	if f.servedByDevices == nil {
		return false
	}
	for name, n := range requests.Scalar {
		if n != 0 && f.servedByDevices(name) {
			return true
		}
	}
	return false
}

var commonResources = [...]v1.ResourceName{v1.ResourcePods, v1.ResourceCPU, v1.ResourceMemory,
	v1.ResourceEphemeralStorage}

// insufficientText is the reason of a Filter refusal for want of a resource (upstream: fitsRequest;
// other plugins have an ErrReason).
func insufficientText(name v1.ResourceName) string {
	if name == v1.ResourcePods {
		return TooManyPods
	}
	return "Insufficient " + string(name)
}

var (
	_ framework.PreFilterPlugin   = (*Fit)(nil)
	_ framework.FilterPlugin      = (*Fit)(nil)
	_ framework.PreScorePlugin    = (*Fit)(nil)
	_ framework.ScorePlugin       = (*Fit)(nil)
	_ framework.EnqueueExtensions = (*Fit)(nil)
	_ framework.SignPlugin        = (*Fit)(nil)
	_ schedule.Explainer          = (*Fit)(nil)
)

// Name is FitName.
func (*Fit) Name() string { return FitName }

type preFilterState struct{ fit.Vector }

// Clone shares: nothing changes it.
func (a *preFilterState) Clone() framework.StateData { return a }

// PreFilter sums the Pod's requests once.
func (*Fit) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	state.Write(filterKey, &preFilterState{snapshot.Requests(p)})
	return nil, nil
}

// PreFilterExtensions has none: other Pods' requests are read from the node.
func (*Fit) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func (f *Fit) requestsOf(state framework.CycleState, p *v1.Pod) *fit.Vector {
	if v, err := state.Read(filterKey); err == nil {
		if s, ok := v.(*preFilterState); ok {
			return &s.Vector
		}
	}
	requests := snapshot.Requests(p)
	return &requests
}

// shortages lists what is short on a node, as DynamicResources leaves it to this plugin.
func (f *Fit) shortages(requests *fit.Vector, n framework.NodeInfo) []fit.Shortage {
	return f.shortagesToReport(fit.Shortages(requests, snapshot.VectorOf(n.GetRequested()),
		snapshot.VectorOf(n.GetAllocatable()), f.isIgnored))
}

func (f *Fit) isIgnored(name v1.ResourceName) bool {
	if !fit.IsExtended(name) || len(f.ignored)+len(f.ignoredGroups) == 0 {
		return false
	}
	group, _, _ := strings.Cut(string(name), "/")
	return slices.Contains(f.ignored, string(name)) || slices.Contains(f.ignoredGroups, group)
}

// Filter refuses nodes where something does not suffice. More than the empty node has is beyond
// help by preemption.
func (f *Fit) Filter(_ context.Context, state framework.CycleState, p *v1.Pod, n framework.NodeInfo) *framework.Status {
	return f.filter(f.requestsOf(state, p), n)
}

func (f *Fit) filter(requests *fit.Vector, n framework.NodeInfo) *framework.Status {
	if len(requests.Scalar) > 0 {
		return f.filterScalars(requests, n)
	}
	asked, used := commonRequests(requests), commonAmountsOf(snapshot.VectorOf(n.GetRequested()))
	has := commonAmountsOf(snapshot.VectorOf(n.GetAllocatable()))
	return f.filterCommon(&asked, &used, &has)
}

// commonAmounts are amounts of the resources that every node has, as commonResources lists them.
type commonAmounts [len(commonResources)]int64

func commonAmountsOf(v *fit.Vector) commonAmounts {
	return commonAmounts{v.Pods, v.MilliCPU, v.Memory, v.EphemeralStorage}
}

// commonRequests are those of a Pod, which needs a place itself.
func commonRequests(v *fit.Vector) commonAmounts {
	return commonAmounts{1, v.MilliCPU, v.Memory, v.EphemeralStorage}
}

// shortageSet are the resources that do not suffice, a bit for each by its place in
// commonResources.
type shortageSet uint8

const (
	// scalarShort is set for a resource accounted by name.
	scalarShort shortageSet = 1 << len(commonResources)
	// neverEnough is set when the empty node does not have enough either, so that preemption does
	// not help. Places for Pods do not count.
	neverEnough shortageSet = scalarShort << 1
)

// shortageOf compares a request with a node's amounts; index is the resource's place in
// commonResources, or -1. It is small so that it is compiled into the loop over rows.
func shortageOf(index int, request, used, allocatable int64) shortageSet {
	if !fit.Insufficient(request, used, allocatable) {
		return 0
	}
	out := scalarShort
	if index >= 0 {
		out = 1 << index
	}
	if index != 0 && request > allocatable {
		out |= neverEnough
	}
	return out
}

// filterCommon is the rule for Pods that request common resources only, of a node, or of one of
// which more or less is used.
func (f *Fit) filterCommon(asked, used, has *commonAmounts) *framework.Status {
	var short shortageSet
	for i := range asked {
		short |= shortageOf(i, asked[i], used[i], has[i])
	}
	return f.commonStatus(short)
}

// filterScalars is the rule for Pods that request resources accounted by name.
func (f *Fit) filterScalars(requests *fit.Vector, n framework.NodeInfo) *framework.Status {
	list := f.shortages(requests, n)
	var short shortageSet
	for _, s := range list {
		short |= shortageOf(slices.Index(commonResources[:], s.Resource), s.Requested, s.Used, s.Available)
	}
	if short&scalarShort != 0 {
		return newStatus(list, short&neverEnough != 0)
	}
	return f.commonStatus(short)
}

// commonStatus is what Filter says of shortages of common resources, nil where there are none.
func (f *Fit) commonStatus(short shortageSet) *framework.Status {
	mask := short &^ neverEnough
	switch {
	case mask == 0:
		return nil
	case short&neverEnough != 0:
		return f.unresolvableCache[mask]
	}
	return f.statusCache[mask]
}

func newStatus(short []fit.Shortage, never bool) *framework.Status {
	code := framework.Unschedulable
	if never {
		code = framework.UnschedulableAndUnresolvable
	}
	texts := make([]string, len(short))
	for i, s := range short {
		texts[i] = insufficientText(s.Resource)
	}
	return framework.NewStatus(code, texts...).WithPlugin(FitName)
}

// Explain gives every shortfall: asked, free, allocatable.
func (f *Fit) Explain(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	w := schedule.Explanation{Code: reason.NoRoom}
	var details, fixes []string
	for _, s := range f.shortages(f.requestsOf(state, p), n) {
		w.Short = append(w.Short, journal.Shortage{Resource: string(s.Resource), Requested: s.Requested, Used: s.Used,
			Available: s.Available})
		switch {
		case s.Resource == v1.ResourcePods:
			w.Code = reason.TooManyPods
			details = append(details, fmt.Sprintf("%d of %d Pods already there", s.Used, s.Available))
			fixes = append(fixes, "remove a Pod from the node, add a node, or raise the kubelet's maxPods")
		case s.Available == 0:
			w.Code = reason.NoSuchResource
			details = append(details, fmt.Sprintf("asks %s %s, the node offers none", s.Resource,
				Quantity(s.Resource, s.Requested)))
			fixes = append(fixes, fmt.Sprintf("add a node that offers %s", s.Resource))
		case s.Unresolvable():
			details = append(details, fmt.Sprintf("asks %s %s, the whole node has %s", s.Resource,
				Quantity(s.Resource, s.Requested), Quantity(s.Resource, s.Available)))
			fixes = append(fixes, fmt.Sprintf("request at most %s %s, or add a larger node",
				Quantity(s.Resource, s.Available), s.Resource))
		default:
			details = append(details, fmt.Sprintf("asks %s %s, %s left of %s", s.Resource,
				Quantity(s.Resource, s.Requested), Quantity(s.Resource, max(s.Available-s.Used, 0)),
				Quantity(s.Resource, s.Available)))
			fixes = append(fixes, fmt.Sprintf("request %s %s less, free as much, or add a node",
				Quantity(s.Resource, s.Missing()), s.Resource))
		}
	}
	w.Detail, w.Fix = strings.Join(details, "; "), strings.Join(fixes, "; ")
	return w
}

// Quantity prints a figure as the API would: milli for cpu, binary suffixes for bytes.
func Quantity(name v1.ResourceName, n int64) string {
	switch {
	case name == v1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case name == v1.ResourceMemory, name == v1.ResourceEphemeralStorage,
		strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return resource.NewQuantity(n, resource.DecimalSI).String()
}

// SignPod signs the requests.
func (*Fit) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return signRequests(p), nil
}

func signRequests(p *v1.Pod) []framework.SignFragment {
	return []framework.SignFragment{{Key: framework.ResourcesSignerName,
		Value: [2]fit.Vector{snapshot.Requests(p), snapshot.RequestsNonZero(p)}}}
}

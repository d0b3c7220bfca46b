package plugins

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/imagelocality"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/interpodaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodedeclaredfeatures"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodename"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeports"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/noderesources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeunschedulable"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodevolumelimits"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/podtopologyspread"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/prioritysort"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/schedulinggates"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/storage"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/tainttoleration"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumerestrictions"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumezone"
)

// Names of the rows whose factory is in scheduler/bind.
const (
	DefaultBinder     = "DefaultBinder"
	DefaultPreemption = "DefaultPreemption"
)

// Factory makes a plugin, with upstream's signature for out-of-tree plugins. args are defaulted; those of plugins without an Args row come as *runtime.Unknown.
type Factory func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error)

// Row is a built-in plugin.
type Row struct {
	Name   string
	Weight int32   // in the default profile; 0 for plugins that do not score
	New    Factory // nil: the factory is in scheduler/bind
	Args   *Args   // nil: takes none
}

// Args is how a plugin's arguments are made, completed and checked.
type Args struct {
	New      func() runtime.Object
	Default  func(runtime.Object)
	Validate func(*field.Path, runtime.Object) field.ErrorList
}

// All is the default profile.
var All = []Row{
	{Name: schedulinggates.Name, New: plain(schedulinggates.New)},
	{Name: prioritysort.Name, New: plain(prioritysort.New)},
	{Name: nodeunschedulable.Name, New: plain(nodeunschedulable.New)},
	{Name: nodename.Name, New: plain(nodename.New)},
	{Name: tainttoleration.Name, Weight: 3, New: plain(tainttoleration.New)},
	{Name: nodeaffinity.Name, Weight: 2, New: with(nodeaffinity.New), Args: &nodeAffinityArgs},
	{Name: nodeports.Name, New: plain(nodeports.New)},
	{Name: noderesources.FitName, Weight: 1, New: newFit, Args: &fitArgs},
	{Name: volumerestrictions.Name, New: knowing(volumerestrictions.New)},
	{Name: nodevolumelimits.Name, New: knowing(nodevolumelimits.New)},
	{Name: volumebinding.Name, New: newVolumeBinding, Args: &volumeArgs},
	{Name: volumezone.Name, New: knowing(volumezone.New)},
	{Name: podtopologyspread.Name, Weight: 2, New: newSpread, Args: &spreadArgs},
	{Name: interpodaffinity.Name, Weight: 2, New: newAffinity, Args: &interPodArgs},
	{Name: dynamicresources.Name, Weight: 2, New: newDevices, Args: &devicesArgs}, // before DefaultPreemption: freeing a claim hurts less than evicting a Pod
	{Name: DefaultPreemption, Args: &preemptionArgs},
	{Name: noderesources.BalancedName, Weight: 1, New: with(newBalanced), Args: &balancedArgs},
	{Name: imagelocality.Name, Weight: 1, New: plain(imagelocality.New)},
	{Name: DefaultBinder},
	{Name: nodedeclaredfeatures.Name, New: plain(nodedeclaredfeatures.New)}, // the last, as upstream adds it
}

// Find gives a row by name.
func Find(name string) (Row, bool) {
	for _, r := range All {
		if r.Name == name {
			return r, true
		}
	}
	return Row{}, false
}

func plain[P framework.Plugin](make func() P) Factory {
	return func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) { return make(), nil }
}

func with[A runtime.Object, P framework.Plugin](make func(A) (P, error)) Factory {
	return func(_ context.Context, args runtime.Object, _ framework.Handle) (framework.Plugin, error) {
		own, ok := args.(A)
		if !ok {
			return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
		}
		return make(own)
	}
}

func newFit(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	own, ok := args.(*config.NodeResourcesFitArgs)
	if !ok {
		return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
	}
	f, err := noderesources.NewFit(own)
	if holder, ok := h.(DeviceHolder); ok && err == nil {
		if draw, _ := holder.DeviceAllocation(); draw != nil {
			f.Leave(func(name v1.ResourceName) bool { return dynamicresources.Serving(draw, name) != nil })
		}
	}
	return f, err
}

func newBalanced(args *config.NodeResourcesBalancedAllocationArgs) (*noderesources.Balanced, error) {
	return noderesources.NewBalanced(args), nil
}

// SelectorFinder is what a Handle may offer besides the framework's methods: the selector of the Service or controller that a Pod belongs to.
type SelectorFinder interface {
	SelectorOf(p *v1.Pod) labels.Selector
}

func newSpread(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	own, ok := args.(*config.PodTopologySpreadArgs)
	if !ok {
		return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
	}
	var find func(*v1.Pod) labels.Selector
	if f, ok := h.(SelectorFinder); ok {
		find = f.SelectorOf
	}
	return podtopologyspread.New(own, find), nil
}

func newAffinity(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	own, ok := args.(*config.InterPodAffinityArgs)
	if !ok {
		return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
	}
	return interpodaffinity.New(own, namespacesOf(h)), nil
}

// Stored names the plugins that judge by storage.Facts; a Handle that is a storage.Source gives them these.
var Stored = []string{volumerestrictions.Name, nodevolumelimits.Name, volumebinding.Name, volumezone.Name}

// VolumeHandsHolder is what a Handle offers whose scheduler binds volumes.
type VolumeHandsHolder interface{ VolumeHands() volumebinding.Hands }

func knowing[P framework.Plugin](make func(storage.Facts) P) Factory {
	return func(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
		return make(storage.FactsOf(h)), nil
	}
}

func newVolumeBinding(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	own, ok := args.(*config.VolumeBindingArgs)
	if !ok {
		return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
	}
	var hands volumebinding.Hands
	if holder, ok := h.(VolumeHandsHolder); ok {
		hands = holder.VolumeHands()
	}
	return volumebinding.New(own, storage.FactsOf(h), hands), nil
}

// DeviceHolder is what a Handle offers whose scheduler knows devices: the manager, and hands when it allocates them. Both may be nil.
type DeviceHolder interface {
	DeviceAllocation() (framework.SharedDRAManager, dynamicresources.Hands)
}

func newDevices(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	own, ok := args.(*config.DynamicResourcesArgs)
	if !ok {
		return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
	}
	holder, ok := h.(DeviceHolder)
	if !ok {
		return dynamicresources.New(own, nil, nil), nil
	}
	draw, hands := holder.DeviceAllocation()
	return dynamicresources.New(own, draw, hands), nil
}

// namespacesOf looks namespaces' labels up in the Handle's informers; nil without any.
func namespacesOf(h framework.Handle) interpodaffinity.Namespaces {
	if h == nil || h.SharedInformerFactory() == nil {
		return nil
	}
	namespaces := h.SharedInformerFactory().Core().V1().Namespaces().Lister()
	return func(name string) labels.Set {
		ns, err := namespaces.Get(name)
		if err != nil {
			return nil
		}
		return ns.Labels
	}
}

// Judges makes the default profile's plugins that judge nodes, for `why`, simulations and tests: the same opinions as the scheduler's, without any that act.
// h may be nil; with one that is a SelectorFinder, default spreading is scored too.
func Judges(profile string, h framework.Handle) (*place.Judges, error) {
	var seats []place.Seat
	for _, r := range All {
		if r.New == nil {
			continue
		}
		var args runtime.Object
		if r.Args != nil {
			args = r.Args.New()
			r.Args.Default(args)
		}
		pl, err := r.New(context.Background(), args, h)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", r.Name, err)
		}
		seats = append(seats, place.Seat{Plugin: pl, Weight: int64(r.Weight)})
	}
	return place.NewJudges(profile, seats...), nil
}

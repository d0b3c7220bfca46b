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
	"github.com/gantry-project/gantry/internal/scheduler/plugins/tainttoleration"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumerestrictions"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumezone"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// Names of the rows whose factory is in scheduler/bind.
const (
	DefaultBinder     = "DefaultBinder"
	DefaultPreemption = "DefaultPreemption"
)

// Factory makes a plugin, with upstream's signature for out-of-tree plugins. args are defaulted;
// those of plugins without an Args row come as *runtime.Unknown.
type Factory func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error)

// Registration is a built-in plugin.
type Registration struct {
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

// InTree is the default profile.
var InTree = []Registration{
	{Name: schedulinggates.Name, New: factoryOf(schedulinggates.New)},
	{Name: prioritysort.Name, New: factoryOf(prioritysort.New)},
	{Name: nodeunschedulable.Name, New: factoryOf(nodeunschedulable.New)},
	{Name: nodename.Name, New: factoryOf(nodename.New)},
	{Name: tainttoleration.Name, Weight: 3, New: factoryOf(tainttoleration.New)},
	{Name: nodeaffinity.Name, Weight: 2, New: factoryWithArgs(nodeaffinity.New), Args: &nodeAffinityArgs},
	{Name: nodeports.Name, New: factoryOf(nodeports.New)},
	{Name: noderesources.FitName, Weight: 1, New: newFit, Args: &fitArgs},
	{Name: volumerestrictions.Name, New: factoryWithVolumes(volumerestrictions.New)},
	{Name: nodevolumelimits.Name, New: factoryWithVolumes(nodevolumelimits.New)},
	{Name: volumebinding.Name, New: newVolumeBinding, Args: &volumeArgs},
	{Name: volumezone.Name, New: factoryWithVolumes(volumezone.New)},
	{Name: podtopologyspread.Name, Weight: 2, New: newPodTopologySpread, Args: &spreadArgs},
	{Name: interpodaffinity.Name, Weight: 2, New: newInterPodAffinity, Args: &interPodArgs},
	// before DefaultPreemption: freeing a claim hurts less than evicting a Pod
	{Name: dynamicresources.Name, Weight: 2, New: newDynamicResources, Args: &devicesArgs},
	{Name: DefaultPreemption, Args: &preemptionArgs},
	{Name: noderesources.BalancedName, Weight: 1, New: factoryWithArgs(newBalanced), Args: &balancedArgs},
	{Name: imagelocality.Name, Weight: 1, New: factoryOf(imagelocality.New)},
	{Name: DefaultBinder},
	{Name: nodedeclaredfeatures.Name, New: factoryOf(nodedeclaredfeatures.New)}, // the last, as upstream adds it
}

// Lookup gives a row by name.
func Lookup(name string) (Registration, bool) {
	for _, r := range InTree {
		if r.Name == name {
			return r, true
		}
	}
	return Registration{}, false
}

func factoryOf[P framework.Plugin](make func() P) Factory {
	return func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) { return make(), nil }
}

func factoryWithArgs[A runtime.Object, P framework.Plugin](make func(A) (P, error)) Factory {
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
	if holder, ok := h.(DRAHolder); ok && err == nil {
		if draManager, _ := holder.DeviceAllocation(); draManager != nil {
			f.SetServedByDevices(
				func(name v1.ResourceName) bool { return dynamicresources.DeviceClassFor(draManager, name) != nil })
		}
	}
	return f, err
}

func newBalanced(args *config.NodeResourcesBalancedAllocationArgs) (*noderesources.Balanced, error) {
	return noderesources.NewBalanced(args), nil
}

// SelectorFinder is what a Handle may offer besides the framework's methods: the selector of the
// Service or controller that a Pod belongs to.
type SelectorFinder interface {
	SelectorOf(p *v1.Pod) labels.Selector
}

func newPodTopologySpread(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
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

func newInterPodAffinity(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	own, ok := args.(*config.InterPodAffinityArgs)
	if !ok {
		return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
	}
	return interpodaffinity.New(own, namespacesOf(h)), nil
}

// VolumePlugins names the plugins that filter by volumelisters.Listers; a Handle that is a
// volumelisters.ListersHolder gives them these.
var VolumePlugins = []string{volumerestrictions.Name, nodevolumelimits.Name, volumebinding.Name, volumezone.Name}

// VolumeBinderHolder is what a Handle offers whose scheduler binds volumes.
type VolumeBinderHolder interface{ VolumeBinder() volumebinding.Binder }

func factoryWithVolumes[P framework.Plugin](make func(volumelisters.Listers) P) Factory {
	return func(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
		return make(volumelisters.ListersOf(h)), nil
	}
}

func newVolumeBinding(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	own, ok := args.(*config.VolumeBindingArgs)
	if !ok {
		return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
	}
	var writer volumebinding.Binder
	if holder, ok := h.(VolumeBinderHolder); ok {
		writer = holder.VolumeBinder()
	}
	return volumebinding.New(own, volumelisters.ListersOf(h), writer), nil
}

// DRAHolder is what a Handle offers whose scheduler knows devices: the manager, and a ClaimWriter
// when it allocates them. Both may be nil.
type DRAHolder interface {
	DeviceAllocation() (framework.SharedDRAManager, dynamicresources.ClaimWriter)
}

func newDynamicResources(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	own, ok := args.(*config.DynamicResourcesArgs)
	if !ok {
		return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
	}
	holder, ok := h.(DRAHolder)
	if !ok {
		return dynamicresources.New(own, nil, nil), nil
	}
	draManager, writer := holder.DeviceAllocation()
	return dynamicresources.New(own, draManager, writer), nil
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

// DefaultPluginSet makes the default profile's plugins that filter and score nodes, for `why`,
// simulations and tests: the same as the scheduler's, without any that act. h may be nil; with one
// that is a SelectorFinder, default spreading is scored too.
func DefaultPluginSet(profile string, h framework.Handle) (*schedule.PluginSet, error) {
	var seats []schedule.WeightedPlugin
	for _, r := range InTree {
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
		seats = append(seats, schedule.WeightedPlugin{Plugin: pl, Weight: int64(r.Weight)})
	}
	return schedule.NewPluginSet(profile, seats...), nil
}

package dramanager

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/apiwriter"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

// Manager is the framework's view of devices.
type Manager struct {
	dynamicresources.NodePools // of claims
	claims                     *claimTracker
	sliceTracker               *tracker.Tracker
	slicesSynced               cache.InformerSynced // of classes by extended resource
	// called for changes of slices, after they count; set before the informers start
	sliceHandler      cache.ResourceEventHandler
	synced            cache.InformerSynced // of slices
	classes           resourcelisters.DeviceClassLister
	extendedResources *extendedresourcecache.ExtendedResourceCache
	client            kubernetes.Interface
	// Writer writes claims; nil: the client does.
	Writer *apiwriter.Writer
	// Recorder writes events about Pods; nil: none are written.
	Recorder func(profile string) events.EventRecorderLogger
}

var _ framework.SharedDRAManager = (*Manager)(nil)

// ServedResources tells whether the API server serves resource.k8s.io/v1, and whether it serves
// taint rules. One that cannot be asked now counts as one that serves both, as Gantry's does.
func ServedResources(client kubernetes.Interface) (claims, rules bool) {
	list, err := client.Discovery().ServerResourcesForGroupVersion(resourceapi.SchemeGroupVersion.String())
	if err != nil {
		missing := apierrors.IsNotFound(err)
		return !missing, !missing
	}
	for i := range list.APIResources {
		switch list.APIResources[i].Name {
		case "resourceclaims":
			claims = true
		case "devicetaintrules":
			rules = true
		}
	}
	return claims, rules
}

// New makes a manager; nil without an error when the API server serves no claims. The caller starts
// the informers.
func New(ctx context.Context, client kubernetes.Interface, all informers.SharedInformerFactory) (*Manager, error) {
	served, rules := ServedResources(client)
	if !served {
		return nil, nil
	}
	r := all.Resource().V1()
	m := &Manager{client: client, sliceHandler: cache.ResourceEventHandlerFuncs{}, classes: r.DeviceClasses().Lister(),
		extendedResources: extendedresourcecache.NewExtendedResourceCache(klog.FromContext(ctx))}
	var err error
	if m.claims, err = newClaimTracker(r.ResourceClaims()); err != nil {
		return nil, err
	}
	options := tracker.Options{EnableDeviceTaintRules: rules, EnableConsumableCapacity: true,
		SliceInformer: r.ResourceSlices(), KubeClient: client}
	if rules {
		options.TaintInformer = r.DeviceTaintRules()
	}
	if m.sliceTracker, err = tracker.StartTracker(ctx, options); err != nil {
		return nil, fmt.Errorf("following resource slices: %w", err)
	}
	m.NodePools = m.claims
	slices, err := m.sliceTracker.AddEventHandler(m.sliceHandlerFuncs())
	if err != nil {
		return nil, fmt.Errorf("watching resource slices: %w", err)
	}
	m.synced = slices.HasSynced
	reg, err := r.DeviceClasses().Informer().AddEventHandler(m.extendedResources)
	if err != nil {
		return nil, fmt.Errorf("following device classes: %w", err)
	}
	m.slicesSynced = reg.HasSynced
	return m, nil
}

// HasSynced tells whether all resources have been listed.
func (m *Manager) HasSynced() bool {
	return m.slicesSynced() && m.sliceTracker.HasSynced() && m.synced()
}

// Stop ends the goroutines of the manager.
func (m *Manager) Stop() { m.sliceTracker.Stop() }

// sliceHandlerFuncs counts slices and then calls the handler: Pods that it moves find the slice
// counted.
func (m *Manager) sliceHandlerFuncs() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, listed bool) {
			m.claims.sliceChanged(nil, sliceOf(obj))
			m.sliceHandler.OnAdd(obj, listed)
		},
		UpdateFunc: func(was, obj any) {
			m.claims.sliceChanged(sliceOf(was), sliceOf(obj))
			m.sliceHandler.OnUpdate(was, obj)
		},
		DeleteFunc: func(obj any) {
			m.claims.sliceChanged(sliceOf(obj), nil)
			m.sliceHandler.OnDelete(obj)
		},
	}
}

func sliceOf(obj any) *resourceapi.ResourceSlice {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	s, _ := obj.(*resourceapi.ResourceSlice)
	return s
}

// AddSliceHandler calls the handler with slices as they are with taint rules applied, once they
// count. It must be called before the informers start.
func (m *Manager) AddSliceHandler(h cache.ResourceEventHandler) cache.InformerSynced {
	m.sliceHandler = h
	return m.synced
}

// AddClaimHandler calls back for each change of a claim, once it counts. It must be called before
// the informers start.
func (m *Manager) AddClaimHandler(changed func(before, after any)) cache.InformerSynced {
	m.claims.handler = changed
	return m.claims.synced
}

// ResourceClaims tracks claims.
func (m *Manager) ResourceClaims() framework.ResourceClaimTracker { return m.claims }

// PendingAllocations are allocations that are decided and not written yet, by claim.
func (m *Manager) PendingAllocations() map[types.UID]resourceapi.AllocationResult {
	return m.claims.inFlightAllocations()
}

// ResourceSlices lists slices with taint rules applied.
func (m *Manager) ResourceSlices() framework.ResourceSliceLister { return sliceLister{m.sliceTracker} }

// DeviceClasses lists classes.
func (m *Manager) DeviceClasses() framework.DeviceClassLister { return classLister{m.classes} }

// DeviceClassResolver finds the class that serves an extended resource.
func (m *Manager) DeviceClassResolver() framework.DeviceClassResolver {
	return resolver{m.extendedResources}
}

type sliceLister struct{ *tracker.Tracker }

// ListWithDeviceTaintRules lists them.
func (s sliceLister) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return s.ListPatchedResourceSlices()
}

type classLister struct {
	resourcelisters.DeviceClassLister
}

// List lists all.
func (c classLister) List() ([]*resourceapi.DeviceClass, error) {
	return c.DeviceClassLister.List(labels.Everything())
}

type resolver struct {
	*extendedresourcecache.ExtendedResourceCache
}

// GetDeviceClass finds a class by spec.extendedResourceName, or by its own name behind the common
// prefix.
func (r resolver) GetDeviceClass(name v1.ResourceName) *resourceapi.DeviceClass {
	return r.ExtendedResourceCache.GetDeviceClass(name)
}

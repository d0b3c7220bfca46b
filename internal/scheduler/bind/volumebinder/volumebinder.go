package volumebinder

import (
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodechanges"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
)

// Names of the indexes.
const (
	byClassIndex       = "volumes/class"
	byNodeIndex        = "volumes/node"
	byDriverLimitIndex = "volumes/limit"
)

// VolumeBinder lists claims, volumes, classes and CSI objects with what this scheduler has assumed,
// and binds volumes. Any goroutine may call its methods.
type VolumeBinder struct {
	client         kubernetes.Interface
	pods           corelisters.PodLister
	nodes          corelisters.NodeLister
	claimLister    corelisters.PersistentVolumeClaimLister
	volumeLister   corelisters.PersistentVolumeLister
	classes        storagelisters.StorageClassLister
	csiNodes       cache.Indexer
	drivers        storagelisters.CSIDriverLister
	capacities     storagelisters.CSIStorageCapacityLister
	volumesByClass cache.Indexer // volumes
	attachments    cache.Indexer
	assumedObjects
}

// assumedObjects is guarded by mu.
type assumedObjects struct {
	mu        sync.Mutex
	claims    map[string]*v1.PersistentVolumeClaim // as assumed or written, by namespace/name
	volumes   map[string]*v1.PersistentVolume
	changed   chan struct{}   // closed and replaced when a claim, volume or Pod changes
	changeLog nodechanges.Log // of CSINodes and VolumeAttachments, by node
}

var (
	_ volumelisters.Listers = (*VolumeBinder)(nil)
	_ nodechanges.Source    = (*VolumeBinder)(nil)
	_ volumebinding.Binder  = (*VolumeBinder)(nil)
)

// New makes a VolumeBinder on a Handle's client and informers, before the informers start.
func New(h framework.Handle) (*VolumeBinder, error) {
	f := h.SharedInformerFactory()
	core, store := f.Core().V1(), f.Storage().V1()
	l := &VolumeBinder{
		client: h.ClientSet(), pods: core.Pods().Lister(), nodes: core.Nodes().Lister(),
		claimLister: core.PersistentVolumeClaims().Lister(), volumeLister: core.PersistentVolumes().Lister(),
		classes: store.StorageClasses().Lister(), csiNodes: store.CSINodes().Informer().GetIndexer(),
		drivers: store.CSIDrivers().Lister(), capacities: store.CSIStorageCapacities().Lister(),
		volumesByClass: core.PersistentVolumes().Informer().GetIndexer(),
		attachments:    store.VolumeAttachments().Informer().GetIndexer(),
		assumedObjects: assumedObjects{claims: map[string]*v1.PersistentVolumeClaim{},
			volumes: map[string]*v1.PersistentVolume{}, changed: make(chan struct{})},
	}
	return l, l.watch(f)
}

func (l *VolumeBinder) watch(f informers.SharedInformerFactory) error {
	core, store := f.Core().V1(), f.Storage().V1()
	err := core.PersistentVolumes().Informer().AddIndexers(
		cache.Indexers{byClassIndex: func(obj any) ([]string, error) {
			v, ok := obj.(*v1.PersistentVolume)
			if !ok {
				return nil, nil
			}
			return []string{volume.GetPersistentVolumeClass(v)}, nil
		}})
	if err != nil {
		return fmt.Errorf("indexing volumes by class: %w", err)
	}
	err = store.VolumeAttachments().Informer().AddIndexers(cache.Indexers{byNodeIndex: func(obj any) ([]string, error) {
		a, ok := obj.(*storagev1.VolumeAttachment)
		if !ok {
			return nil, nil
		}
		return []string{a.Spec.NodeName}, nil
	}})
	if err != nil {
		return fmt.Errorf("indexing attachments by node: %w", err)
	}
	err = store.CSINodes().Informer().AddIndexers(cache.Indexers{byDriverLimitIndex: func(obj any) ([]string, error) {
		n, ok := obj.(*storagev1.CSINode)
		if !ok {
			return nil, nil
		}
		var out []string
		for _, d := range n.Spec.Drivers {
			if _, ok := volumelisters.LimitOf(n, d.Name); ok {
				out = append(out, d.Name)
			}
		}
		return out, nil
	}})
	if err != nil {
		return fmt.Errorf("indexing CSINodes by driver: %w", err)
	}
	for _, i := range []cache.SharedIndexInformer{core.PersistentVolumes().Informer(),
		core.PersistentVolumeClaims().Informer()} {
		if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { l.signalChange() }, UpdateFunc: func(_, _ any) { l.signalChange() },
			DeleteFunc: func(any) { l.signalChange() },
		}); err != nil {
			return fmt.Errorf("watching volumes: %w", err)
		}
	}
	if _, err := store.CSINodes().Informer().AddEventHandler(l.changeRecorder(nodeOfCSINode)); err != nil {
		return fmt.Errorf("watching CSINodes: %w", err)
	}
	if _, err := store.VolumeAttachments().Informer().AddEventHandler(l.changeRecorder(nodeOfAttachment)); err != nil {
		return fmt.Errorf("watching attachments: %w", err)
	}
	if _, err := core.Pods().Informer().AddEventHandler(
		cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { l.signalChange() }}); err != nil {
		return fmt.Errorf("watching Pods: %w", err)
	}
	return nil
}

func nodeOfCSINode(obj any) string {
	if n, ok := obj.(*storagev1.CSINode); ok {
		return n.Name
	}
	return ""
}

func nodeOfAttachment(obj any) string {
	if a, ok := obj.(*storagev1.VolumeAttachment); ok {
		return a.Spec.NodeName
	}
	return ""
}

// changeRecorder notes the node that an object is about whenever it changes; every node when the
// deletion was missed and the informer has the key alone.
func (l *VolumeBinder) changeRecorder(node func(obj any) string) cache.ResourceEventHandler {
	note := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if name := node(obj); name != "" {
			l.changeLog.Note(name)
		} else {
			l.changeLog.NoteAll()
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, is any) { note(is) }, DeleteFunc: note}
}

// Since lists nodes whose CSINode or attachments changed.
func (l *VolumeBinder) Since(clock int64) (nodes []string, now int64, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changeLog.Since(clock)
}

// signalChange wakes every goroutine that waits for claims.
func (l *VolumeBinder) signalChange() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

// changeSignal gives a channel that is closed at the next change.
func (l *VolumeBinder) changeSignal() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// isNewer tells whether resource version a is later than b; true when they cannot be compared, so
// that nothing stale is kept.
func isNewer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil && a != b || err == nil && c > 0
}

// Claim returns a claim as this scheduler assumes it to be, or as the informer has it when that is
// newer; not to be changed. The error is NotFound where the informer has none. Safe for concurrent
// use, as Volume and VolumesOfClass are.
func (l *VolumeBinder) Claim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	is, err := l.claimLister.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := namespace + "/" + name
	ours := l.claims[key]
	if ours == nil {
		return is, nil
	}
	if is.UID != ours.UID || isNewer(is.ResourceVersion, ours.ResourceVersion) {
		delete(l.claims, key)
		return is, nil
	}
	return ours, nil
}

// Volume is Claim for the PersistentVolume of that name.
func (l *VolumeBinder) Volume(name string) (*v1.PersistentVolume, error) {
	is, err := l.volumeLister.Get(name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.withAssumed(is), nil
}

// withAssumed is the volume as assumed; mu is held.
func (l *VolumeBinder) withAssumed(is *v1.PersistentVolume) *v1.PersistentVolume {
	ours := l.volumes[is.Name]
	if ours == nil {
		return is
	}
	if is.UID != ours.UID || isNewer(is.ResourceVersion, ours.ResourceVersion) {
		delete(l.volumes, is.Name)
		return is
	}
	return ours
}

// VolumesOfClass lists the volumes of a class by name, each as Volume returns it, in a new slice.
func (l *VolumeBinder) VolumesOfClass(class string) []*v1.PersistentVolume {
	found, err := l.volumesByClass.ByIndex(byClassIndex, class)
	if err != nil { // only when the index does not exist
		return nil
	}
	out := make([]*v1.PersistentVolume, 0, len(found))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, obj := range found {
		if v, ok := obj.(*v1.PersistentVolume); ok {
			out = append(out, l.withAssumed(v))
		}
	}
	volumelisters.SortByName(out)
	return out
}

// Class returns the StorageClass as the informer has it; NotFound where there is none.
func (l *VolumeBinder) Class(name string) (*storagev1.StorageClass, error) {
	return l.classes.Get(name)
}

// CSINode finds the CSINode of a node; nil when there is none.
func (l *VolumeBinder) CSINode(node string) *storagev1.CSINode {
	// called once per node: an error for a missing object would cost more than the look-up
	obj, there, err := l.csiNodes.GetByKey(node)
	if err != nil || !there {
		return nil
	}
	n, _ := obj.(*storagev1.CSINode)
	return n
}

// HasLimit tells whether a CSINode has a limit for the driver.
func (l *VolumeBinder) HasLimit(driver string) bool {
	return slices.Contains(l.csiNodes.ListIndexFuncValues(byDriverLimitIndex), driver)
}

// Driver finds a CSI driver; nil when there is none.
func (l *VolumeBinder) Driver(name string) *storagev1.CSIDriver {
	d, err := l.drivers.Get(name)
	if err != nil {
		return nil
	}
	return d
}

// Capacities lists the CSIStorageCapacities.
func (l *VolumeBinder) Capacities() []*storagev1.CSIStorageCapacity {
	all, err := l.capacities.List(labels.Everything())
	if err != nil {
		return nil
	}
	return all
}

// Attachments lists what is, or is to be, attached to a node.
func (l *VolumeBinder) Attachments(node string) []*storagev1.VolumeAttachment {
	found, err := l.attachments.ByIndex(byNodeIndex, node)
	if err != nil {
		return nil
	}
	out := make([]*storagev1.VolumeAttachment, 0, len(found))
	for _, obj := range found {
		if a, ok := obj.(*storagev1.VolumeAttachment); ok {
			out = append(out, a)
		}
	}
	return out
}

// Package volumelisters is what the volume plugins know of claims, volumes and classes, and the
// questions they share: which claims a Pod uses, what a driver must attach.
//
// Listers is what differs: the scheduler gives informers with its own pending bindings over them
// (scheduler/bind/volumebinder), tests and simulations give Objects. In: objects. Out: lookups, and
// functions over them. Pure.
package volumelisters

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kube-scheduler/framework"
)

// Listers are the objects around volumes, with what this scheduler has decided and not yet seen
// confirmed. Errors are "not found" of the API machinery.
type Listers interface {
	Claim(namespace, name string) (*v1.PersistentVolumeClaim, error)
	Volume(name string) (*v1.PersistentVolume, error)
	VolumesOfClass(class string) []*v1.PersistentVolume // by name
	Class(name string) (*storagev1.StorageClass, error)
	CSINode(node string) *storagev1.CSINode      // nil: none
	Driver(name string) *storagev1.CSIDriver     // nil: none
	Capacities() []*storagev1.CSIStorageCapacity // of all drivers
	Attachments(node string) []*storagev1.VolumeAttachment
	HasLimit(driver string) bool // whether any CSINode has a limit for the driver
}

// ListersHolder is what a framework.AttachedVolume offers whose scheduler keeps Listers.
type ListersHolder interface{ VolumeListers() Listers }

// ListersOf gives the Listers behind a AttachedVolume; nil when it has none.
func ListersOf(h framework.Handle) Listers {
	if s, ok := h.(ListersHolder); ok {
		return s.VolumeListers()
	}
	return nil
}

// Objects are Listers about given objects.
type Objects struct {
	claims      map[string]*v1.PersistentVolumeClaim
	volumes     map[string]*v1.PersistentVolume
	classes     map[string]*storagev1.StorageClass
	nodes       map[string]*storagev1.CSINode
	drivers     map[string]*storagev1.CSIDriver
	capacities  []*storagev1.CSIStorageCapacity
	attachments []*storagev1.VolumeAttachment
}

var _ Listers = (*Objects)(nil)

// Of gathers objects; kinds that have nothing to do with volumes are passed over.
func Of(all ...runtime.Object) *Objects {
	o := &Objects{claims: map[string]*v1.PersistentVolumeClaim{}, volumes: map[string]*v1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{},
		nodes:   map[string]*storagev1.CSINode{}, drivers: map[string]*storagev1.CSIDriver{}}
	for _, obj := range all {
		switch obj := obj.(type) {
		case *v1.PersistentVolumeClaim:
			o.claims[obj.Namespace+"/"+obj.Name] = obj
		case *v1.PersistentVolume:
			o.volumes[obj.Name] = obj
		case *storagev1.StorageClass:
			o.classes[obj.Name] = obj
		case *storagev1.CSINode:
			o.nodes[obj.Name] = obj
		case *storagev1.CSIDriver:
			o.drivers[obj.Name] = obj
		case *storagev1.CSIStorageCapacity:
			o.capacities = append(o.capacities, obj)
		case *storagev1.VolumeAttachment:
			o.attachments = append(o.attachments, obj)
		}
	}
	return o
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

// Claim finds a claim.
func (o *Objects) Claim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	if c := o.claims[namespace+"/"+name]; c != nil {
		return c, nil
	}
	return nil, notFound("persistentvolumeclaim", name)
}

// Volume finds a volume.
func (o *Objects) Volume(name string) (*v1.PersistentVolume, error) {
	if v := o.volumes[name]; v != nil {
		return v, nil
	}
	return nil, notFound("persistentvolume", name)
}

// VolumesOfClass lists the volumes of a class.
func (o *Objects) VolumesOfClass(class string) []*v1.PersistentVolume {
	var out []*v1.PersistentVolume
	for _, v := range o.volumes {
		if volume.GetPersistentVolumeClass(v) == class {
			out = append(out, v)
		}
	}
	SortByName(out)
	return out
}

// SortByName makes a list of volumes the same every time.
func SortByName(all []*v1.PersistentVolume) {
	slices.SortFunc(all, func(a, b *v1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
}

// Class finds a storage class.
func (o *Objects) Class(name string) (*storagev1.StorageClass, error) {
	if c := o.classes[name]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: storagev1.GroupName, Resource: "storageclass"}, name)
}

// CSINode finds what the drivers on a node say.
func (o *Objects) CSINode(node string) *storagev1.CSINode { return o.nodes[node] }

// HasLimit tells whether a node has a limit for the driver.
func (o *Objects) HasLimit(driver string) bool {
	for _, n := range o.nodes {
		if _, ok := LimitOf(n, driver); ok {
			return true
		}
	}
	return false
}

// Driver finds a CSI driver.
func (o *Objects) Driver(name string) *storagev1.CSIDriver { return o.drivers[name] }

// Capacities lists what drivers can still provision.
func (o *Objects) Capacities() []*storagev1.CSIStorageCapacity { return o.capacities }

// Attachments lists what is, or is to be, attached to a node.
func (o *Objects) Attachments(node string) []*storagev1.VolumeAttachment {
	var out []*storagev1.VolumeAttachment
	for _, a := range o.attachments {
		if a.Spec.NodeName == node {
			out = append(out, a)
		}
	}
	return out
}

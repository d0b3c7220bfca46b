package eviction

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal is a figure of the node that thresholds name, as KubeletConfiguration spells it.
type Signal string

// The signals of upstream.
const (
	MemoryAvailable            Signal = "memory.available"
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	NodeFsAvailable            Signal = "nodefs.available"
	NodeFsInodesFree           Signal = "nodefs.inodesFree"
	ImageFsAvailable           Signal = "imagefs.available"
	ImageFsInodesFree          Signal = "imagefs.inodesFree"
	ContainerFsAvailable       Signal = "containerfs.available"
	ContainerFsInodesFree      Signal = "containerfs.inodesFree"
	PIDAvailable               Signal = "pid.available"
)

// Resources that Pods cannot request; the names stand in messages.
const (
	ResourceInodes v1.ResourceName = "inodes"
	ResourcePIDs   v1.ResourceName = "pids"
)

// Disks says which file systems of the node are the same one.
type Disks struct {
	DedicatedImageFs bool // images are not on the file system of the kubelet's directory
	SplitImageFs     bool // writable layers are not on the file system of the images
}

// Reclaim is something of the node that can go before a Pod has to.
type Reclaim string

// What can be reclaimed.
const (
	DeadContainers Reclaim = "dead containers"
	UnusedImages   Reclaim = "unused images"
)

// Part is a part of what a Pod takes of the node's disks.
type Part int

// Parts of a Pod's use.
const (
	WritableLayers Part = 1 << iota
	Logs
	LocalVolumes // emptyDir of the default medium, hostPath, gitRepo, configMap
)

// signalRow is all that is particular about a signal.
type signalRow struct {
	signal    Signal
	condition v1.NodeConditionType
	resource  v1.ResourceName
	format    resource.Format // of the figures in messages
	read      func(Figures) *Observation
	pods      func(Disks) use       // what of a Pod counts for it
	reclaim   func(Disks) []Reclaim // what goes before a Pod
}

// signals are all of them, in the order in which thresholds are listed and, memory first, acted on.
var signals = []signalRow{
	{MemoryAvailable, v1.NodeMemoryPressure, v1.ResourceMemory, resource.BinarySI,
		func(f Figures) *Observation { return f.Memory }, memoryUse, nothing},
	{AllocatableMemoryAvailable, v1.NodeMemoryPressure, v1.ResourceMemory, resource.BinarySI,
		func(f Figures) *Observation { return f.PodMemory }, memoryUse, nothing},
	{NodeFsAvailable, v1.NodeDiskPressure, v1.ResourceEphemeralStorage, resource.BinarySI,
		func(f Figures) *Observation { return f.NodeFs.Bytes }, nodeFsUse(v1.ResourceEphemeralStorage), nodeFsReclaim},
	{NodeFsInodesFree, v1.NodeDiskPressure, ResourceInodes, resource.DecimalSI,
		func(f Figures) *Observation { return f.NodeFs.Inodes }, nodeFsUse(ResourceInodes), nodeFsReclaim},
	{ImageFsAvailable, v1.NodeDiskPressure, v1.ResourceEphemeralStorage, resource.BinarySI,
		func(f Figures) *Observation { return f.ImageFs.Bytes }, imageFsUse(v1.ResourceEphemeralStorage),
		imageFsReclaim},
	{ImageFsInodesFree, v1.NodeDiskPressure, ResourceInodes, resource.DecimalSI,
		func(f Figures) *Observation { return f.ImageFs.Inodes }, imageFsUse(ResourceInodes), imageFsReclaim},
	{ContainerFsAvailable, v1.NodeDiskPressure, v1.ResourceEphemeralStorage, resource.BinarySI,
		func(f Figures) *Observation { return f.ContainerFs.Bytes }, containerFsUse(v1.ResourceEphemeralStorage),
		containerFsReclaim},
	{ContainerFsInodesFree, v1.NodeDiskPressure, ResourceInodes, resource.DecimalSI,
		func(f Figures) *Observation { return f.ContainerFs.Inodes }, containerFsUse(ResourceInodes),
		containerFsReclaim},
	{PIDAvailable, v1.NodePIDPressure, ResourcePIDs, resource.DecimalSI,
		func(f Figures) *Observation { return f.Processes }, processUse, nothing},
}

// rowOf is a signal's row; nil for what is no signal.
func rowOf(s Signal) *signalRow {
	for i := range signals {
		if signals[i].signal == s {
			return &signals[i]
		}
	}
	return nil
}

// Resource is what a Pod has to give back for the signal; empty for what is no signal.
func (s Signal) Resource() v1.ResourceName {
	if r := rowOf(s); r != nil {
		return r.resource
	}
	return ""
}

func (s Signal) isMemory() bool { return s == MemoryAvailable || s == AllocatableMemoryAvailable }

// quantity is a figure of the signal as messages print it.
func (r *signalRow) quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, r.format) }

// Observation is a signal's figure: bytes, inodes or process ids.
type Observation struct {
	At                  time.Time
	Available, Capacity int64
}

// Filesystem is one file system; nil parts were not read.
type Filesystem struct{ Bytes, Inodes *Observation }

// Figures are what was read of the node; nil parts were not read, and their thresholds are not met.
type Figures struct {
	Memory    *Observation // capacity less the working set of the root cgroup
	PodMemory *Observation // limit of the Pods' cgroup less its working set
	NodeFs    Filesystem   // of the kubelet's directory
	ImageFs   Filesystem   // of the runtime's images
	// of the runtime's writable layers
	ContainerFs Filesystem
	Processes   *Observation // the kernel's greatest number of tasks less those there are
}

// Observations are the figures by signal.
type Observations map[Signal]Observation

// Observe assigns figures to signals.
func Observe(f Figures) Observations {
	out := Observations{}
	for _, r := range signals {
		if o := r.read(f); o != nil {
			out[r.signal] = *o
		}
	}
	return out
}

func nothing(Disks) []Reclaim { return nil }

func nodeFsReclaim(d Disks) []Reclaim {
	switch {
	case d.DedicatedImageFs && d.SplitImageFs:
		return []Reclaim{DeadContainers}
	case d.DedicatedImageFs:
		return nil
	}
	return []Reclaim{DeadContainers, UnusedImages}
}

func imageFsReclaim(d Disks) []Reclaim {
	if d.DedicatedImageFs && d.SplitImageFs {
		return []Reclaim{UnusedImages}
	}
	return []Reclaim{DeadContainers, UnusedImages}
}

func containerFsReclaim(d Disks) []Reclaim {
	if d.DedicatedImageFs && !d.SplitImageFs {
		return imageFsReclaim(d)
	}
	return nodeFsReclaim(d)
}

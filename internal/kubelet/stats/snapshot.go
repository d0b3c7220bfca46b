package stats

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// Snapshot is the node at one moment. Numbers that are not known are nil or zero.
type Snapshot struct {
	NodeName string
	Started  time.Time
	Machine  Machine
	Node     Node
	Tiers    []Tier // cgroups above the Pods: the root, the Pods' own, those of the QoS classes
	System   []SystemCgroup
	Pods     []Pod
}

// Node is the machine's use.
type Node struct {
	Sample
	Rate             *uint64 // nano cores
	Interfaces       []usage.NetworkInterface
	DefaultInterface string
	Disk             *usage.Disk // of the kubelet's directory
	Images           *usage.Disk // Used is what images take
	Containers       *usage.Disk // Used is what writable layers take
}

// Tier is a cgroup that is no Pod's.
type Tier struct {
	Path string
	Use  usage.Cgroup
	Rate *uint64
}

// SystemCgroup is the cgroup of something that the node consists of: kubelet or runtime.
type SystemCgroup struct {
	Name string
	Tier
}

// CgroupUsage is a cgroup and how fast it uses processors.
type CgroupUsage struct {
	Path string // empty when the runtime was asked instead
	Use  *usage.Cgroup
	Rate *uint64 // nano cores; nil until two samples are there
}

// Pod is a Pod that runs.
type Pod struct {
	Namespace, Name, UID string
	Started              time.Time
	Sandbox              Container
	Measured             CgroupUsage
	HostNetwork          bool
	Interfaces           []usage.NetworkInterface
	InterfacesAt         time.Time
	Containers           []Container
	Volumes              []Volume
	Logs                 usage.Space // of all containers, dead ones included
	Spec                 *v1.Pod     // nil when no source knows the Pod
}

// Container is a container that runs.
type Container struct {
	Name, ID, Image string
	Attempt         uint32
	Created         time.Time
	Measured        CgroupUsage
	Layer           *usage.Space // the writable one
	Logs            *usage.Space
}

// Volume is a directory of a Pod.
type Volume struct {
	Name      string
	Claim     string // of a persistent one
	At        time.Time
	Disk      usage.Disk // Used is the volume's own, the rest that of the file system it is on
	Inodes    uint64     // that it uses
	Ephemeral bool       // counts as the Pod's ephemeral storage
}

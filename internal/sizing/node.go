package sizing

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/journal"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

// NodeSize is how big a node is.
type NodeSize struct {
	MilliCPU int64 `json:"milliCPU"`
	Memory   int64 `json:"memory"` // bytes
	Disk     int64 `json:"disk"`   // bytes of the kubelet's file system; 0: not known
}

// Capacity is the size as the API has it.
func (n NodeSize) Capacity() v1.ResourceList {
	out := v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(n.MilliCPU, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(n.Memory, resource.BinarySI)}
	if n.Disk > 0 {
		out[v1.ResourceEphemeralStorage] = *resource.NewQuantity(n.Disk, resource.BinarySI)
	}
	return out
}

// NodeAdvice is what a node should keep from Pods.
type NodeAdvice struct {
	Size        NodeSize          `json:"size"`
	Kube        map[string]string `json:"kubeReserved"`
	System      map[string]string `json:"systemReserved"`
	Hard        map[string]string `json:"evictionHard"`
	Soft        map[string]string `json:"evictionSoft"`
	Grace       map[string]string `json:"evictionSoftGracePeriod"`
	Reclaim     map[string]string `json:"evictionMinimumReclaim"`
	Allocatable v1.ResourceList   `json:"allocatable"`
	Warnings    []string          `json:"warnings,omitempty"`
}

// tier is a part of a node's size and which share of it is reserved.
type tier struct {
	upTo  int64 // of the size
	share float64
}

// kubeMemory and kubeCPU are the shares of a node that kubelet, runtime and shims take, as
// providers of Kubernetes publish them: the first gigabytes and cores carry most of it, for what
// runs on a small node costs as much as on a big one.
var (
	kubeMemory = []tier{{4 * gi, 0.25}, {8 * gi, 0.20}, {16 * gi, 0.10}, {128 * gi, 0.06}, {1 << 62, 0.02}}
	kubeCPU    = []tier{{1000, 0.06}, {2000, 0.01}, {4000, 0.005}, {1 << 62, 0.0025}}
)

func tiered(size int64, tiers []tier) int64 {
	sum, from := 0.0, int64(0)
	for _, t := range tiers {
		sum += float64(max(0, min(size, t.upTo)-from)) * t.share
		from = t.upTo
	}
	return int64(sum)
}

// clamp is a share of a size within bounds.
func clamp(size int64, share float64, low, high int64) int64 {
	return max(low, min(high, int64(float64(size)*share)))
}

func mebibytes(n int64) string {
	return resource.NewQuantity((n+mi-1)/mi*mi, resource.BinarySI).String()
}

func millicores(n int64) string { return resource.NewMilliQuantity(n, resource.DecimalSI).String() }

// CheckSize refuses sizes that are none. The error names the field.
func CheckSize(n NodeSize) error {
	switch {
	case n.MilliCPU < 100:
		return wrong("cpu", "%s: a node has at least 100m", millicores(n.MilliCPU))
	case n.Memory < 512*mi:
		return wrong("memory", "%s: a node has at least 512Mi", mebibytes(n.Memory))
	case n.Disk != 0 && n.Disk < gi:
		return wrong("disk", "%s: a node has at least 1Gi", mebibytes(n.Disk))
	}
	return nil
}

// Node advises on a node of a size.
func Node(n NodeSize) NodeAdvice {
	a := NodeAdvice{Size: n,
		Kube: map[string]string{"cpu": millicores(max(10, tiered(n.MilliCPU, kubeCPU))),
			"memory": mebibytes(tiered(n.Memory, kubeMemory))},
		System: map[string]string{"cpu": millicores(clamp(n.MilliCPU, 0.02, 20, 500)),
			"memory": mebibytes(clamp(n.Memory, 0.02, 100*mi, 2*gi))},
		Grace: map[string]string{}, Reclaim: map[string]string{},
	}
	hard := clamp(n.Memory, 0.02, 100*mi, gi)
	a.Hard = map[string]string{"memory.available": mebibytes(hard), "nodefs.available": "10%",
		"nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%", "pid.available": "5%"}
	a.Soft = map[string]string{"memory.available": mebibytes(2 * hard), "nodefs.available": "15%"}
	if n.Disk > 0 { // a share of a big disk is more than a node needs to defend itself
		a.Hard["nodefs.available"] = mebibytes(clamp(n.Disk, 0.10, gi/2, 20*gi))
		a.Hard["imagefs.available"] = mebibytes(clamp(n.Disk, 0.15, gi/2, 30*gi))
		a.Soft["nodefs.available"] = mebibytes(clamp(n.Disk, 0.15, 3*gi/4, 30*gi))
		storage := mebibytes(clamp(n.Disk, 0.02, 256*mi, 4*gi))
		a.Kube["ephemeral-storage"] = storage
	}
	a.Grace["memory.available"], a.Grace["nodefs.available"] = "1m30s", "2m"
	a.Reclaim["memory.available"] = mebibytes(hard)
	a.Allocatable = kubeletresource.Allocatable(n.Capacity(), a.reserved())
	return a
}

func (a NodeAdvice) reserved() kubeletresource.Reserved {
	r := kubeletresource.Reserved{Kube: kubeletresource.ParseQuantities(a.Kube),
		System: kubeletresource.ParseQuantities(a.System), Eviction: v1.ResourceList{}}
	r.Eviction[v1.ResourceMemory] = resource.MustParse(a.Hard["memory.available"])
	if q, err := resource.ParseQuantity(a.Hard["nodefs.available"]); err == nil {
		r.Eviction[v1.ResourceEphemeralStorage] = q
	}
	return r
}

// Settings are the fields of KubeletConfiguration, by name.
func (a NodeAdvice) Settings() map[string]any {
	return map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"kubeReserved": a.Kube, "systemReserved": a.System, "evictionHard": a.Hard, "evictionSoft": a.Soft,
		"evictionSoftGracePeriod": a.Grace, "evictionMinimumReclaim": a.Reclaim,
		"evictionMaxPodGracePeriod": 60, "enforceNodeAllocatable": []string{"pods"}}
}

// tooMuch is the share of a node above which reservations are too large, whatever its size.
const tooMuch = 0.4

// Check says what is wrong with reservations that a node has: too little, and its daemons take from
// Pods what those requested; too much, and it lies idle.
func Check(n NodeSize, r kubeletresource.Reserved) []string {
	var out []string
	want := Node(n).reserved()
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		sum := func(r kubeletresource.Reserved) int64 {
			kube, system := r.Kube[name], r.System[name]
			if name == v1.ResourceCPU {
				return kube.MilliValue() + system.MilliValue()
			}
			return kube.Value() + system.Value()
		}
		all, text := n.Memory, journal.Size
		if name == v1.ResourceCPU {
			all, text = n.MilliCPU, millicores
		}
		have, advised := sum(r), sum(want)
		switch {
		case have < advised/2:
			out = append(out, fmt.Sprintf("kubeReserved and systemReserved keep %s of %s, too little (advised: %s): %s",
				text(have), name, text(advised), tooLittleMeans[name]))
		case have > max(2*advised, int64(float64(all)*tooMuch)):
			out = append(out, fmt.Sprintf("kubeReserved and systemReserved keep %s of %s, too much (advised: %s of "+
				"%s): Pods cannot request it, and it lies idle", text(have), name, text(advised), text(all)))
		}
	}
	hard := r.Eviction[v1.ResourceMemory]
	advised := want.Eviction[v1.ResourceMemory]
	switch {
	case hard.Value() < advised.Value()/2:
		out = append(out, fmt.Sprintf("the hard threshold of memory.available is %s, too little (advised: %s): memory "+
			"runs out between two looks, and the kernel kills instead", journal.Size(hard.Value()),
			journal.Size(advised.Value())))
	case hard.Value() > max(4*advised.Value(), n.Memory/10):
		out = append(out, fmt.Sprintf("the hard threshold of memory.available is %s, too much (advised: %s): Pods are "+
			"evicted while there is memory", journal.Size(hard.Value()), journal.Size(advised.Value())))
	}
	return out
}

var tooLittleMeans = map[v1.ResourceName]string{
	v1.ResourceCPU: "when Pods take all CPUs they requested, kubelet and runtime answer late and the node becomes " +
		"NotReady",
	v1.ResourceMemory: "when Pods take all memory they requested, kubelet, runtime and system daemons have none: " +
		"Pods are evicted though they keep to their requests, or the kernel kills",
}

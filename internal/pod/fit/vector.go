package fit

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Vector is a sum of resources in whole numbers: cpu in milli, all else in base units. Scalar holds
// extended resources, huge pages, attachable volumes and prefixed native resources; it is nil when
// there are none.
type Vector struct {
	MilliCPU         int64
	Memory           int64
	EphemeralStorage int64
	Pods             int64
	Scalar           map[v1.ResourceName]int64
}

// VectorOf reads a resource list. Names the scheduler does not account for (storage, requests.*)
// are left out.
func VectorOf(list v1.ResourceList) Vector {
	var v Vector
	v.AddList(list)
	return v
}

// AddList adds a resource list.
func (v *Vector) AddList(list v1.ResourceList) {
	for name, q := range list {
		switch name {
		case v1.ResourceCPU:
			v.MilliCPU += milliUnits(&q)
		case v1.ResourceMemory:
			v.Memory += units(&q)
		case v1.ResourceEphemeralStorage:
			v.EphemeralStorage += units(&q)
		case v1.ResourcePods:
			v.Pods += units(&q)
		default:
			if IsScalar(name) {
				v.addScalar(name, units(&q))
			}
		}
	}
}

// MaxValue is the most that is counted of a resource, in milli for cpu: it can be added up a
// hundred times, or become a percentage, without running over. Larger quantities count as this,
// where upstream's library lets some of them count as nothing.
const MaxValue = 1 << 56

// units is a quantity's whole units, within what is counted; beyond an int64 Value would be
// anything, zero too.
func units(q *resource.Quantity) int64 {
	switch {
	case q.CmpInt64(MaxValue) > 0:
		return MaxValue
	case q.CmpInt64(-MaxValue) < 0:
		return -MaxValue
	}
	return q.Value()
}

// milliUnits are units of a thousandth.
func milliUnits(q *resource.Quantity) int64 {
	switch {
	case q.CmpInt64(MaxValue/1000) > 0:
		return MaxValue
	case q.CmpInt64(-MaxValue/1000) < 0:
		return -MaxValue
	}
	return q.MilliValue()
}

func (v *Vector) addScalar(name v1.ResourceName, n int64) {
	if v.Scalar == nil {
		v.Scalar = map[v1.ResourceName]int64{}
	}
	v.Scalar[name] += n
}

// Add adds another sum.
func (v *Vector) Add(o *Vector) { v.sum(o, 1) }

// Sub takes another sum away.
func (v *Vector) Sub(o *Vector) { v.sum(o, -1) }

func (v *Vector) sum(o *Vector, sign int64) {
	v.MilliCPU += sign * o.MilliCPU
	v.Memory += sign * o.Memory
	v.EphemeralStorage += sign * o.EphemeralStorage
	v.Pods += sign * o.Pods
	for name, n := range o.Scalar {
		v.addScalar(name, sign*n)
	}
}

// Max raises every resource to the list's figure where that is larger.
func (v *Vector) Max(list v1.ResourceList) {
	o := VectorOf(list)
	v.MilliCPU = max(v.MilliCPU, o.MilliCPU)
	v.Memory = max(v.Memory, o.Memory)
	v.EphemeralStorage = max(v.EphemeralStorage, o.EphemeralStorage)
	v.Pods = max(v.Pods, o.Pods)
	for name, n := range o.Scalar {
		if n > v.Scalar[name] {
			v.addScalar(name, n-v.Scalar[name])
		}
	}
}

// Clone copies the sum.
func (v *Vector) Clone() Vector {
	c := *v
	c.Scalar = maps.Clone(v.Scalar)
	return c
}

// Get is one resource's figure, 0 when absent.
func (v *Vector) Get(name v1.ResourceName) int64 {
	switch name {
	case v1.ResourceCPU:
		return v.MilliCPU
	case v1.ResourceMemory:
		return v.Memory
	case v1.ResourceEphemeralStorage:
		return v.EphemeralStorage
	case v1.ResourcePods:
		return v.Pods
	}
	return v.Scalar[name]
}

// IsEmpty tells whether no resource but Pods is asked for. A scalar asked for with 0 is still asked
// for.
func (v *Vector) IsEmpty() bool {
	return v.MilliCPU == 0 && v.Memory == 0 && v.EphemeralStorage == 0 && len(v.Scalar) == 0
}

// Shortage is one resource that does not suffice. Figures are in milli for cpu, base units else.
type Shortage struct {
	Resource  v1.ResourceName
	Requested int64 // by the Pod
	Used      int64 // by Pods already there
	Available int64 // allocatable of the node
}

// Missing is how much has to be freed, or the request lowered by, for the Pod to fit.
func (s Shortage) Missing() int64 { return s.Requested + s.Used - s.Available }

// Unresolvable tells whether the Pod asks for more than the empty node has.
func (s Shortage) Unresolvable() bool { return s.Requested > s.Available }

// Insufficient tells whether a request is more than what is left of a resource, all in its base
// unit. A request of nothing always fits.
func Insufficient(request, used, allocatable int64) bool {
	return request > 0 && request > allocatable-used
}

// Shortages lists what a Pod asking for ask lacks on a node with allocatable where used is taken:
// pods first, then cpu, memory, ephemeral storage and scalars by name. skip names scalars that are
// not checked; it may be nil.
func Shortages(request, used, allocatable *Vector, skip func(v1.ResourceName) bool) []Shortage {
	var out []Shortage
	check := func(name v1.ResourceName, requested, taken, room int64) {
		out = append(out, Shortage{Resource: name, Requested: requested, Used: taken, Available: room})
	}
	if Insufficient(1, used.Pods, allocatable.Pods) {
		check(v1.ResourcePods, 1, used.Pods, allocatable.Pods)
	}
	if request.IsEmpty() {
		return out
	}
	if Insufficient(request.MilliCPU, used.MilliCPU, allocatable.MilliCPU) {
		check(v1.ResourceCPU, request.MilliCPU, used.MilliCPU, allocatable.MilliCPU)
	}
	if Insufficient(request.Memory, used.Memory, allocatable.Memory) {
		check(v1.ResourceMemory, request.Memory, used.Memory, allocatable.Memory)
	}
	if Insufficient(request.EphemeralStorage, used.EphemeralStorage, allocatable.EphemeralStorage) {
		check(v1.ResourceEphemeralStorage, request.EphemeralStorage, used.EphemeralStorage,
			allocatable.EphemeralStorage)
	}
	if len(request.Scalar) == 0 {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(request.Scalar)) {
		n := request.Scalar[name]
		if n == 0 || skip != nil && skip(name) {
			continue
		}
		if Insufficient(n, used.Scalar[name], allocatable.Scalar[name]) {
			check(name, n, used.Scalar[name], allocatable.Scalar[name])
		}
	}
	return out
}

// IsScalar tells whether a resource is accounted by name: extended, huge pages, attachable volumes,
// prefixed native.
func IsScalar(name v1.ResourceName) bool {
	s := string(name)
	return IsExtended(name) || strings.HasPrefix(s, v1.ResourceHugePagesPrefix) || strings.HasPrefix(s,
		v1.ResourceAttachableVolumesPrefix) ||
		strings.Contains(s, v1.ResourceDefaultNamespacePrefix)
}

// IsExtended tells whether a resource is an extended one: fully qualified, outside kubernetes.io,
// no quota name.
func IsExtended(name v1.ResourceName) bool {
	s := string(name)
	native := !strings.Contains(s, "/") || strings.Contains(s, v1.ResourceDefaultNamespacePrefix)
	return !native && !strings.HasPrefix(s, v1.DefaultResourceRequestsPrefix)
}

package nodestatus

import (
	"fmt"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Facts are all a status is made of: what was read for this round.
type Facts struct {
	Now            time.Time
	Machine        Machine
	MaxPods        int64
	KubeletPort    int32
	KubeletVersion string

	Addresses []v1.NodeAddress
	External  bool // an external cloud provider gives addresses
	Resources Resources
	Pressure  Pressure
	Health    Health
	Runtime   *runtimeapi.StatusResponse  // last good answer; nil before the first
	Version   *runtimeapi.VersionResponse // nil before the first
	Images    []v1.ContainerImage
	Volumes   *Volumes // nil: leave what is there
}

// Resources are what the node has beside the machine's own.
type Resources struct {
	Allocatable                   func(capacity v1.ResourceList) v1.ResourceList // nil: all of it
	ExtraCapacity, ExtraAllocable v1.ResourceList                                // of device plugins
}

// Volumes are what the volume side says of attached volumes. Which are attached is the
// attach/detach controller's to say.
type Volumes struct{ InUse []v1.UniqueVolumeName }

// A Setter makes one part of the status true.
type Setter func(*v1.NodeStatus, Facts)

// Setters are all of them, in the order they run; capacity comes before what is computed from it,
// Ready after what it looks at.
func Setters() []Setter {
	return []Setter{
		setAddresses, setCapacity, setInfo, setEndpoints, setImages, setRuntimeHandlers, setFeatures, setVolumes,
		setMemoryPressure, setDiskPressure, setPIDPressure, setReady,
	}
}

// Apply runs every Setter on a copy of the status.
func Apply(old v1.NodeStatus, f Facts) v1.NodeStatus {
	status := *old.DeepCopy()
	for _, set := range Setters() {
		set(&status, f)
	}
	return status
}

// setAddresses leaves those alone that an external cloud provider gave.
func setAddresses(s *v1.NodeStatus, f Facts) {
	if f.External && len(s.Addresses) > 0 {
		return
	}
	s.Addresses = f.Addresses
}

func setCapacity(s *v1.NodeStatus, f Facts) {
	capacity := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(f.Machine.CPUs*1000, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(int64(f.Machine.MemoryBytes), resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(f.MaxPods, resource.DecimalSI),
	}
	if f.Machine.EphemeralBytes > 0 {
		capacity[v1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(f.Machine.EphemeralBytes),
			resource.BinarySI)
	}
	for size, bytes := range f.Machine.HugePages {
		capacity[v1.ResourceName(v1.ResourceHugePagesPrefix+size)] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	allocatable := capacity.DeepCopy()
	if f.Resources.Allocatable != nil {
		allocatable = f.Resources.Allocatable(capacity.DeepCopy())
	}
	for name, q := range f.Resources.ExtraCapacity {
		capacity[name] = q
	}
	for name, q := range f.Resources.ExtraAllocable {
		allocatable[name] = q
	}
	// An extended resource somebody else patched into the status stays, with what is allocatable of
	// it; one whose plugin is gone is 0 there already.
	for name, q := range s.Capacity {
		if _, native := capacity[name]; !native && isExtendedResource(name) {
			capacity[name] = q
			if a, ok := s.Allocatable[name]; ok {
				q = a
			}
			allocatable[name] = q
		}
	}
	s.Capacity, s.Allocatable = capacity, allocatable
}

// isExtendedResource says that a resource is an extended one: it has a domain that is not
// Kubernetes' own.
func isExtendedResource(name v1.ResourceName) bool {
	domain, _, found := strings.Cut(string(name), "/")
	return found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

func setInfo(s *v1.NodeStatus, f Facts) {
	s.NodeInfo = v1.NodeSystemInfo{
		MachineID: f.Machine.MachineID, SystemUUID: f.Machine.SystemUUID, BootID: f.Machine.BootID,
		KernelVersion: f.Machine.KernelVersion,
		OSImage:       f.Machine.OSImage, KubeletVersion: f.KubeletVersion, OperatingSystem: "linux",
		Architecture:            f.Machine.Architecture,
		ContainerRuntimeVersion: s.NodeInfo.ContainerRuntimeVersion,
		RunningInUserNamespace:  f.Machine.RunningInUserNamespace,
	}
	if f.Machine.SwapBytes > 0 {
		swap := int64(f.Machine.SwapBytes)
		s.NodeInfo.Swap = &v1.NodeSwapStatus{Capacity: &swap}
	}
	if f.Version != nil {
		s.NodeInfo.ContainerRuntimeVersion = fmt.Sprintf("%s://%s", f.Version.RuntimeName,
			plainVersion(f.Version.RuntimeVersion))
	}
}

// plainVersion drops the v of v2.4.2, as upstream's parsed version prints without it.
func plainVersion(s string) string {
	if v, err := version.ParseSemantic(s); err == nil {
		return v.String()
	}
	return s
}

func setEndpoints(s *v1.NodeStatus, f Facts) {
	s.DaemonEndpoints = v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: f.KubeletPort}}
}

func setImages(s *v1.NodeStatus, f Facts) { s.Images = f.Images }

const maxImageNames = 5 // of one image, as upstream

// imageList turns the runtime's list into the status' one: biggest first, at most limit (negative:
// all).
func imageList(list []*runtimeapi.Image, limit int) []v1.ContainerImage {
	sort.Slice(list, func(a, b int) bool {
		if list[a].Size != list[b].Size {
			return list[a].Size > list[b].Size
		}
		return list[a].Id < list[b].Id
	})
	if limit >= 0 && len(list) > limit {
		list = list[:limit]
	}
	out := make([]v1.ContainerImage, 0, len(list))
	for _, i := range list {
		names := append(append([]string(nil), i.RepoDigests...), i.RepoTags...)
		if len(names) > maxImageNames {
			names = names[:maxImageNames]
		}
		out = append(out, v1.ContainerImage{Names: names, SizeBytes: int64(i.Size)})
	}
	return out
}

func setRuntimeHandlers(s *v1.NodeStatus, f Facts) {
	if f.Runtime == nil {
		return
	}
	s.RuntimeHandlers = nil
	for _, h := range f.Runtime.RuntimeHandlers {
		rro, userns := h.GetFeatures().GetRecursiveReadOnlyMounts(), h.GetFeatures().GetUserNamespaces()
		s.RuntimeHandlers = append(s.RuntimeHandlers, v1.NodeRuntimeHandler{
			Name: h.Name, Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &rro,
				UserNamespaces: &userns},
		})
	}
	sort.Slice(s.RuntimeHandlers, func(a, b int) bool { return s.RuntimeHandlers[a].Name < s.RuntimeHandlers[b].Name })
	policy := f.Runtime.GetFeatures().GetSupplementalGroupsPolicy()
	s.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &policy}
}

func setVolumes(s *v1.NodeStatus, f Facts) {
	if f.Volumes != nil {
		s.VolumesInUse = f.Volumes.InUse
	}
}

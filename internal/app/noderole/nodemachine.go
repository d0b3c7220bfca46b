package noderole

import (
	"fmt"
	"maps"
	"os"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/kubelet/machine"
	nodeutil "github.com/gantry-project/gantry/internal/node"
)

// warnOfSwap tells by an event of the node that what Pods keep in memory may come to a disk: there
// is swap, and the kernel cannot keep a tmpfs out of it. One that cannot be asked is not told of.
func warnOfSwap(swapBytes uint64, kept func() (bool, error), events record.EventRecorder, node string) {
	if swapBytes == 0 {
		return
	}
	if is, err := kept(); err != nil || is {
		if err != nil {
			klog.ErrorS(err, "Cannot tell whether volumes in memory stay out of swap")
		}
		return
	}
	events.Event(nodeutil.Reference(node), v1.EventTypeWarning,
		"PossibleMemoryBackedVolumesOnDisk", "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. "+
			"secrets, emptyDirs, etc.) might be swapped to disk and should no longer be considered secure.")
}

// machine reads this machine's CPUs and memory; memory is what it has in all, in bytes.
// reservedSystemCPUs takes the place of the CPU of systemReserved and kubeReserved, as upstream.
func (n *Role) machine(memory uint64) (machine.Info, error) {
	info, err := machine.Parse(os.DirFS("/sys"), memory)
	if err != nil {
		return info, fmt.Errorf("reading the CPUs of this machine: %w", err)
	}
	if n.config.ReservedSystemCPUs == "" {
		return info, nil
	}
	reserved, err := cpuset.Parse(n.config.ReservedSystemCPUs)
	if err != nil {
		return info, fmt.Errorf("reservedSystemCPUs: unable to parse reserved-cpus list: %w", err)
	}
	online := info.Topology().All()
	if !reserved.IsSubsetOf(online) {
		return info, fmt.Errorf("reservedSystemCPUs: reserved-cpus: %s is not a subset of online-cpus: %s",
			n.config.ReservedSystemCPUs, online)
	}
	klog.InfoS("Option --reserved-cpus is specified, it will overwrite the cpu setting in KubeReserved and "+
		"SystemReserved", "kubeReserved", n.config.KubeReserved, "systemReserved", n.config.SystemReserved)
	n.config.KubeReserved, n.config.SystemReserved = maps.Clone(n.config.KubeReserved),
		maps.Clone(n.config.SystemReserved)
	delete(n.config.KubeReserved, "cpu")
	if n.config.SystemReserved == nil {
		n.config.SystemReserved = map[string]string{}
	}
	n.config.SystemReserved["cpu"] = strconv.Itoa(reserved.Size())
	return info, nil
}

package kubelet

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/containermanager"
	"github.com/gantry-project/gantry/internal/kubelet/devices"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/topologymanager"
	"github.com/gantry-project/gantry/internal/kubelet/userns/allocations"
)

// defaultReconcilePeriod is cpuManagerReconcilePeriod when the configuration has none.
const defaultReconcilePeriod = 10 * time.Second

// resourceManagers are who gives of the node what only one Pod can have.
type resourceManagers struct {
	userNamespaces *allocations.Manager
	containers     *containermanager.Manager // nil: containers may run anywhere
	orphansKnown   atomic.Bool               // Pods that only the runtime has were looked for
	devices        *devices.Devices
}

// containerManager is the manager of CPUs and memory, which asks the provider of devices too; nil
// where the machine is not known. An error names the field of the configuration.
func (o *Options) containerManager(devices topologymanager.HintProvider) (*containermanager.Manager, error) {
	if o.Dependencies.Machine == nil {
		return nil, nil //nolint:nilnil // nobody gives anything away
	}
	gates, err := config.ResolveGates(o.Config.FeatureGates)
	if err != nil {
		return nil, err
	}
	capacity := o.Dependencies.Machine.Capacity()
	r := config.Reserved(o.Config, capacity)
	return containermanager.New(containermanager.Config{
		Kubelet: o.Config, Gate: gates.On, Machine: *o.Dependencies.Machine, NodeReserved: r.Sum(capacity),
		Providers: []topologymanager.HintProvider{devices}, Directory: o.RootDir, Runtime: o.Runtime,
		Metrics: o.Dependencies.Metrics,
	})
}

// ContainerManager has the CPUs and the memory that containers have of their own; nil where the
// machine is not known.
func (k *Kubelet) ContainerManager() *containermanager.Manager { return k.containers }

// removeStaleAllocations takes back what Pods have that hold nothing of the node any more, but for
// the one that is being admitted. Nobody may be let in meanwhile. Until all sources and the runtime
// have said which Pods there are, nothing is taken back.
func (k *Kubelet) removeStaleAllocations(judged types.UID) {
	if k.containers == nil || !k.orphansKnown.Load() {
		return
	}
	there := map[types.UID]bool{judged: true}
	for _, v := range k.podWorkers.Views() {
		there[v.Pod.UID] = there[v.Pod.UID] || v.Stage < podplan.Stopped
	}
	k.containers.RemoveStale(func(uid types.UID) bool { return !there[uid] })
}

// runCPUReconcile takes back what Pods that are gone had, readmits those of an earlier kubelet and
// keeps containers on their CPUs: whenever some are given away or come back, and every
// cpuManagerReconcilePeriod.
func (k *Kubelet) runCPUReconcile(ctx context.Context) {
	if k.containers == nil || !k.containers.Static() {
		return
	}
	period := k.opts.Config.CPUManagerReconcilePeriod.Duration
	if period <= 0 {
		period = defaultReconcilePeriod
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		k.podWorkers.HoldAdmissions(func() {
			k.removeStaleAllocations("")
			if k.orphansKnown.Load() {
				k.readmitPods()
			}
		})
		k.containers.Reconcile(ctx, k.runningContainers())
		select {
		case <-k.containers.Changed():
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// readmitPods gives the Pods that an earlier kubelet let in what they should have, where it did
// not: its policy was another.
func (k *Kubelet) readmitPods() {
	for _, p := range k.activePods() {
		k.containers.Readmit(p)
	}
}

// runningContainers are the containers that the runtime says run.
func (k *Kubelet) runningContainers() []containermanager.Container {
	var out []containermanager.Container
	for _, v := range k.podWorkers.Views() {
		for _, c := range v.Observed.Containers {
			if c.State == podplan.Running {
				out = append(out, containermanager.Container{Pod: v.Pod.UID, Name: c.Name, ID: c.ID})
			}
		}
	}
	return out
}

package podactions

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// resizeContainers gives containers and the Pod's cgroup new sizes. The cgroup is as wide as the
// larger of both sizes while its containers change, and a memory limit is not lowered below what is
// in use: the kernel would kill.
func (c *operation) resizeContainers(ctx context.Context, a podplan.Resize) error {
	o := c.podOptions()
	before := c.applied.ApplyTo(c.pod)
	if err := c.checkMemoryUsage(ctx, a, before); err != nil {
		return &reason.Refusal{
			Code: reason.ResizeError, By: "kubelet/podexec", Detail: "cannot decrease memory limits: " + err.Error(),
			Fix: "make the container use less memory, or raise the limit again", Err: err,
		}
	}
	old, now := resource.ForPod(before, o), resource.ForPod(c.pod, o)
	path := o.PodPath(c.pod)
	if err := c.executor.d.Cgroups.Ensure(path, resource.Larger(old, resource.ResetRemovedLimits(old, now))); err !=
		nil {
		return newRefusal(reason.ResizeError, fmt.Errorf("widen the cgroup of the Pod: %w", err))
	}
	for _, s := range a.Containers {
		m, ok := podplan.MemberOf(c.pod, s.Name)
		if !ok {
			continue
		}
		r := resource.ForContainer(c.pod, m.Container, c.nodeResources(), c.containerOptions(m.Container))
		if err := c.executor.d.Runtime.UpdateContainerResources(ctx, s.ID,
			&runtimeapi.ContainerResources{Linux: r}); err != nil {
			return newRefusal(reason.ResizeError, err)
		}
		c.put(journal.Resized{Container: s.Name, To: resourcesText(m.Resources)})
	}
	if !a.FinalizePodCgroup {
		return nil
	}
	if err := c.executor.d.Cgroups.Ensure(path, resource.ResetRemovedLimits(old, now)); err != nil {
		return newRefusal(reason.ResizeError, fmt.Errorf("size of the cgroup of the Pod: %w", err))
	}
	c.put(journal.Resized{To: resourcesText(podplan.ResourcesOf(c.pod, podplan.PodResources))})
	return c.updatePodSandboxResources(ctx)
}

// updatePodSandboxResources lets the runtime and its plugins know the Pod's new size; runtimes
// without that call are left alone.
func (c *operation) updatePodSandboxResources(ctx context.Context) error {
	sandbox := c.observed.Sandbox()
	if sandbox == nil {
		return nil
	}
	_, err := c.executor.d.Runtime.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: sandbox.ID, Resources: podResources(c.pod, c.podOptions()),
	})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return newRefusal(reason.ResizeError, err)
	}
	return nil
}

// checkMemoryUsage asks what is in use before a memory limit is lowered.
func (c *operation) checkMemoryUsage(ctx context.Context, a podplan.Resize, before *v1.Pod) error {
	was := pod.AllocationOf(before)
	for _, s := range a.Containers {
		m, ok := podplan.MemberOf(c.pod, s.Name)
		if !ok {
			continue
		}
		old := was.Containers[s.Name].Limits[v1.ResourceMemory]
		now := m.Resources.Limits.Memory().Value()
		if now == 0 || !old.IsZero() && now >= old.Value() {
			continue
		}
		stats, err := c.executor.d.Runtime.ContainerStats(ctx, s.ID)
		if err != nil {
			return fmt.Errorf("memory use of container %q: %s", s.Name, runtimeMessage(err))
		}
		if used := memoryUsage(stats); used >= now {
			return fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", s.Name, now,
				used)
		}
	}
	o := c.podOptions()
	if old, now := resource.ForPod(before, o), resource.ForPod(c.pod, o); a.FinalizePodCgroup && shrinks(old.Memory,
		now.Memory) {
		used, err := c.podMemoryUsage(ctx)
		if err != nil {
			return err
		}
		if used >= *now.Memory {
			return fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", *now.Memory, used)
		}
	}
	return nil
}

func shrinks(old, now *int64) bool {
	return now != nil && *now >= 0 && (old == nil || *old < 0 || *now < *old)
}

// podMemoryUsage is the memory that all containers of the Pod use together, in bytes.
func (c *operation) podMemoryUsage(ctx context.Context) (int64, error) {
	sandbox := c.observed.Sandbox()
	if sandbox == nil {
		return 0, nil
	}
	list, err := c.executor.d.Runtime.ListContainerStats(ctx,
		&runtimeapi.ContainerStatsFilter{PodSandboxId: sandbox.ID})
	if err != nil {
		return 0, fmt.Errorf("memory use of the Pod: %s", runtimeMessage(err))
	}
	var sum int64
	for _, s := range list {
		sum += memoryUsage(s)
	}
	return sum, nil
}

// memoryUsage is the memory that cannot be given back at once, in bytes: the working set, which is
// what the kernel would have to kill for.
func memoryUsage(s *runtimeapi.ContainerStats) int64 {
	m := s.GetMemory()
	if w := m.GetWorkingSetBytes(); w != nil {
		return int64(w.Value)
	}
	return int64(m.GetUsageBytes().GetValue())
}

func resourcesText(r v1.ResourceRequirements) string {
	text := func(what string, l v1.ResourceList) string {
		s := what
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			if q, ok := l[name]; ok {
				s += " " + string(name) + " " + q.String()
			}
		}
		return s
	}
	return text("requests", r.Requests) + ", " + text("limits", r.Limits)
}

// podResources is the size of the Pod's cgroup as CRI says it.
func podResources(p *v1.Pod, o resource.Options) *runtimeapi.LinuxContainerResources {
	v := resource.ForPod(p, o)
	r := &runtimeapi.LinuxContainerResources{}
	if v.Shares != nil {
		r.CpuShares = int64(*v.Shares)
	}
	if v.Period != nil {
		r.CpuPeriod = int64(*v.Period)
	}
	if v.Quota != nil {
		r.CpuQuota = *v.Quota
	}
	if v.Memory != nil {
		r.MemoryLimitInBytes = *v.Memory
	}
	return r
}

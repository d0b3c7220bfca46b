package crifake

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Version returns containerd's name unless another is set, so that clients that depend on it treat
// the fake alike.
func (f *Fake) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: cmp.Or(f.opts.Name, "containerd"),
		RuntimeVersion: "v2.4.2-fake", RuntimeApiVersion: "v1"}, nil
}

// Status returns both conditions and one default handler without user namespaces.
func (f *Fake) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cond := func(kind string, c condition) *runtimeapi.RuntimeCondition {
		return &runtimeapi.RuntimeCondition{Type: kind, Status: c.ready, Reason: c.reason, Message: c.message}
	}
	features := &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}
	return &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{
			Conditions: []*runtimeapi.RuntimeCondition{cond(runtimeapi.RuntimeReady, f.runtime),
				cond(runtimeapi.NetworkReady, f.network)}},
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{{Name: "", Features: features},
			{Name: "runc", Features: features}},
		Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	}, nil
}

// RuntimeConfig returns Options.CgroupDriver.
func (f *Fake) RuntimeConfig(context.Context,
	*runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	driver := runtimeapi.CgroupDriver_CGROUPFS
	switch f.opts.CgroupDriver {
	case "systemd":
		driver = runtimeapi.CgroupDriver_SYSTEMD
	case "none":
		return nil, status.Error(codes.Unimplemented,
			"unknown method RuntimeConfig for service runtime.v1.RuntimeService")
	}
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: driver}}, nil
}

// UpdateRuntimeConfig is accepted.
func (f *Fake) UpdateRuntimeConfig(context.Context,
	*runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}

// CheckpointContainer fails as containerd does without criu.
func (f *Fake) CheckpointContainer(context.Context,
	*runtimeapi.CheckpointContainerRequest) (*runtimeapi.CheckpointContainerResponse, error) {
	return nil, status.Error(codes.Unimplemented, "checkpoint/restore support is disabled")
}

// stats are made up but plausible: a running container uses a hundredth of a core and 8 MiB.
// Callers hold f.mu.
func (c *container) stats() *runtimeapi.ContainerStats {
	now := time.Now()
	ran := now.Sub(c.started)
	const memory = 8 << 20
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{Id: c.id, Metadata: c.config.GetMetadata(),
			Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations()},
		Cpu: &runtimeapi.CpuUsage{
			Timestamp: now.UnixNano(), UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: uint64(ran) / 100},
			UsageNanoCores: &runtimeapi.UInt64Value{Value: 1e7},
		},
		Memory: &runtimeapi.MemoryUsage{
			Timestamp: now.UnixNano(), WorkingSetBytes: &runtimeapi.UInt64Value{Value: memory},
			UsageBytes: &runtimeapi.UInt64Value{Value: memory},
			RssBytes:   &runtimeapi.UInt64Value{Value: memory}, PageFaults: &runtimeapi.UInt64Value{},
			MajorPageFaults: &runtimeapi.UInt64Value{},
		},
		WritableLayer: &runtimeapi.FilesystemUsage{
			Timestamp: now.UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: c.fake.opts.Dir},
			UsedBytes: &runtimeapi.UInt64Value{Value: 4096}, InodesUsed: &runtimeapi.UInt64Value{Value: 4},
		},
	}
}

// ContainerStats answers NotFound for an unknown id.
func (f *Fake) ContainerStats(_ context.Context,
	r *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.state() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, status.Errorf(codes.Unknown,
			"failed to fetch metrics for task: no running task found: task %s not found", c.id)
	}
	return &runtimeapi.ContainerStatsResponse{Stats: c.stats()}, nil
}

// ListContainerStats returns statistics of running containers.
func (f *Fake) ListContainerStats(_ context.Context,
	r *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &runtimeapi.ListContainerStatsResponse{}
	q := r.GetFilter()
	for _, c := range f.containers {
		if c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING && (q.GetId() == "" || q.GetId() == c.id) &&
			(q.GetPodSandboxId() == "" || q.GetPodSandboxId() == c.sandbox.id) && selects(q.GetLabelSelector(),
			c.config.GetLabels()) {
			out.Stats = append(out.Stats, c.stats())
		}
	}
	return out, nil
}

// podStats adds up the running containers. Callers hold f.mu.
func (f *Fake) podStats(s *sandbox) *runtimeapi.PodSandboxStats {
	now := time.Now().UnixNano()
	var cpu, nano, memory uint64
	linux := &runtimeapi.LinuxPodSandboxStats{}
	for _, c := range f.containersInLocked(s) {
		if c.state() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		st := c.stats()
		linux.Containers = append(linux.Containers, st)
		cpu += st.Cpu.UsageCoreNanoSeconds.Value
		nano += st.Cpu.UsageNanoCores.Value
		memory += st.Memory.WorkingSetBytes.Value
	}
	v := func(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }
	linux.Cpu = &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: v(cpu), UsageNanoCores: v(nano)}
	linux.Memory = &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: v(memory), UsageBytes: v(memory),
		RssBytes: v(memory), PageFaults: v(0), MajorPageFaults: v(0)}
	linux.Network = &runtimeapi.NetworkUsage{Timestamp: now,
		DefaultInterface: &runtimeapi.NetworkInterfaceUsage{Name: "eth0", RxBytes: v(0), RxErrors: v(0), TxBytes: v(0),
			TxErrors: v(0)}}
	linux.Process = &runtimeapi.ProcessUsage{Timestamp: now, ProcessCount: v(uint64(1 + len(linux.Containers)))}
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{Id: s.id, Metadata: s.config.GetMetadata(),
			Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations()},
		Linux: linux,
	}
}

// PodSandboxStats answers NotFound for an unknown id.
func (f *Fake) PodSandboxStats(_ context.Context,
	r *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.findSandbox(r.GetPodSandboxId())
	if s == nil {
		return nil, status.Error(codes.NotFound, "an error occurred when trying to find sandbox: not found")
	}
	return &runtimeapi.PodSandboxStatsResponse{Stats: f.podStats(s)}, nil
}

// ListPodSandboxStats returns statistics of ready sandboxes.
func (f *Fake) ListPodSandboxStats(_ context.Context,
	r *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &runtimeapi.ListPodSandboxStatsResponse{}
	for _, s := range f.sandboxes {
		if q := r.GetFilter(); s.ready && (q.GetId() == "" || q.GetId() == s.id) && selects(q.GetLabelSelector(),
			s.config.GetLabels()) {
			out.Stats = append(out.Stats, f.podStats(s))
		}
	}
	return out, nil
}

package crifake

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// container is one container: created, started, finished; its state follows from which of these
// happened. Fake.mu guards it.
type container struct {
	fake    *Fake
	id      string
	sandbox *sandbox
	image   *Image
	config  *runtimeapi.ContainerConfig

	created, started, finished time.Time
	exit                       int32
	reason, message            string
	script                     Script
	proc                       *process // once started
	listening                  []int    // ports of the Pod it listens on
}

func (c *container) name() string { return c.config.GetMetadata().GetName() }

func (c *container) fullName() string {
	m := c.sandbox.config.GetMetadata()
	return fmt.Sprintf("%s_%s_%s_%s_%d", c.name(), m.GetName(), m.GetNamespace(), m.GetUid(),
		c.config.GetMetadata().GetAttempt())
}

func (c *container) state() runtimeapi.ContainerState {
	switch {
	case !c.finished.IsZero():
		return runtimeapi.ContainerState_CONTAINER_EXITED
	case !c.started.IsZero():
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return runtimeapi.ContainerState_CONTAINER_CREATED
}

func (c *container) logPath() string {
	if c.config.GetLogPath() == "" || c.sandbox.config.GetLogDirectory() == "" {
		return ""
	}
	return filepath.Join(c.sandbox.config.GetLogDirectory(), c.config.GetLogPath())
}

// CreateContainer refuses an unknown or stopped sandbox, an absent image, and a second container of
// one name and attempt.
func (f *Fake) CreateContainer(_ context.Context,
	r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.findSandbox(r.GetPodSandboxId())
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", r.GetPodSandboxId())
	}
	if !s.ready {
		return nil, status.Errorf(codes.Unknown,
			"failed to get sandbox container task: no running task found: task %s not found", s.id)
	}
	if r.GetConfig().GetMetadata().GetName() == "" {
		return nil, status.Error(codes.Unknown, "container config must include metadata")
	}
	c := &container{fake: f, sandbox: s, config: r.GetConfig(), created: time.Now()}
	for _, o := range f.containers {
		if o.fullName() == c.fullName() {
			return nil, status.Errorf(codes.Unknown, "failed to reserve container name %q: name %q is reserved for %q",
				c.fullName(), c.fullName(), o.id)
		}
	}
	if c.image = f.findImage(c.config.GetImage().GetImage()); c.image == nil {
		return nil, status.Errorf(codes.NotFound, "failed to resolve image %q: not found",
			c.config.GetImage().GetImage())
	}
	for _, m := range c.config.GetMounts() {
		if m.GetHostPath() == "" || m.GetImage().GetImage() != "" {
			continue
		}
		if _, err := os.Stat(m.HostPath); os.IsNotExist(err) {
			if err := os.MkdirAll(m.HostPath, 0o755); err != nil {
				return nil, status.Errorf(codes.Unknown, "failed to generate spec: failed to mkdir %q: %v", m.HostPath,
					err)
			}
		}
	}
	c.id = f.newID("container")
	f.containers[c.id] = c
	f.emit(s, c.id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

// StartContainer starts a created container; any other state is refused.
func (f *Fake) StartContainer(_ context.Context,
	r *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if st := c.state(); st != runtimeapi.ContainerState_CONTAINER_CREATED {
		return nil, status.Errorf(codes.Unknown,
			"failed to set starting state for container %q: container is in %s state", c.id, st)
	}
	if !c.sandbox.ready {
		return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", c.sandbox.id)
	}
	c.script = f.scriptFor(c)
	if c.script.StartError != "" {
		return nil, c.startFailed(c.script.StartError)
	}
	log, err := openLog(c.logPath())
	if err != nil {
		return nil, c.startFailed(fmt.Sprintf("failed to create container io: %v", err))
	}
	c.started = time.Now()
	c.proc = newProcess(c, log)
	f.emit(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	go c.proc.run()
	return &runtimeapi.StartContainerResponse{}, nil
}

// startFailed leaves the container exited with 128, as containerd does.
func (c *container) startFailed(text string) error {
	c.started = time.Unix(0, 0)
	c.finished, c.exit, c.reason, c.message = time.Now(), 128, "StartError", text
	return status.Error(codes.Unknown, text)
}

// container finds a container by id or unambiguous prefix. Callers hold f.mu.
func (f *Fake) container(id string) (*container, error) {
	if c := f.containers[id]; c != nil {
		return c, nil
	}
	if len(id) >= 4 {
		for full, c := range f.containers {
			if strings.HasPrefix(full, id) {
				return c, nil
			}
		}
	}
	return nil, status.Errorf(codes.NotFound, "an error occurred when try to find container %q: not found", id)
}

// StopContainer signals, waits, kills; an unknown or stopped one is no error.
func (f *Fake) StopContainer(ctx context.Context,
	r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	f.mu.Lock()
	c, _ := f.container(r.GetContainerId())
	running := c != nil && c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING
	f.mu.Unlock()
	if !running {
		return &runtimeapi.StopContainerResponse{}, nil
	}
	if r.GetTimeout() > 0 {
		c.proc.signal(signalName(c.config.GetStopSignal()))
		grace := time.NewTimer(time.Duration(r.GetTimeout()) * time.Second)
		defer grace.Stop()
		select {
		case <-c.proc.done:
			return &runtimeapi.StopContainerResponse{}, nil
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-grace.C:
		}
	}
	c.kill()
	return &runtimeapi.StopContainerResponse{}, nil
}

// kill ends a running container with 137 and returns when it is down.
func (c *container) kill() {
	c.fake.mu.Lock()
	p, running := c.proc, c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING
	c.fake.mu.Unlock()
	if running {
		p.kill()
		<-p.done
	}
}

// RemoveContainer kills and removes; an unknown one is no error.
func (f *Fake) RemoveContainer(_ context.Context,
	r *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	f.mu.Lock()
	c, _ := f.container(r.GetContainerId())
	f.mu.Unlock()
	if c != nil {
		f.remove(c)
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

func (f *Fake) remove(c *container) {
	c.kill()
	_ = os.RemoveAll(filepath.Join(f.opts.Dir, "rootfs", c.id))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.containers[c.id] == nil {
		return
	}
	delete(f.containers, c.id)
	f.emit(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
}

// ListContainers filters by id, state, sandbox and labels, all of which must fit.
func (f *Fake) ListContainers(_ context.Context,
	r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &runtimeapi.ListContainersResponse{}
	q := r.GetFilter()
	for _, c := range f.containers {
		if !strings.HasPrefix(c.id, q.GetId()) || !strings.HasPrefix(c.sandbox.id, q.GetPodSandboxId()) ||
			q.GetState() != nil && q.GetState().State != c.state() || !selects(q.GetLabelSelector(),
			c.config.GetLabels()) {
			continue
		}
		out.Containers = append(out.Containers, &runtimeapi.Container{
			Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.config.GetMetadata(), Image: c.config.GetImage(),
			ImageRef: c.image.ID, ImageId: c.image.ID,
			State: c.state(), CreatedAt: c.created.UnixNano(), Labels: c.config.GetLabels(),
			Annotations: c.config.GetAnnotations(),
		})
	}
	sort.Slice(out.Containers, func(a, b int) bool { return out.Containers[a].CreatedAt < out.Containers[b].CreatedAt })
	return out, nil
}

// ContainerStatus answers NotFound for an unknown id.
func (f *Fake) ContainerStatus(_ context.Context,
	r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatusResponse{Status: c.status()}, nil
}

func (c *container) status() *runtimeapi.ContainerStatus {
	st := &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state(), CreatedAt: c.created.UnixNano(),
		Image: &runtimeapi.ImageSpec{Image: c.statusImage()}, ImageRef: c.image.ID, ImageId: c.image.ID,
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(), Mounts: c.config.GetMounts(),
		LogPath:   c.logPath(),
		Resources: &runtimeapi.ContainerResources{Linux: c.config.GetLinux().GetResources()}, User: c.user(),
		StopSignal: c.config.GetStopSignal(),
	}
	if st.StopSignal == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		st.StopSignal = runtimeapi.Signal_SIGNAL_SIGTERM
	}
	if !c.started.IsZero() && c.reason != "StartError" {
		st.StartedAt = c.started.UnixNano()
	}
	if !c.finished.IsZero() {
		st.FinishedAt, st.ExitCode, st.Reason, st.Message = c.finished.UnixNano(), c.exit, c.reason, c.message
	}
	return st
}

func (c *container) statusImage() string {
	if len(c.image.Names) > 0 {
		return c.image.Names[0]
	}
	return c.config.GetImage().GetImage()
}

func (c *container) user() *runtimeapi.ContainerUser {
	sc := c.config.GetLinux().GetSecurityContext()
	u := &runtimeapi.LinuxContainerUser{Uid: c.image.UID, Gid: sc.GetRunAsGroup().GetValue(),
		SupplementalGroups: sc.GetSupplementalGroups()}
	if sc.GetRunAsUser() != nil {
		u.Uid = sc.GetRunAsUser().GetValue()
	}
	if len(u.SupplementalGroups) == 0 {
		u.SupplementalGroups = []int64{u.Gid}
	}
	return &runtimeapi.ContainerUser{Linux: u}
}

// UpdateContainerResources keeps the new limits, and of the old ones those that are not given; an
// exited container refuses them.
func (f *Fake) UpdateContainerResources(_ context.Context,
	r *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.state() == runtimeapi.ContainerState_CONTAINER_EXITED {
		return nil, status.Errorf(codes.Unknown,
			"failed to update resources: container %q is in CONTAINER_EXITED state", c.id)
	}
	if c.config.Linux == nil {
		c.config.Linux = &runtimeapi.LinuxContainerConfig{}
	}
	next := &runtimeapi.LinuxContainerResources{}
	if c.config.Linux.Resources != nil {
		proto.Merge(next, c.config.Linux.Resources)
		next.HugepageLimits = nil
	}
	proto.Merge(next, r.GetLinux())
	c.config.Linux.Resources = next
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// ReopenContainerLog makes a running container write to a new file.
func (f *Fake) ReopenContainerLog(_ context.Context,
	r *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.state() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, status.Error(codes.Unknown, "container is not running")
	}
	if err := c.proc.log.reopen(c.logPath()); err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}

// rootfs is the directory with the container's own files.
func (c *container) rootfs() string { return c.fake.rootfs(c.id) }

// listen takes a port of the Pod until the container has exited.
func (c *container) listen(port int, handle func(net.Conn)) error {
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	if c.sandbox.ports[port] != nil {
		return fmt.Errorf("listen tcp :%d: bind: address already in use", port)
	}
	c.sandbox.ports[port] = handle
	c.listening = append(c.listening, port)
	return nil
}

// exited notes the end of the process, gives the ports back, and sends the event.
func (c *container) exited(code int32, reason string) {
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	c.finished, c.exit, c.reason = time.Now(), code, reason
	for _, port := range c.listening {
		delete(c.sandbox.ports, port)
	}
	c.fake.emit(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// ContainerConfigs are the configurations of all containers on record that have the name, the
// oldest first. They must not be changed.
func (f *Fake) ContainerConfigs(name string) []*runtimeapi.ContainerConfig {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*container
	for _, c := range f.containers {
		if c.name() == name {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *container) int { return a.created.Compare(b.created) })
	var out []*runtimeapi.ContainerConfig
	for _, c := range list {
		out = append(out, c.config)
	}
	return out
}

package crifake

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type sandbox struct {
	id      string
	config  *runtimeapi.PodSandboxConfig
	handler string
	created time.Time
	ip      netip.Addr // invalid for hostNetwork and once stopped
	ready   bool
	ports   map[int]func(net.Conn)
}

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

func (s *sandbox) name() string {
	m := s.config.GetMetadata()
	return fmt.Sprintf("%s_%s_%s_%d", m.GetName(), m.GetNamespace(), m.GetUid(), m.GetAttempt())
}

func (s *sandbox) hostNetwork() bool {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

// RunPodSandbox refuses a second sandbox of the same name, namespace, uid and attempt.
func (f *Fake) RunPodSandbox(_ context.Context,
	r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	m := r.GetConfig().GetMetadata()
	if m.GetName() == "" || m.GetNamespace() == "" || m.GetUid() == "" {
		return nil, status.Error(codes.Unknown, "sandbox config must include metadata")
	}
	s := &sandbox{config: r.GetConfig(), handler: r.GetRuntimeHandler(), created: time.Now(), ready: true,
		ports: map[int]func(net.Conn){}}
	if s.handler != "" && s.handler != "runc" {
		return nil, status.Errorf(codes.Unknown,
			"unable to get OCI runtime for sandbox %q: no runtime for %q is configured", s.name(), s.handler)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	holder := ""
	for _, o := range f.sandboxes {
		if o.name() == s.name() {
			holder = o.id
		}
	}
	if other, exists := f.creating[s.name()]; exists && other.server == f.server && other.request != r {
		holder = "one that is being made"
	}
	if holder != "" {
		return nil, status.Errorf(codes.Unknown, "failed to reserve sandbox name %q: name %q is reserved for %q",
			s.name(), s.name(), holder)
	}
	if !s.hostNetwork() {
		if !f.network.ready {
			return nil, status.Errorf(codes.Unknown,
				"failed to setup network for sandbox %q: cni plugin not initialized", f.newID("sandbox"))
		}
		ip, err := f.ips.take()
		if err != nil {
			return nil, status.Errorf(codes.Unknown, "failed to setup network for sandbox: %v", err)
		}
		s.ip = ip
	}
	s.id = f.newID("sandbox")
	f.noteDuplicates(s)
	f.sandboxes[s.id] = s
	f.emit(s, s.id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	f.emit(s, s.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: s.id}, nil
}

// creation is a delayed request for a sandbox, with the server instance that received it.
type creation struct {
	request any
	server  *grpc.Server
}

// reserve reserves a sandbox's name until its delayed creation has ended, as runtimes do from the
// request on; the returned function releases the name.
func (f *Fake) reserve(req any) func() {
	r, ok := req.(*runtimeapi.RunPodSandboxRequest)
	if !ok {
		return func() {}
	}
	name := (&sandbox{config: r.GetConfig()}).name()
	f.mu.Lock()
	defer f.mu.Unlock()
	if m, taken := f.creating[name]; taken && m.server == f.server {
		return func() {}
	}
	if f.creating == nil {
		f.creating = map[string]creation{}
	}
	f.creating[name] = creation{r, f.server}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.creating[name].request == any(r) {
			delete(f.creating, name)
		}
	}
}

// noteDuplicates records sandboxes that are ready while another one of the same Pod name is
// created.
func (f *Fake) noteDuplicates(s *sandbox) {
	m := s.config.GetMetadata()
	for _, o := range f.sandboxes {
		if om := o.config.GetMetadata(); o.ready && om.GetNamespace() == m.GetNamespace() &&
			om.GetName() == m.GetName() {
			f.duplicates = append(f.duplicates, fmt.Sprintf("%s was ready when %s was made", o.name(), s.name()))
		}
	}
}

// DuplicateSandboxes returns descriptions of times at which two sandboxes of one Pod name were
// ready; a correct kubelet never causes that.
func (f *Fake) DuplicateSandboxes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.duplicates...)
}

// StopPodSandbox kills what runs in it and gives its address back; an unknown or stopped one is no
// error.
func (f *Fake) StopPodSandbox(_ context.Context,
	r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	f.mu.Lock()
	s := f.findSandbox(r.GetPodSandboxId())
	f.mu.Unlock()
	if s != nil {
		f.stopSandbox(s)
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (f *Fake) stopSandbox(s *sandbox) {
	for _, c := range f.containersIn(s) {
		c.kill()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !s.ready {
		return
	}
	s.ready = false
	if s.ip.IsValid() {
		f.ips.free(s.ip)
		s.ip = netip.Addr{}
	}
	f.emit(s, s.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// containersIn returns the containers of a sandbox.
func (f *Fake) containersIn(s *sandbox) []*container {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.containersInLocked(s)
}

func (f *Fake) containersInLocked(s *sandbox) []*container {
	var out []*container
	for _, c := range f.containers {
		if c.sandbox == s {
			out = append(out, c)
		}
	}
	sort.Slice(out, func(a, b int) bool {
		return out[a].created.Before(out[b].created) || out[a].created.Equal(out[b].created) && out[a].id < out[b].id
	})
	return out
}

// RemovePodSandbox stops and removes the sandbox and its containers; an unknown one is no error.
func (f *Fake) RemovePodSandbox(_ context.Context,
	r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	f.mu.Lock()
	s := f.findSandbox(r.GetPodSandboxId())
	f.mu.Unlock()
	if s == nil {
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	}
	f.stopSandbox(s)
	for _, c := range f.containersIn(s) {
		f.remove(c)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sandboxes, s.id)
	f.emit(s, s.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// findSandbox takes an id or an unambiguous beginning of one. Callers hold f.mu.
func (f *Fake) findSandbox(id string) *sandbox {
	if s := f.sandboxes[id]; s != nil || len(id) < 4 {
		return s
	}
	for full, s := range f.sandboxes {
		if strings.HasPrefix(full, id) {
			return s
		}
	}
	return nil
}

// PodSandboxStatus answers NotFound for an unknown id.
func (f *Fake) PodSandboxStatus(_ context.Context,
	r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.findSandbox(r.GetPodSandboxId())
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "an error occurred when try to find sandbox: not found")
	}
	out := &runtimeapi.PodSandboxStatusResponse{Status: s.status(), ContainersStatuses: f.statuses(s),
		Timestamp: time.Now().UnixNano()}
	if r.GetVerbose() {
		out.Info = map[string]string{"info": fmt.Sprintf(`{"pid":%d}`, 1000)}
	}
	return out, nil
}

func (f *Fake) statuses(s *sandbox) []*runtimeapi.ContainerStatus {
	var out []*runtimeapi.ContainerStatus
	for _, c := range f.containersInLocked(s) {
		out = append(out, c.status())
	}
	return out
}

func (s *sandbox) status() *runtimeapi.PodSandboxStatus {
	net := &runtimeapi.PodSandboxNetworkStatus{}
	if s.ip.IsValid() {
		net.Ip = s.ip.String()
	}
	return &runtimeapi.PodSandboxStatus{
		Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.created.UnixNano(), Network: net,
		Linux: &runtimeapi.LinuxPodSandboxStatus{
			Namespaces: &runtimeapi.Namespace{Options: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
		Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(), RuntimeHandler: s.handler,
	}
}

// ListPodSandbox filters by id, state and labels, all of which must fit.
func (f *Fake) ListPodSandbox(_ context.Context,
	r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &runtimeapi.ListPodSandboxResponse{}
	for _, s := range f.sandboxes {
		q := r.GetFilter()
		if !strings.HasPrefix(s.id, q.GetId()) || q.GetState() != nil && q.GetState().State != s.state() ||
			!selects(q.GetLabelSelector(), s.config.GetLabels()) {
			continue
		}
		out.Items = append(out.Items, &runtimeapi.PodSandbox{
			Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.created.UnixNano(),
			Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(), RuntimeHandler: s.handler,
		})
	}
	sort.Slice(out.Items, func(a, b int) bool { return out.Items[a].CreatedAt < out.Items[b].CreatedAt })
	return out, nil
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// UpdatePodSandboxResources is accepted and keeps nothing but the config, as containerd does.
func (f *Fake) UpdatePodSandboxResources(_ context.Context,
	r *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.findSandbox(r.GetPodSandboxId()) == nil {
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox: not found")
	}
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}

func (f *Fake) rootfs(id string) string {
	dir := filepath.Join(f.opts.Dir, "rootfs", id)
	for _, d := range []string{"tmp", "etc", "dev", "run", "var/log", "root", "home", "mnt", "opt", "data"} {
		_ = os.MkdirAll(filepath.Join(dir, d), 0o755)
	}
	return dir
}

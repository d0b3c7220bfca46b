package podresources

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// Upstream's limits of calls in a second, and of calls at once.
const (
	qps   = 100
	burst = 10
)

// SocketPath is where the API is served, below the kubelet's directory.
func SocketPath(root string) string { return filepath.Join(root, "pod-resources", "kubelet.sock") }

// Devices are those of device plugins.
type Devices interface {
	ContainerDevices(uid types.UID, container string) []*podresourcesapi.ContainerDevices
	AllocatableDevices() []*podresourcesapi.ContainerDevices
}

// CPUs are those that containers have for themselves.
type CPUs interface {
	PodCPUs(pod *v1.Pod) []int64 // of a Pod that was given CPUs as a whole
	ContainerCPUs(pod *v1.Pod, c *v1.Container) []int64
	AllocatableCPUs() []int64
}

// Memory is what containers have of NUMA nodes.
type Memory interface {
	PodMemory(pod *v1.Pod) []*podresourcesapi.ContainerMemory // of a Pod that was given memory as a whole
	ContainerMemory(pod *v1.Pod, c *v1.Container) []*podresourcesapi.ContainerMemory
	AllocatableMemory() []*podresourcesapi.ContainerMemory
}

// DynamicResources are devices of resource claims.
type DynamicResources interface {
	ContainerDynamicResources(pod *v1.Pod, c *v1.Container) []*podresourcesapi.DynamicResource
}

// Providers know what containers have. One that is nil has given nothing.
type Providers struct {
	Pods             func() []*v1.Pod // that are admitted and have not ended
	Devices          Devices
	CPUs             CPUs
	Memory           Memory
	DynamicResources DynamicResources
	// told of each call, for metrics, by the name of the method; may be nil
	Called func(method string, failed bool)
}

// Server answers.
type Server struct {
	podresourcesapi.UnimplementedPodResourcesListerServer
	p Providers
}

// Serve serves until ctx ends.
func Serve(ctx context.Context, path string, listen func(path string) (net.Listener, error), p Providers) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("error creating podresources directory: %w", err)
	}
	l, err := listen(path)
	if err != nil {
		return fmt.Errorf("failed to create listener for podResources endpoint: %w", err)
	}
	g := grpc.NewServer(grpc.UnaryInterceptor(limited(rate.NewLimiter(qps, burst))))
	podresourcesapi.RegisterPodResourcesListerServer(g, &Server{p: p})
	context.AfterFunc(ctx, g.Stop)
	klog.FromContext(ctx).Info("Starting to serve the podresources API", "endpoint", path)
	if err := g.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("podresources: %w", err)
	}
	return nil
}

// limited refuses calls beyond the limit.
func limited(l *rate.Limiter) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if !l.Allow() {
			return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")
		}
		return next(ctx, req)
	}
}

func (s *Server) called(method string, failed bool) {
	if s.p.Called != nil {
		s.p.Called(method, failed)
	}
}

// List is all Pods that have not ended, and what their containers have.
func (s *Server) List(context.Context,
	*podresourcesapi.ListPodResourcesRequest) (*podresourcesapi.ListPodResourcesResponse, error) {
	s.called("list", false)
	out := &podresourcesapi.ListPodResourcesResponse{}
	for _, p := range s.p.Pods() {
		out.PodResources = append(out.PodResources, s.pod(p))
	}
	return out, nil
}

// Get is one Pod.
func (s *Server) Get(_ context.Context,
	r *podresourcesapi.GetPodResourcesRequest) (*podresourcesapi.GetPodResourcesResponse, error) {
	for _, p := range s.p.Pods() {
		if p.Name == r.GetPodName() && p.Namespace == r.GetPodNamespace() {
			s.called("get", false)
			return &podresourcesapi.GetPodResourcesResponse{PodResources: s.pod(p)}, nil
		}
	}
	s.called("get", true)
	return nil, fmt.Errorf("pod %s in namespace %s not found", r.GetPodName(), r.GetPodNamespace())
}

// GetAllocatableResources is all that the node could give to Pods, given or not.
func (s *Server) GetAllocatableResources(context.Context,
	*podresourcesapi.AllocatableResourcesRequest) (*podresourcesapi.AllocatableResourcesResponse, error) {
	s.called("get_allocatable", false)
	out := &podresourcesapi.AllocatableResourcesResponse{}
	if s.p.Devices != nil {
		out.Devices = s.p.Devices.AllocatableDevices()
	}
	if s.p.CPUs != nil {
		out.CpuIds = s.p.CPUs.AllocatableCPUs()
	}
	if s.p.Memory != nil {
		out.Memory = s.p.Memory.AllocatableMemory()
	}
	return out, nil
}

// pod is one Pod: its sidecars and containers. Init containers have ended, or will.
func (s *Server) pod(p *v1.Pod) *podresourcesapi.PodResources {
	out := &podresourcesapi.PodResources{Name: p.Name, Namespace: p.Namespace}
	if s.p.CPUs != nil {
		out.CpuIds = s.p.CPUs.PodCPUs(p)
	}
	if s.p.Memory != nil {
		out.Memory = s.p.Memory.PodMemory(p)
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; pod.IsSidecar(c) {
			out.Containers = append(out.Containers, s.container(p, c))
		}
	}
	for i := range p.Spec.Containers {
		out.Containers = append(out.Containers, s.container(p, &p.Spec.Containers[i]))
	}
	return out
}

func (s *Server) container(p *v1.Pod, c *v1.Container) *podresourcesapi.ContainerResources {
	out := &podresourcesapi.ContainerResources{Name: c.Name}
	if s.p.Devices != nil {
		out.Devices = s.p.Devices.ContainerDevices(p.UID, c.Name)
	}
	if s.p.CPUs != nil {
		out.CpuIds = s.p.CPUs.ContainerCPUs(p, c)
	}
	if s.p.Memory != nil {
		out.Memory = s.p.Memory.ContainerMemory(p, c)
	}
	if s.p.DynamicResources != nil {
		out.DynamicResources = s.p.DynamicResources.ContainerDynamicResources(p, c)
	}
	return out
}

package server

import (
	"context"
	"fmt"
	"sort"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Labels the kubelet puts on sandboxes and containers.
const (
	labelPodName   = "io.kubernetes.pod.name"
	labelNamespace = "io.kubernetes.pod.namespace"
	labelPodUID    = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"
)

// container finds the Pod's container of that name in the runtime: the running one, or else the
// newest. The runtime is asked, not the Pod's status, because the status lags behind.
func (s *Server) container(ctx context.Context, pod *v1.Pod, name string) (*runtimeapi.Container, error) {
	list, err := s.opts.Runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{labelPodUID: string(pod.UID), labelContainer: name},
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("container not found (%q)", name)
	}
	sort.SliceStable(list, func(a, b int) bool {
		if up := list[a].State == runtimeapi.ContainerState_CONTAINER_RUNNING; up !=
			(list[b].State == runtimeapi.ContainerState_CONTAINER_RUNNING) {
			return up
		}
		return list[a].CreatedAt > list[b].CreatedAt
	})
	return list[0], nil
}

// sandbox finds the Pod's ready sandbox.
func (s *Server) sandbox(ctx context.Context, pod *v1.Pod) (*runtimeapi.PodSandbox, error) {
	list, err := s.opts.Runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{labelPodUID: string(pod.UID)},
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("pod not found (%q)", pod.Name+"_"+pod.Namespace)
	}
	sort.Slice(list, func(a, b int) bool { return list[a].CreatedAt > list[b].CreatedAt })
	return list[0], nil
}

// hasContainer says whether the Pod has a container of that name, of any kind.
func hasContainer(pod *v1.Pod, name string) bool {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == name {
			return true
		}
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == name {
			return true
		}
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if c.Name == name {
			return true
		}
	}
	return false
}

// statusOf returns the container's status, of whatever kind it is.
func statusOf(pod *v1.Pod, name string) (v1.ContainerStatus, bool) {
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses,
		pod.Status.EphemeralContainerStatuses} {
		for _, c := range list {
			if c.Name == name {
				return c, true
			}
		}
	}
	return v1.ContainerStatus{}, false
}

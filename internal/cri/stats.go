package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerStats returns one container's resource use.
func (s *runtimeService) ContainerStats(ctx context.Context, id string) (*runtimeapi.ContainerStats, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r, err := s.api.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
	return r.GetStats(), err
}

// ListContainerStats returns the use of all running containers that match filter.
func (s *runtimeService) ListContainerStats(ctx context.Context,
	filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r, err := s.api.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{Filter: filter})
	return r.GetStats(), err
}

// PodSandboxStats returns one Pod's resource use.
func (s *runtimeService) PodSandboxStats(ctx context.Context, id string) (*runtimeapi.PodSandboxStats, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r, err := s.api.PodSandboxStats(ctx, &runtimeapi.PodSandboxStatsRequest{PodSandboxId: id})
	return r.GetStats(), err
}

// ListPodSandboxStats returns the use of all running Pods that match filter.
func (s *runtimeService) ListPodSandboxStats(ctx context.Context,
	filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r, err := s.api.ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{Filter: filter})
	return r.GetStats(), err
}

// ListMetricDescriptors describes what ListPodSandboxMetrics returns.
func (s *runtimeService) ListMetricDescriptors(ctx context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r, err := s.api.ListMetricDescriptors(ctx, &runtimeapi.ListMetricDescriptorsRequest{})
	return r.GetDescriptors(), err
}

// ListPodSandboxMetrics returns metrics of all Pods. containerd manages only about ten Pods a
// second, so do not use it regularly.
func (s *runtimeService) ListPodSandboxMetrics(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r, err := s.api.ListPodSandboxMetrics(ctx, &runtimeapi.ListPodSandboxMetricsRequest{})
	return r.GetPodMetrics(), err
}

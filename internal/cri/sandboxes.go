package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeService is internalapi.RuntimeService over gRPC. Each call has the timeout of upstream's
// kubelet.
type runtimeService struct {
	api      runtimeapi.RuntimeServiceClient
	timeout  time.Duration
	log      *callLog
	unlogged bool // ExecSync is not journaled
}

var _ internalapi.RuntimeService = (*runtimeService)(nil)

func (s *runtimeService) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}

// Version returns name and versions of the runtime.
func (s *runtimeService) Version(ctx context.Context, apiVersion string) (*runtimeapi.VersionResponse, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	return s.api.Version(ctx, &runtimeapi.VersionRequest{Version: apiVersion})
}

// RunPodSandbox creates and starts the sandbox and returns its id. It has twice the usual timeout.
func (s *runtimeService) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig,
	handler string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.timeout)
	defer cancel()
	ref := sandboxRef(config.GetMetadata())
	var id string
	err := s.log.call("RunPodSandbox", ref, "", func() error {
		r, err := s.api.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
		if err != nil {
			return err
		}
		if id = r.PodSandboxId; id == "" {
			return fmt.Errorf("the runtime's RunPodSandbox for %s/%s sets no pod_sandbox_id", ref.Namespace, ref.Name)
		}
		s.log.refs.put(id, owner{ref: ref})
		return nil
	})
	return id, err
}

// StopPodSandbox kills the sandbox's containers and tears its network down. Stopped and unknown
// ones are not an error.
func (s *runtimeService) StopPodSandbox(ctx context.Context, id string) error {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	return s.log.call("StopPodSandbox", s.log.refs.get(id).ref, "", func() error {
		_, err := s.api.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		return err
	})
}

// RemovePodSandbox removes the sandbox and its containers. An unknown one is not an error.
func (s *runtimeService) RemovePodSandbox(ctx context.Context, id string) error {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	err := s.log.call("RemovePodSandbox", s.log.refs.get(id).ref, "", func() error {
		_, err := s.api.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
		return err
	})
	if err == nil {
		s.log.refs.forget(id)
	}
	return err
}

// PodSandboxStatus returns the sandbox's status; NotFound for an unknown id.
func (s *runtimeService) PodSandboxStatus(ctx context.Context, id string,
	verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r, err := s.api.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: verbose})
	if err != nil {
		return nil, err
	}
	st := r.GetStatus()
	if m := st.GetMetadata(); st != nil && (st.Id == "" || st.CreatedAt == 0 || m.GetName() == "" ||
		m.GetNamespace() == "" || m.GetUid() == "") {
		return nil, fmt.Errorf("the runtime's PodSandboxStatus of %q leaves id, created_at or metadata empty", id)
	}
	return r, nil
}

// ListPodSandbox lists the sandboxes that match filter; nil matches all.
func (s *runtimeService) ListPodSandbox(ctx context.Context,
	filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r, err := s.api.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: filter})
	if err != nil {
		return nil, err
	}
	s.log.refs.rememberSandboxes(r.Items)
	return r.Items, nil
}

// PortForward returns the streaming URL for ports of the sandbox.
func (s *runtimeService) PortForward(ctx context.Context,
	req *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	var r *runtimeapi.PortForwardResponse
	err := s.log.call("PortForward", s.log.refs.get(req.GetPodSandboxId()).ref, "", func() (err error) {
		r, err = s.api.PortForward(ctx, req)
		return withURL(r.GetUrl(), err)
	})
	return r, err
}

// UpdatePodSandboxResources reports the Pod's new resources to the runtime; the kubelet has written
// the Pod's cgroup itself.
func (s *runtimeService) UpdatePodSandboxResources(ctx context.Context,
	req *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	var r *runtimeapi.UpdatePodSandboxResourcesResponse
	err := s.log.call("UpdatePodSandboxResources", s.log.refs.get(req.GetPodSandboxId()).ref, "", func() (err error) {
		r, err = s.api.UpdatePodSandboxResources(ctx, req)
		return err
	})
	return r, err
}

// CheckpointPod writes the sandbox's containers to a directory.
func (s *runtimeService) CheckpointPod(ctx context.Context, req *runtimeapi.CheckpointPodRequest) error {
	return s.log.call("CheckpointPod", s.log.refs.get(req.GetPodSandboxId()).ref, "", func() error {
		_, err := s.api.CheckpointPod(ctx, req)
		return err
	})
}

// RestorePod makes a sandbox out of a checkpoint.
func (s *runtimeService) RestorePod(ctx context.Context,
	req *runtimeapi.RestorePodRequest) (*runtimeapi.RestorePodResponse, error) {
	return s.api.RestorePod(ctx, req)
}

// UpdateRuntimeConfig passes the node's Pod CIDR to the runtime.
func (s *runtimeService) UpdateRuntimeConfig(ctx context.Context, config *runtimeapi.RuntimeConfig) error {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	_, err := s.api.UpdateRuntimeConfig(ctx, &runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: config})
	return err
}

// Status returns the runtime's conditions; a response without the two required ones is an error.
func (s *runtimeService) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r, err := s.api.Status(ctx, &runtimeapi.StatusRequest{Verbose: verbose})
	if err != nil {
		return nil, err
	}
	if len(r.GetStatus().GetConditions()) < 2 {
		return nil, errors.New("RuntimeReady or NetworkReady condition are not set")
	}
	return r, nil
}

// RuntimeConfig returns the runtime's cgroup driver.
func (s *runtimeService) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	return s.api.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
}

// Close does nothing; Client.Close closes.
func (*runtimeService) Close(context.Context) error { return nil }

func withURL(url string, err error) error {
	if err == nil && url == "" {
		return errors.New("URL is not set")
	}
	return err
}

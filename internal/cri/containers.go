package cri

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	remote "k8s.io/cri-client/pkg"
	utilexec "k8s.io/utils/exec"
)

// CreateContainer creates a container in the sandbox and returns its id; it is not started.
func (s *runtimeService) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig,
	sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	name := config.GetMetadata().GetName()
	ref := sandboxRef(sandboxConfig.GetMetadata())
	var id string
	err := s.log.call("CreateContainer", ref, name, func() error {
		r, err := s.api.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: config,
			SandboxConfig: sandboxConfig})
		if err != nil {
			return err
		}
		if id = r.ContainerId; id == "" {
			return fmt.Errorf("the runtime's CreateContainer of %q sets no container_id", name)
		}
		s.log.refs.put(id, owner{ref: ref, container: name})
		return nil
	})
	return id, err
}

// callForContainer journals a call on a container.
func (s *runtimeService) callForContainer(method, id string, do func() error) error {
	o := s.log.refs.get(id)
	return s.log.call(method, o.ref, o.container, do)
}

// StartContainer runs the container's process.
func (s *runtimeService) StartContainer(ctx context.Context, id string) error {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	return s.callForContainer("StartContainer", id, func() error {
		_, err := s.api.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
		return err
	})
}

// StopContainer sends the stop signal, waits up to grace seconds, and kills. Stopped and unknown
// containers are not an error.
func (s *runtimeService) StopContainer(ctx context.Context, id string, grace int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout+time.Duration(grace)*time.Second)
	defer cancel()
	return s.callForContainer("StopContainer", id, func() error {
		_, err := s.api.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: grace})
		return err
	})
}

// RemoveContainer removes the container, killing it first if it runs. An unknown one is not an
// error.
func (s *runtimeService) RemoveContainer(ctx context.Context, id string) error {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	err := s.callForContainer("RemoveContainer", id, func() error {
		_, err := s.api.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
		return err
	})
	if err == nil {
		s.log.refs.forget(id)
	}
	return err
}

// ListContainers lists the containers that match filter; nil matches all.
func (s *runtimeService) ListContainers(ctx context.Context,
	filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r, err := s.api.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
	if err != nil {
		return nil, err
	}
	s.log.refs.rememberContainers(r.Containers)
	return r.Containers, nil
}

// ContainerStatus returns the container's status; NotFound for an unknown id.
func (s *runtimeService) ContainerStatus(ctx context.Context, id string,
	verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	r, err := s.api.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose})
	if err != nil {
		return nil, err
	}
	st := r.GetStatus()
	if st != nil && (st.Id == "" || st.CreatedAt == 0 || st.GetMetadata().GetName() == "" ||
		st.GetImage().GetImage() == "" || st.ImageRef == "") {
		return nil, fmt.Errorf("the runtime's ContainerStatus of %q leaves id, created_at, metadata, image or "+
			"image_ref empty", id)
	}
	return r, nil
}

// UpdateContainerResources changes the limits of a container in place.
func (s *runtimeService) UpdateContainerResources(ctx context.Context, id string,
	res *runtimeapi.ContainerResources) error {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	return s.callForContainer("UpdateContainerResources", id, func() error {
		_, err := s.api.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id,
			Linux: res.GetLinux(), Windows: res.GetWindows()})
		return err
	})
}

// ExecSync runs a command to its end and returns its output. A non-zero exit code is a
// utilexec.CodeExitError; a timeout (whole seconds, 0: none) wraps cri-client's ErrCommandTimedOut.
func (s *runtimeService) ExecSync(ctx context.Context, id string, cmd []string,
	timeout time.Duration) (stdout, stderr []byte, err error) {
	if timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout+timeout)
		defer cancel()
	}
	run := func() error {
		r, err := s.api.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd,
			Timeout: int64(timeout.Seconds())})
		switch {
		case status.Code(err) == codes.DeadlineExceeded:
			return fmt.Errorf("%w: %q timed out after %s", remote.ErrCommandTimedOut, strings.Join(cmd, " "), timeout)
		case err != nil:
			return err
		}
		stdout, stderr = r.Stdout, r.Stderr
		if r.ExitCode == 0 {
			return nil
		}
		return utilexec.CodeExitError{
			Err:  fmt.Errorf("command '%s' exited with %d: %s", strings.Join(cmd, " "), r.ExitCode, r.Stderr),
			Code: int(r.ExitCode),
		}
	}
	if s.unlogged {
		err = run()
	} else {
		err = s.callForContainer("ExecSync", id, run)
	}
	return stdout, stderr, err
}

// Exec returns the streaming URL of a command.
func (s *runtimeService) Exec(ctx context.Context,
	req *runtimeapi.ExecRequest) (r *runtimeapi.ExecResponse, err error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	err = s.callForContainer("Exec", req.GetContainerId(), func() (err error) {
		r, err = s.api.Exec(ctx, req)
		return withURL(r.GetUrl(), err)
	})
	return r, err
}

// Attach returns the streaming URL of the container's own streams.
func (s *runtimeService) Attach(ctx context.Context,
	req *runtimeapi.AttachRequest) (r *runtimeapi.AttachResponse, err error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	err = s.callForContainer("Attach", req.GetContainerId(), func() (err error) {
		r, err = s.api.Attach(ctx, req)
		return withURL(r.GetUrl(), err)
	})
	return r, err
}

// ReopenContainerLog makes the runtime write to a new log file after the old one was moved away.
func (s *runtimeService) ReopenContainerLog(ctx context.Context, id string) error {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	_, err := s.api.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	return err
}

// CheckpointContainer writes the container to an archive.
func (s *runtimeService) CheckpointContainer(ctx context.Context, req *runtimeapi.CheckpointContainerRequest) error {
	return s.callForContainer("CheckpointContainer", req.GetContainerId(), func() error {
		_, err := s.api.CheckpointContainer(ctx, req)
		return err
	})
}

// GetContainerEvents sends events to out until the stream breaks; opened is called once it is open.
// Client.Events also reconnects.
func (s *runtimeService) GetContainerEvents(ctx context.Context, out chan *runtimeapi.ContainerEventResponse,
	opened func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	stream, err := s.api.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return err
	}
	if opened != nil {
		opened(stream)
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		if e != nil {
			out <- e
		}
	}
}

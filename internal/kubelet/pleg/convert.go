package pleg

import (
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// convert turns what CRI says of a container into what decisions read.
func convert(s *runtimeapi.ContainerStatus, sandbox string) podplan.Container {
	c := podplan.Container{
		ID: s.Id, Name: s.Labels[kubelettypes.KubernetesContainerNameLabel], Sandbox: sandbox,
		Attempt: attempt(s), State: stateOf(s.State),
		Created: nanos(s.CreatedAt), Started: nanos(s.StartedAt), Finished: nanos(s.FinishedAt),
		Image: podplan.Image{Name: s.GetImage().GetImage(), Ref: s.ImageRef},
		Annotations: podplan.Annotations{Hash: s.Annotations[podplan.HashAnnotation],
			CrashDelay: crashDelay(s.Annotations)},
		Usage: podplan.RuntimeUsage{User: user(s.User), StopSignal: stopSignal(s.StopSignal)},
	}
	if userImage := s.GetImage().GetUserSpecifiedImage(); userImage != "" &&
		(c.Image.Name == "" || strings.HasPrefix(c.Image.Name, "sha256:")) {
		c.Image.Name = userImage
	}
	if c.State == podplan.Exited {
		c.Exit = podplan.Exit{Code: s.ExitCode, Reason: s.Reason, Message: s.Message}
		if m := terminationMessage(s); m != "" {
			c.Exit.Message = m
		}
	}
	return c
}

// stopSignal is a signal as the kernel names it; empty when the runtime names none.
func stopSignal(s runtimeapi.Signal) string {
	name := strings.TrimPrefix(s.String(), "SIGNAL_")
	if s == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return ""
	}
	return name
}

func attempt(s *runtimeapi.ContainerStatus) int {
	if n, err := strconv.Atoi(s.Annotations[podplan.RestartCountAnnotation]); err == nil {
		return n
	}
	return int(s.GetMetadata().GetAttempt())
}

func stateOf(s runtimeapi.ContainerState) podplan.State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return podplan.Created
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return podplan.Running
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return podplan.Exited
	}
	return podplan.Unknown
}

// crashDelay reads the note that podactions writes; -1 when there is none.
func crashDelay(notes map[string]string) time.Duration {
	d, err := time.ParseDuration(notes[podplan.CrashDelayAnnotation])
	if err != nil {
		return -1
	}
	return d
}

func user(u *runtimeapi.ContainerUser) *v1.ContainerUser {
	l := u.GetLinux()
	if l == nil {
		return nil
	}
	return &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: l.Uid, GID: l.Gid,
		SupplementalGroups: l.SupplementalGroups}}
}

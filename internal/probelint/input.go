package probelint

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/pod"
)

// ruleInput is In with helpers for rules.
type ruleInput struct{ In }

// containerInput is one container with its place in the object.
type containerInput struct {
	*v1.Container
	path string
	init bool
}

// probeInput is one probe with its place.
type probeInput struct {
	containerInput
	kind  probe.Kind
	probe *v1.Probe
	spec  probe.Spec
	field string
}

func (l ruleInput) containers() []containerInput {
	var out []containerInput
	for i := range l.Workload.Spec.InitContainers {
		out = append(out, containerInput{&l.Workload.Spec.InitContainers[i],
			fmt.Sprintf("%s.initContainers[%d]", l.Workload.Path, i), true})
	}
	for i := range l.Workload.Spec.Containers {
		out = append(out, containerInput{&l.Workload.Spec.Containers[i],
			fmt.Sprintf("%s.containers[%d]", l.Workload.Path, i), false})
	}
	return out
}

// isLongRunning reports whether the container runs for the Pod's lifetime; only those have probes.
func (b containerInput) isLongRunning() bool { return !b.init || pod.IsSidecar(b.Container) }

// probeOf is the container's probe of a kind.
func (b containerInput) probeOf(k probe.Kind) (probeInput, bool) {
	p := probe.ProbeOf(b.Container, k)
	if p == nil {
		return probeInput{}, false
	}
	return probeInput{b, k, p, probe.SpecOf(p), b.path + "." + string(k) + "Probe"}, true
}

// probes returns all probes of such containers.
func (l ruleInput) probes() []probeInput {
	var out []probeInput
	for _, b := range l.containers() {
		for _, k := range []probe.Kind{probe.Startup, probe.Liveness, probe.Readiness} {
			if a, ok := b.probeOf(k); ok && b.isLongRunning() {
				out = append(out, a)
			}
		}
	}
	return out
}

func (a probeInput) finding(s Severity, message, fix string) Finding {
	return Finding{Severity: s, Container: a.Name, Field: a.field, Message: message, Fix: fix}
}

func (b containerInput) finding(s Severity, at, message, fix string) Finding {
	return Finding{Severity: s, Container: b.Name, Field: b.path + at, Message: message, Fix: fix}
}

// budget returns how long a container that does not respond lives: initialDelaySeconds +
// failureThreshold × periodSeconds.
func (a probeInput) budget() time.Duration {
	return a.spec.InitialDelay + time.Duration(a.spec.FailureThreshold)*a.spec.Period
}

func (a probeInput) budgetText() string {
	s := fmt.Sprintf("failureThreshold %d × periodSeconds %d", a.spec.FailureThreshold, int(a.spec.Period.Seconds()))
	if a.spec.InitialDelay > 0 {
		s = fmt.Sprintf("initialDelaySeconds %d + %s", int(a.spec.InitialDelay.Seconds()), s)
	}
	return s + " = " + seconds(a.budget())
}

// startTime returns how long the container takes to be ready, and where that is known from. A
// readiness delay shows that the author expects a slow start.
func (l ruleInput) startTime(b containerInput) (took time.Duration, how string) {
	switch readiness, ok := b.probeOf(probe.Readiness); {
	case l.Measured.Start > 0:
		return l.Measured.Start, "it takes " + seconds(l.Measured.Start) + " to start"
	case l.Workload.Started[b.Name] > 0:
		d := l.Workload.Started[b.Name]
		return d, "it took " + seconds(d) + " to become ready"
	case ok && readiness.spec.InitialDelay > 0:
		d := readiness.spec.InitialDelay
		return d, "its readiness probe expects it to take " + seconds(d) + " to start"
	}
	return 0, ""
}

// target returns what a probe checks, without its timing.
func (a probeInput) target() string {
	switch h := a.probe.ProbeHandler; {
	case h.HTTPGet != nil:
		path := h.HTTPGet.Path
		if path == "" {
			path = "/"
		}
		return fmt.Sprintf("GET %s on port %s", path, h.HTTPGet.Port.String())
	case h.TCPSocket != nil:
		return "a connection to port " + h.TCPSocket.Port.String()
	case h.GRPC != nil:
		if h.GRPC.Service != nil && *h.GRPC.Service != "" {
			return fmt.Sprintf("gRPC health of %s on port %d", *h.GRPC.Service, h.GRPC.Port)
		}
		return fmt.Sprintf("gRPC health on port %d", h.GRPC.Port)
	case h.Exec != nil:
		return "the command " + strings.Join(h.Exec.Command, " ")
	}
	return "nothing"
}

// sameTarget reports whether two probes check the same; name and number of one port are the same
// port.
func sameTarget(a, b probeInput) bool {
	x, y := a.probe.ProbeHandler.DeepCopy(), b.probe.ProbeHandler.DeepCopy()
	for _, h := range []*v1.ProbeHandler{x, y} {
		if g := h.HTTPGet; g != nil {
			if n, err := probe.Port(g.Port, a.Container); err == nil {
				g.Port.Type, g.Port.IntVal, g.Port.StrVal = 0, int32(n), ""
			}
			if g.Path == "" {
				g.Path = "/"
			}
			if g.Scheme == "" {
				g.Scheme = v1.URISchemeHTTP
			}
			g.HTTPHeaders = nil
		}
		if s := h.TCPSocket; s != nil {
			if n, err := probe.Port(s.Port, a.Container); err == nil {
				s.Port.Type, s.Port.IntVal, s.Port.StrVal = 0, int32(n), ""
			}
		}
	}
	return a.target() != "nothing" && reflect.DeepEqual(x, y)
}

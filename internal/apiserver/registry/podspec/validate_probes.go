package podspec

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func (j *validator) lifecycleAndProbes(c *v1.Container, path *field.Path) {
	if l := c.Lifecycle; l != nil {
		at := path.Child("lifecycle")
		if l.PostStart != nil {
			j.handler(lifecycleHook(l.PostStart), at.Child("postStart"))
		}
		if l.PreStop != nil {
			j.handler(lifecycleHook(l.PreStop), at.Child("preStop"))
		}
	}
	const mustBeOne = "must be 1"
	if p := c.LivenessProbe; p != nil {
		j.probe(p, path.Child("livenessProbe"))
		if p.SuccessThreshold != 1 {
			j.Invalid(path.Child("livenessProbe").Child("successThreshold"), p.SuccessThreshold, mustBeOne)
		}
	}
	if p := c.ReadinessProbe; p != nil {
		j.probe(p, path.Child("readinessProbe"))
		if p.TerminationGracePeriodSeconds != nil {
			j.Invalid(path.Child("readinessProbe").Child("terminationGracePeriodSeconds"),
				*p.TerminationGracePeriodSeconds, "must not be set for readinessProbes")
		}
	}
	if p := c.StartupProbe; p != nil {
		j.probe(p, path.Child("startupProbe"))
		if p.SuccessThreshold != 1 {
			j.Invalid(path.Child("startupProbe").Child("successThreshold"), p.SuccessThreshold, mustBeOne)
		}
	}
}

func (j *validator) probe(p *v1.Probe, path *field.Path) {
	j.handler(handler{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC}, path)
	j.NotNegative(path.Child("initialDelaySeconds"), int64(p.InitialDelaySeconds))
	j.NotNegative(path.Child("timeoutSeconds"), int64(p.TimeoutSeconds))
	j.NotNegative(path.Child("periodSeconds"), int64(p.PeriodSeconds))
	j.NotNegative(path.Child("successThreshold"), int64(p.SuccessThreshold))
	j.NotNegative(path.Child("failureThreshold"), int64(p.FailureThreshold))
	if s := p.TerminationGracePeriodSeconds; s != nil && *s <= 0 {
		j.Invalid(path.Child("terminationGracePeriodSeconds"), *s, "must be greater than 0")
	}
}

// handler is the action of a probe or a lifecycle hook.
type handler struct {
	exec  *v1.ExecAction
	http  *v1.HTTPGetAction
	tcp   *v1.TCPSocketAction
	grpc  *v1.GRPCAction
	sleep *v1.SleepAction
}

func lifecycleHook(h *v1.LifecycleHandler) handler {
	return handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}
}

func (j *validator) handler(h handler, path *field.Path) {
	n := 0
	// one counts an action; all but the first are rejected without further validation.
	one := func(set bool, child string, judge func(*field.Path)) {
		switch {
		case !set:
		case n > 0:
			j.Forbidden(path.Child(child), "may not specify more than 1 handler type")
		default:
			n++
			judge(path.Child(child))
		}
	}
	one(h.exec != nil, "exec", func(p *field.Path) {
		if len(h.exec.Command) == 0 {
			j.Required(p.Child("command"), "")
		}
	})
	one(h.http != nil, "httpGet", func(p *field.Path) { j.httpGet(h.http, p) })
	one(h.tcp != nil, "tcpSocket", func(p *field.Path) { j.port(h.tcp.Port, p.Child("port")) })
	one(h.grpc != nil, "grpc", func(p *field.Path) { j.port(intstr.FromInt32(h.grpc.Port), p.Child("port")) })
	one(h.sleep != nil, "sleep", func(p *field.Path) {
		if g := j.spec.TerminationGracePeriodSeconds; g != nil && (h.sleep.Seconds < 0 || h.sleep.Seconds > *g) {
			j.Invalid(p, h.sleep.Seconds,
				fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *g))
		}
	})
	if n == 0 {
		j.Required(path, "must specify a handler type")
	}
}

func (j *validator) httpGet(h *v1.HTTPGetAction, path *field.Path) {
	if h.Path == "" {
		j.Required(path.Child("path"), "")
	}
	j.port(h.Port, path.Child("port"))
	typed.Supported(&j.Errors, path.Child("scheme"), h.Scheme, v1.URISchemeHTTP, v1.URISchemeHTTPS)
	for _, header := range h.HTTPHeaders {
		j.InvalidEach(path.Child("httpHeaders"), header.Name, validation.IsHTTPHeaderName(header.Name))
	}
}

// port validates a port number or a port name.
func (j *validator) port(p intstr.IntOrString, path *field.Path) {
	if p.Type == intstr.Int {
		j.InvalidEach(path, p.IntValue(), validation.IsValidPortNum(p.IntValue()))
		return
	}
	j.InvalidEach(path, p.StrVal, validation.IsValidPortName(p.StrVal))
}

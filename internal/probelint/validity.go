package probelint

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/pod"
)

// invalidProbe finds what the API would refuse.
func invalidProbe(l ruleInput) []Finding {
	var out []Finding
	for _, b := range l.containers() {
		for _, k := range []probe.Kind{probe.Startup, probe.Liveness, probe.Readiness} {
			a, ok := b.probeOf(k)
			if !ok {
				continue
			}
			refuse := func(message, fix string) {
				out = append(out, a.finding(Error, message+"; the API refuses it", fix))
			}
			if !b.isLongRunning() {
				refuse("an init container that is no sidecar may not have probes",
					"set restartPolicy: Always on it, or remove the probe")
			}
			switch n := handlerCount(a.probe); {
			case n == 0:
				refuse("the probe does not say how to ask", "give it one of httpGet, tcpSocket, grpc, exec")
			case n > 1:
				refuse(fmt.Sprintf("the probe has %d ways to ask", n), "keep one of httpGet, tcpSocket, grpc, exec")
			}
			if k != probe.Readiness && a.probe.SuccessThreshold > 1 {
				refuse(fmt.Sprintf("successThreshold is %d, and must be 1 for liveness and startup",
					a.probe.SuccessThreshold), "remove successThreshold")
			}
			if k == probe.Readiness && a.probe.TerminationGracePeriodSeconds != nil {
				refuse("a readiness probe stops nothing, so it may not have terminationGracePeriodSeconds", "remove it")
			}
			if g := a.probe.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
				refuse(fmt.Sprintf("terminationGracePeriodSeconds is %d, and must be above 0", *g), "set at least 1")
			}
			for _, f := range []struct {
				name string
				n    int32
			}{
				{"initialDelaySeconds", a.probe.InitialDelaySeconds}, {"periodSeconds", a.probe.PeriodSeconds},
				{"timeoutSeconds", a.probe.TimeoutSeconds},
				{"successThreshold", a.probe.SuccessThreshold}, {"failureThreshold", a.probe.FailureThreshold},
			} {
				if f.n < 0 {
					refuse(fmt.Sprintf("%s is %d, and must not be negative", f.name, f.n), "set it to 0 or more")
				}
			}
		}
	}
	return out
}

func handlerCount(p *v1.Probe) int {
	n := 0
	for _, has := range []bool{p.Exec != nil, p.HTTPGet != nil, p.TCPSocket != nil, p.GRPC != nil} {
		if has {
			n++
		}
	}
	return n
}

// unknownPort: a name is looked up among the container's own ports; one that is not there makes
// every question an error, which counts for nothing.
func unknownPort(l ruleInput) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		var port intstr.IntOrString
		switch {
		case a.probe.HTTPGet != nil:
			port = a.probe.HTTPGet.Port
		case a.probe.TCPSocket != nil:
			port = a.probe.TCPSocket.Port
		case a.probe.GRPC != nil:
			port = intstr.FromInt32(a.probe.GRPC.Port)
		default:
			continue
		}
		if _, err := probe.Port(port, a.Container); err == nil {
			continue
		}
		effect := map[probe.Kind]string{
			probe.Startup: "the container never counts as started", probe.Readiness: "the Pod never becomes ready",
			probe.Liveness: "liveness never restarts anything",
		}[a.kind]
		out = append(out,
			a.finding(Error,
				fmt.Sprintf("port %q is neither a number from 1 to 65535 nor the name of a port of container %s: the "+
					"question cannot be put, and %s", port.String(), a.Name, effect),
				fmt.Sprintf("name the port in the container's ports, one of: %s; or write its number",
					portNames(a.Container))))
	}
	return out
}

func portNames(c *v1.Container) string {
	s := ""
	for _, p := range c.Ports {
		if p.Name != "" {
			s += ", " + p.Name
		}
	}
	if s == "" {
		return "(it has none with a name)"
	}
	return s[2:]
}

// foreignHost: kubelets ask from the node, so a host of the probe's own is seldom the Pod.
func foreignHost(l ruleInput) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		host := ""
		switch {
		case a.probe.HTTPGet != nil:
			host = a.probe.HTTPGet.Host
		case a.probe.TCPSocket != nil:
			host = a.probe.TCPSocket.Host
		}
		if host == "" || l.Workload.Spec.HostNetwork && (host == "127.0.0.1" || host == "localhost" || host == "::1") {
			continue
		}
		what := "that is asked instead of the Pod, from the node"
		if host == "127.0.0.1" || host == "localhost" || host == "::1" {
			what = "that is the node itself, not the Pod: the kubelet asks from the node"
		}
		out = append(out, a.finding(Warning, fmt.Sprintf("host is %s: %s", host, what),
			"remove host; to send another Host header use httpHeaders"))
	}
	return out
}

func (l ruleInput) grace() int64 {
	return int64(pod.GracePeriod(&l.Workload.Spec) / time.Second)
}

func longGrace(l ruleInput) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		if g := a.probe.TerminationGracePeriodSeconds; g != nil && a.kind != probe.Readiness && *g > l.grace() {
			out = append(out,
				a.finding(Warning,
					fmt.Sprintf("a container that its %s probe gives up gets %d s to stop, longer than the Pod's %d "+
						"s: what hangs stays longer than what is deleted", a.kind, *g, l.grace()),
					fmt.Sprintf("set the probe's terminationGracePeriodSeconds below %d", l.grace())))
		}
	}
	return out
}

func preStopGrace(l ruleInput) []Finding {
	var out []Finding
	for _, b := range l.containers() {
		if b.Lifecycle == nil || b.Lifecycle.PreStop == nil || b.Lifecycle.PreStop.Sleep == nil {
			continue
		}
		if n := b.Lifecycle.PreStop.Sleep.Seconds; n >= l.grace() {
			out = append(out, b.finding(Warning, ".lifecycle.preStop.sleep",
				fmt.Sprintf("preStop sleeps %d s of the Pod's %d s of grace: the process gets 2 s after SIGTERM, "+
					"then SIGKILL", n, l.grace()),
				fmt.Sprintf("set terminationGracePeriodSeconds to %d plus the time the process needs to stop", n)))
		}
		for _, k := range []probe.Kind{probe.Startup, probe.Liveness} {
			if p := probe.ProbeOf(b.Container, k); p != nil && p.TerminationGracePeriodSeconds != nil &&
				b.Lifecycle.PreStop.Sleep.Seconds >= *p.TerminationGracePeriodSeconds {
				out = append(out, b.finding(Info, "."+string(k)+"Probe.terminationGracePeriodSeconds",
					fmt.Sprintf("preStop sleeps %s, all of the %d s that the %s probe's grace gives",
						seconds(time.Duration(b.Lifecycle.PreStop.Sleep.Seconds)*time.Second),
						*p.TerminationGracePeriodSeconds, k),
					"raise the probe's terminationGracePeriodSeconds or shorten the sleep"))
			}
		}
	}
	return out
}

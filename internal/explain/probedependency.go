package explain

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// execProbes are the probes of a container that run a program, by what they are called.
func execProbes(c *corev1.Container) map[string]*corev1.Probe {
	out := map[string]*corev1.Probe{}
	for _, kind := range []string{"startup", "readiness", "liveness"} {
		if p := probeOf(c, kind); p != nil && p.Exec != nil {
			out[kind] = p
		}
	}
	return out
}

// ofProbe is a container as its probe's program sees it: the program's words are the command.
func ofProbe(c container, p *corev1.Probe) container {
	return container{spec: &corev1.Container{Name: c.spec.Name, Command: p.Exec.Command, Env: c.spec.Env},
		status: c.status, init: c.init}
}

// askedByProbe adds what is wrong with a Service or address that the program of a failing probe
// asks: no answer of the container itself is missing then.
func askedByProbe(a *Answer, in In, c container, f journal.Probed) {
	p := execProbes(c.spec)[f.Probe]
	if p == nil || in.NamespaceContext == nil {
		return
	}
	asks := ofProbe(c, p)
	for _, d := range hostPortsIn(asks.spec) {
		if d.host == "localhost" || strings.HasPrefix(d.host, "127.") || d.host == "::1" {
			continue
		}
		why := &Answer{}
		name, full, ok := serviceName(d.host, in.Ref.Namespace)
		if !(ok && dependencyFailed(why, in, serviceDependency{d, name, full, asks})) && !packetFails(why, in,
			asks, d) {
			continue
		}
		for i := range why.Findings {
			field := &why.Findings[i].Field
			*field = strings.Replace(*field, ".command[", "."+f.Probe+"Probe.exec.command[", 1)
		}
		a.Cause += " " + why.Cause
		a.Findings = append(a.Findings, why.Findings...)
		a.Fixes = append(why.Fixes, a.Fixes...)
		return
	}
}

// probePackets are the addresses that the programs of a container's probes ask, of a container that
// runs and is not ready.
func probePackets(c container) []hostPort {
	if c.status == nil || c.status.State.Running == nil || c.status.Ready {
		return nil
	}
	var out []hostPort
	for _, p := range execProbes(c.spec) {
		out = append(out, hostPortsIn(ofProbe(c, p).spec)...)
	}
	return out
}

package doctor

import "fmt"

// Runtime is what the container runtime of this machine reported.
type Runtime struct {
	Endpoint     string
	Err          error // the runtime does not answer, or not properly
	Name         string
	Version      string
	CgroupDriver string // cgroupfs or systemd; empty: not reported
	NotReady     []Condition
}

// Condition is a condition that the runtime reports as not met.
type Condition struct{ Type, Reason, Message string }

func runtimeReady(f Facts) []Finding {
	r := f.Runtime
	switch {
	case r == nil:
		return nil
	case r.Err != nil:
		return []Finding{{
			About: r.Endpoint, Level: Problem, Text: fmt.Sprintf("does not answer: %v", r.Err),
			Fix: "start the runtime, or name its socket with --container-runtime-endpoint",
		}}
	}
	var out []Finding
	ready := true
	for _, c := range r.NotReady {
		fix := "see the runtime's log"
		// the kubelet requires these two; others are informational
		if c.Type != "RuntimeReady" && c.Type != "NetworkReady" {
			out = append(out, Finding{About: r.Endpoint, Level: Note, Text: fmt.Sprintf("%s is not met: %s: %s", c.Type,
				c.Reason, c.Message)})
			continue
		}
		ready = false
		if c.Type == "NetworkReady" {
			fix = "put a network configuration into the runtime's CNI directory (/etc/cni/net.d unless set otherwise)"
		}
		out = append(out, Finding{About: r.Endpoint, Level: Problem, Text: fmt.Sprintf("%s is not met: %s: %s", c.Type,
			c.Reason, c.Message), Fix: fix})
	}
	if ready {
		out = append([]Finding{{About: r.Endpoint, Text: r.Name + " " + r.Version + " is ready"}}, out...)
	}
	return out
}

// cgroupDriver compares this machine's runtime with the kubelet that uses it.
// https://kubernetes.io/docs/setup/production-environment/container-runtimes/#cgroup-drivers
func cgroupDriver(f Facts) []Finding {
	if f.Runtime == nil || f.Runtime.CgroupDriver == "" {
		return nil
	}
	var out []Finding
	for _, n := range f.Nodes {
		if !n.Local || n.Config == nil || n.Config.CgroupDriver == "" {
			continue
		}
		is, runtime := n.Config.CgroupDriver, f.Runtime.CgroupDriver
		if is == runtime {
			out = append(out, Finding{About: n.Name, Text: "kubelet and runtime use " + is})
			continue
		}
		out = append(out, Finding{
			About: n.Name, Level: Problem,
			Text: fmt.Sprintf("the kubelet's cgroupDriver is %s, the runtime's is %s: limits of Pods and of their "+
				"containers are kept in two trees", is, runtime),
			Fix: fmt.Sprintf("set the runtime's driver to %s (containerd: SystemdCgroup = %t), restart it, and end "+
				"the node's Pods once", is, is == "systemd"),
		})
	}
	return out
}

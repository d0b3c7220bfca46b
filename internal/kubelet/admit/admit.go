package admit

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/reason"
)

// In is everything admission depends on.
type In struct {
	Pod            *v1.Pod
	Node           *v1.Node  // nil while the node has no object: checks against it are left out
	OtherPods      []*v1.Pod // admitted and not ended
	AppArmor       bool      // the node's kernel enforces AppArmor profiles
	Features       []string  // what this kubelet declares to do (KEP-5328); nil leaves the check out
	AllowedSysctls []string  // allowedUnsafeSysctls of the configuration; a trailing * matches any rest
	// conditions MemoryPressure, DiskPressure and PIDPressure that the node has, by name
	Pressure []v1.NodeConditionType
}

// Check is one predicate.
type Check func(In) *reason.Refusal

// Checks are asked in this order, which is upstream's.
var Checks = slices.Concat(beforeAllocation, []Check{osSelector, osField, supplementalGroups}, predicates,
	[]Check{appArmor, features})

// beforeAllocation are asked before resources are given to the Pod.
var beforeAllocation = []Check{pressure, sysctls}

// predicates are what the scheduler asks as well.
var predicates = []Check{resources, affinity, nodeName, ports, taints}

// Admit asks every check; nil lets the Pod in.
func Admit(in In) *reason.Refusal { return firstRefusal(Checks, in) }

// BeforeAllocation asks the checks that come before resources are given to the Pod; nil lets it go
// on.
func BeforeAllocation(in In) *reason.Refusal { return firstRefusal(beforeAllocation, in) }

// firstRefusal is the refusal of the first check that has one.
func firstRefusal(checks []Check, in In) *reason.Refusal {
	for _, check := range checks {
		if refusal := check(in); refusal != nil {
			refusal.By = "kubelet/admit"
			return refusal
		}
	}
	return nil
}

func osSelector(in In) *reason.Refusal {
	if want, ok := in.Pod.Labels[v1.LabelOSStable]; ok && want != runtime.GOOS {
		return &reason.Refusal{Code: reason.AdmitOSSelector,
			Detail: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	return nil
}

func osField(in In) *reason.Refusal {
	if o := in.Pod.Spec.OS; o != nil && string(o.Name) != runtime.GOOS {
		return &reason.Refusal{Code: reason.AdmitOS,
			Detail: "Failed to admit pod as the OS field doesn't match node OS"}
	}
	return nil
}

// resources compares requests with what the admitted Pods leave of the node. Extended resources
// that the node does not have are the scheduler's business.
func resources(in In) *reason.Refusal {
	for _, s := range shortages(in) {
		return &reason.Refusal{
			Code: reason.Code(outOfPrefix + string(s.Resource)),
			Detail: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
				s.Resource, s.Requested, s.Used, s.Available),
			Fix: fmt.Sprintf("lower the request or free %d", s.Missing()),
		}
	}
	return nil
}

func shortages(in In) []fit.Shortage {
	if in.Node == nil {
		return nil
	}
	room := fit.VectorOf(in.Node.Status.Allocatable)
	var used fit.Vector
	for _, o := range in.OtherPods {
		v := fit.VectorOf(pod.Requests(o))
		used.Add(&v)
	}
	used.Pods = int64(len(in.OtherPods))
	request := fit.VectorOf(pod.Requests(in.Pod))
	skip := func(name v1.ResourceName) bool {
		_, has := in.Node.Status.Allocatable[name]
		return fit.IsExtended(name) && !has
	}
	return fit.Shortages(&request, &used, &room, skip)
}

func nodeName(in In) *reason.Refusal {
	if in.Node != nil && in.Pod.Spec.NodeName != "" && in.Pod.Spec.NodeName != in.Node.Name {
		return predicate(reason.AdmitNodeName, "node(s) didn't match the requested node name")
	}
	return nil
}

func affinity(in In) *reason.Refusal {
	if in.Node == nil {
		return nil
	}
	if ok, err := fit.NodeMatches(in.Pod, in.Node); err != nil || !ok {
		return predicate(reason.AdmitNodeAffinity, "node(s) didn't match Pod's node affinity/selector")
	}
	return nil
}

func ports(in In) *reason.Refusal {
	var have []v1.ContainerPort
	for _, o := range in.OtherPods {
		have = append(have, pod.HostPorts(o)...)
	}
	if p, taken := fit.PortConflict(pod.HostPorts(in.Pod), have); taken {
		refusal := predicate(reason.AdmitNodePorts, "node(s) didn't have free ports for the requested pod ports")
		refusal.Fix = fmt.Sprintf("host port %d is taken on this node: choose another", p.HostPort)
		return refusal
	}
	return nil
}

// taints keep Pods that were bound past the scheduler off a node whose taints would evict them.
// Static Pods run all the same.
func taints(in In) *reason.Refusal {
	if in.Node == nil || pod.IsStatic(in.Pod) {
		return nil
	}
	if t, bad := fit.Untolerated(in.Node.Spec.Taints, in.Pod.Spec.Tolerations, v1.TaintEffectNoExecute); bad {
		refusal := predicate(reason.AdmitTaint, "node(s) had taints that the pod didn't tolerate")
		refusal.Fix = fmt.Sprintf("tolerate the taint {%s: %s} of this node, or place the Pod on another", t.Key,
			t.Value)
		return refusal
	}
	return nil
}

func predicate(code reason.Code, why string) *reason.Refusal {
	return &reason.Refusal{Code: code, Detail: fmt.Sprintf("Predicate %s failed: %s", code, why)}
}

// safeSysctls are the sysctls that are namespaced and harm nobody else.
// https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster/#safe-and-unsafe-sysctls
var safeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}

func sysctls(in In) *reason.Refusal {
	sc := in.Pod.Spec.SecurityContext
	if sc == nil {
		return nil
	}
	for _, s := range sc.Sysctls {
		name := strings.ReplaceAll(s.Name, "/", ".")
		why := ""
		switch {
		case !allowed(safeSysctls, name) && !allowed(in.AllowedSysctls, name):
			why = "not allowlisted"
		case in.Pod.Spec.HostNetwork && strings.HasPrefix(name, "net."):
			why = "not allowed with host net enabled"
		case in.Pod.Spec.HostIPC && (strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") ||
			strings.HasPrefix(name, "kernel.sem") || strings.HasPrefix(name, "fs.mqueue.")):
			why = "not allowed with host ipc enabled"
		}
		if why != "" {
			return &reason.Refusal{Code: reason.AdmitSysctl, Detail: fmt.Sprintf("forbidden sysctl: %q %s", s.Name,
				why), Fix: "allow it with allowedUnsafeSysctls in the kubelet's configuration"}
		}
	}
	return nil
}

func allowed(patterns []string, name string) bool {
	for _, p := range patterns {
		p = strings.ReplaceAll(p, "/", ".")
		if rest, any := strings.CutSuffix(p, "*"); p == name || any && strings.HasPrefix(name, rest) {
			return true
		}
	}
	return false
}

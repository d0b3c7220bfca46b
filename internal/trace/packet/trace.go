package packet

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// Result is the trace of a packet.
type Result struct {
	From      string   `json:"from"`
	To        string   `json:"to"`
	Protocol  string   `json:"protocol"`
	Outcome   Outcome  `json:"verdict"`
	Cause     string   `json:"cause"`            // the outcome in a sentence
	Reason    Reason   `json:"reason,omitempty"` // why the packet fails
	Steps     []Step   `json:"steps"`
	Fixes     []Fix    `json:"fixes,omitempty"`
	Service   string   `json:"service,omitempty"` // NAMESPACE/NAME of the Service that has the address
	Endpoints []string `json:"ends,omitempty"`    // candidate endpoints
	// Pods are the candidate Pods, NAMESPACE/NAME, whose sockets the caller should read.
	Pods []string `json:"pods,omitempty"`
}

// Outcome is what happens to the packet.
type Outcome string

// The outcomes.
const (
	Delivered          Outcome = "delivered"  // a process accepts it
	SometimesDelivered Outcome = "sometimes"  // it depends on which endpoint is chosen
	Refused            Outcome = "refused"    // rejected at once
	Dropped            Outcome = "dropped"    // dropped: the sender waits for its timeout
	Unresolved         Outcome = "unresolved" // the name has no address
	NotSent            Outcome = "unsent"     // the sender cannot send
	Unknown            Outcome = "unknown"    // objects that the outcome depends on are not known
)

// Reason is a stable code of why a packet fails.
type Reason string

// The reasons.
const (
	NoSuchPod           Reason = "NoSuchPod"
	NoSuchNode          Reason = "NoSuchNode"
	NoSuchService       Reason = "NoSuchService"
	SenderNotRunning    Reason = "SenderNotRunning"
	NoAddressOfFamily   Reason = "NoAddressOfFamily"
	NotClusterDNS       Reason = "NotAskedOfClusterDNS"
	ExternalName        Reason = "ExternalName"
	NoSuchPort          Reason = "NoSuchPort"
	NoClusterIP         Reason = "NoClusterIP"
	OtherProxy          Reason = "OtherProxy"
	ClusterInternalOnly Reason = "OnlyInside"
	NoEndpoints         Reason = "NoEndpoints"
	NoLocalEndpoint     Reason = "NoLocalEndpoint"
	SourceNotAllowed    Reason = "SourceNotAllowed"
	EndpointDeleted     Reason = "EndpointGone"
	PolicyDenies        Reason = "PolicyDenies"
	NoRoute             Reason = "NoRoute"
	NoListener          Reason = "NobodyListens"
	ListensOnOtherPort  Reason = "ListensElsewhere"
)

// State is the result of a step.
type State string

// The states.
const (
	OK        State = "ok"
	Failed    State = "fails"
	Uncertain State = "unknown"
)

// Step is one step of the trace.
type Step struct {
	Name     string  `json:"step"`
	State    State   `json:"state"`
	Text     string  `json:"says"`
	Endpoint string  `json:"endpoint,omitempty"` // the endpoint it is about, ADDRESS:PORT
	Reason   Reason  `json:"reason,omitempty"`
	outcome  Outcome // outcome of the packet if the step fails
	fixes    []Fix
}

// Fix is one remedy.
type Fix struct {
	Description string `json:"say"`
	Run         string `json:"run,omitempty"` // a shell command that does it
	// the object of which gantry why says the reason; nil: the command says none
	See *v1.ObjectReference `json:"see,omitempty"`
}

// seeWhy leads to what gantry why says about an object.
func seeWhy(say, kind, namespace, name string) Fix {
	return Fix{Description: say, Run: fmt.Sprintf("gantry why %s/%s -n %s", strings.ToLower(kind), name, namespace),
		See: &v1.ObjectReference{Kind: kind, Namespace: namespace, Name: name}}
}

// tracer traces one packet.
type tracer struct {
	ClusterState
	request     Request
	from        *v1.Pod  // nil: the sender is not a Pod
	node        *v1.Node // node whose rules apply
	fromCluster bool     // the sender is a Pod or a node of the cluster
	addr        netip.Addr
	result      Result
	stopped     bool
}

// Trace traces a packet as far as w allows. It modifies neither argument.
func Trace(w ClusterState, a Request) Result {
	x := &tracer{ClusterState: w, request: a}
	if x.request.Protocol == "" {
		x.request.Protocol = "TCP"
	}
	x.result = Result{From: a.From.String(), To: a.To.String() + ":" + a.Port, Protocol: x.request.Protocol,
		Steps: []Step{}}
	x.source()
	targets := x.resolve()
	if !x.stopped {
		x.traceTargets(targets)
	}
	x.summarize()
	return x.result
}

func (x *tracer) ok(name, format string, args ...any) {
	x.result.Steps = append(x.result.Steps, Step{Name: name, State: OK, Text: fmt.Sprintf(format, args...)})
}

func (x *tracer) unsure(name, format string, args ...any) {
	x.result.Steps = append(x.result.Steps, Step{Name: name, State: Uncertain, Text: fmt.Sprintf(format, args...)})
}

// fail adds the failed step and ends the trace.
func (x *tracer) fail(s Step, fixes ...Fix) {
	s.State, s.fixes = Failed, fixes
	x.result.Steps = append(x.result.Steps, s)
	x.stopped = true
}

// source finds the sender and the node whose rules apply.
func (x *tracer) source() {
	p := x.request.From
	switch p.Kind {
	case "":
		x.fromCluster = true
	case "pod":
		x.resolveSender(p)
	case "node":
		if x.node, x.fromCluster = x.ClusterState.node(p.Name), true; x.node == nil {
			x.fail(Step{Name: "sender", Text: fmt.Sprintf("there is no node %s", p.Name), Reason: NoSuchNode,
				outcome: NotSent}, Fix{Description: "see which nodes there are", Run: "kubectl get nodes"})
			return
		}
		x.ok("sender", "node %s itself sends", p.Name)
	default:
		if q := x.podAt(p.Addr); q != nil {
			x.resolveSender(Peer{Kind: "pod", Namespace: q.Namespace, Name: q.Name})
		} else if n := x.nodeAt(p.Addr); n != nil {
			x.node, x.fromCluster = n, true
			x.ok("sender", "%s is node %s", p.Addr, n.Name)
		} else {
			x.ok("sender", "%s is neither a Pod nor a node: somebody outside", p.Addr)
		}
	}
}

func (x *tracer) resolveSender(p Peer) {
	x.fromCluster = true
	q := x.ClusterState.pod(p.Namespace, p.Name)
	if q == nil {
		x.fail(Step{Name: "sender", Text: fmt.Sprintf("there is no Pod %s in namespace %s", p.Name, p.Namespace),
			Reason: NoSuchPod, outcome: NotSent}, Fix{Description: "see which Pods there are",
			Run: "kubectl get pods -n " + p.Namespace})
		return
	}
	x.from, x.node = q, x.ClusterState.node(q.Spec.NodeName)
	if pod.IsTerminal(q) || len(podIPs(q)) == 0 {
		state := "has no address yet"
		if pod.IsTerminal(q) {
			state = "has ended"
		}
		x.fail(Step{Name: "sender", Text: fmt.Sprintf("Pod %s is %s and %s: nothing in it can send", q.Name,
			q.Status.Phase, state), Reason: SenderNotRunning, outcome: NotSent},
			seeWhy("see why", "Pod", q.Namespace, q.Name))
		return
	}
	x.ok("sender", "Pod %s on node %s sends from %s", q.Name, q.Spec.NodeName, podIPs(q)[0])
}

// fromAddr returns the sender's address of a family; invalid if it has none or is not known.
func (x *tracer) fromAddr(f rules.Family) netip.Addr {
	var all []netip.Addr
	switch {
	case x.from != nil:
		all = podIPs(x.from)
	case x.request.From.Kind == "address":
		all = []netip.Addr{x.request.From.Addr}
	case x.node != nil:
		all = nodeIPs(x.node)
	}
	for _, ip := range all {
		if f.Has(ip) {
			return ip
		}
	}
	return netip.Addr{}
}

// traceTargets traces the packet to the first address. A sender tries further addresses of a name
// only after a failure; they are listed.
func (x *tracer) traceTargets(targets []target) {
	usable := slices.DeleteFunc(slices.Clone(targets),
		func(t target) bool { return x.request.From.Kind != "" && !x.fromAddr(family(t.addr)).IsValid() })
	if len(usable) == 0 {
		x.fail(Step{Name: "address", Text: fmt.Sprintf("%s has only addresses of a family that %s has none of",
			x.request.To, x.request.From), Reason: NoAddressOfFamily, outcome: NotSent},
			Fix{Description: "give the Service the other family (spec.ipFamilyPolicy: PreferDualStack), or the " +
				"cluster both"})
		return
	}
	if usable[0].direct {
		x.traceDirect(usable)
		return
	}
	t := usable[0]
	x.addr = t.addr
	if s := t.service; s != nil {
		x.result.Service = s.Namespace + "/" + s.Name
		if t.nodePort {
			x.traceService(s, t)
			return
		}
	}
	x.traceTarget(t)
}

// traceDirect traces the packet to addresses that no Service translates: Pods of a headless
// Service, or a Pod itself.
func (x *tracer) traceDirect(targets []target) {
	if s := targets[0].service; s != nil {
		x.result.Service = s.Namespace + "/" + s.Name
	}
	for _, t := range targets {
		number, ok := x.directPort(t)
		if ok {
			x.traceEndpoint(rules.Endpoint{AddrPort: netip.AddrPortFrom(t.addr, number)}, t.pod, false)
		}
	}
	x.stopped = true
}

// directPort returns the port number; a name is that of a container's port, or of the headless
// Service's target.
func (x *tracer) directPort(t target) (uint16, bool) {
	if n, err := strconv.ParseUint(x.request.Port, 10, 16); err == nil {
		return uint16(n), true
	}
	if t.pod != nil {
		var have []string
		for _, c := range containers(t.pod) {
			for _, p := range c.Ports {
				if p.Name == x.request.Port && string(p.Protocol) == x.request.Protocol {
					return uint16(p.ContainerPort), true
				}
				have = append(have, fmt.Sprintf("%s (%d)", p.Name, p.ContainerPort))
			}
		}
		x.fail(Step{Name: "port", Text: fmt.Sprintf("no container of %s has a %s port named %s%s", t.pod.Name,
			x.request.Protocol, x.request.Port, joinPorts(have)), Reason: NoSuchPort, outcome: NotSent},
			Fix{Description: "ask for a port that is there, or by its number"})
		return 0, false
	}
	x.fail(Step{Name: "port", Text: "port " + x.request.Port + " is a name, and " + x.request.To.String() +
		" has no named ports", Reason: NoSuchPort, outcome: NotSent},
		Fix{Description: "ask for the port by its number"})
	return 0, false
}

func joinPorts(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return "; there are " + strings.Join(all, ", ")
}

// containers returns the containers that run for the Pod's lifetime: regular ones and sidecars.
// Ports of other init containers are not part of a Service.
func containers(p *v1.Pod) []v1.Container {
	out := slices.Clone(p.Spec.Containers)
	for i, c := range p.Spec.InitContainers {
		if pod.IsSidecar(&p.Spec.InitContainers[i]) {
			out = append(out, c)
		}
	}
	return out
}

// summarize computes the outcome from the steps.
func (x *tracer) summarize() {
	o := &x.result
	var failed []Step
	doubt, unheard, good := "", "", len(o.Endpoints)
	bad := map[string]bool{}
	for _, s := range o.Steps {
		switch {
		case s.State == Failed:
			failed = append(failed, s)
			bad[s.Endpoint] = true
		case s.State == Uncertain && s.Name == "socket" && len(o.Endpoints) > 0:
			unheard = s.Text
		case s.State == Uncertain && (s.Name == "route" || s.Name == "policy" || len(o.Endpoints) == 0):
			doubt = s.Text
		}
	}
	good -= len(bad)
	switch {
	case len(failed) == 0 && doubt != "":
		o.Outcome, o.Cause = Unknown, capitalize(doubt)
	case len(failed) == 0:
		o.Outcome, o.Cause = Delivered, fmt.Sprintf("It arrives at %s.", strings.Join(o.Endpoints, " or "))
		if unheard != "" {
			o.Cause += " " + capitalize(unheard)
		}
	case failed[0].Endpoint != "" && good > 0:
		o.Outcome, o.Reason = SometimesDelivered, failed[0].Reason
		o.Cause = fmt.Sprintf("%d of %d endpoints take it. At %s: %s", good, len(o.Endpoints), failed[0].Endpoint,
			failed[0].Text+".")
	default:
		o.Outcome, o.Reason, o.Cause = failed[0].outcome, failed[0].Reason, capitalize(failed[0].Text)
	}
	seen := map[Fix]bool{}
	for _, s := range failed {
		for _, f := range s.fixes {
			if !seen[f] {
				seen[f] = true
				o.Fixes = append(o.Fixes, f)
			}
		}
	}
}

// capitalize returns s with a capital first letter, except for names and field names.
func capitalize(s string) string {
	first, _, _ := strings.Cut(s, " ")
	if s == "" || first[1:] != strings.ToLower(first[1:]) || strings.Contains(first, ".") {
		return s + "."
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

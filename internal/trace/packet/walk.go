package packet

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// Walk is a packet's way.
type Walk struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Protocol string   `json:"protocol"`
	Verdict  Verdict  `json:"verdict"`
	Cause    string   `json:"cause"`            // the verdict in a sentence
	Reason   Reason   `json:"reason,omitempty"` // why it fails
	Steps    []Step   `json:"steps"`
	Fixes    []Fix    `json:"fixes,omitempty"`
	Service  string   `json:"service,omitempty"` // NAMESPACE/NAME of the Service that has the address
	Ends     []string `json:"ends,omitempty"`    // where it may arrive
	// Pods are those it may arrive at, NAMESPACE/NAME: whose sockets are worth knowing.
	Pods []string `json:"pods,omitempty"`
}

// Verdict is what becomes of the packet.
type Verdict string

// The verdicts.
const (
	Delivered  Verdict = "delivered"  // a process takes it
	Sometimes  Verdict = "sometimes"  // it depends on which endpoint is chosen
	Refused    Verdict = "refused"    // answered with a refusal: at once
	Dropped    Verdict = "dropped"    // no answer: the sender waits for its time-out
	Unresolved Verdict = "unresolved" // the name has no address
	Unsent     Verdict = "unsent"     // the sender cannot send
	Unknown    Verdict = "unknown"    // it leaves what is known
)

// Reason is a stable code.
type Reason string

// Why a packet fails.
const (
	NoSuchPod         Reason = "NoSuchPod"
	NoSuchNode        Reason = "NoSuchNode"
	NoSuchService     Reason = "NoSuchService"
	SenderNotRunning  Reason = "SenderNotRunning"
	NoAddressOfFamily Reason = "NoAddressOfFamily"
	NameNotFound      Reason = "NameNotFound"
	NotAskedOfCluster Reason = "NotAskedOfClusterDNS"
	ExternalName      Reason = "ExternalName"
	NoSuchPort        Reason = "NoSuchPort"
	NoClusterIP       Reason = "NoClusterIP"
	OtherProxy        Reason = "OtherProxy"
	OnlyInside        Reason = "OnlyInside"
	NoEndpoints       Reason = "NoEndpoints"
	NoLocalEndpoint   Reason = "NoLocalEndpoint"
	SourceNotAllowed  Reason = "SourceNotAllowed"
	EndpointGone      Reason = "EndpointGone"
	PolicyDenies      Reason = "PolicyDenies"
	NoRoute           Reason = "NoRoute"
	NobodyListens     Reason = "NobodyListens"
	ListensElsewhere  Reason = "ListensElsewhere"
)

// State is how a step went.
type State string

// States of steps.
const (
	OK     State = "ok"
	Fails  State = "fails"
	Unsure State = "unknown"
)

// Step is one part of the way.
type Step struct {
	Name     string  `json:"step"`
	State    State   `json:"state"`
	Says     string  `json:"says"`
	Endpoint string  `json:"endpoint,omitempty"` // the endpoint it is about, ADDRESS:PORT
	Reason   Reason  `json:"reason,omitempty"`
	verdict  Verdict // what its failure comes to
	fixes    []Fix
}

// Fix is one thing a person can do.
type Fix struct {
	Say string `json:"say"`
	Run string `json:"run,omitempty"` // a shell command that does it
}

// walker goes one packet's way.
type walker struct {
	World
	ask     Ask
	from    *v1.Pod  // nil when the sender is no Pod
	node    *v1.Node // whose rules the packet meets
	inside  bool     // the sender is a Pod or a node of the cluster
	addr    netip.Addr
	out     Walk
	stopped bool
}

// Go walks a packet's way as far as it leads.
func Go(w World, a Ask) Walk {
	x := &walker{World: w, ask: a}
	if x.ask.Protocol == "" {
		x.ask.Protocol = "TCP"
	}
	x.out = Walk{From: a.From.String(), To: a.To.String() + ":" + a.Port, Protocol: x.ask.Protocol, Steps: []Step{}}
	x.source()
	targets := x.resolve()
	if !x.stopped {
		x.deliver(targets)
	}
	x.judge()
	return x.out
}

func (x *walker) ok(name, format string, args ...any) {
	x.out.Steps = append(x.out.Steps, Step{Name: name, State: OK, Says: fmt.Sprintf(format, args...)})
}

func (x *walker) unsure(name, format string, args ...any) {
	x.out.Steps = append(x.out.Steps, Step{Name: name, State: Unsure, Says: fmt.Sprintf(format, args...)})
}

// fail ends the way.
func (x *walker) fail(s Step, fixes ...Fix) {
	s.State, s.fixes = Fails, fixes
	x.out.Steps = append(x.out.Steps, s)
	x.stopped = true
}

// source finds the sender and the node whose rules it meets.
func (x *walker) source() {
	p := x.ask.From
	switch p.Kind {
	case "":
		x.inside = true
	case "pod":
		x.sender(p)
	case "node":
		if x.node, x.inside = x.World.node(p.Name), true; x.node == nil {
			x.fail(Step{Name: "sender", Says: fmt.Sprintf("there is no node %s", p.Name), Reason: NoSuchNode, verdict: Unsent}, Fix{"see which nodes there are", "kubectl get nodes"})
			return
		}
		x.ok("sender", "node %s itself sends", p.Name)
	default:
		if q := x.podAt(p.Addr); q != nil {
			x.sender(Place{Kind: "pod", Namespace: q.Namespace, Name: q.Name})
		} else if n := x.nodeAt(p.Addr); n != nil {
			x.node, x.inside = n, true
			x.ok("sender", "%s is node %s", p.Addr, n.Name)
		} else {
			x.ok("sender", "%s is neither a Pod nor a node: somebody outside", p.Addr)
		}
	}
}

func (x *walker) sender(p Place) {
	x.inside = true
	q := x.World.pod(p.Namespace, p.Name)
	if q == nil {
		x.fail(Step{Name: "sender", Says: fmt.Sprintf("there is no Pod %s in namespace %s", p.Name, p.Namespace), Reason: NoSuchPod, verdict: Unsent}, Fix{"see which Pods there are", "kubectl get pods -n " + p.Namespace})
		return
	}
	x.from, x.node = q, x.World.node(q.Spec.NodeName)
	if ended(q) || len(podIPs(q)) == 0 {
		state := "has no address yet"
		if ended(q) {
			state = "has ended"
		}
		x.fail(Step{Name: "sender", Says: fmt.Sprintf("Pod %s is %s and %s: nothing in it can send", q.Name, q.Status.Phase, state), Reason: SenderNotRunning, verdict: Unsent},
			Fix{"see why", fmt.Sprintf("gantry why pod/%s -n %s", q.Name, q.Namespace)})
		return
	}
	x.ok("sender", "Pod %s on node %s sends from %s", q.Name, q.Spec.NodeName, podIPs(q)[0])
}

// fromAddr is the sender's address of a family, invalid when it has none or is not known.
func (x *walker) fromAddr(f rules.Family) netip.Addr {
	var all []netip.Addr
	switch {
	case x.from != nil:
		all = podIPs(x.from)
	case x.ask.From.Kind == "address":
		all = []netip.Addr{x.ask.From.Addr}
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

// deliver leads the packet to its first address; a name's further ones are tried by the sender only if that one fails, so all are told.
func (x *walker) deliver(targets []target) {
	usable := slices.DeleteFunc(slices.Clone(targets), func(t target) bool { return x.ask.From.Kind != "" && !x.fromAddr(family(t.addr)).IsValid() })
	if len(usable) == 0 {
		x.fail(Step{Name: "address", Says: fmt.Sprintf("%s has only addresses of a family that %s has none of", x.ask.To, x.ask.From), Reason: NoAddressOfFamily, verdict: Unsent},
			Fix{Say: "give the Service the other family (spec.ipFamilyPolicy: PreferDualStack), or the cluster both"})
		return
	}
	if usable[0].straight {
		x.straight(usable)
		return
	}
	t := usable[0]
	x.addr = t.addr
	if s := t.service; s != nil {
		x.out.Service = s.Namespace + "/" + s.Name
		if t.nodePort {
			x.enter(s, t)
			return
		}
	}
	x.at(t)
}

// straight are addresses that no Service translates: Pods of a headless Service, or a Pod itself.
func (x *walker) straight(targets []target) {
	if s := targets[0].service; s != nil {
		x.out.Service = s.Namespace + "/" + s.Name
	}
	for _, t := range targets {
		number, ok := x.straightPort(t)
		if ok {
			x.arrive(rules.Endpoint{AddrPort: netip.AddrPortFrom(t.addr, number)}, t.pod, false)
		}
	}
	x.stopped = true
}

// straightPort reads the port asked for; by name it is a container's, or the headless Service's target.
func (x *walker) straightPort(t target) (uint16, bool) {
	if n, err := strconv.ParseUint(x.ask.Port, 10, 16); err == nil {
		return uint16(n), true
	}
	if t.pod != nil {
		var have []string
		for _, c := range containers(t.pod) {
			for _, p := range c.Ports {
				if p.Name == x.ask.Port && string(p.Protocol) == x.ask.Protocol {
					return uint16(p.ContainerPort), true
				}
				have = append(have, fmt.Sprintf("%s (%d)", p.Name, p.ContainerPort))
			}
		}
		x.fail(Step{Name: "port", Says: fmt.Sprintf("no container of %s has a %s port named %s%s", t.pod.Name, x.ask.Protocol, x.ask.Port, has(have)), Reason: NoSuchPort, verdict: Unsent}, Fix{Say: "ask for a port that is there, or by its number"})
		return 0, false
	}
	x.fail(Step{Name: "port", Says: "port " + x.ask.Port + " is a name, and " + x.ask.To.String() + " has no named ports", Reason: NoSuchPort, verdict: Unsent}, Fix{Say: "ask for the port by its number"})
	return 0, false
}

func has(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return "; there are " + strings.Join(all, ", ")
}

// containers are those that listen for the Pod's life: containers and sidecars. Other init containers' ports are no part of a Service.
func containers(p *v1.Pod) []v1.Container {
	out := slices.Clone(p.Spec.Containers)
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			out = append(out, c)
		}
	}
	return out
}

// judge makes the verdict of the steps.
func (x *walker) judge() {
	o := &x.out
	var failed []Step
	doubt, unheard, good := "", "", len(o.Ends)
	bad := map[string]bool{}
	for _, s := range o.Steps {
		switch {
		case s.State == Fails:
			failed = append(failed, s)
			bad[s.Endpoint] = true
		case s.State == Unsure && s.Name == "socket" && len(o.Ends) > 0:
			unheard = s.Says
		case s.State == Unsure && (s.Name == "route" || s.Name == "policy" || len(o.Ends) == 0):
			doubt = s.Says
		}
	}
	good -= len(bad)
	switch {
	case len(failed) == 0 && doubt != "":
		o.Verdict, o.Cause = Unknown, sentence(doubt)
	case len(failed) == 0:
		o.Verdict, o.Cause = Delivered, fmt.Sprintf("It arrives at %s.", strings.Join(o.Ends, " or "))
		if unheard != "" {
			o.Cause += " " + sentence(unheard)
		}
	case failed[0].Endpoint != "" && good > 0:
		o.Verdict, o.Reason = Sometimes, failed[0].Reason
		o.Cause = fmt.Sprintf("%d of %d endpoints take it. At %s: %s", good, len(o.Ends), failed[0].Endpoint, failed[0].Says+".")
	default:
		o.Verdict, o.Reason, o.Cause = failed[0].verdict, failed[0].Reason, sentence(failed[0].Says)
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

// sentence makes words one; names and field names keep their first letter.
func sentence(s string) string {
	first, _, _ := strings.Cut(s, " ")
	if s == "" || first[1:] != strings.ToLower(first[1:]) || strings.Contains(first, ".") {
		return s + "."
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

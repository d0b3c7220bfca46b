package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/pod"
)

// noProcessWords match what programs and runtimes print when they may make no further process or
// thread.
var noProcessWords = regexp.MustCompile(`(?i)\bfork\b[^\n]*resource temporarily unavailable|` +
	`pthread_create[^\n]*(?:failed|resource temporarily unavailable)|unable to create (?:new )?(?:native )?thread|` +
	`can(?:no|')t (?:fork|start new thread)|failed to create (?:new OS )?thread|newosproc`)

// NeedsProcessLimit reports whether what a Pod's containers logged last speaks of processes that
// could not be made.
func NeedsProcessLimit(in In) bool {
	for _, words := range in.LastLogs {
		if noProcessWords.MatchString(words) {
			return true
		}
	}
	return false
}

// noMoreProcesses is the number of processes that a Pod may have on its node, of a line that says
// that no more could be made.
func noMoreProcesses(in In, line string) (restriction, bool) {
	if !noProcessWords.MatchString(line) {
		return restriction{}, false
	}
	node := in.Pod.Spec.NodeName
	r := restriction{object: finding.Object{Kind: "Node", Name: node}, field: "podPidsLimit",
		text: fmt.Sprintf("It could make no further process or thread: a Pod may have only so many on node %s "+
			"(podPidsLimit of its kubelet), or the node has no more process ids.", node)}
	if n := in.ClusterContext; n != nil && n.ProcessLimit > 0 {
		r.value = strconv.FormatInt(n.ProcessLimit, 10)
		r.text = fmt.Sprintf("It could make no further process or thread: a Pod may have %d of them, all its "+
			"containers together, on node %s (podPidsLimit of its kubelet).", n.ProcessLimit, node)
	}
	r.fixes = textFixes("let the program make fewer processes and threads: smaller pools, or more Pods with less work "+
		"each", fmt.Sprintf("or raise podPidsLimit in the configuration of the kubelet of node %s, and start it anew",
		node))
	return r, true
}

// inUseWords match what programs print when they cannot listen where another does.
var inUseWords = regexp.MustCompile(`(?i)address (?:already )?in use|eaddrinuse|port (?:\d+ )?(?:is )?(?:already ` +
	`)?in use`)

// numberWords are numbers in a command line that may be ports.
var numberWords = regexp.MustCompile(`(?:^|[\s:=])(\d{2,5})\b`)

// portsNamed are the ports that a container declares, or that its command line names.
func portsNamed(c *corev1.Container) []string {
	var out []string
	for _, p := range c.Ports {
		out = append(out, strconv.Itoa(int(p.ContainerPort)))
	}
	for _, word := range slices.Concat(c.Command, c.Args) {
		for _, m := range numberWords.FindAllStringSubmatch(word, -1) {
			out = append(out, m[1])
		}
	}
	return out
}

// addressInUse is who listens where a container wants to, of a line that says that somebody does:
// another container of its Pod, as all share one network, or its node.
func addressInUse(in In, c container, at, line string) (restriction, bool) {
	if !inUseWords.MatchString(line) {
		return restriction{}, false
	}
	wanted := portsNamed(c.spec)
	said := ""
	if m := portPattern.FindStringSubmatch(line); m != nil {
		said, wanted = m[1], []string{m[1]}
	}
	for _, other := range containers(in.Pod) {
		if other.spec.Name == c.spec.Name || other.status == nil || other.status.State.Running == nil {
			continue
		}
		for _, port := range wanted {
			if !slices.Contains(portsNamed(other.spec), port) {
				continue
			}
			return restriction{field: portField(c, at, port), value: port, text: fmt.Sprintf("It cannot listen on "+
				"port %s: container %s of the same Pod does, and the containers of a Pod share one network.", port,
				other.spec.Name),
				fixes: append(onAnotherPort(in, c, port), Fix{Description: fmt.Sprintf("or let %s listen on another "+
					"port than %s, or run them in Pods of their own", other.spec.Name, port)})}, true
		}
	}
	if in.Pod.Spec.HostNetwork {
		port, who := portOfNode(in, wanted, said)
		return restriction{field: "spec.hostNetwork", value: "true", text: fmt.Sprintf("It cannot listen on %s: %s "+
			"does, and hostNetwork lets the Pod share the node's network.", port, who),
			fixes: []Fix{editedPodFix(in, "give the Pod a network of its own: without "+
				"hostNetwork", func(s *corev1.PodSpec) {
				s.HostNetwork = false
				for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
					for i := range list {
						for j := range list[i].Ports {
							list[i].Ports[j].HostPort = 0 // the API server set it for hostNetwork
						}
					}
				}
			}), {Description: "or let it listen on a port that is free on the node"}}}, true
	}
	return restriction{}, false
}

// portOfNode is the port of its node that a container of the node's network wants, in words, and
// who has it. said is the one that the container named, empty where it named none.
func portOfNode(in In, wanted []string, said string) (port, who string) {
	who = fmt.Sprintf("a program of node %s, or another Pod in its network,", in.Pod.Spec.NodeName)
	taken := takenOnNode(in)
	for _, p := range wanted {
		if by, ok := taken[p]; ok {
			return "port " + p, by
		}
	}
	switch unique := slices.Compact(slices.Sorted(slices.Values(wanted))); {
	case said != "":
		return "port " + said, who
	case len(unique) == 1:
		return "port " + unique[0], who
	}
	return "its port", who
}

// takenOnNode are the ports of the Pod's node of which the API says who has them: its kubelet, and
// other Pods that share its network or have a port of it.
func takenOnNode(in In) map[string]string {
	out := map[string]string{}
	if in.Node != nil && in.Node.Status.DaemonEndpoints.KubeletEndpoint.Port > 0 {
		out[strconv.Itoa(int(in.Node.Status.DaemonEndpoints.KubeletEndpoint.Port))] = "the kubelet of node " +
			in.Node.Name
	}
	if in.ClusterContext == nil {
		return out
	}
	for _, p := range in.ClusterContext.Pods {
		if p.Spec.NodeName != in.Pod.Spec.NodeName || p.UID == in.Pod.UID || pod.IsTerminal(p) {
			continue
		}
		for i := range p.Spec.Containers {
			for _, x := range p.Spec.Containers[i].Ports {
				n := x.HostPort
				if p.Spec.HostNetwork {
					n = x.ContainerPort
				}
				if n > 0 {
					out[strconv.Itoa(int(n))] = fmt.Sprintf("Pod %s of namespace %s", p.Name, p.Namespace)
				}
			}
		}
	}
	return out
}

// onAnotherPort lets a container listen on the next port that no container of its Pod names, where
// its command line, its variables and its probes have the one it cannot have as a number of its
// own.
func onAnotherPort(in In, c container, port string) []Fix {
	number := regexp.MustCompile(`(^|[\s:=])` + port + `($|[^\d.:])`)
	texts := slices.Concat(c.spec.Command, c.spec.Args)
	for _, e := range c.spec.Env {
		texts = append(texts, e.Value)
	}
	if !slices.ContainsFunc(texts, number.MatchString) {
		return nil
	}
	var named []string
	for _, x := range containers(in.Pod) {
		named = append(named, portsNamed(x.spec)...)
	}
	was, err := strconv.Atoi(port)
	if err != nil {
		return nil
	}
	free := was + 1
	for slices.Contains(named, strconv.Itoa(free)) {
		free++
	}
	say := fmt.Sprintf("let %s listen on port %d: who asks it on %s has to ask there", c.spec.Name, free, port)
	return []Fix{editedContainer(in, c.spec.Name, say, func(x *corev1.Container) {
		eachText(x, func(s string) string { return number.ReplaceAllString(s, "${1}"+strconv.Itoa(free)+"${2}") })
		for i := range x.Ports {
			if int(x.Ports[i].ContainerPort) == was {
				x.Ports[i].ContainerPort = int32(free)
			}
		}
		for _, p := range []*corev1.Probe{x.StartupProbe, x.ReadinessProbe, x.LivenessProbe} {
			switch {
			case p == nil:
			case p.HTTPGet != nil && p.HTTPGet.Port.IntValue() == was:
				p.HTTPGet.Port = intstr.FromInt32(int32(free))
			case p.TCPSocket != nil && p.TCPSocket.Port.IntValue() == was:
				p.TCPSocket.Port = intstr.FromInt32(int32(free))
			}
		}
	})}
}

// portField is where a container names a port.
func portField(c container, at, port string) string {
	for i, p := range c.spec.Ports {
		if strconv.Itoa(int(p.ContainerPort)) == port {
			return fmt.Sprintf("%s.ports[%d].containerPort", at, i)
		}
	}
	for list, words := range map[string][]string{"command": c.spec.Command, "args": c.spec.Args} {
		for i, w := range words {
			if strings.Contains(w, port) {
				return fmt.Sprintf("%s.%s[%d]", at, list, i)
			}
		}
	}
	return at
}

package explain

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// Words by which a runtime says why it has no sandbox for a Pod.
var (
	noHandler = regexp.MustCompile(`no runtime for "([^"]+)" is configured|runtime handler "?([^"\s]+)"? not ` +
		`supported`)
	fullPodRange  = regexp.MustCompile(`all (\d+) addresses of the Pod range (\S+) are in use`)
	otherFullPool = regexp.MustCompile(`(?i)no (?:more )?IP addresses (?:are )?available|no available IP|range ` +
		`set: \S+-\S+`)
	networkWords = regexp.MustCompile(`(?i)\bcni\b|network|plugin type=`)
	sandboxWraps = regexp.MustCompile(`^(?:rpc error: code = \w+ desc = )*(?:failed to (?:setup network|create ` +
		`containerd ` +
		`task|get sandbox runtime|start sandbox)[^:]*: )?(?:unable to get OCI runtime for sandbox "[^"]*": )?`)
)

// sandboxFailed explains a Pod whose sandbox the runtime cannot make: its RuntimeClass, its
// network, or what the runtime says.
func sandboxFailed(in In) *Answer {
	if in.Pod == nil || !notStarted(in.Pod) {
		return nil
	}
	call, at, ok := newest[journal.Called](in, func(c journal.Called) bool { return c.Method == "RunPodSandbox" })
	if !ok || call.Error == "" {
		return nil
	}
	said := oneLine(call.Error)
	words := strings.TrimPrefix(said, sandboxWraps.FindString(said))
	a := &Answer{State: "ContainerCreating", Since: at, Next: "it is tried again",
		Cause: "The runtime cannot make the Pod's sandbox (network and namespaces): " + words}
	if words != said {
		a.Facts = append(a.Facts, "the runtime's words: "+said)
	}
	switch {
	case noHandler.MatchString(words):
		m := noHandler.FindStringSubmatch(words)
		handlerMissing(a, in, m[1]+m[2])
	case fullPodRange.MatchString(words):
		m := fullPodRange.FindStringSubmatch(words)
		a.Cause = fmt.Sprintf("The Pod gets no address: all %s addresses of node %s's Pod range %s are in use.", m[1],
			in.Pod.Spec.NodeName, m[2])
		a.Fixes = textFixes("end Pods of node "+in.Pod.Spec.NodeName+", or place this one on another: a Pod that "+
			"ends frees an address at once",
			"or give the node a greater range: start its Gantry anew with a --pod-cidr that contains "+m[2])
		a.Findings = append(a.Findings, finding.Finding{Code: "PodRangeFull", Stage: finding.StageNode,
			Object: finding.Object{Kind: "Node", Name: in.Pod.Spec.NodeName}, Field: "spec.podCIDR", Value: m[2],
			Related: []finding.Object{in.object()}, Numbers: map[string]string{"addresses": m[1]}, Message: a.Cause,
			Remedies: asRemedies(a.Fixes)})
	case otherFullPool.MatchString(words):
		a.Fixes = textFixes("end Pods of node " + in.Pod.Spec.NodeName + " or place this one on another, or give the " +
			"node's network plugin a greater range of addresses")
	case userNamespaces.MatchString(words) && in.Pod.Spec.HostUsers != nil && !*in.Pod.Spec.HostUsers:
		ownUsersFailed(a, in, words)
	case networkWords.MatchString(words):
		a.Fixes = textFixes("see that the Pod network's plugin runs on node " + in.Pod.Spec.NodeName +
			", and read what it says; its configuration lies where --cni-conf-dir points")
	default:
		a.Fixes = textFixes("mend what the runtime of node " + in.Pod.Spec.NodeName + " names")
	}
	return a
}

// handlerMissing explains a RuntimeClass whose handler the node's runtime does not have.
func handlerMissing(a *Answer, in In, handler string) {
	name := ""
	if n := in.Pod.Spec.RuntimeClassName; n != nil {
		name = *n
	}
	var have []string
	if in.Node != nil {
		for _, h := range in.Node.Status.RuntimeHandlers {
			if h.Name != "" {
				have = append(have, h.Name)
			}
		}
	}
	a.Cause = fmt.Sprintf("The Pod's sandbox cannot be made: its RuntimeClass %s (spec.runtimeClassName) asks for "+
		"handler %s, and the container runtime of node %s has none of that name.", name, handler, in.Pod.Spec.NodeName)
	f := finding.Finding{Code: "HandlerUnknown", Stage: finding.StageNode, Object: finding.Object{Kind: "RuntimeClass",
		Name: name}, Field: "handler", Value: handler, Related: []finding.Object{in.object()}}
	if len(have) > 0 {
		a.Cause += fmt.Sprintf(" It has %s.", joinList(have))
	}
	fixes := []Fix{editedPodFix(in, "let it run with the runtime's default handler: without runtimeClassName",
		func(s *corev1.PodSpec) { s.RuntimeClassName, s.Overhead = nil, nil })}
	if in.Objects != nil {
		if near, how := finding.Near(handler, have); near != "" {
			f.Want = near
			a.Cause += fmt.Sprintf(" Perhaps %s was meant; %s.", near, how)
		}
		if _, ok := in.Objects.Get(f.Object).(*nodev1.RuntimeClass); ok && f.Want != "" {
			fixes = append(fixes, Fix{Description: fmt.Sprintf("or make RuntimeClass %s anew with handler %s: a "+
				"handler cannot be changed", name, f.Want)})
		}
	}
	a.Fixes = append(fixes, Fix{Description: fmt.Sprintf("or configure handler %s in the container runtime of node %s",
		handler, in.Pod.Spec.NodeName)})
	f.Message, f.Remedies = a.Cause, asRemedies(a.Fixes)
	a.Findings = append(a.Findings, f)
}

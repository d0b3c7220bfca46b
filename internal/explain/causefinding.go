package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	nodeutil "github.com/gantry-project/gantry/internal/node"
)

// hasBroken reports whether one of findings hinders now.
func hasBroken(list []finding.Finding) bool {
	return slices.ContainsFunc(list, func(f finding.Finding) bool { return f.Severity == finding.Broken })
}

// kubeletEvents are reasons of events in which a kubelet says what it could not do for a Pod.
var kubeletEvents = []string{"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox",
	"FailedPostStartHook", "FailedPreStopHook", "Failed", "FailedBinding", "ProvisioningFailed",
	"FailedPrepareDynamicResources"}

// underWay are rows of causes whose answers, in themselves, name nothing that is wrong.
var underWay = []string{"ready", "starting", "initialising", "gone", "terminating", "preempted"}

// causeFinding is an answer's cause as a finding, where no other finding says what hinders: the
// field that the cause, or what components said of the Pod, quotes; with the answer's remedies.
func causeFinding(in In, a Answer, have []finding.Finding) []finding.Finding {
	if f, ok := orderFinding(in, a); ok {
		return []finding.Finding{f}
	}
	if a.Cause == "" || slices.Contains(healthy, a.State) || hasBroken(have) || slices.Contains(underWay, a.Code) ||
		a.State == "Succeeded" || quotesMissingReference(a, have) {
		return nil
	}
	f := finding.Finding{Code: "Hindered", Severity: severityOfCause(in, a.Code, a.Cause), Stage: stageOf(a.Code),
		Object: in.object(), Message: a.Cause, Remedies: asRemedies(a.Fixes)}
	if in.Node != nil && (a.Code == "node lost" || strings.HasPrefix(a.Cause, "Node "+in.Node.Name)) {
		f.Object, f.Related = finding.Object{Kind: "Node", Name: in.Node.Name}, []finding.Object{in.object()}
		f.Field, f.Value = nodeField(in.Node)
		return []finding.Finding{f}
	}
	if in.Pod == nil {
		return []finding.Finding{f}
	}
	f.Field, f.Value = "spec", ""
	words := a.Cause + "\n" + strings.Join(a.Facts, "\n")
	for i := range in.Events {
		if slices.Contains(kubeletEvents, in.Events[i].Reason) {
			words += "\n" + in.Events[i].Message
		}
	}
	if field, value, ok := finding.Quoted(podParts(in.Pod), "spec", words); ok {
		f.Field, f.Value = field, value
		return []finding.Finding{f}
	}
	for _, c := range containers(in.Pod) {
		if field, value, _ := wordsField(in, c, pathOf(in.Pod, c), words); field != "" {
			f.Field, f.Value = field, value
			break
		}
	}
	return []finding.Finding{f}
}

// quotesMissingReference reports whether the cause quotes a reference that is missing, which has a
// finding.
func quotesMissingReference(a Answer, have []finding.Finding) bool {
	return slices.ContainsFunc(have, func(f finding.Finding) bool {
		return f.Code == "ReferenceMissing" && f.Severity <= finding.Threat && len(f.Value) > 3 &&
			strings.Contains(a.Cause, f.Value)
	})
}

// Times before which what an answer names may pass by itself: of a Pod that was just made, and of
// causes that are often only slow.
const (
	startTime = 15 * time.Second
	slowTime  = 2 * time.Minute
)

// severityOfCause is how bad a cause is that no rule has found: what may still pass by itself is a
// note.
func severityOfCause(in In, code, cause string) finding.Severity {
	if in.Pod == nil {
		return finding.Note
	}
	age := in.Now.Sub(in.Pod.CreationTimestamp.Time)
	slow := slices.Contains([]string{"not ready", "hook", "volume", "unscheduled", "stuck"}, code) &&
		!strings.Contains(cause, "hostPath type check failed")
	switch {
	case age < startTime, slow && age < slowTime:
		return finding.Note
	case slow:
		return finding.Threat
	}
	return finding.Broken
}

// hindering are states of objects other than Pods in which something hinders them.
var hindering = []string{withoutPods, "short of Pods", "without Jobs", "without endpoints", "Failed", "not reached",
	"sometimes not reached",
	"not Ready", "Terminating", "without an address"}

// subjectFinding is the cause of an answer about another object as a finding, where there is no
// other.
func subjectFinding(s Subject, a Answer, have []finding.Finding) []finding.Finding {
	if a.Cause == "" || len(have) > 0 || !slices.Contains(hindering, a.State) {
		return nil
	}
	f := finding.Finding{Code: "Hindered", Severity: finding.Threat, Object: s.object(), Field: "spec",
		Message:  a.Cause,
		Remedies: asRemedies(a.Fixes)}
	if m, ok := s.Object.(metav1.Object); ok && s.Now.Sub(m.GetCreationTimestamp().Time) < slowTime {
		f.Severity = finding.Note
	}
	return []finding.Finding{f}
}

// stageOf is where in a Pod's life a row of causes hinders it.
func stageOf(code string) finding.Stage {
	switch code {
	case "gated", "gang", "pod group":
		return finding.StageCreation
	case "claimless":
		return finding.StageReference
	case "unscheduled":
		return finding.StagePlacement
	case "node lost", "sandbox", "stuck":
		return finding.StageNode
	case "driver", "volume":
		return finding.StageVolume
	case "image":
		return finding.StageImage
	case "terminating", "gone", "preempted", "eviction":
		return finding.StageChange
	case "not ready", "door":
		return finding.StageTraffic
	}
	return finding.StageRun
}

// nodeField is the condition by which a node is not ready.
func nodeField(n *corev1.Node) (field, value string) {
	if c := nodeutil.NotReadyCondition(n); c != nil {
		return "status.conditions[Ready]", c.Reason
	}
	return "spec", n.Name
}

// failedFinding joins the words with which a Pod was failed with the field of its spec that they
// are about. Without such a field the reason itself is told.
func failedFinding(in In) (finding.Finding, bool) {
	p := in.Pod
	if p == nil || p.Status.Phase != corev1.PodFailed || p.Status.Reason == "" {
		return finding.Finding{}, false
	}
	f := finding.Finding{Code: p.Status.Reason, Stage: finding.StageRun, Object: in.object(), Field: "status.reason",
		Value: p.Status.Reason, Message: p.Status.Message}
	resource, short := strings.CutPrefix(p.Status.Reason, "OutOf")
	switch d := p.Spec.ActiveDeadlineSeconds; {
	case p.Status.Reason == "DeadlineExceeded" && d != nil:
		f.Field, f.Value = "spec.activeDeadlineSeconds", fmt.Sprint(*d)
		f.Numbers = map[string]string{"activeDeadlineSeconds": f.Value}
		f.Want = fmt.Sprint(10 * *d)
		f.Message = fmt.Sprintf("The Pod ran longer than its activeDeadlineSeconds of %d and was ended.", *d) +
			usedByInit(p)
		f.Remedies = asRemedies([]Fix{editedPodFix(in, fmt.Sprintf("make it anew with more time: "+
			"activeDeadlineSeconds %s", f.Want), func(s *corev1.PodSpec) {
			longer := 10 * *d
			s.ActiveDeadlineSeconds = &longer
			if whatif.OwnerOf(p).Kind == "" {
				s.NodeName = "" // the scheduler looks for room again
			}
		})})
		return f, true
	case short && resource != "":
		describeShortage(in, &f, resource)
		return f, true
	case p.Status.Reason == "NodeAffinity" || p.Status.Reason == "NodeName":
		j := labelsRefusal(In{Pod: p, ClusterContext: &ClusterContext{Nodes: nodesOf(in)}}, refusalOf(p.Spec.NodeName))
		f.Field, f.Value, f.Want = j.field, j.value, j.want
		return f, true
	}
	words := p.Status.Message
	for i, v := range p.Spec.Volumes {
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && strings.Contains(words, fmt.Sprintf("%q", v.Name)) {
			f.Field, f.Value = fmt.Sprintf("spec.volumes[%d].emptyDir.sizeLimit", i), v.EmptyDir.SizeLimit.String()
			return f, true
		}
	}
	for _, c := range containers(p) {
		q, limited := c.spec.Resources.Limits[corev1.ResourceEphemeralStorage]
		if limited && strings.Contains(words, "ephemeral") && (strings.Contains(words, "exceeds the total limit") ||
			strings.Contains(words, c.spec.Name)) {
			f.Field, f.Value = pathOf(p, c)+".resources.limits.ephemeral-storage", q.String()
			return f, true
		}
	}
	if field, value, ok := finding.Quoted(p.Spec, "spec", words); ok && (!strings.HasSuffix(field, "].name") ||
		strings.Contains(field, "sysctls")) {
		f.Field, f.Value = field, value
	}
	namedRefusal(in, &f)
	return f, true
}

// overWords are how a kubelet says that a Pod asks for more than its node has.
var overWords = regexp.MustCompile(`requested: (\d+), used: (\d+), capacity: (\d+)`)

// describeShortage is the request by which a kubelet refused a Pod, with the node's numbers: the
// Pod was bound past the scheduler, or something else came first.
func describeShortage(in In, f *finding.Finding, resource string) {
	p := in.Pod
	f.Field = requestField(p, resource)
	m := overWords.FindStringSubmatch(f.Message)
	if m == nil {
		return
	}
	shown := func(s string) string {
		q, err := apiresource.ParseQuantity(s)
		if err != nil {
			return s
		}
		if resource == string(corev1.ResourceCPU) {
			return apiresource.NewMilliQuantity(q.Value(), apiresource.DecimalSI).String()
		}
		return amount(resource, q.Value())
	}
	f.Value = shown(m[1])
	f.Numbers = map[string]string{"requested": f.Value, "used": shown(m[2]), "capacity": shown(m[3])}
	node := finding.Object{Kind: "Node", Name: p.Spec.NodeName}
	if resource == string(corev1.ResourcePods) {
		f.Related = append(f.Related, f.Object)
		f.Object, f.Field, f.Value = node, "status.allocatable.pods", m[3]
		f.Message = fmt.Sprintf("Node %s takes no more Pods: it has %s, and %s are allowed (maxPods of its kubelet).",
			node.Name, m[2], m[3])
		f.Remedies = []finding.Remedy{{Say: "delete Pods of node " + node.Name + ", or let the scheduler choose " +
			"another: make the Pod anew without spec.nodeName", Run: []string{
			"kubectl get pods -A --field-selector spec.nodeName=" + node.Name}}}
		return
	}
	f.Related = append(f.Related, node)
	f.Message = fmt.Sprintf("Node %s refused the Pod (%s): it requests %s of %s, and of the node's %s %s are taken.",
		node.Name, f.Code, f.Value, resource, shown(m[3]), shown(m[2]))
	f.Message += pastScheduler(in)
	f.Remedies = append(asRemedies(smallerRequest(in, resource, m)), asRemedies([]Fix{placedByScheduler(in)})...)
}

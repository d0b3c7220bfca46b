package explain

import (
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/trace/packet"
)

// In is what an answer is made from. Pod is nil when it is gone; Entries are those of its last
// life, oldest first.
type In struct {
	Now              time.Time
	Ref              journal.Ref
	Pod              *corev1.Pod
	Node             *corev1.Node // the node it is bound to, nil when unbound or gone
	Entries          []journal.Entry
	Events           []corev1.Event
	ClusterContext   *ClusterContext   // what is around it; nil when the caller may not see it
	NamespaceContext *NamespaceContext // of its namespace; nil when the caller may not see it
	// names of images that the runtime of the Pod's node has, beside those of its status; nil: not
	// asked
	Images   []string
	LastLogs map[string]string // the last lines of containers that ended otherwise than with 0, by name
	Objects  *finding.Cluster  // what the Pod may depend on; nil: not read
	Drivers  *Drivers          // CSI drivers of the Pod's node; nil: not known
	// how many processes the kernel killed for want of memory in containers that run, by container;
	// nil: not known
	Kills map[string]uint64
	// what packets of the Pod meet; nil: not read, as no container names an address
	PacketState *packet.ClusterState
	// the API server keeps no journal: Entries are those of FactsOfEvents
	NoJournal bool
}

// ClusterContext is the cluster a Pod is placed in, as far as the caller may see it.
type ClusterContext struct {
	Nodes   []*corev1.Node
	Pods    []*corev1.Pod
	Classes []*schedulingv1.PriorityClass
	// the scheduler's own plugins; nil: nothing can be tried
	Plugins *schedule.PluginSet
	// the same when some Pods are gone and their devices free; nil: not known
	WithoutPods func(deletedPods map[types.UID]bool) *schedule.PluginSet
	Groups      Groups // read when the Pod is a member of one
	// podPidsLimit of the kubelet of the Pod's node, read when its containers speak of it; 0: not
	// known
	ProcessLimit int64
}

// pod finds a Pod around.
func (c *ClusterContext) pod(namespace, name string) *corev1.Pod {
	if c == nil {
		return nil
	}
	for _, p := range c.Pods {
		if p.Namespace == namespace && p.Name == name {
			return p
		}
	}
	return nil
}

// node finds a node around.
func (c *ClusterContext) node(name string) *corev1.Node {
	if c == nil {
		return nil
	}
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Answer is why an object is as it is.
type Answer struct {
	Subject string    `json:"subject"`
	State   string    `json:"state"`           // one word or two: Pending, CrashLoopBackOff, Ready, …
	Code    string    `json:"code,omitempty"`  // the row of causes that answered
	Cause   string    `json:"cause"`           // a sentence or two
	Since   time.Time `json:"since,omitzero"`  // since when
	Facts   []string  `json:"facts,omitempty"` // evidence with numbers
	Next    string    `json:"next,omitempty"`  // what happens by itself
	Fixes   []Fix     `json:"fixes,omitempty"` // what a person can do, nearest first
	// what is wrong, as data: objects, fields, numbers, remedies; in the order of what to mend
	// first
	Findings []finding.Finding `json:"findings,omitempty"`
	// what could not be read, with the error: the answer was made without it
	Unread []string `json:"unread,omitempty"`

	refusals []journal.NodeRefusal // of nodes, that the cause is made from
	also     []finding.Finding     // those of Findings that cause and facts do not name
	// where the cause says only what has not happened yet: the stages of the findings that say why
	causedAt []finding.Stage
	// a Job was ended before a node was found for its Pod
	unplaced bool
	// names a cause that others than this Pod may suffer from, such as a registry; empty: none
	shared string
}

// Fix is one thing a person can do.
type Fix struct {
	Description string   `json:"say"`
	Run         []string `json:"run,omitempty"` // shell commands that do it, in order
	// what to set in the scheduler's configuration before, as YAML
	Config string `json:"config,omitempty"`
	// what to change in a manifest before it is applied anew: for what is past
	ManifestChange *ManifestChange `json:"amend,omitempty"`
	// tried on an edited copy of the cluster with the scheduler's own plugins
	Proven bool `json:"proven,omitempty"`

	// the object of which gantry why says the reason; nil: the commands lead to none
	See *finding.Object `json:"see,omitempty"`

	nodeLabels []string // key=value, that it changes in the Pod's nodeSelector
}

// ManifestChange is a change of an object's manifest.
type ManifestChange struct {
	Object string `json:"object"` // kind/name, with " -n namespace" when that is not default
	Type   string `json:"type"`   // of the patch: strategic or merge
	Patch  string `json:"patch"`  // JSON
}

// manifestFix is a fix of something that is past: the object has to be made with another manifest.
func manifestFix(say, object, patch string) Fix {
	return Fix{Description: say, ManifestChange: &ManifestChange{Object: object, Type: "strategic", Patch: patch}}
}

// commandFix is a fix with the command that does it.
func commandFix(say string, run ...string) Fix { return Fix{Description: say, Run: run} }

// seeWhy is a fix that leads to an object: what is wrong with that is the reason.
func seeWhy(say, kind, namespace, name string) Fix {
	return remedies([]finding.Remedy{finding.SeeWhy(say, finding.Object{Kind: kind, Namespace: namespace,
		Name: name})})[0]
}

// provenFix is a remedy that was tried.
func provenFix(r whatif.Remedy) Fix {
	return Fix{Description: r.Description, Run: r.Run, Proven: true, nodeLabels: r.NodeLabels}
}

// textFixes are fixes in words only.
func textFixes(texts ...string) []Fix {
	out := make([]Fix, len(texts))
	for i, t := range texts {
		out[i] = Fix{Description: t}
	}
	return out
}

// cause looks for one kind of blocker and returns nil when it is not that.
type cause struct {
	name string
	find func(In) *Answer
}

// causes in the order they are asked; the first answer wins, so the more final ones come first.
var causes = []cause{
	{"preempted", preempted},
	{"manifest refused", manifestRefused},
	{"gone", deletedPod},
	{"terminating", terminating},
	{"overfull", localStorageExceeded},
	{"ended", finishedPod},
	{"eviction", evictionRefused},
	{"gated", schedulingGated},
	{"gang", coschedulingGroup},
	{"pod group", podGroup},
	{"claimless", claimsMissing},
	{"unscheduled", unscheduled},
	{"node lost", nodeUnreachableFor},
	{"driver", driverSilent},
	{"volume", volumesWaiting},
	{"hook", postStartRunning},
	{"hook failed", hookFailed},
	{"stuck", kubeletBlocked},
	{"sandbox", sandboxFailed},
	{"image", imagePullFailed},
	{"configuration", configFailed},
	{"crashing", crashLoop},
	{"stopping", stopping},
	{"restarted", restarted},
	{"initialising", initContainersRunning},
	{"starting", starting},
	{"partly done", partlyDone},
	{"not ready", notReady},
	{"door", portForwardRefused},
	{"ready", ready},
}

// Why names the blocker.
func Why(in In) Answer {
	for _, c := range causes {
		if a := c.find(in); a != nil {
			a.Subject, a.Code = fmt.Sprintf("pod/%s in %s", in.Ref.Name, in.Ref.Namespace), c.name
			afterObstacle(in, a)
			told, more := podFindings(in, *a)
			return withLateProbe(in, withFindings(*a, told, more))
		}
	}
	return Answer{Subject: "pod/" + in.Ref.Name, State: "Unknown",
		Cause: "Nothing is known about this Pod: it is not in the API and the journal holds nothing of it.",
		Fixes: []Fix{commandFix("check name and namespace", "kubectl get pods -A")}}
}

// WriteText prints the answer for a person.
func (a Answer) WriteText(w io.Writer, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s", a.Subject, a.State)
	if !a.Since.IsZero() {
		fmt.Fprintf(&b, ", since %s ago", ago(now.Sub(a.Since)))
	}
	fmt.Fprintf(&b, "\n\n%s\n", a.Cause)
	for _, f := range a.Facts {
		fmt.Fprintf(&b, "  · %s\n", f)
	}
	if len(a.also) > 0 {
		b.WriteString("\nAlso wrong, in the order of what to mend first:\n")
		for _, f := range a.also {
			fmt.Fprintf(&b, "  · %s\n", f.Message)
		}
	}
	if len(a.Unread) > 0 {
		b.WriteString("\nThis could not be read, so the answer does without it:\n")
		for _, text := range a.Unread {
			fmt.Fprintf(&b, "  · %s\n", text)
		}
	}
	if a.Next != "" {
		fmt.Fprintf(&b, "\nNext: %s\n", a.Next)
	}
	writeFixes(&b, a.Fixes)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFixes prints what a person can do.
func writeFixes(b *strings.Builder, fixes []Fix) {
	if len(fixes) > 0 {
		b.WriteString("\nWhat you can do:\n")
		for i, f := range fixes {
			if i == 0 {
				f.Description = strings.TrimPrefix(f.Description, "or ")
			}
			proven := ""
			if f.Proven {
				proven = " (proven)"
			}
			fmt.Fprintf(b, "  → %s%s\n", f.Description, proven)
			if f.Config != "" {
				fmt.Fprintf(b,
					"      # in the file given to --config of the scheduler, or --scheduler-config of gantry up; then "+
						"start it anew\n      %s\n", strings.ReplaceAll(strings.TrimSpace(f.Config), "\n", "\n      "))
			}
			if f.ManifestChange != nil {
				fmt.Fprintf(b, "      in the manifest of %s: %s\n", f.ManifestChange.Object, f.ManifestChange.Patch)
			}
			for _, run := range f.Run {
				fmt.Fprintf(b, "      $ %s\n", run)
			}
		}
	}
}

// ago prints a duration with what is certain of it: whole seconds below an hour, whole minutes
// below a day. Nothing that prints as 0s after minutes was rounded away.
func ago(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 24*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// newest returns the last fact of type F that accept likes, with its time.
func newest[F journal.Fact](in In, accept func(F) bool) (F, time.Time, bool) {
	for i := len(in.Entries) - 1; i >= 0; i-- {
		if f, ok := in.Entries[i].Fact.(F); ok && (accept == nil || accept(f)) {
			return f, in.Entries[i].At, true
		}
	}
	var none F
	return none, time.Time{}, false
}

// container is one container with its spec and status.
type container struct {
	spec   *corev1.Container
	status *corev1.ContainerStatus
	init   bool
}

// title names the container at the beginning of a sentence, with what it is.
func (c container) title() string {
	switch {
	case c.init && pod.IsSidecar(c.spec):
		return "Sidecar container " + c.spec.Name
	case c.init:
		return "Init container " + c.spec.Name
	}
	return "Container " + c.spec.Name
}

// blockedContainers is a sentence, with a space before it, about what is not started before an init
// container has succeeded or a sidecar has started; empty where nothing waits.
func (c container) blockedContainers(in In) string {
	if !c.init || c.status != nil && c.status.Started != nil && *c.status.Started && pod.IsSidecar(c.spec) {
		return ""
	}
	var after []string
	behind := false
	for _, x := range in.Pod.Spec.InitContainers {
		if behind {
			after = append(after, x.Name)
		}
		behind = behind || x.Name == c.spec.Name
	}
	for _, x := range in.Pod.Spec.Containers {
		after = append(after, x.Name)
	}
	until := "has succeeded"
	if pod.IsSidecar(c.spec) {
		until = "has started"
	}
	return fmt.Sprintf(" Everything after it waits until it %s: %s.", until, joinList(after))
}

// containers returns init containers first, each with its status if there is one.
func containers(p *corev1.Pod) []container {
	var out []container
	add := func(specs []corev1.Container, statuses []corev1.ContainerStatus, init bool) {
		for i := range specs {
			c := container{spec: &specs[i], init: init}
			for j := range statuses {
				if statuses[j].Name == specs[i].Name {
					c.status = &statuses[j]
				}
			}
			out = append(out, c)
		}
	}
	add(p.Spec.InitContainers, p.Status.InitContainerStatuses, true)
	add(p.Spec.Containers, p.Status.ContainerStatuses, false)
	return out
}

func (c container) waiting() *corev1.ContainerStateWaiting {
	if c.status == nil {
		return nil
	}
	return c.status.State.Waiting
}

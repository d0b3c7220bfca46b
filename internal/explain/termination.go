package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
	nodeutil "github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// deletedPod explains how a Pod ended that is no longer in the API.
func deletedPod(in In) *Answer {
	if in.Pod != nil || len(in.Entries) == 0 {
		return nil
	}
	a := &Answer{State: "gone", Since: in.Entries[len(in.Entries)-1].At}
	requested, _, wasAsked := newest[journal.Deleting](in, nil)
	acted, _, byController := newest[journal.Acted](in, func(f journal.Acted) bool {
		return strings.Contains(f.Action, "delet") || strings.Contains(f.Action, "remov")
	})
	switch {
	case byController:
		a.Cause = fmt.Sprintf("The Pod was deleted by %s: %s.", acted.Controller, acted.Message)
	case wasAsked:
		a.Cause = fmt.Sprintf("The Pod was deleted by %s with a grace period of %ds.", requested.User, requested.Grace)
	default:
		a.Cause = "The Pod is no longer in the API; the journal does not hold who removed it."
	}
	if in.NoJournal && !byController {
		a.Cause = "The Pod is no longer in the API; who removed it is not known without a journal."
	}
	if f, ok := deletionFinding(in); ok {
		a.Cause += " " + f.Message
		a.Findings = append(a.Findings, f)
	}
	if exit, _, ok := newest[journal.ContainerExited](in, nil); ok {
		a.Facts = append(a.Facts, exit.Line())
	}
	if result, _, ok := newest[journal.Ruled](in, func(r journal.Ruled) bool { return r.Winner == "" }); ok {
		if _, _, bound := newest[journal.Bound](in, nil); !bound {
			a.Facts = append(a.Facts, "it was never placed: "+result.Message)
		}
	}
	if why, _, ok := newest[journal.PullFailed](in, nil); ok {
		if _, _, started := newest[journal.ContainerStarted](in, nil); !started {
			a.Facts = append(a.Facts, why.Line())
		}
	}
	withEnd(in, a)
	if in.NoJournal {
		return a
	}
	a.Fixes = append(a.Fixes, commandFix("read its whole life", fmt.Sprintf("gantry trace pod/%s -n %s", in.Ref.Name,
		in.Ref.Namespace)))
	return a
}

func terminating(in In) *Answer {
	p := in.Pod
	if p == nil || p.DeletionTimestamp == nil {
		return nil
	}
	a := &Answer{State: "Terminating", Since: p.DeletionTimestamp.Time}
	if g := p.DeletionGracePeriodSeconds; g != nil {
		a.Since = p.DeletionTimestamp.Add(-secondsOf(*g))
	}
	if in.NoJournal {
		a.Facts = append(a.Facts, removalReason(p))
	}
	var running []container
	for _, c := range containers(p) {
		if c.status != nil && c.status.State.Running != nil {
			running = append(running, c)
		}
	}
	switch {
	case len(p.Finalizers) > 0 && nodeDeletedAfterEnd(in):
		heldByFinalizers(a, in)
	case in.Node == nil && p.Spec.NodeName != "":
		a.Cause = fmt.Sprintf("The Pod waits for its kubelet to confirm the end of its containers, but node %s does "+
			"not exist any more.", p.Spec.NodeName)
		a.Next = "the Pod is removed when the node has been missing for 40 s"
		a.Fixes = []Fix{forceDelete(in)}
	case nodeUnreachable(in.Node):
		a.Cause = fmt.Sprintf("The Pod waits for the kubelet of node %s to confirm the end of its containers, and "+
			"that node is not ready.", in.Node.Name)
		a.Cause += deletedByTaint(in) + replacedAfterwards(p)
		a.Next = "it ends when the node answers again"
		a.Fixes = []Fix{outOfService(in.Node.Name), {Description: "or mend the node: its kubelet then ends the Pod"},
			forceDelete(in)}
	case kubeletBlocked(in) != nil:
		return kubeletBlocked(in)
	case len(running) > 0:
		terminatingContainers(a, in, running)
	case len(p.Finalizers) > 0:
		heldByFinalizers(a, in)
	default:
		a.Cause = "Its containers have ended; the kubelet releases volumes and cgroups and then removes the object."
		if w, at, ok := newest[journal.Waiting](in, nil); ok && !at.Before(a.Since) {
			a.Cause = fmt.Sprintf("Its containers have ended, and the kubelet cannot release what the Pod had on "+
				"node %s: it waits for %s, for %s now.", p.Spec.NodeName, w.For, ago(in.Now.Sub(w.Since)))
			a.Next = w.Next
			if w.Fix != "" {
				a.Fixes = textFixes(w.Fix)
			}
		}
	}
	return a
}

// removalReason is why a Pod is being deleted as far as its status tells: its DisruptionTarget
// condition.
func removalReason(p *corev1.Pod) string {
	if c := pod.Condition(p, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		return fmt.Sprintf("it is deleted for %s: %s", c.Reason, c.Message)
	}
	return "who deleted it is not known without a journal"
}

// nodeDeletedAfterEnd reports whether no kubelet needs to confirm the Pod's end: its node is gone,
// and the end was recorded before.
func nodeDeletedAfterEnd(in In) bool {
	ended := pod.IsTerminal(in.Pod)
	return ended && in.Node == nil && in.Pod.Spec.NodeName != ""
}

// heldByFinalizers explains an object that only finalizers keep: who deleted it, and who should
// remove them.
func heldByFinalizers(a *Answer, in In) {
	p := in.Pod
	why := "Its containers have ended"
	if in.Node == nil && p.Spec.NodeName != "" {
		why = fmt.Sprintf("Its node %s no longer exists", p.Spec.NodeName)
		if c := pod.Condition(p, corev1.DisruptionTarget); c != nil && c.Reason == "DeletionByPodGC" {
			why += "; Pod garbage collection saw that, marked the Pod Failed (DisruptionTarget, DeletionByPodGC) and " +
				"deleted it"
		}
	}
	a.Cause = fmt.Sprintf("%s; the object stays because of its finalizers: %s. Whoever set them has to remove them.",
		why, strings.Join(p.Finalizers, ", "))
	if p.DeletionTimestamp != nil {
		at := p.DeletionTimestamp.Add(-pod.DeletionGracePeriod(p))
		a.Facts = append(a.Facts, fmt.Sprintf("deleted %s ago, at %s", ago(in.Now.Sub(at)),
			at.UTC().Format("15:04:05 UTC")))
	}
	a.Cause += replacedAfterwards(p)
	foreign := finding.ForeignFinalizers(p.Finalizers)
	if len(foreign) == 0 {
		a.Cause = fmt.Sprintf("%s; the object stays until the controllers of Kubernetes that set its finalizers have "+
			"done their part: %s.", why, strings.Join(p.Finalizers, ", "))
		a.Next = "they remove them within seconds; when it takes longer, kube-controller-manager does not work"
		return
	}
	kept := "null"
	if own := slices.DeleteFunc(slices.Clone(p.Finalizers), func(s string) bool {
		return slices.Contains(foreign, s)
	}); len(own) > 0 {
		kept = `["` + strings.Join(own, `","`) + `"]`
	}
	a.Fixes = []Fix{commandFix("start or mend the controller that owns " + foreign[0]),
		commandFix("if it will never come back, remove the finalizer",
			fmt.Sprintf(`kubectl -n %s patch pod %s --type=merge -p '{"metadata":{"finalizers":%s}}'`, p.Namespace,
				p.Name, kept))}
}

// replacedAfterwards says who makes a Pod of the same name once this one is gone, with a space
// before; empty where nobody does.
func replacedAfterwards(p *corev1.Pod) string {
	if o := metav1.GetControllerOf(p); o != nil && o.Kind == "StatefulSet" {
		return fmt.Sprintf(" StatefulSet %s cannot make a new %s until this one is gone.", o.Name, p.Name)
	}
	return ""
}

// deletedByTaint says, with a space before, that a taint of its node ended a Pod, and for how long
// the Pod tolerates it; empty where the Pod was deleted for another reason.
func deletedByTaint(in In) string {
	c := pod.Condition(in.Pod, corev1.DisruptionTarget)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason != "DeletionByTaintManager" {
		return ""
	}
	for i := range in.Node.Spec.Taints {
		t := &in.Node.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		for j := range in.Pod.Spec.Tolerations {
			x := &in.Pod.Spec.Tolerations[j]
			if fit.Tolerates([]corev1.Toleration{*x}, t) && x.TolerationSeconds != nil {
				return fmt.Sprintf(" It was deleted because of the node's taint %s, which it tolerates for %d s "+
					"(spec.tolerations[%d].tolerationSeconds).", t.ToString(), *x.TolerationSeconds, j)
			}
		}
		if !fit.Tolerates(in.Pod.Spec.Tolerations, t) {
			return fmt.Sprintf(" It was deleted because of the node's taint %s, which it does not tolerate.",
				t.ToString())
		}
	}
	return " It was deleted because of a taint of the node."
}

// outOfService tells the cluster that a machine is off, so that its Pods start elsewhere.
func outOfService(node string) Fix {
	return commandFix("when the machine is surely off, say so: its Pods are then taken away and start elsewhere; "+
		"never while it may run, as two of them could write to one volume",
		fmt.Sprintf("kubectl taint node %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute", node))
}

func forceDelete(in In) Fix {
	return commandFix("only when its processes have surely ended, take the object away",
		fmt.Sprintf("kubectl -n %s delete pod %s --grace-period=0 --force", in.Ref.Namespace, in.Ref.Name))
}

func nodeUnreachable(n *corev1.Node) bool {
	return n != nil && nodeutil.NotReadyCondition(n) != nil
}

// times says how often.
func times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// finishedPod explains a Pod that succeeded or failed.
func finishedPod(in In) *Answer {
	p := in.Pod
	if p == nil || !pod.IsTerminal(p) {
		return nil
	}
	a := &Answer{State: string(p.Status.Phase)}
	if p.Status.Phase == corev1.PodSucceeded {
		a.Cause = "All its containers ended with exit code 0, and its restart policy does not start them again: the " +
			"Pod has finished (Succeeded), and nothing is wrong."
		for _, c := range containers(p) {
			if c.status == nil || c.status.RestartCount == 0 {
				continue
			}
			text := fmt.Sprintf("%s was restarted %s before", c.title(), times(c.status.RestartCount))
			if t := c.status.LastTerminationState.Terminated; t != nil {
				text += ": the run before the last ended with " + exitText(c, t)
			}
			a.Facts = append(a.Facts, text)
		}
		return a
	}
	if p.Status.Reason != "" {
		a.State = "Failed (" + p.Status.Reason + ")"
		a.Cause = p.Status.Message
		if d := p.Spec.ActiveDeadlineSeconds; d != nil && p.Status.Reason == "DeadlineExceeded" {
			a.Cause = fmt.Sprintf("The Pod ran longer than its activeDeadlineSeconds of %d and was ended: %s.", *d,
				strings.TrimSuffix(p.Status.Message, ".")) + usedByInit(p)
			if f, ok := failedFinding(in); ok {
				a.Fixes = append(a.Fixes, remedies(f.Remedies)...)
			}
		}
		if c := pod.Condition(p, corev1.DisruptionTarget); c != nil {
			a.Facts = append(a.Facts, fmt.Sprintf("%s: %s", c.Reason, c.Message))
		}
		refusedByKubelet(a, in)
		return a
	}
	for _, c := range containers(p) {
		if c.status != nil && c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode != 0 &&
			!sidecarEndedWithPod(p, c, c.status.State.Terminated) {
			t := c.status.State.Terminated
			a.Since = t.FinishedAt.Time
			if m := memoryStateOf(in, c, t); m.oomKilled {
				a.Cause = fmt.Sprintf("Container %s ended: %s. Restart policy %s does not start it again.", c.spec.Name,
					oomText(in, c, t, m), p.Spec.RestartPolicy)
				a.Facts = append(a.Facts, memoryText(in, c)...)
			} else {
				a.Cause = fmt.Sprintf("Container %s ended: %s, and restart policy %s does not start it again.",
					c.spec.Name, exitText(c, t), p.Spec.RestartPolicy)
				causeInLogs(a, in, c, t)
			}
			a.Fixes = append(a.Fixes, exitFixes(in, c, t)...)
			return a
		}
	}
	a.Cause = "The Pod failed."
	return a
}

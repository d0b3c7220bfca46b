package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
)

// deadlineExceeded is the reason of a Job or Pod that activeDeadlineSeconds ended.
const deadlineExceeded = "DeadlineExceeded"

// endedBeforePlacing explains a Job that its deadline ended before a node was found for its Pod:
// what kept the Pod from a node is the reason, and more time is no remedy. The Job's template is
// placed on a copy of the cluster as it is now.
func (s Subject) endedBeforePlacing(a *Answer, j *batchv1.Job, c batchv1.JobCondition) bool {
	words, never := neverPlaced(s.WorstPod)
	if c.Reason != deadlineExceeded || j.Spec.ActiveDeadlineSeconds == nil || !never ||
		j.Status.Succeeded > 0 || len(s.Pods) > 0 {
		return false
	}
	a.unplaced = true
	a.Cause = fmt.Sprintf("The Job failed (%s): its activeDeadlineSeconds of %d ended it while its Pod %s had no node "+
		"and never ran.", c.Reason, *j.Spec.ActiveDeadlineSeconds, s.WorstPod.Ref.Name)
	a.Facts = append(a.Facts, "it was never placed: "+words)
	again := commandFix("make it anew", whatif.RecreateJobByJSON(s.Namespace, s.Name, "[]"))
	next := s.templateIn(j)
	if next.ClusterContext == nil || next.ClusterContext.Plugins == nil {
		a.Cause += " The scheduler said: " + strings.TrimSuffix(words, ".") + "."
		a.Fixes = append(a.Fixes, again)
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	defer cancel()
	found, refusals := whatif.FindRemedies(ctx, next.whatifInput())
	if len(refusals) == 0 {
		a.Cause += " Now a node fits: tried on a copy of the cluster."
		again.Proven = true
		a.Fixes = append(a.Fixes, again)
		return true
	}
	slices.SortStableFunc(refusals, compareRefusals)
	a.refusals = refusals
	a.Cause += " " + noNodeText(refusals, next)
	for _, r := range found {
		fix := provenFix(r)
		if !slices.ContainsFunc(r.Run, func(run string) bool { return strings.Contains(run, "replace --force") }) {
			fix.Run = append(slices.Clone(fix.Run), again.Run...) // of a cluster that has changed it is made anew
		}
		a.Fixes = append(a.Fixes, fix)
	}
	if len(found) == 0 {
		a.Fixes = append(a.Fixes, pluginHints(next, refusals)...)
	}
	return true
}

// neverPlaced reports whether no node was ever found for a Pod that is gone, with the scheduler's
// words.
func neverPlaced(in *In) (words string, never bool) {
	if in == nil || in.Pod != nil {
		return "", false
	}
	refused, _, tried := newest[journal.Ruled](*in, func(r journal.Ruled) bool { return r.Winner == "" })
	_, _, bound := newest[journal.Bound](*in, nil)
	return refused.Message, tried && !bound
}

// templateIn is the input of an answer about a Pod that a Job would make now.
func (s Subject) templateIn(j *batchv1.Job) In {
	p := &corev1.Pod{ObjectMeta: *j.Spec.Template.ObjectMeta.DeepCopy(), Spec: *j.Spec.Template.Spec.DeepCopy()}
	p.Namespace, p.Name, p.UID = s.Namespace, s.Name+"-", j.UID+"-next"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID,
		Controller: ptr.To(true)}}
	return In{Now: s.Now, Ref: journal.Ref{Namespace: p.Namespace, Name: p.Name}, Pod: p,
		ClusterContext: s.ClusterContext, NamespaceContext: s.NamespaceContext, Objects: s.Objects}
}

// withoutMoreTime takes the offer of more time out of findings where time was not what was missing.
func withoutMoreTime(a Answer, list []finding.Finding) []finding.Finding {
	if !a.unplaced {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		if list[i].Code == deadlineExceeded {
			list[i].Remedies = nil
		}
	}
	return list
}

package finding

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// adopted finds Pods that a controller counts and did not make: they had no controller, and their
// labels match its selector.
func adopted(c *Cluster, o metav1.Object, self Object) []Finding {
	var selector *metav1.LabelSelector
	switch x := o.(type) {
	case *batchv1.Job:
		if !ptr.Deref(x.Spec.ManualSelector, false) {
			return nil // it selects by a label of its own
		}
		selector = x.Spec.Selector
	case *appsv1.ReplicaSet:
		selector = x.Spec.Selector
	case *appsv1.DaemonSet:
		selector = x.Spec.Selector
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if selector == nil || err != nil {
		return nil
	}
	var taken, own []*corev1.Pod
	for _, p := range owned[*corev1.Pod](c, "Pod", o) {
		if strings.HasPrefix(p.GenerateName, self.Name+"-") { // as every controller names the Pods that it makes
			own = append(own, p)
		} else {
			taken = append(taken, p)
		}
	}
	if len(taken) == 0 {
		return nil
	}
	f := Finding{Code: "PodAdopted", Severity: Threat, Stage: StageControl, Object: self, Field: "spec.selector",
		Value: s.String(), Numbers: map[string]string{"taken": fmt.Sprint(len(taken)), "own": fmt.Sprint(len(own))}}
	var names []string
	for _, p := range taken {
		names = append(names, p.Name)
		f.Related = append(f.Related, objectOf("Pod", p))
	}
	f.Message = fmt.Sprintf("%s %s counts %s, which it did not make: it had no controller, and its labels match the "+
		"selector %s, so the controller took it for its own.", self.Kind, self.Name, podsNamed(names), s)
	if j, ok := o.(*batchv1.Job); ok {
		c.adoptedByJob(&f, j, len(own))
	}
	f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("let %s go: without the label it is nobody's again, "+
		"and the controller makes one of its own if it lacks one", podsNamed(names)), Run: released(taken, s)})
	return []Finding{f}
}

// podsNamed names Pods: "Pod a", "Pods a and b".
func podsNamed(names []string) string {
	if len(names) == 1 {
		return "Pod " + names[0]
	}
	return "Pods " + strings.Join(names, ", ")
}

// adoptedByJob tells what a Pod that a Job took means for its completions.
func (c *Cluster) adoptedByJob(f *Finding, j *batchv1.Job, own int) {
	completions := ptr.Deref(j.Spec.Completions, 1)
	f.Severity, f.Field, f.Value, f.Want = Broken, "spec.manualSelector", "true", "false"
	f.Numbers["completions"], f.Numbers["succeeded"] = fmt.Sprint(completions), fmt.Sprint(j.Status.Succeeded)
	f.Numbers["active"] = fmt.Sprint(j.Status.Active)
	f.Message += fmt.Sprintf(" It is manualSelector true (spec.manualSelector) that lets the Job select Pods by "+
		"labels of others: the taken one counts as one of its %d completions (%d succeeded, %d active).", completions,
		j.Status.Succeeded, j.Status.Active)
	if own == 0 {
		f.Message += " So none is made from its own template."
	}
	f.Remedies = []Remedy{{Say: "make the Job anew with a selector of its own (without manualSelector and " +
		"selector): the Pods that it has now are deleted with it", Run: []string{recreateJob(objectOf("Job", j),
		`{"spec":{"manualSelector":null}}`)}}}
}

// released are the commands that take the labels of a selector off Pods.
func released(pods []*corev1.Pod, s labels.Selector) []string {
	var out []string
	requirements, _ := s.Requirements()
	for _, p := range pods {
		for _, r := range requirements {
			if _, has := p.Labels[r.Key()]; has {
				out = append(out, kubectl(objectOf("Pod", p), "label", r.Key()+"-"))
				break
			}
		}
	}
	return slices.Compact(out)
}

// manualOverlap finds a Job that selects by labels which other objects' Pods have too.
func manualOverlap(c *Cluster, o metav1.Object, self Object) []Finding {
	j, ok := o.(*batchv1.Job)
	if !ok || !ptr.Deref(j.Spec.ManualSelector, false) {
		return nil
	}
	s, err := metav1.LabelSelectorAsSelector(j.Spec.Selector)
	if err != nil || s.Empty() {
		return nil
	}
	var out []Finding
	for _, kind := range []string{"Job", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"} {
		for _, x := range in[metav1.Object](c, kind, self.Namespace) {
			if x.GetUID() == o.GetUID() && x.GetName() == self.Name || metav1.GetControllerOf(x) != nil ||
				!s.Matches(labels.Set(labelsOfPods(x))) {
				continue
			}
			out = append(out, Finding{Code: "SelectorsOverlap", Severity: Threat, Stage: StageControl, Object: self,
				Field: "spec.manualSelector", Value: "true", Want: "false", Related: []Object{objectOf(kind, x)},
				Message: fmt.Sprintf("Job %s selects %s (manualSelector true), which the Pods of %s %s have too: "+
					"each may take Pods that have no controller for its own, and counts are "+
					"wrong.", self.Name, s, kind,
					x.GetName()), Remedies: []Remedy{{Say: "make the Job anew with a selector of its own: its Pods " +
					"are deleted with it", Run: []string{recreateJob(self, `{"spec":{"manualSelector":null}}`)}}}})
		}
	}
	return out
}

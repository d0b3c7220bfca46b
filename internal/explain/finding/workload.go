package finding

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

// workloadKinds make Pods.
var workloadKinds = []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"}

// podSpecOf returns the Pod's spec of a Pod or workload, and its path.
func podSpecOf(o metav1.Object) (*corev1.PodSpec, string) {
	if p, ok := o.(*corev1.Pod); ok {
		return &p.Spec, "spec"
	}
	w := workload.FieldsOf(o)
	if w.Template == nil {
		return nil, ""
	}
	return &w.Template.Spec, w.TemplatePath + ".spec"
}

// settleTime is how long a controller may take for a change before something is wrong.
const settleTime = 10 * time.Second

// notObserved finds a workload whose controller has not seen its newest spec.
func notObserved(c *Cluster, o metav1.Object, self Object) []Finding {
	seen := workload.FieldsOf(o).ObservedGeneration
	if seen == nil {
		return nil
	}
	observed := *seen
	if observed >= o.GetGeneration() || c.Now.Sub(lastWrite(o)) < settleTime {
		return nil
	}
	return []Finding{{Code: "ControllersIdle", Stage: StageControl, Object: self, Field: "status.observedGeneration",
		Value: fmt.Sprint(observed), Want: fmt.Sprint(o.GetGeneration()),
		Numbers: map[string]string{"generation": fmt.Sprint(o.GetGeneration()),
			"observedGeneration": fmt.Sprint(observed)},
		Message: fmt.Sprintf("No controller has looked at %s %s since it was changed: generation %d is written, and "+
			"observedGeneration is %d. Its controllers do not run, or cannot write.", self.Kind, self.Name,
			o.GetGeneration(), observed),
		Remedies: []Remedy{{Say: "start the controllers: `gantry controllers`, or those of `gantry up`",
			Run: []string{"kubectl -n kube-system get leases"}}}}}
}

// lastWrite is when an object was last written, as far as it says.
func lastWrite(o metav1.Object) time.Time {
	at := o.GetCreationTimestamp().Time
	for _, f := range o.GetManagedFields() {
		if f.Time != nil && f.Time.After(at) && f.Subresource == "" {
			at = f.Time.Time
		}
	}
	return at
}

// rollout finds a roll-out that its own strategy holds up.
func rollout(c *Cluster, o metav1.Object, self Object) []Finding {
	switch x := o.(type) {
	case *appsv1.Deployment:
		return deploymentRollout(x, self)
	case *appsv1.StatefulSet:
		return statefulSetRollout(x, self)
	case *appsv1.DaemonSet:
		return daemonSetRollout(c, x, self)
	}
	return nil
}

func deploymentRollout(d *appsv1.Deployment, self Object) []Finding {
	want := workload.Replicas(d.Spec.Replicas)
	var out []Finding
	if d.Spec.Paused && d.Status.UpdatedReplicas < want {
		out = append(out, Finding{Code: "Paused", Stage: StageChange, Object: self, Field: "spec.paused", Value: "true",
			Want: "false", Numbers: map[string]string{"updatedReplicas": fmt.Sprint(d.Status.UpdatedReplicas),
				"replicas": fmt.Sprint(want)},
			Message: fmt.Sprintf("Deployment %s is paused (spec.paused): %d of %d Pods are of its newest template, "+
				"and no more are made.", self.Name, d.Status.UpdatedReplicas, want),
			Remedies: []Remedy{{Say: "go on with it", Run: []string{fmt.Sprintf(
				"kubectl -n %s rollout resume deployment %s", self.Namespace, self.Name)}}}})
	}
	for _, cond := range d.Status.Conditions {
		if cond.Type == appsv1.DeploymentProgressing && cond.Reason == "ProgressDeadlineExceeded" {
			seconds := int32(600)
			if d.Spec.ProgressDeadlineSeconds != nil {
				seconds = *d.Spec.ProgressDeadlineSeconds
			}
			out = append(out, Finding{Code: "ProgressDeadlineExceeded", Severity: Note, Stage: StageChange,
				Object: self,
				Field:  "spec.progressDeadlineSeconds", Value: fmt.Sprint(seconds),
				Numbers: map[string]string{"progressDeadlineSeconds": fmt.Sprint(seconds)},
				Message: fmt.Sprintf("The roll-out of Deployment %s made no progress for %d s "+
					"(progressDeadlineSeconds): %s", self.Name, seconds, cond.Message)})
		}
	}
	return append(out, zeroReplicas(self, want, d.Status.Replicas)...)
}

// zeroReplicas notes a workload that wants no Pods.
func zeroReplicas(self Object, want, have int32) []Finding {
	if want != 0 || have != 0 {
		return nil
	}
	return []Finding{{Code: "ScaledToZero", Severity: Note, Stage: StageCreation, Object: self, Field: "spec.replicas",
		Value: "0", Want: "1", Numbers: map[string]string{"replicas": "0"},
		Message: fmt.Sprintf("%s %s wants no Pods: spec.replicas is 0.", self.Kind, self.Name),
		Remedies: []Remedy{{Say: "run one", Run: []string{fmt.Sprintf("kubectl -n %s scale %s %s --replicas=1",
			self.Namespace, strings.ToLower(self.Kind), self.Name)}}}}}
}

func statefulSetRollout(s *appsv1.StatefulSet, self Object) []Finding {
	want := workload.Replicas(s.Spec.Replicas)
	out := zeroReplicas(self, want, s.Status.Replicas)
	if s.Status.UpdateRevision == s.Status.CurrentRevision || s.Status.UpdatedReplicas >= want {
		return out
	}
	f := Finding{Code: "HeldByStrategy", Stage: StageChange, Object: self,
		Numbers: map[string]string{"updatedReplicas": fmt.Sprint(s.Status.UpdatedReplicas),
			"replicas": fmt.Sprint(want)}}
	u := s.Spec.UpdateStrategy
	switch {
	case u.Type == appsv1.OnDeleteStatefulSetStrategyType:
		f.Field, f.Value, f.Want = "spec.updateStrategy.type", "OnDelete", "RollingUpdate"
		f.Message = fmt.Sprintf("StatefulSet %s has a new template and %d of %d Pods of it: its updateStrategy is "+
			"OnDelete, so a Pod gets the new template only when somebody deletes it.", self.Name,
			s.Status.UpdatedReplicas, want)
		f.Remedies = []Remedy{deleteOldPods(self, s.Spec.Selector, s.Status.UpdateRevision),
			{Say: "or let it replace its Pods by itself", Run: []string{kubectl(self, "patch",
				`--type=merge -p '{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}'`)}}}
	case u.RollingUpdate != nil && u.RollingUpdate.Partition != nil && *u.RollingUpdate.Partition > firstOrdinal(s) &&
		s.Status.UpdatedReplicas >= max(firstOrdinal(s)+want-*u.RollingUpdate.Partition, 0):
		n := *u.RollingUpdate.Partition
		f.Field, f.Value = "spec.updateStrategy.rollingUpdate.partition", fmt.Sprint(n)
		f.Want = fmt.Sprint(firstOrdinal(s))
		f.Numbers["partition"] = fmt.Sprint(n)
		f.Message = fmt.Sprintf("StatefulSet %s has a new template, and partition %d of its updateStrategy keeps the "+
			"Pods with ordinals below %d on the old one: %d of %d Pods are of the new one.", self.Name, n, n,
			s.Status.UpdatedReplicas, want)
		f.Remedies = []Remedy{{Say: "let all Pods get it", Run: []string{kubectl(self, "patch",
			fmt.Sprintf(`--type=merge -p '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":%s}}}}'`,
				f.Want))}}}
	default:
		return out
	}
	return append(out, f)
}

// firstOrdinal is the number of a StatefulSet's first Pod.
func firstOrdinal(s *appsv1.StatefulSet) int32 {
	if s.Spec.Ordinals == nil {
		return 0
	}
	return s.Spec.Ordinals.Start
}

// deleteOldPods deletes the Pods that are not of a revision; without one there is no command.
func deleteOldPods(self Object, s *metav1.LabelSelector, revision string) Remedy {
	out := Remedy{Say: "delete the Pods of the old template; each comes back with the new one"}
	if revision != "" {
		out.Run = []string{fmt.Sprintf("kubectl -n %s delete pod -l '%s,controller-revision-hash!=%s'", self.Namespace,
			metav1.FormatLabelSelector(s), revision)}
	}
	return out
}

func daemonSetRollout(c *Cluster, d *appsv1.DaemonSet, self Object) []Finding {
	var out []Finding
	s := d.Status
	numbers := map[string]string{"updated": fmt.Sprint(s.UpdatedNumberScheduled),
		"desired": fmt.Sprint(s.DesiredNumberScheduled), "current": fmt.Sprint(s.CurrentNumberScheduled)}
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType &&
		s.UpdatedNumberScheduled < s.DesiredNumberScheduled && s.CurrentNumberScheduled > 0 &&
		s.ObservedGeneration >= d.Generation {
		revision := newestRevision(c, d)
		out = append(out, Finding{Code: "HeldByStrategy", Stage: StageChange, Object: self,
			Field: "spec.updateStrategy.type", Value: "OnDelete", Want: "RollingUpdate", Numbers: numbers,
			Message: fmt.Sprintf("DaemonSet %s has a new template, and %d of %d Pods are of it: its updateStrategy "+
				"is OnDelete, so a Pod gets the new template only when somebody deletes it.", self.Name,
				s.UpdatedNumberScheduled, s.DesiredNumberScheduled),
			Remedies: []Remedy{deleteOldPods(self, d.Spec.Selector, revision),
				{Say: "or let it replace its Pods by itself", Run: []string{kubectl(self, "patch",
					`--type=merge -p '{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}'`)}}}})
	}
	if s.DesiredNumberScheduled == 0 && s.ObservedGeneration >= d.Generation && c.Read("Node") {
		f := Finding{Code: "WantedOnNoNode", Stage: StagePlacement, Object: self,
			Field: "spec.template.spec.nodeSelector", Numbers: map[string]string{"desired": "0",
				"nodes": fmt.Sprint(len(c.Objects["Node"]))},
			Message: fmt.Sprintf("DaemonSet %s runs on none of the %d nodes: its node selector, affinity and "+
				"tolerations fit none.", self.Name, len(c.Objects["Node"]))}
		c.blameTaint(&f, &d.Spec.Template.Spec)
		out = append(out, f)
	}
	return out
}

// blameTaint makes a DaemonSet's want of nodes the matter of its tolerations, where a node has the
// labels that it wants.
func (c *Cluster) blameTaint(f *Finding, spec *corev1.PodSpec) {
	for _, n := range list[*corev1.Node](c, "Node") {
		left := slices.DeleteFunc(untolerated(spec, n), func(t corev1.Taint) bool {
			return strings.HasPrefix(t.Key, "node.kubernetes.io/") // its Pods tolerate most of these
		})
		if len(left) == 0 || !fitsLabels(spec, n) {
			continue
		}
		var have []string
		for i := range spec.Tolerations {
			have = append(have, tolerationText(&spec.Tolerations[i]))
		}
		f.Field, f.Value, f.Want = "spec.template.spec.tolerations", strings.Join(have, ","), left[0].ToString()
		f.Numbers["taint"] = f.Want
		f.Related = append(f.Related, objectOf("Node", n))
		f.Message = fmt.Sprintf("DaemonSet %s runs on none of the %s nodes: node %s has the labels that it wants and "+
			"the taint %s, which it does not tolerate (it tolerates %s).", f.Object.Name, f.Numbers["nodes"], n.Name,
			f.Want, orNone(have, "nothing"))
		return
	}
}

// newestRevision is the hash of a DaemonSet's newest ControllerRevision; empty where none was
// read.
func newestRevision(c *Cluster, d *appsv1.DaemonSet) string {
	var newest *appsv1.ControllerRevision
	for _, r := range owned[*appsv1.ControllerRevision](c, "ControllerRevision", d) {
		if newest == nil || r.Revision > newest.Revision {
			newest = r
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Labels[appsv1.ControllerRevisionHashLabelKey]
}

// percent describes a number that may be a percentage of a base: "50 % of 3, rounded to 2".
func percent(v *intstr.IntOrString, base int32, up bool) (n int, text string) {
	if v == nil {
		return 0, "0"
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(base), up)
	if err != nil {
		return 0, v.String()
	}
	if v.Type == intstr.String {
		return n, fmt.Sprintf("%s of %d, which is %d", v.String(), base, n)
	}
	return n, v.String()
}

// podsNotMade finds a workload whose Pods the API server refuses, by its newest event.
func podsNotMade(c *Cluster, o metav1.Object, self Object) []Finding {
	reason, words := c.refusal(o, self)
	if words == "" {
		return nil
	}
	if x, ok := o.(*appsv1.ReplicaSet); ok && x.Status.Replicas >= workload.Replicas(x.Spec.Replicas) {
		return nil
	}
	if x, ok := o.(*appsv1.Deployment); ok && x.Status.UpdatedReplicas >= workload.Replicas(x.Spec.Replicas) {
		return nil
	}
	if x, ok := o.(*appsv1.DaemonSet); ok && x.Status.ObservedGeneration >= x.Generation &&
		x.Status.DesiredNumberScheduled > 0 && x.Status.CurrentNumberScheduled >= x.Status.DesiredNumberScheduled {
		return nil
	}
	out := []Finding{{Code: "PodsRefused", Stage: StageCreation, Object: self, Field: "spec.template", Value: reason,
		Message: fmt.Sprintf("The API server refuses what %s %s makes: %s", self.Kind, self.Name, words)}}
	root := c.outermost(o, self)
	if x := c.Get(root); x != nil {
		self, o = root, x
	}
	return slices.Concat(out, c.refusalCauses(self, o, words), c.refusedByDefault(self, o, words),
		c.quotasBeyond(self, o, words))
}

// job finds a Job that can make no progress by its own settings.
func job(c *Cluster, o metav1.Object, self Object) []Finding {
	j, ok := o.(*batchv1.Job)
	if !ok {
		return nil
	}
	number := func(code, field, value string, severity Severity, text string, remedy ...Remedy) []Finding {
		return []Finding{{Code: code, Severity: severity, Stage: StageCreation, Object: self, Field: field,
			Value: value,
			Numbers: map[string]string{field[strings.LastIndex(field, ".")+1:]: value,
				"failed":    fmt.Sprint(j.Status.Failed),
				"succeeded": fmt.Sprint(j.Status.Succeeded)}, Message: text, Remedies: remedy}}
	}
	for _, cond := range j.Status.Conditions {
		if cond.Status != corev1.ConditionTrue {
			continue
		}
		failed := cond.Type == batchv1.JobFailed || cond.Type == batchv1.JobFailureTarget // its Pods are ending
		switch {
		case cond.Type == batchv1.JobComplete:
			return nil
		case failed && cond.Reason == "DeadlineExceeded" && j.Spec.ActiveDeadlineSeconds != nil:
			n := *j.Spec.ActiveDeadlineSeconds
			return number("DeadlineExceeded", "spec.activeDeadlineSeconds", fmt.Sprint(n), Broken,
				fmt.Sprintf("Job %s was ended by its activeDeadlineSeconds of %d, with all its Pods.",
					self.Name, n),
				Remedy{Say: fmt.Sprintf("make it anew with more time: activeDeadlineSeconds %d", 10*n),
					Run: []string{recreateJob(self, fmt.Sprintf(`{"spec":{"activeDeadlineSeconds":%d}}`, 10*n))}})
		case failed && cond.Reason == "BackoffLimitExceeded":
			n := int32(6)
			if j.Spec.BackoffLimit != nil {
				n = *j.Spec.BackoffLimit
			}
			return number("BackoffLimitExceeded", "spec.backoffLimit", fmt.Sprint(n), Broken,
				fmt.Sprintf("Job %s has failed: its Pods failed more often than backoffLimit %d allows.", self.Name, n),
				Remedy{Say: "mend what its Pods fail of, and make it anew",
					Run: []string{recreateJob(self, `{"metadata":{"annotations":{"retried":"true"}}}`)}})
		case failed && jobFields[cond.Reason] != "":
			return jobLimit(j, self, cond)
		case failed:
			return number("JobFailed", "status.conditions", cond.Reason, Broken,
				fmt.Sprintf("Job %s has failed (%s): %s", self.Name, cond.Reason, cond.Message))
		}
	}
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		return number("Suspended", "spec.suspend", "true", Note,
			fmt.Sprintf("Job %s is suspended (spec.suspend): it has no Pods until somebody lets it go on.", self.Name),
			Remedy{Say: "let it go on", Run: []string{kubectl(self, "patch",
				`--type=merge -p '{"spec":{"suspend":false}}'`)}})
	}
	if j.Spec.Parallelism != nil && *j.Spec.Parallelism == 0 {
		return number("ParallelismZero", "spec.parallelism", "0", Broken,
			fmt.Sprintf("Job %s makes no Pods: spec.parallelism is 0.", self.Name),
			Remedy{Say: "let it run one Pod", Run: []string{kubectl(self, "patch",
				`--type=merge -p '{"spec":{"parallelism":1}}'`)}})
	}
	if len(j.Status.Conditions) == 0 && j.Status.StartTime == nil && c.Now.Sub(j.CreationTimestamp.Time) > settleTime &&
		(j.Spec.ManagedBy == nil || *j.Spec.ManagedBy == batchv1.JobControllerName) {
		return []Finding{{Code: "ControllersIdle", Stage: StageControl, Object: self, Field: "status.startTime",
			Message:  fmt.Sprintf("No controller has started Job %s since it was created.", self.Name),
			Remedies: []Remedy{{Say: "start the controllers: `gantry controllers`, or those of `gantry up`"}}}}
	}
	if m := j.Spec.ManagedBy; m != nil && *m != batchv1.JobControllerName && j.Status.StartTime == nil {
		return []Finding{{Code: "OtherController", Stage: StageControl, Object: self, Field: "spec.managedBy",
			Value: *m,
			Message: fmt.Sprintf("Job %s is left to the controller %s (spec.managedBy), which has not started it.",
				self.Name, *m), Remedies: []Remedy{{Say: "start " + *m + ", or see why it does not take the Job"},
				{Say: "or let the Job controller do it: make it anew without managedBy",
					Run: []string{recreateJob(self, `{"spec":{"managedBy":null}}`)}}}}}
	}
	return nil
}

package finding

import (
	"fmt"
	"regexp"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

// jobFields are the fields that end a Job by themselves.
var jobFields = map[string]string{"PodFailurePolicy": "spec.podFailurePolicy",
	"MaxFailedIndexesExceeded": "spec.maxFailedIndexes", "FailedIndexes": "spec.backoffLimitPerIndex"}

var ruleIndex = regexp.MustCompile(`rule at index (\d+)`)

// jobLimit is a Job that one of its own limits has ended.
func jobLimit(j *batchv1.Job, self Object, cond batchv1.JobCondition) []Finding {
	f := Finding{Code: cond.Reason, Stage: StageCreation, Object: self, Field: jobFields[cond.Reason],
		Numbers: map[string]string{"failed": fmt.Sprint(j.Status.Failed)},
		Message: fmt.Sprintf("Job %s has failed by its own %s: %s", self.Name, jobFields[cond.Reason], cond.Message)}
	switch {
	case cond.Reason == "PodFailurePolicy":
		if m := ruleIndex.FindStringSubmatch(cond.Message); m != nil {
			f.Field += ".rules[" + m[1] + "]"
		}
		f.Value = "FailJob"
	case cond.Reason == "FailedIndexes" && j.Spec.BackoffLimitPerIndex != nil:
		f.Value = fmt.Sprint(*j.Spec.BackoffLimitPerIndex)
	case j.Spec.MaxFailedIndexes != nil:
		f.Value = fmt.Sprint(*j.Spec.MaxFailedIndexes)
	}
	if j.Status.FailedIndexes != nil {
		f.Numbers["failedIndexes"] = *j.Status.FailedIndexes
	}
	f.Remedies = []Remedy{{Say: "mend what its Pods fail of, and make it anew",
		Run: []string{recreateJob(self, `{"metadata":{"annotations":{"retried":"true"}}}`)}}}
	return []Finding{f}
}

// waitsForOthers finds Pods that are ready and do not count yet, and Jobs that wait for Pods that
// are ending.
func waitsForOthers(c *Cluster, o metav1.Object, self Object) []Finding {
	if j, ok := o.(*batchv1.Job); ok {
		return waitsForEnd(c, j, self)
	}
	w := workload.FieldsOf(o)
	seconds, readyPods, available := w.MinReadySeconds, w.Ready, w.Available
	if _, ok := o.(*appsv1.ReplicaSet); ok { // its Deployment says it
		return nil
	}
	if seconds == 0 || available >= readyPods {
		return nil
	}
	severity := Note
	if seconds >= 300 {
		severity = Threat
	}
	return []Finding{{Code: "MinReadySeconds", Severity: severity, Stage: StageChange, Object: self,
		Field: "spec.minReadySeconds", Value: fmt.Sprint(seconds), Want: "0",
		Numbers: map[string]string{"minReadySeconds": fmt.Sprint(seconds), "ready": fmt.Sprint(readyPods),
			"available": fmt.Sprint(available)},
		Message: fmt.Sprintf("%d Pods of %s %s are ready and %d are available: a Pod counts %d s after it became "+
			"ready (minReadySeconds).", readyPods, self.Kind, self.Name, available, seconds),
		Remedies: []Remedy{{Say: "let Pods count as soon as they are ready", Run: []string{kubectl(self, "patch",
			`--type=merge -p '{"spec":{"minReadySeconds":0}}'`)}}}}}
}

// waitsForEnd finds a Job that makes no new Pod while an old one is ending (podReplacementPolicy).
func waitsForEnd(c *Cluster, j *batchv1.Job, self Object) []Finding {
	p := j.Spec.PodReplacementPolicy
	if j.Status.Terminating == nil || *j.Status.Terminating == 0 || p == nil || *p != batchv1.Failed {
		return nil
	}
	f := Finding{Code: "WaitsForEnd", Severity: Note, Stage: StageChange, Object: self,
		Field: "spec.podReplacementPolicy", Value: "Failed", Want: "TerminatingOrFailed",
		Numbers: map[string]string{"terminating": fmt.Sprint(*j.Status.Terminating)},
		Message: fmt.Sprintf("Job %s makes no new Pod while %d of its Pods are ending (podReplacementPolicy Failed).",
			self.Name, *j.Status.Terminating)}
	ending := lastEnding(c.podsOf(j), func(*corev1.Pod) bool { return true })
	for _, x := range c.podsOf(j) {
		if x.DeletionTimestamp != nil {
			f.Related = append(f.Related, objectOf("Pod", x))
		}
	}
	if ending != nil {
		c.describeTermination(&f, ending)
	}
	return []Finding{f}
}

// recreateJob makes a Job anew with a strategic patch; its generated selector and labels are
// dropped.
func recreateJob(self Object, patch string) string {
	return fmt.Sprintf("kubectl -n %s get job %s -o json | kubectl patch --local -f - --type=merge -p "+
		`'{"spec":{"selector":null,"template":{"metadata":{"labels":{"controller-uid":null,`+
		`"batch.kubernetes.io/controller-uid":null}}}}}' -o json | kubectl patch --local -f - --type=strategic -p `+
		`'%s' `+
		"-o json | kubectl replace --force -f -", self.Namespace, self.Name, patch)
}

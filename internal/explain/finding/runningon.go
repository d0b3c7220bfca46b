package finding

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
	"github.com/gantry-project/gantry/internal/pod"
)

// failuresIgnored finds a Job whose failed Pods do not count, by a rule of its podFailurePolicy:
// its backoffLimit is never used up.
func failuresIgnored(c *Cluster, o metav1.Object, self Object) []Finding {
	j, ok := o.(*batchv1.Job)
	if !ok || j.Spec.PodFailurePolicy == nil || finished(j) {
		return nil
	}
	ignored := map[int][]string{}
	codes := map[int][]string{}
	for _, p := range owned[*corev1.Pod](c, "Pod", j) {
		if p.Status.Phase != corev1.PodFailed {
			continue
		}
		if i, code := ruleOfFailure(j.Spec.PodFailurePolicy.Rules, p); i >= 0 {
			ignored[i] = append(ignored[i], p.Name)
			codes[i] = append(codes[i], fmt.Sprint(code))
		}
	}
	var out []Finding
	for i, r := range j.Spec.PodFailurePolicy.Rules {
		if r.Action != batchv1.PodFailurePolicyActionIgnore || len(ignored[i]) < 2 {
			continue
		}
		limit := int32(6)
		if j.Spec.BackoffLimit != nil {
			limit = *j.Spec.BackoffLimit
		}
		f := Finding{Code: "FailuresIgnored", Stage: StageRun, Object: self,
			Field: fmt.Sprintf("spec.podFailurePolicy.rules[%d].action", i), Value: "Ignore", Want: "Count",
			Numbers: map[string]string{"exitCode": codes[i][0], "ignored": fmt.Sprint(len(ignored[i])),
				"failed": fmt.Sprint(j.Status.Failed), "backoffLimit": fmt.Sprint(limit)},
			Message: fmt.Sprintf("Rule %d of the podFailurePolicy of Job %s says Ignore to exit code %s: %d Pods have "+
				"failed so and do not count, and backoffLimit %d is never used up. A new Pod follows each.", i,
				self.Name, joined(slices.Compact(slices.Sorted(slices.Values(codes[i])))), len(ignored[i]), limit)}
		f.Remedies = []Remedy{{Say: "let such failures count: the Job then fails when there are more than " +
			"backoffLimit", Run: c.setCommand(self, f.Field, jsonText("Count"))}}
		out = append(out, f)
	}
	return out
}

// ruleOfFailure is the first rule that a failed Pod matches by an exit code; -1 where there is
// none, or one about conditions comes first.
func ruleOfFailure(rules []batchv1.PodFailurePolicyRule, p *corev1.Pod) (rule int, code int32) {
	for i, r := range rules {
		if r.OnExitCodes == nil {
			if slices.ContainsFunc(r.OnPodConditions, func(want batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
				return slices.ContainsFunc(p.Status.Conditions, func(have corev1.PodCondition) bool {
					return have.Type == want.Type && have.Status == want.Status
				})
			}) {
				return -1, 0
			}
			continue
		}
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			t := s.State.Terminated
			if t == nil || t.ExitCode == 0 || r.OnExitCodes.ContainerName != nil &&
				*r.OnExitCodes.ContainerName != s.Name {
				continue
			}
			among := slices.Contains(r.OnExitCodes.Values, t.ExitCode)
			if among == (r.OnExitCodes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
				return i, t.ExitCode
			}
		}
	}
	return -1, 0
}

// heldPods finds Pods of a workload that are being deleted, have ended, and are held by finalizers
// of others; where its template gives them these, it is the template's field.
func heldPods(c *Cluster, o metav1.Object, self Object) []Finding {
	if _, ok := o.(*appsv1.ReplicaSet); ok && metav1.GetControllerOf(o) != nil {
		return nil // its Deployment tells
	}
	var names, finalizers []string
	var related []Object
	for _, p := range c.podsOf(o) {
		if p.DeletionTimestamp == nil || len(p.Finalizers) == 0 || !hasEnded(p) || c.Now.Before(endOf(p)) {
			continue
		}
		names, related = append(names, p.Name), append(related, objectOf("Pod", p))
		finalizers = append(finalizers, p.Finalizers...)
	}
	finalizers = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(finalizers))), func(s string) bool {
		return slices.Contains(ownFinalizers, s) || s == batchv1.JobTrackingFinalizer
	})
	if len(finalizers) == 0 {
		return nil
	}
	f := Finding{Code: "FinalizerHolds", Severity: Threat, Stage: StageChange, Object: related[0],
		Field: "metadata.finalizers", Value: strings.Join(finalizers, ","), Related: append(related[1:], self),
		Numbers: map[string]string{"pods": fmt.Sprint(len(names))},
		Message: fmt.Sprintf("%d Pods of %s %s have ended and are being deleted (%s), and finalizers hold them: "+
			"%s. They stay until whoever set these removes them.", len(names), self.Kind, self.Name, joined(names),
			joined(finalizers))}
	if len(names) == 1 {
		f.Message = fmt.Sprintf("Pod %s of %s %s has ended and is being deleted, and is held by %s. It stays until "+
			"whoever set that removes it.", names[0], self.Kind, self.Name, joined(finalizers))
	}
	for _, x := range related {
		for _, r := range finalizerRemedies(x, finalizers) {
			if len(f.Remedies) == 0 {
				f.Remedies = append(f.Remedies, Remedy{Say: r.Say})
			}
			f.Remedies[0].Run = append(f.Remedies[0].Run, r.Run...)
		}
	}
	t := workload.Template(o)
	if t == nil || len(t.Finalizers) == 0 {
		return []Finding{f}
	}
	f.Message += fmt.Sprintf(" The template of %s gives each of its Pods %s.", self, joined(t.Finalizers))
	f.Remedies = append(f.Remedies, Remedy{Say: "take them out of the template, if nobody removes them: Pods made " +
		"from then on have none", Run: c.patchCommand(self,
		`[{"op":"remove","path":"/spec/template/metadata/finalizers"}]`)})
	return []Finding{f}
}

// hasEnded reports whether no container of a Pod runs.
func hasEnded(p *corev1.Pod) bool {
	return !slices.ContainsFunc(slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses),
		func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
}

// endOf is when a Pod's last container ended, or its deletion where none did, and some seconds.
func endOf(p *corev1.Pod) time.Time {
	end := p.DeletionTimestamp.Time
	if g := p.DeletionGracePeriodSeconds; g != nil {
		end = end.Add(-time.Duration(*g) * time.Second)
	}
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(end) {
			end = t.FinishedAt.Time
		}
	}
	return end.Add(settleTime)
}

// initLong is how long an init container that declares ports may run before it is taken for a
// server.
const initLong = 20 * time.Second

// endlessWords are commands that never end.
var endlessWords = regexp.MustCompile(`\bsleep\s+inf(?:inity)?\b|\btail\s+-[fF]\s+/dev/null`)

// initServes finds an init container that runs on and declares ports, or sleeps for ever: it never
// ends, and what comes after it waits for its end.
func initServes(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok || p.DeletionTimestamp != nil {
		return nil
	}
	for i := range p.Spec.InitContainers {
		x := &p.Spec.InitContainers[i]
		at := slices.IndexFunc(p.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == x.Name
		})
		endless := endlessWords.FindString(strings.Join(slices.Concat(x.Command, x.Args), " "))
		if at < 0 || pod.IsSidecar(x) || len(x.Ports) == 0 && endless == "" {
			continue
		}
		run := p.Status.InitContainerStatuses[at].State.Running
		if run == nil || c.Now.Sub(run.StartedAt.Time) < initLong {
			continue
		}
		root := c.outermost(p, self)
		field := fmt.Sprintf("spec.initContainers[%d].restartPolicy", i)
		if x := c.Get(root); x != nil && root != self {
			_, path := podSpecOf(x)
			field = fmt.Sprintf("%s.initContainers[%d].restartPolicy", path, i)
		} else {
			root = self
		}
		runs := c.Now.Sub(run.StartedAt.Time).Round(time.Second).String()
		f := Finding{Code: "InitServes", Stage: StageRun, Object: root, Field: field, Want: "Always",
			Numbers: map[string]string{"runs": runs}}
		what := "does " + endless
		if len(x.Ports) > 0 {
			f.Numbers["port"] = fmt.Sprint(x.Ports[0].ContainerPort)
			what = "declares port " + f.Numbers["port"]
		}
		f.Message = fmt.Sprintf("Init container %s of %s %s %s and has run for %s: such a program does not end, "+
			"and every container after an init container waits until that has ended. With restartPolicy Always it is "+
			"a sidecar, beside which the others start.", x.Name, self.Kind, self.Name, what, runs)
		if root != self {
			f.Related = []Object{self}
		}
		f.Remedies = []Remedy{{Say: fmt.Sprintf("make %s a sidecar", x.Name), Run: c.patchCommand(root, fmt.Sprintf(
			`[{"op":"add","path":%s,"value":"Always"}]`, jsonText(pointer(field))))}}
		return []Finding{f}
	}
	return nil
}

package finding

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
	jobutil "github.com/gantry-project/gantry/internal/job"
	"github.com/gantry-project/gantry/internal/pod"
)

// contradiction is a number of an object that leaves another one without effect, or without time.
type contradiction struct {
	field, value string // the number to blame
	want         string // one that would do; empty: not known
	severity     Severity
	stage        Stage
	numbers      map[string]string
	text         string
}

// bounds are the rows that compare numbers of an object that bound one another.
var bounds = []func(*Cluster, metav1.Object, Object) []contradiction{deadlineShorterThanSleep, scheduleShorterThanJob,
	neverRolledOut, minDomainsAboveDomains, neverReached, minReplicasBelowBudget, deadlineBeforeReadiness}

// numbersConflict finds numbers of an object that contradict one another.
func numbersConflict(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	for _, row := range bounds {
		for _, x := range row(c, o, self) {
			f := Finding{Code: "NumbersConflict", Severity: x.severity, Stage: x.stage, Object: self, Field: x.field,
				Value: x.value, Want: x.want, Numbers: x.numbers, Message: x.text}
			if x.want != "" {
				f.setTo(c, jsonNumber(x.want))
			}
			out = append(out, f)
		}
	}
	return out
}

// jobSpecOf is the spec of a Job, or of the Jobs that a CronJob makes, with its path.
func jobSpecOf(o metav1.Object) (*batchv1.JobSpec, string) {
	switch x := o.(type) {
	case *batchv1.Job:
		return &x.Spec, "spec"
	case *batchv1.CronJob:
		return &x.Spec.JobTemplate.Spec, "spec.jobTemplate.spec"
	}
	return nil, ""
}

// slept is a sleep in a command, with the unit that sleep(1) knows.
var slept = regexp.MustCompile(`\bsleep\s+(\d+)([smhd]?)\b`)

var units = map[string]int64{"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

// sleeps is how long the commands of a Pod's containers sleep, as far as they say: that of its init
// containers one after the other, and the longest of the others. An endless loop sleeps for no
// time that is known.
func sleeps(s *corev1.PodSpec) (seconds int64, container string) {
	own := func(x *corev1.Container) int64 {
		command := strings.Join(slices.Concat(x.Command, x.Args), " ")
		if strings.Contains(command, "while ") || strings.Contains(command, "until ") {
			return 0
		}
		var n int64
		for _, m := range slept.FindAllStringSubmatch(command, -1) {
			if k, err := strconv.ParseInt(m[1], 10, 32); err == nil {
				n += k * units[m[2]]
			}
		}
		return n
	}
	for i := range s.InitContainers {
		if p := s.InitContainers[i].RestartPolicy; p == nil {
			seconds += own(&s.InitContainers[i])
		}
	}
	var most int64
	for i := range s.Containers {
		if n := own(&s.Containers[i]); n > most {
			most, container = n, s.Containers[i].Name
		}
	}
	return seconds + most, container
}

// deadlineShorterThanSleep finds a deadline that is shorter than a command says that it sleeps.
func deadlineShorterThanSleep(_ *Cluster, o metav1.Object, self Object) []contradiction {
	spec, at := podSpecOf(o)
	if spec == nil {
		return nil
	}
	n, container := sleeps(spec)
	var out []contradiction
	check := func(field string, deadline *int64) {
		if deadline == nil || n < *deadline || n == 0 || finished(o) {
			return
		}
		out = append(out, contradiction{field: field, value: fmt.Sprint(*deadline), want: fmt.Sprint(2 * n),
			severity: Threat, stage: StageRun, numbers: map[string]string{
				"activeDeadlineSeconds": fmt.Sprint(*deadline), "seconds": fmt.Sprint(n)},
			text: fmt.Sprintf("%s %s is ended after %d s (%s), and container %s sleeps %d s by its own command: it "+
				"never comes to its end.", self.Kind, self.Name, *deadline, field, container, n)})
	}
	check(at+".activeDeadlineSeconds", spec.ActiveDeadlineSeconds)
	if j, path := jobSpecOf(o); j != nil {
		check(path+".activeDeadlineSeconds", j.ActiveDeadlineSeconds)
	}
	return out
}

// finished reports whether a Pod or Job has ended.
func finished(o metav1.Object) bool {
	switch x := o.(type) {
	case *corev1.Pod:
		return pod.IsTerminal(x)
	case *batchv1.Job:
		return jobutil.IsFinished(x)
	}
	return false
}

// scheduleShorterThanJob finds a CronJob that starts more often than its Jobs take.
func scheduleShorterThanJob(c *Cluster, o metav1.Object, self Object) []contradiction {
	j, ok := o.(*batchv1.CronJob)
	if !ok {
		return nil
	}
	n, container := sleeps(&j.Spec.JobTemplate.Spec.Template.Spec)
	first, err := NextStart(j, c.Now)
	if err != nil || first.IsZero() || n == 0 {
		return nil
	}
	second, err := NextStart(j, first)
	if err != nil || second.IsZero() || time.Duration(n)*time.Second < second.Sub(first) {
		return nil
	}
	follows := map[batchv1.ConcurrencyPolicy]string{
		batchv1.ForbidConcurrent:  "starts are left out while one runs (concurrencyPolicy Forbid)",
		batchv1.ReplaceConcurrent: "each Job is replaced by the next before it ends (concurrencyPolicy Replace)",
	}[j.Spec.ConcurrencyPolicy]
	if follows == "" {
		follows = "Jobs run beside one another, ever more of them (concurrencyPolicy Allow)"
	}
	return []contradiction{{field: "spec.schedule", value: j.Spec.Schedule, severity: Threat, stage: StageCreation,
		numbers: map[string]string{"period": second.Sub(first).String(), "seconds": fmt.Sprint(n)},
		text: fmt.Sprintf("CronJob %s starts a Job every %s (schedule %s), and container %s sleeps %d s by its own "+
			"command: %s.", self.Name, second.Sub(first), j.Spec.Schedule, container, n, follows)}}
}

// neverRolledOut finds a partition that keeps every Pod of a StatefulSet on the old template.
func neverRolledOut(_ *Cluster, o metav1.Object, self Object) []contradiction {
	s, ok := o.(*appsv1.StatefulSet)
	if !ok || s.Spec.UpdateStrategy.RollingUpdate == nil || s.Spec.UpdateStrategy.RollingUpdate.Partition == nil {
		return nil
	}
	start, want := firstOrdinal(s), workload.Replicas(s.Spec.Replicas)
	partition := *s.Spec.UpdateStrategy.RollingUpdate.Partition
	if partition < start+want || want == 0 {
		return nil
	}
	severity := Note
	if s.Status.UpdateRevision != s.Status.CurrentRevision {
		severity = Broken
	}
	return []contradiction{{field: "spec.updateStrategy.rollingUpdate.partition", value: fmt.Sprint(partition),
		want: fmt.Sprint(start), severity: severity, stage: StageChange,
		numbers: map[string]string{"partition": fmt.Sprint(partition), "replicas": fmt.Sprint(want),
			"start": fmt.Sprint(start)},
		text: fmt.Sprintf("StatefulSet %s has Pods with ordinals %d to %d and partition %d: no Pod ever gets a new "+
			"template.", self.Name, start, start+want-1, partition)}}
}

// minDomainsAboveDomains finds a spread constraint that demands more domains than nodes have, so
// that each domain takes no more than maxSkew Pods.
func minDomainsAboveDomains(c *Cluster, o metav1.Object, self Object) []contradiction {
	spec, at := podSpecOf(o)
	nodes := list[*corev1.Node](c, "Node")
	if spec == nil || len(nodes) == 0 || spec.NodeName != "" {
		return nil
	}
	var out []contradiction
	for i, t := range spec.TopologySpreadConstraints {
		domains := map[string]bool{}
		for _, n := range nodes {
			if v, ok := n.Labels[t.TopologyKey]; ok {
				domains[v] = true
			}
		}
		if t.MinDomains == nil || int(*t.MinDomains) <= len(domains) || len(domains) == 0 {
			continue
		}
		severity, room := Threat, int(t.MaxSkew)*len(domains)
		if want, ok := replicasOf(o); ok && int(want) > room {
			severity = Broken
		}
		out = append(out, contradiction{field: fmt.Sprintf("%s.topologySpreadConstraints[%d].minDomains", at, i),
			value: fmt.Sprint(*t.MinDomains), want: fmt.Sprint(len(domains)), severity: severity, stage: StagePlacement,
			numbers: map[string]string{"minDomains": fmt.Sprint(*t.MinDomains), "domains": fmt.Sprint(len(domains)),
				"maxSkew": fmt.Sprint(t.MaxSkew)},
			text: fmt.Sprintf("%s %s demands %d domains of %s (minDomains), and nodes have %d (%s): until there are "+
				"more, each takes %d of its Pods at most (maxSkew).", self.Kind, self.Name, *t.MinDomains,
				t.TopologyKey, len(domains), joined(slices.Sorted(maps.Keys(domains))), t.MaxSkew)})
	}
	return out
}

// replicasOf is how many Pods a workload wants; false where it does not say.
func replicasOf(o metav1.Object) (int32, bool) {
	if j, ok := o.(*batchv1.Job); ok {
		return workload.Replicas(j.Spec.Parallelism), true
	}
	w := workload.FieldsOf(o)
	return w.Replicas, w.Scales
}

// neverReached finds an autoscaler whose target is a utilization that limits do not let Pods reach.
func neverReached(c *Cluster, o metav1.Object, self Object) []contradiction {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	spec, _ := podSpecOf(c.Get(Object{h.Spec.ScaleTargetRef.Kind, self.Namespace, h.Spec.ScaleTargetRef.Name}))
	if spec == nil {
		return nil
	}
	var out []contradiction
	for i, m := range h.Spec.Metrics {
		if m.Resource == nil || m.Resource.Target.AverageUtilization == nil {
			continue
		}
		most, ok := mostUtilization(spec, m.Resource.Name)
		target := int64(*m.Resource.Target.AverageUtilization)
		if !ok || target < most {
			continue
		}
		out = append(out, contradiction{
			field: fmt.Sprintf("spec.metrics[%d].resource.target.averageUtilization", i), value: fmt.Sprint(target),
			want: fmt.Sprint(max(most*8/10, 1)), severity: Threat, stage: StageControl,
			numbers: map[string]string{"averageUtilization": fmt.Sprint(target), "most": fmt.Sprint(most)},
			text: fmt.Sprintf("Autoscaler %s scales up above %d %% of the requested %s, and the limits of its Pods "+
				"are %d %% of it: they can never use more, so it never scales up.", self.Name, target, m.Resource.Name,
				most)})
	}
	return out
}

// mostUtilization is how many percent of their requests of a resource the limits of a Pod's
// containers are; false where one has no limit or request.
func mostUtilization(s *corev1.PodSpec, name corev1.ResourceName) (int64, bool) {
	var limits, requests int64
	for _, x := range s.Containers {
		limit, limited := x.Resources.Limits[name]
		request, requested := x.Resources.Requests[name]
		if !limited {
			return 0, false
		}
		if !requested {
			request = limit // the API server's default
		}
		limits, requests = limits+limit.MilliValue(), requests+request.MilliValue()
	}
	if requests == 0 {
		return 0, false
	}
	return 100 * limits / requests, true
}

// minReplicasBelowBudget notes an autoscaler that may scale down to no more Pods than a budget
// demands.
func minReplicasBelowBudget(c *Cluster, o metav1.Object, self Object) []contradiction {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	target := c.Get(Object{h.Spec.ScaleTargetRef.Kind, self.Namespace, h.Spec.ScaleTargetRef.Name})
	if target == nil || workload.Template(target) == nil {
		return nil
	}
	pods := labelled{self, labelsOfPods(target)}
	for _, b := range in[*policyv1.PodDisruptionBudget](c, "PodDisruptionBudget", self.Namespace) {
		n := b.Spec.MinAvailable
		if n == nil || b.Spec.Selector == nil || len(selected(wantedLabels(b.Spec.Selector), []labelled{pods})) == 0 ||
			n.IntValue() < int(minReplicas(h)) || n.StrVal != "" {
			continue
		}
		return []contradiction{{field: "spec.minReplicas", value: fmt.Sprint(minReplicas(h)),
			want: fmt.Sprint(n.IntValue() + 1), severity: Note, stage: StageChange,
			numbers: map[string]string{"minReplicas": fmt.Sprint(minReplicas(h)), "minAvailable": n.String()},
			text: fmt.Sprintf("Autoscaler %s may scale down to %d Pods, and budget %s demands %s: nodes cannot be "+
				"drained then.", self.Name, minReplicas(h), b.Name, n.String())}}
	}
	return nil
}

// deadlineBeforeReadiness finds a Pod that is ended before its first readiness probe.
func deadlineBeforeReadiness(_ *Cluster, o metav1.Object, self Object) []contradiction {
	spec, at := podSpecOf(o)
	if spec == nil || spec.ActiveDeadlineSeconds == nil || finished(o) {
		return nil
	}
	var out []contradiction
	for i := range spec.Containers {
		p := spec.Containers[i].ReadinessProbe
		if p == nil || int64(p.InitialDelaySeconds) < *spec.ActiveDeadlineSeconds {
			continue
		}
		out = append(out, contradiction{field: at + ".activeDeadlineSeconds",
			value: fmt.Sprint(*spec.ActiveDeadlineSeconds), want: fmt.Sprint(2 * p.InitialDelaySeconds),
			severity: Threat, stage: StageTraffic, numbers: map[string]string{
				"activeDeadlineSeconds": fmt.Sprint(*spec.ActiveDeadlineSeconds),
				"initialDelaySeconds":   fmt.Sprint(p.InitialDelaySeconds)},
			text: fmt.Sprintf("%s %s is ended after %d s (activeDeadlineSeconds), and the readiness probe of "+
				"container %s asks after %d s: it is never ready.", self.Kind, self.Name, *spec.ActiveDeadlineSeconds,
				spec.Containers[i].Name, p.InitialDelaySeconds)})
	}
	return out
}

// switchedOff is a number of an object at which something no longer takes place.
type switchedOff struct{ field, value, want, text string }

// numbersAtEdge notes numbers by which something is switched off: nothing is wrong with them.
func numbersAtEdge(c *Cluster, o metav1.Object, self Object) []Finding {
	var rows []switchedOff
	zero := func(n *int32, field, want, text string) {
		if n != nil && *n == 0 {
			rows = append(rows, switchedOff{field, "0", want, text})
		}
	}
	if j, at := jobSpecOf(o); j != nil && !finished(o) {
		zero(j.BackoffLimit, at+".backoffLimit", "3", "the first Pod that fails ends the Job")
		zero(j.TTLSecondsAfterFinished, at+".ttlSecondsAfterFinished", "3600",
			"the Job is deleted as soon as it has ended, with its Pods and what they said")
		if p, n := j.Parallelism, j.Completions; p != nil && n != nil && *p > *n {
			rows = append(rows, switchedOff{at + ".parallelism", fmt.Sprint(*p), fmt.Sprint(*n),
				fmt.Sprintf("no more than %d Pods ever run at once (completions)", *n)})
		}
	}
	zero(workload.FieldsOf(o).RevisionHistoryLimit, "spec.revisionHistoryLimit", "10",
		"there is nothing to roll back to")
	if x, ok := o.(*batchv1.CronJob); ok {
		zero(x.Spec.FailedJobsHistoryLimit, "spec.failedJobsHistoryLimit", "1",
			"a Job that fails is deleted, and nothing tells of it")
	}
	var out []Finding
	for _, r := range rows {
		f := Finding{Code: "NumberAtEdge", Severity: Note, Stage: StageChange, Object: self, Field: r.field,
			Value: r.value, Want: r.want,
			Numbers: map[string]string{r.field[strings.LastIndex(r.field, ".")+1:]: r.value},
			Message: fmt.Sprintf("%s of %s %s is %s: %s.", r.field, self.Kind, self.Name,
				r.value, r.text)}
		f.setTo(c, r.want)
		out = append(out, f)
	}
	return out
}

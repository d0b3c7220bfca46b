package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/workload"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/trace/packet"
)

// Subject is an object other than a Pod, with its Pods and related objects.
type Subject struct {
	Now              time.Time
	Kind             string // as in the command: deployment, job, …
	Namespace        string // empty for nodes
	Name             string
	Object           runtime.Object
	Sets             []*appsv1.ReplicaSet // of a Deployment
	Jobs             []*batchv1.Job       // of a CronJob
	Pods             []*corev1.Pod        // its Pods, direct or indirect; of a node those bound to it
	WorstPod         *In                  // the Pod that WorstPod returned, with its input
	Events           []corev1.Event       // about the object and its Sets and Jobs
	ClusterContext   *ClusterContext
	NamespaceContext *NamespaceContext
	Classes          []*storagev1.StorageClass
	PacketState      *packet.ClusterState // for packets to a Service; nil: the user may not read it
	Objects          *finding.Cluster     // what the object depends on; nil: not read
}

// WorstPod returns the Pod to explain first: an unhealthy one of the newest template; one that
// failed or was refused, rather than the next that only just starts.
func WorstPod(pods []*corev1.Pod, now time.Time) *corev1.Pod {
	sick := slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		return pod.IsReady(p) || p.Status.Phase == corev1.PodSucceeded
	})
	if len(sick) == 0 {
		sick = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return !restarts(p, now) })
	}
	if len(sick) == 0 {
		return nil
	}
	refused := slices.ContainsFunc(sick, func(p *corev1.Pod) bool { return refusedLately(p, now) })
	return slices.MinFunc(sick, func(a, b *corev1.Pod) int {
		leaving := func(p *corev1.Pod) int {
			if p.DeletionTimestamp != nil {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(leaving(a), leaving(b)), cmp.Compare(nextAttempt(a, now, refused),
			nextAttempt(b, now, refused)),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name))
	})
}

// AboutItsPods reports whether the trouble of an object's Pods is the object's: that of a claim
// only while it waits for its first Pod.
func (s Subject) AboutItsPods() bool {
	switch x := s.Object.(type) {
	case *corev1.Node, *corev1.Namespace:
		return false
	case *corev1.PersistentVolumeClaim:
		return x.Status.Phase == corev1.ClaimPending
	case *resourcev1.ResourceClaim:
		return x.Status.Allocation == nil
	}
	return true
}

// restarts reports whether a container of a Pod was restarted within restartWindow: the Pod is not
// well, though it may count as ready just now.
func restarts(p *corev1.Pod, now time.Time) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(containers(p), func(c container) bool {
		return c.status != nil && c.status.RestartCount > 0 && c.status.LastTerminationState.Terminated != nil &&
			now.Sub(c.status.LastTerminationState.Terminated.FinishedAt.Time) < restartWindow
	})
}

// WhyObject explains the state of an object.
func WhyObject(s Subject) Answer {
	a := Answer{Code: s.Kind}
	var more []finding.Finding
	if s.Objects != nil {
		more = finding.Of(s.Objects, s.object())
	}
	if _, ok := s.Object.(*corev1.Namespace); ok {
		more = append(more, s.inside()...)
	}
	s.explainKind(&a, more)
	told, more := a.Findings, withoutMoreTime(a, more)
	if s.WorstPod != nil && !a.unplaced {
		own := Why(*s.WorstPod)
		told = append(told, own.Findings...)
		s.butPod(&a, own)
	}
	told = append(told, subjectFinding(s, a, append(slices.Clone(told), more...))...)
	more = append(more, s.meantFindings()...)
	a = withFindings(a, withRemedies(a, told), more)
	a.withoutNodes(more)
	a.Subject = s.Kind + "/" + s.Name
	if s.Namespace != "" {
		a.Subject += " in " + s.Namespace
	}
	return a
}

// withoutNodes adds to an answer that all is well on which nodes a DaemonSet is not wanted, and
// why: who asks about one that is well may miss it there.
func (a *Answer) withoutNodes(list []finding.Finding) {
	if !a.Well() {
		return
	}
	for _, f := range list {
		if f.Code != "NodeLeftOut" {
			continue
		}
		a.Cause = strings.Replace(a.Cause, "; nothing blocks it", "", 1) + " " + f.Message
		a.Fixes = withoutDoubles(append(a.Fixes, remedies(f.Remedies)...))
	}
}

// explainKind sets state and cause by the rules of the object's kind. more are findings about it.
func (s Subject) explainKind(a *Answer, more []finding.Finding) {
	if s.leaving(a) {
		return
	}
	switch o := s.Object.(type) {
	case *appsv1.Deployment:
		s.deployment(a, o)
	case *appsv1.ReplicaSet:
		s.workload(a, workload.Replicas(o.Spec.Replicas), o.Status.ReadyReplicas, &o.Spec.Template)
	case *appsv1.StatefulSet:
		s.workload(a, workload.Replicas(o.Spec.Replicas), o.Status.ReadyReplicas, &o.Spec.Template)
		if s.WorstPod != nil && o.Spec.PodManagementPolicy != appsv1.ParallelPodManagement &&
			len(s.Pods) < int(workload.Replicas(o.Spec.Replicas)) {
			a.Facts = append(a.Facts,
				fmt.Sprintf("Pods are made one after the other (podManagementPolicy OrderedReady): those after %s "+
					"wait for it", s.WorstPod.Ref.Name))
		}
	case *appsv1.DaemonSet:
		s.workload(a, o.Status.DesiredNumberScheduled, o.Status.NumberReady, &o.Spec.Template)
	case *batchv1.Job:
		s.job(a, o)
	case *batchv1.CronJob:
		s.cronJob(a, o)
	case *corev1.Service:
		s.service(a, o)
	case *corev1.Node:
		s.node(a, o)
	case *corev1.PersistentVolumeClaim:
		s.claim(a, o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		s.autoscaler(a, o, more)
	default:
		s.general(a, more)
	}
}

// butPod says of an object that is well which of its Pods is not.
func (s Subject) butPod(a *Answer, own Answer) {
	if own.Well() || slices.Contains(healthy, own.State) || strings.Contains(a.Cause, own.Cause) {
		return
	}
	switch s.Object.(type) {
	case *resourcev1.ResourceClaim:
		a.State, a.Since, a.Next = "not allocated", own.Since, own.Next
		a.Cause = fmt.Sprintf("No devices are allocated to ResourceClaim %s. Pod %s, which has it, is %s: %s", s.Name,
			s.WorstPod.Ref.Name, own.State, own.Cause)
		a.Facts, a.Fixes = append(a.Facts, own.Facts...), append(a.Fixes, own.Fixes...)
		return
	case *policyv1.PodDisruptionBudget, *networkingv1.Ingress, *autoscalingv2.HorizontalPodAutoscaler,
		*corev1.PersistentVolumeClaim:
		a.Facts = append(a.Facts, fmt.Sprintf("Pod %s is %s: %s", s.WorstPod.Ref.Name, own.State, own.Cause))
		a.Fixes = append(a.Fixes, own.Fixes...)
		return
	}
	if !slices.Contains([]string{"Ready", "running"}, a.State) {
		return
	}
	a.Cause = fmt.Sprintf("%s But Pod %s is %s: %s", strings.ReplaceAll(a.Cause, "; nothing blocks it", ""),
		s.WorstPod.Ref.Name, own.State, own.Cause)
	a.Facts, a.Fixes = append(a.Facts, own.Facts...), append(slices.Clone(own.Fixes), a.Fixes...)
	if a.Next == "" {
		a.Next = own.Next
	}
}

// inside are the findings about what is in a namespace, as an overview of it has them; none of one
// that is being deleted.
func (s Subject) inside() []finding.Finding {
	if s.Objects == nil || s.NamespaceContext == nil || s.Object.(*corev1.Namespace).DeletionTimestamp != nil {
		return nil
	}
	of := slices.DeleteFunc(finding.All(s.Objects, s.Name), func(f finding.Finding) bool {
		return f.Object.Namespace != s.Name && f.Root().Namespace != s.Name // of the cluster
	})
	var out []finding.Finding
	for _, c := range NewOverview("namespace "+s.Name, of, s.NamespaceContext.Inside).Causes {
		out = append(out, c.Finding)
	}
	return out
}

func (s Subject) deployment(a *Answer, d *appsv1.Deployment) {
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue:
			a.State, a.Since = withoutPods, c.LastTransitionTime.Time
			s.podsRefused(a, c.Message, &d.Spec.Template)
			return
		case c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded":
			a.Facts = append(a.Facts, fmt.Sprintf("ProgressDeadlineExceeded since %s: %s",
				ago(s.Now.Sub(c.LastTransitionTime.Time)), c.Message))
		}
	}
	want := workload.Replicas(d.Spec.Replicas)
	if d.Spec.Paused && d.Status.UpdatedReplicas < want {
		a.State, a.Cause = "paused",
			fmt.Sprintf("The Deployment is paused: %d of %d Pods are of its newest template, and no more are made.",
				d.Status.UpdatedReplicas, want)
		a.Fixes = []Fix{commandFix("go on with it", fmt.Sprintf("kubectl -n %s rollout resume deployment %s",
			s.Namespace, s.Name))}
		return
	}
	if s.WorstPod != nil && d.Status.ReadyReplicas >= want && d.Status.UpdatedReplicas < want ||
		s.WorstPod != nil && d.Status.Replicas > want {
		a.Facts = append(a.Facts,
			fmt.Sprintf("a roll-out is under way: %d of %d Pods are of the newest template, the older ones serve on",
				d.Status.UpdatedReplicas, want))
		s.explainByPod(a, stuckRollout, want, d.Status.ReadyReplicas)
		return
	}
	s.workload(a, want, d.Status.ReadyReplicas, &d.Spec.Template)
}

// workload explains any object with a number of replicas.
func (s Subject) workload(a *Answer, want, ready int32, template *corev1.PodTemplateSpec) {
	switch {
	case want == 0:
		a.State, a.Cause = "at rest", "It wants no Pods: its number of replicas is 0."
		if strings.HasPrefix(s.Kind, "daemonset") || s.Kind == "ds" {
			a.causedAt = []finding.Stage{finding.StagePlacement}
			a.Cause = "No node is wanted by it: its node selector and tolerations fit none."
		} else if maker := s.maker(); maker != "" {
			a.Cause += " " + maker + " decides that: it keeps the set to go back to."
		} else {
			a.Fixes = []Fix{commandFix("run one", fmt.Sprintf("kubectl -n %s scale %s %s --replicas=1", s.Namespace,
				s.Kind, s.Name))}
		}
	case ready >= want && (s.WorstPod == nil || s.WorstPod.Pod != nil && pod.IsReady(s.WorstPod.Pod)):
		a.State, a.Cause = "Ready", fmt.Sprintf("All %d Pods are ready; nothing blocks it.", want)
		if a.Next = s.untilAvailable(); a.Next != "" {
			a.Cause = s.notYetAvailable(want, a.Next)
		}
	case s.WorstPod != nil:
		s.explainByPod(a, "not ready", want, ready)
	default:
		a.State = withoutPods
		if e := s.newestEvent("FailedCreate"); e != nil {
			s.podsRefused(a, e.Message, template)
			return
		}
		if i := slices.IndexFunc(s.Pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }); i >= 0 {
			p := s.Pods[i]
			a.Cause = fmt.Sprintf("It wants %d Pods, and Pod %s is being deleted and has not ended (%s); the rest "+
				"is made by itself as soon as that is over.", want, p.Name, graceText(p, s.Now))
			a.Fixes = []Fix{seeWhy("see why it has not ended", "Pod", p.Namespace, p.Name)}
			return
		}
		a.causedAt = []finding.Stage{finding.StageControl, finding.StageCreation}
		a.Cause = fmt.Sprintf("It wants %d Pods and has %d; its controller has not made the rest yet.", want,
			len(s.Pods))
		a.Fixes = textFixes("check that the controllers run: `gantry controllers`, or the controllers of `gantry up`")
	}
}

// explainByPod answers with the explanation of the worst Pod.
func (s Subject) explainByPod(a *Answer, state string, want, ready int32) {
	w := Why(*s.WorstPod)
	a.State, a.Since, a.Next = state, w.Since, w.Next
	a.Cause = fmt.Sprintf("%d of %d Pods are ready. Pod %s is %s: %s", ready, want, s.WorstPod.Ref.Name, w.State,
		w.Cause)
	a.Facts = append(append(a.Facts, s.refusedAlike()...), w.Facts...)
	a.Fixes = append(a.Fixes, w.Fixes...)
}

func (s Subject) newestEvent(reason string) *corev1.Event {
	var out *corev1.Event
	for i := range s.Events {
		e := &s.Events[i]
		if e.Reason == reason && (out == nil || out.LastTimestamp.Before(&e.LastTimestamp)) {
			out = e
		}
	}
	return out
}

// podsRefused explains that the API server refuses its Pods.
func (s Subject) podsRefused(a *Answer, message string, template *corev1.PodTemplateSpec) {
	if q, ok := parseQuota(message); ok {
		s.overQuota(a, q, template)
	} else if !s.refused(a, message) {
		a.Cause = s.noPod(a) + ": the API server refuses it: " + strings.TrimSuffix(message, ".") + "."
		if a.Fixes = s.unstated(message); len(a.Fixes) == 0 {
			a.causedAt = []finding.Stage{finding.StageCreation}
			a.Fixes = textFixes("change the template, or the rule that the text names")
		}
		if strings.Contains(message, "serviceaccount") && strings.Contains(message, "not found") {
			a.causedAt = nil
			a.Fixes = []Fix{commandFix("make the service account", fmt.Sprintf("kubectl -n %s create serviceaccount %s",
				s.Namespace, template.Spec.ServiceAccountName))}
		}
	}
	s.furtherPods(a)
	a.Next = "its controller tries again with growing pauses"
	said := "the API server's words"
	if e := s.newestEvent("FailedCreate"); e != nil && s.Now.Sub(eventTime(e)) >= pastRefusal {
		said += fmt.Sprintf(", %s ago", ago(s.Now.Sub(eventTime(e))))
	}
	a.Facts = append(a.Facts, said+": "+message)
	s.afterRefusal(a, template)
}

// pastRefusal is after how long a refusal may be of what has been mended.
const pastRefusal = 10 * time.Second

func (s Subject) cronJob(a *Answer, c *batchv1.CronJob) {
	last := "never"
	if t := c.Status.LastScheduleTime; t != nil {
		last = ago(s.Now.Sub(t.Time)) + " ago"
	}
	a.Facts = append(a.Facts, fmt.Sprintf("schedule %s, last run %s, %d at work", c.Spec.Schedule, last,
		len(c.Status.Active)))
	switch {
	case c.Spec.Suspend != nil && *c.Spec.Suspend:
		a.State, a.Cause = "suspended", "The CronJob is suspended: it starts no Jobs."
		a.Fixes = []Fix{
			commandFix("let it go on",
				fmt.Sprintf(`kubectl -n %s patch cronjob %s --type=merge -p '{"spec":{"suspend":false}}'`, s.Namespace,
					s.Name))}
	case s.WorstPod != nil:
		w := Why(*s.WorstPod)
		a.State, a.Since, a.Next = "troubled", w.Since, w.Next
		a.Cause = fmt.Sprintf("Pod %s of its newest Job is %s: %s", s.WorstPod.Ref.Name, w.State, w.Cause)
		if len(c.Status.Active) > 0 && c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent {
			a.Cause += " With concurrencyPolicy Forbid no new Job is started before it ends."
		}
		a.Facts, a.Fixes = append(a.Facts, w.Facts...), w.Fixes
	case len(c.Status.Active) > 0:
		a.State, a.Cause = "running", "A Job of it runs."
	case s.refusedLast(a, c):
	default:
		a.State, a.Cause = "waiting", "It waits for its time; nothing blocks it."
		a.causedAt = []finding.Stage{finding.StageControl, finding.StageCreation, finding.StageChange}
		if next, err := finding.NextStart(c, s.Now); err == nil && !next.IsZero() {
			a.Next = fmt.Sprintf("it starts a Job at %s, in %s", next.UTC().Format(time.RFC3339), ago(next.Sub(s.Now)))
			a.Cause = fmt.Sprintf("It waits for its time, %s; nothing blocks it.", nextStartText(c, next))
		}
	}
}

// meantFindings are the findings of the Pod that an object's selector nearly selects, which come
// after those about the selector: once that is mended they hinder. Of an object that selects to
// protect and not to reach, they are no trouble of its own. None of a namespace.
func (s Subject) meantFindings() []finding.Finding {
	if _, whole := s.Object.(*corev1.Namespace); whole || s.NamespaceContext == nil {
		return nil
	}
	var out []finding.Finding
	for _, a := range s.NamespaceContext.Inside {
		out = append(out, a.Findings...)
	}
	if _, reaches := s.Object.(*corev1.Service); !reaches {
		for i := range out {
			out[i].Severity = max(out[i].Severity, finding.Threat)
		}
	}
	return out
}

package finding

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
	"github.com/gantry-project/gantry/internal/pod"
)

// olderTemplates finds Pods of a template that was changed since, which their controller does not
// replace: a ReplicaSet never does, a StatefulSet not before they are ready.
func olderTemplates(c *Cluster, o metav1.Object, self Object) []Finding {
	switch x := o.(type) {
	case *appsv1.ReplicaSet:
		if metav1.GetControllerOf(x) == nil {
			return c.templateNewer(x, self)
		}
	case *appsv1.StatefulSet:
		return c.oldRevisionWaits(x, self)
	}
	return nil
}

// oldRevisionWaits finds the Pod of an older template for which a StatefulSet in order waits: it
// goes on, and replaces Pods, only when that one is ready, which the old template may never let it
// be.
func (c *Cluster) oldRevisionWaits(s *appsv1.StatefulSet, self Object) []Finding {
	newest := s.Status.UpdateRevision
	if newest == "" || s.DeletionTimestamp != nil || s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement ||
		s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType ||
		s.Status.ObservedGeneration < s.Generation || c.Now.Sub(lastWrite(s)) < settleTime {
		return nil
	}
	start := int32(0)
	if s.Spec.Ordinals != nil {
		start = s.Spec.Ordinals.Start
	}
	partition := int32(0)
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		partition = *r.Partition
	}
	for _, p := range owned[*corev1.Pod](c, "Pod", s) {
		revision := p.Labels[appsv1.ControllerRevisionHashLabelKey]
		n, err := strconv.Atoi(strings.TrimPrefix(p.Name, s.Name+"-"))
		if err != nil || int32(n)-start < partition || revision == newest || pod.IsReady(p) ||
			!pod.IsActive(p) || c.Now.Sub(p.CreationTimestamp.Time) < settleTime {
			continue
		}
		of := objectOf("Pod", p)
		return []Finding{{Code: "OldTemplateWaits", Stage: StageChange, Object: of,
			Field: "metadata.labels[" + appsv1.ControllerRevisionHashLabelKey + "]", Value: revision, Want: newest,
			Related: []Object{self}, Numbers: map[string]string{"updatedReplicas": fmt.Sprint(s.Status.UpdatedReplicas),
				"replicas": fmt.Sprint(workload.Replicas(s.Spec.Replicas))},
			Message: fmt.Sprintf("StatefulSet %s has a new template, and its Pod %s is of an older one and not "+
				"ready: the set waits until it is ready before it replaces any Pod, so the new template does not "+
				"reach it before somebody deletes the Pod (podManagementPolicy OrderedReady).", self.Name, p.Name),
			Remedies: []Remedy{{Say: "delete the Pod: it comes back with the new template",
				Run: []string{kubectl(of, "delete", "")}}}}}
	}
	return nil
}

// templateNewer finds a ReplicaSet of nobody whose template was changed since its Pods were made.
func (c *Cluster) templateNewer(s *appsv1.ReplicaSet, self Object) []Finding {
	var old []Object
	var field, value, was string
	for _, p := range owned[*corev1.Pod](c, "Pod", s) {
		if !pod.IsActive(p) || !c.ofOlderTemplate(p, s) {
			continue // of the newest template; what differs was changed by admission
		}
		if at, new, old1 := templateDiffers(&s.Spec.Template.Spec, &p.Spec); at != "" {
			old = append(old, objectOf("Pod", p))
			field, value, was = "spec.template.spec."+at, new, old1
		}
	}
	if len(old) == 0 {
		return nil
	}
	return []Finding{{Code: "OlderTemplate", Severity: Threat, Stage: StageChange, Object: self, Field: field,
		Value: value, Related: old, Numbers: map[string]string{"pods": fmt.Sprint(len(old)),
			"replicas": fmt.Sprint(workload.Replicas(s.Spec.Replicas))},
		Message: fmt.Sprintf("%d of %d Pods of ReplicaSet %s are of an older template (%s was %s): a ReplicaSet never "+
			"replaces Pods because its template was changed.", len(old), workload.Replicas(s.Spec.Replicas), self.Name,
			field, orNone(strings.Fields(was), "not set")),
		Remedies: []Remedy{{Say: "delete them: they come back with the new template", Run: []string{fmt.Sprintf(
			"kubectl -n %s delete pod %s", self.Namespace, strings.Join(namesOf(old), " "))}},
			{Say: "or use a Deployment, which replaces Pods by itself"}}}}
}

// ofOlderTemplate reports whether a Pod may be of an older template than its controller has now.
func (c *Cluster) ofOlderTemplate(p *corev1.Pod, owner metav1.Object) bool {
	revision := p.Labels[appsv1.ControllerRevisionHashLabelKey]
	switch x := owner.(type) {
	case *appsv1.ReplicaSet:
		changed := lastWrite(x)
		sameSecond := p.CreationTimestamp.Time.Equal(changed) && x.Generation > 1 && c.nothingMutates()
		return metav1.GetControllerOf(x) == nil && (p.CreationTimestamp.Time.Before(changed) || sameSecond)
	case *appsv1.StatefulSet:
		return revision != x.Status.UpdateRevision
	case *appsv1.DaemonSet:
		newest := newestRevision(c, x)
		return newest != "" && revision != newest
	}
	return false
}

// nothingMutates reports whether no webhook or policy is there that changes objects, so that a
// Pod is as the template was when it was made. Times of the API are of whole seconds.
func (c *Cluster) nothingMutates() bool {
	for _, kind := range []string{"MutatingWebhookConfiguration", "MutatingAdmissionPolicy"} {
		if !c.Read(kind) || len(c.Objects[kind]) > 0 {
			return false
		}
	}
	return true
}

func namesOf(list []Object) []string {
	var out []string
	for _, o := range list {
		out = append(out, o.Name)
	}
	return out
}

// templateDiffers is the first field of a template's containers that a Pod has otherwise, with both
// values; empty when there is none.
func templateDiffers(t, p *corev1.PodSpec) (field, value, was string) {
	for _, list := range []struct {
		name      string
		want, has []corev1.Container
	}{{"initContainers", t.InitContainers, p.InitContainers}, {"containers", t.Containers, p.Containers}} {
		for i := range list.want {
			x := &list.want[i]
			at := fmt.Sprintf("%s[%d]", list.name, i)
			j := slices.IndexFunc(list.has, func(y corev1.Container) bool { return y.Name == x.Name })
			if j < 0 {
				return at, x.Name, ""
			}
			y := &list.has[j]
			for _, f := range []struct{ name, want, has string }{{"image", x.Image, y.Image},
				{"command", strings.Join(x.Command, " "), strings.Join(y.Command, " ")},
				{"args", strings.Join(x.Args, " "), strings.Join(y.Args, " ")}} {
				if f.want != f.has {
					return at + "." + f.name, f.want, f.has
				}
			}
			for k, e := range x.Env {
				l := slices.IndexFunc(y.Env, func(v corev1.EnvVar) bool { return v.Name == e.Name })
				if l < 0 {
					return fmt.Sprintf("%s.env[%d]", at, k), e.Name, ""
				} else if y.Env[l].Value != e.Value {
					return fmt.Sprintf("%s.env[%d].value", at, k), e.Value, y.Env[l].Value
				}
			}
		}
	}
	return "", "", ""
}

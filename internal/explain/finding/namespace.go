package finding

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespaceEnding finds what keeps a namespace from going.
func namespaceEnding(c *Cluster, o metav1.Object, self Object) []Finding {
	n, ok := o.(*corev1.Namespace)
	if !ok || n.DeletionTimestamp == nil {
		return nil
	}
	f := Finding{Code: "NamespaceTerminating", Stage: StageChange, Object: self, Field: "spec.finalizers",
		Message: fmt.Sprintf("Namespace %s is being deleted, and goes when everything in it has gone.", self.Name)}
	var look []Remedy
	var out []Finding
	for _, cond := range n.Status.Conditions {
		if cond.Status == corev1.ConditionTrue {
			f.Message += fmt.Sprintf(" %s: %s", cond.Type, strings.TrimSuffix(cond.Message, ".")+".")
			f.Field, f.Value = "status.conditions["+string(cond.Type)+"]", string(cond.Type)
			c.undiscovered(&f, cond.Message)
			if m := finalizerWords.FindAllStringSubmatch(cond.Message, -1); m != nil {
				f.Value = m[0][1]
				look = append(look, Remedy{Say: "find what holds on to " + f.Value +
					", and let its controller finish or remove the " +
					"finalizer", Run: []string{fmt.Sprintf("kubectl api-resources --verbs=list "+
					"--namespaced -o name | xargs -n1 kubectl -n %s get --ignore-not-found -o name", self.Name)}})
			}
		}
	}
	if (f.Value == "" || f.Value == string(corev1.NamespaceContentRemaining)) && c.endsSoon(n) {
		f.Severity = Note // its content is being deleted
	}
	for _, kind := range c.sortedKinds() {
		for _, x := range c.Objects[kind] {
			if x.GetNamespace() == n.Name && len(x.GetFinalizers()) > 0 && x.GetDeletionTimestamp() != nil {
				held := objectOf(kind, x)
				f.Related = append(f.Related, held)
				f.Message += fmt.Sprintf(" %s %s is held by %s.", kind, x.GetName(), joined(x.GetFinalizers()))
				f.Remedies = append(f.Remedies, finalizerRemedies(held, x.GetFinalizers())...)
				out = append(out, c.lastHeld(x, held)...)
			}
		}
	}
	c.endingPods(&f, n)
	if len(f.Related) == 0 {
		f.Remedies = append(f.Remedies, look...)
	}
	return slices.Concat([]Finding{f}, namespaceFinalizers(n, self), out)
}

// endsSoon reports whether a namespace's deletion is so young, or a Pod of it so short a while past
// the end of its grace period, that its content may still go by itself.
func (c *Cluster) endsSoon(n *corev1.Namespace) bool {
	last := n.DeletionTimestamp.Time
	for _, p := range list[*corev1.Pod](c, "Pod") {
		if p.Namespace == n.Name && p.DeletionTimestamp != nil && p.DeletionTimestamp.After(last) {
			last = p.DeletionTimestamp.Time
		}
	}
	return c.Now.Sub(last) < 3*settleTime
}

// namespaceFinalizers finds finalizers of a namespace's spec that are none of Kubernetes: they are
// removed by a request of their own.
func namespaceFinalizers(n *corev1.Namespace, self Object) []Finding {
	var out []Finding
	for i, name := range n.Spec.Finalizers {
		if name == corev1.FinalizerKubernetes {
			continue
		}
		out = append(out, Finding{Code: "FinalizerHolds", Stage: StageChange, Object: self, Field: "spec.finalizers",
			Value: string(name), Message: fmt.Sprintf("Namespace %s is being deleted and is held by %s in "+
				"spec.finalizers: whoever set it has to remove it.", self.Name, name),
			Remedies: []Remedy{{Say: "let its controller finish; or remove the finalizer by hand (subresource " +
				"finalize): what it waits for is then not done", Run: []string{fmt.Sprintf("kubectl get namespace %s "+
				`-o json | kubectl patch --local -f - --type=json -p '[{"op":"remove","path":"/spec/finalizers/%d"}]' `+
				"-o json | kubectl replace --raw /api/v1/namespaces/%s/finalize -f -", self.Name, i, self.Name)}}}})
	}
	return out
}

// finalizerWords are how a namespace's condition names a finalizer that is left.
var finalizerWords = regexp.MustCompile(`([a-z0-9.-]+(?:/[A-Za-z0-9._-]+)?) in \d+ resource instances`)

// undiscovered adds the APIs that a condition's text names and that do not answer: without them it
// is not known what the namespace has.
func (c *Cluster) undiscovered(f *Finding, words string) {
	for _, x := range c.Objects["APIService"] {
		version, group, _ := strings.Cut(x.GetName(), ".")
		if group == "" || !strings.Contains(words, group+"/"+version) {
			continue
		}
		to := objectOf("APIService", x)
		f.Related = append(f.Related, to)
		f.Message += fmt.Sprintf(" APIService %s does not answer: until it does, nobody knows what the namespace "+
			"has of it.",
			to.Name)
		f.Remedies = append(f.Remedies, SeeWhy("see why it does not answer", to), Remedy{Say: "or, when it never " +
			"comes back, delete the APIService: nothing is served of " +
			"that group then",
			Run: []string{kubectl(to, "delete", "")}})
	}
}

// ownFinalizers are those that a controller of Kubernetes removes when it is time.
var ownFinalizers = []string{"kubernetes.io/pvc-protection", "kubernetes.io/pv-protection", "foregroundDeletion",
	"orphan", "batch.kubernetes.io/job-tracking", "service.kubernetes.io/load-balancer-cleanup", "kubernetes",
	definitionCleanup}

// ForeignFinalizers are those that no controller of Kubernetes removes.
func ForeignFinalizers(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(ownFinalizers, s) })
}

// finalizerRemedies remove foreign finalizers by hand, and say what that costs.
func finalizerRemedies(o Object, finalizers []string) []Remedy {
	foreign := ForeignFinalizers(finalizers)
	if len(foreign) == 0 {
		return nil
	}
	own := slices.DeleteFunc(slices.Clone(finalizers), func(s string) bool { return slices.Contains(foreign, s) })
	raw, _ := json.Marshal(slices.Concat([]string{}, own)) // strings always marshal
	return []Remedy{
		{Say: "let its controller finish; or remove the finalizers by hand: what they wait for is then not done",
			Run: []string{kubectl(o, "patch", fmt.Sprintf(`--type=merge -p '{"metadata":{"finalizers":%s}}'`, raw))}}}
}

// endingPods names the Pods that a namespace waits for, with what is left of their grace periods.
func (c *Cluster) endingPods(f *Finding, n *corev1.Namespace) {
	var texts []string
	for _, p := range list[*corev1.Pod](c, "Pod") {
		if p.Namespace != n.Name || p.DeletionTimestamp == nil || len(p.Finalizers) > 0 || len(texts) == 3 {
			continue
		}
		grace := int64(0)
		if g := p.DeletionGracePeriodSeconds; g != nil {
			grace = *g
		}
		left := max(p.DeletionTimestamp.Sub(c.Now), 0).Round(time.Second)
		texts = append(texts, fmt.Sprintf("%s (grace period %d s, %s of it left)", p.Name, grace, left))
		f.Related = append(f.Related, objectOf("Pod", p))
	}
	if len(texts) > 0 {
		f.Message += fmt.Sprintf(" It waits for Pods that are terminating: %s; it goes by itself when they have ended.",
			strings.Join(texts, ", "))
	}
}

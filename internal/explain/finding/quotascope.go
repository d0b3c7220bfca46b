package finding

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ScopeOf is a sentence, with a space before it, about what a quota counts where it does not count
// everything; empty where it does or the quota is not known.
func (c *Cluster) ScopeOf(namespace, quota string) string {
	if c == nil {
		return ""
	}
	q, ok := get[*corev1.ResourceQuota](c, "ResourceQuota", namespace, quota)
	if !ok {
		return ""
	}
	var parts []string
	for _, s := range q.Spec.Scopes {
		parts = append(parts, "scope "+string(s))
	}
	if q.Spec.ScopeSelector != nil {
		for _, e := range q.Spec.ScopeSelector.MatchExpressions {
			part := fmt.Sprintf("scope %s %s", e.ScopeName, e.Operator)
			if len(e.Values) > 0 {
				part += " " + strings.Join(e.Values, ", ")
			}
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf(" It counts only Pods of %s.", joined(parts))
}

// ownLimit states a limit of a container's own, so that it gets no default one. The template of a
// Job cannot be changed.
func ownLimit(self Object, container, name, amount string) []Remedy {
	r := Remedy{Say: fmt.Sprintf("state a limit of %s of its own, at least its request of %s", name, amount)}
	if self.Kind != "Job" && self.Kind != "CronJob" && self.Kind != "Pod" {
		r.Run = []string{fmt.Sprintf("kubectl -n %s set resources %s %s -c %s --limits=%s=%s", self.Namespace,
			self.lower(),
			self.Name, container, name, amount)}
	}
	return []Remedy{r, {Say: fmt.Sprintf("or lower its request of %s to the default limit", name)}}
}

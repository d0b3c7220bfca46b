package finding

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
	"github.com/gantry-project/gantry/internal/pod"
)

// quotasBeyond finds quotas that refuse a workload's next Pod as well, beyond the refusal that was
// told: admission ends with the first one.
func (c *Cluster) quotasBeyond(self Object, o metav1.Object, words string) []Finding {
	template := workload.Template(o)
	if template == nil {
		return nil
	}
	told := ""
	if m := quotaWords.FindStringSubmatch(words); m != nil {
		told = strings.TrimSuffix(m[1], ",")
	}
	one := countedOf(&corev1.Pod{Spec: template.Spec})
	var out []Finding
	for _, q := range in[*corev1.ResourceQuota](c, "ResourceQuota", self.Namespace) {
		if q.Name == told || len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			continue
		}
		var requested, used, limited []string
		for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
			hard, sum := q.Status.Hard[name], q.Status.Used[name].DeepCopy()
			more, counts := one[name]
			if sum.Add(more); !counts || more.IsZero() || sum.Cmp(hard) <= 0 {
				continue
			}
			have := q.Status.Used[name]
			requested = append(requested, string(name)+"="+more.String())
			used = append(used, string(name)+"="+have.String())
			limited = append(limited, string(name)+"="+hard.String())
		}
		if len(limited) > 0 {
			out = append(out, quotaExceeded(self, []string{"", q.Name, strings.Join(requested, ","),
				strings.Join(used, ","), strings.Join(limited, ",")})...)
		}
	}
	return out
}

// countedOf is what quotas count of a Pod, by the names that they have for it.
func countedOf(p *corev1.Pod) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	out := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	for name, q := range pod.Requests(p) {
		out["requests."+name] = q
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage {
			out[name] = q
		}
	}
	for name, q := range pod.Limits(p) {
		out["limits."+name] = q
	}
	return out
}

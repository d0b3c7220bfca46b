package finding

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/pod"
)

// belowUsage is how a kubelet says that a limit would be less than what is in use.
var belowUsage = regexp.MustCompile(`(?:container|limit)[^0-9]*\((\d+)\) below current usage \((\d+)\)|` +
	`\((\d+)\) below[^(]*\((\d+)\)`)

// resizeError finds a Pod whose granted resize its kubelet cannot carry out: the resource that
// differs, what the container keeps, and what would do.
func resizeError(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok || !pod.IsActive(p) {
		return nil
	}
	i := slices.IndexFunc(p.Status.Conditions, func(x corev1.PodCondition) bool {
		return x.Type == corev1.PodResizeInProgress && x.Status == corev1.ConditionTrue && x.Reason == "Error"
	})
	if i < 0 {
		return nil
	}
	words := p.Status.Conditions[i].Message
	f := Finding{Code: "ResizeFailed", Stage: StageNode, Object: self, Field: "spec", Numbers: map[string]string{
		"reason": "Error"}, Related: []Object{{"Node", "", p.Spec.NodeName}}}
	d, differs := c.resizedAway(p)
	if !differs {
		f.Message = fmt.Sprintf("The resize of Pod %s is not carried out: %s", self.Name, words)
		return []Finding{f}
	}
	f.Field, f.Value, f.Want = d.field, d.want.String(), d.has.String()
	f.Numbers["wanted"], f.Numbers["has"] = f.Value, f.Want
	f.Message = fmt.Sprintf("The resize of Pod %s is not carried out (PodResizeInProgress, reason Error): "+
		"container %s is to have %s of %s and runs on with the %s that it has. The kubelet says: "+
		"%s.", self.Name, d.container, f.Value,
		d.name, f.Want, strings.TrimSuffix(words, "."))
	if used := usedBytes(words); used > 0 && d.name == corev1.ResourceMemory {
		f.Numbers["used"] = mebi(used)
		room := resource.NewQuantity((used+used/4+(16<<20)-1)/(16<<20)*(16<<20), resource.BinarySI) // a quarter more
		if room.Cmp(d.has) < 0 {
			f.Want = room.String()
		}
		f.Message += fmt.Sprintf(" It uses %s (files in memory count), and a limit below the usage is not set.",
			mebi(used))
	}
	f.Remedies = []Remedy{{Say: fmt.Sprintf("ask for %s of %s, which is more than it uses", f.Want, d.name),
		Run: []string{fmt.Sprintf("kubectl -n %s patch pod %s --subresource=resize --type=strategic -p %s", p.Namespace,
			p.Name, shellquote.Quoted(d.patch(f.Want)))}},
		{Say: "or let the program use less first: the kubelet tries again"}}
	return []Finding{f}
}

// usedBytes is the usage that a kubelet's words tell; 0 where they tell none.
func usedBytes(words string) int64 {
	m := belowUsage.FindStringSubmatch(words)
	if m == nil {
		return 0
	}
	text := m[2] + m[4]
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// mebi writes bytes in MiB.
func mebi(n int64) string { return fmt.Sprintf("%dMi", (n+(1<<19))>>20) }

// resizeDifference is a limit or request of a container's spec that its status does not have.
type resizeDifference struct {
	field, container, list, kind string
	name                         corev1.ResourceName
	want, has                    resource.Quantity
}

// patch is the strategic patch that sets the limit, and the request that may not be above it.
func (d resizeDifference) patch(value string) string {
	both := fmt.Sprintf(`{%q:%q}`, string(d.name), value)
	return fmt.Sprintf(`{"spec":{%q:[{"name":%q,"resources":{"requests":%s,"limits":%s}}]}}`, d.list, d.container, both,
		both)
}

// resizedAway is the first resource of a Pod's containers in which spec and status differ, limits
// first.
func (c *Cluster) resizedAway(p *corev1.Pod) (resizeDifference, bool) {
	for _, list := range []struct {
		name     string
		specs    []corev1.Container
		statuses []corev1.ContainerStatus
	}{{"containers", p.Spec.Containers, p.Status.ContainerStatuses},
		{"initContainers", p.Spec.InitContainers, p.Status.InitContainerStatuses}} {
		for i := range list.specs {
			j := slices.IndexFunc(list.statuses, func(s corev1.ContainerStatus) bool {
				return s.Name == list.specs[i].Name && s.Resources != nil
			})
			if j < 0 {
				continue
			}
			spec, has := list.specs[i].Resources, list.statuses[j].Resources
			for _, x := range []struct {
				kind      string
				want, has corev1.ResourceList
			}{{"limits", spec.Limits, has.Limits}, {"requests", spec.Requests, has.Requests}} {
				for _, name := range slices.Sorted(maps.Keys(x.want)) {
					w, h := x.want[name], x.has[name]
					if w.Cmp(h) != 0 && !h.IsZero() {
						return resizeDifference{fmt.Sprintf("spec.%s[%d].resources.%s.%s", list.name, i, x.kind, name),
							list.specs[i].Name, list.name, x.kind, name, w, h}, true
					}
				}
			}
		}
	}
	return resizeDifference{}, false
}

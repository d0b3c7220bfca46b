package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/pod"
)

// quotaExceeded is a ResourceQuota that a Pod exceeds, from the API server's message.
type quotaExceeded struct {
	quota                 string
	resource              string
	requested, used, hard resource.Quantity
}

var quotaPattern = regexp.MustCompile(`exceeded quota: ([^,]+), requested: (.+?), used: (.+?), limited: (.+)$`)

// parseQuota returns the first exceeded resource.
func parseQuota(message string) (quotaExceeded, bool) {
	m := quotaPattern.FindStringSubmatch(strings.TrimSpace(message))
	if m == nil {
		return quotaExceeded{}, false
	}
	requested, used, limited := amounts(m[2]), amounts(m[3]), amounts(m[4])
	for _, name := range sortedNames(requested) {
		o := quotaExceeded{m[1], name, requested[name], used[name], limited[name]}
		if excess := o.excess(); excess.Sign() > 0 {
			return o, true
		}
	}
	return quotaExceeded{}, false
}

var missingRequests = regexp.MustCompile(`([a-z][\w./-]*) for: ([^;]+)`)

// defaultAmounts are proposals if a quota only requires that an amount is set.
var defaultAmounts = map[corev1.ResourceName]string{corev1.ResourceCPU: "100m", corev1.ResourceMemory: "128Mi",
	corev1.ResourceEphemeralStorage: "1Gi"}

// unstated returns fixes that set the amounts which a quota requires; none if the message is not
// about that.
func (s Subject) unstated(message string) []Fix {
	t := templateOf(s.Object)
	_, wants, ok := strings.Cut(message, "must specify ")
	if t == nil || !ok || s.Kind == "job" || s.Kind == "cronjob" { // the template is immutable, or nested deeper
		return nil
	}
	var says []string
	amounts := map[string]map[string]map[corev1.ResourceName]string{} // by container, and requests or limits
	for _, m := range missingRequests.FindAllStringSubmatch(wants, -1) {
		o := quotaExceeded{resource: m[1]}
		name, limits := o.resourceOf()
		amount, field := defaultAmounts[name], "requests"
		if amount == "" {
			return nil
		}
		if limits {
			field = "limits"
		}
		for who := range strings.SplitSeq(strings.TrimSpace(m[2]), ",") {
			if amounts[who] == nil {
				amounts[who] = map[string]map[corev1.ResourceName]string{}
			}
			if amounts[who][field] == nil {
				amounts[who][field] = map[corev1.ResourceName]string{}
			}
			amounts[who][field][name] = amount
			says = append(says, fmt.Sprintf("container %s %s of %s", who, m[1], amount))
		}
	}
	if len(says) == 0 {
		return nil
	}
	lists := map[string][]any{}
	for _, who := range slices.Sorted(maps.Keys(amounts)) {
		list := "containers"
		if s.isInit(who) {
			list = "initContainers"
		}
		lists[list] = append(lists[list], map[string]any{"name": who, "resources": amounts[who]})
	}
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": lists}}})
	if err != nil {
		return nil
	}
	return []Fix{commandFix("give "+strings.Join(says, ", and ")+", or as much as it needs",
		fmt.Sprintf("kubectl -n %s patch %s %s --type=strategic -p %s", s.Namespace, s.Kind, s.Name,
			shellquote.Quoted(string(raw))))}
}

func amounts(text string) map[string]resource.Quantity {
	out := map[string]resource.Quantity{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if q, err := resource.ParseQuantity(value); err == nil {
			out[name] = q
		}
	}
	return out
}

func sortedNames(m map[string]resource.Quantity) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// excess returns by how much the Pod exceeds the quota.
func (o quotaExceeded) excess() resource.Quantity {
	e := o.requested.DeepCopy()
	e.Add(o.used)
	e.Sub(o.hard)
	return e
}

// resourceOf splits names such as requests.cpu: the resource, and whether limits count.
func (o quotaExceeded) resourceOf() (name corev1.ResourceName, limits bool) {
	if rest, ok := strings.CutPrefix(o.resource, "limits."); ok {
		return corev1.ResourceName(rest), true
	}
	return corev1.ResourceName(strings.TrimPrefix(o.resource, "requests.")), false
}

func (o quotaExceeded) amount(r corev1.ResourceRequirements) resource.Quantity {
	name, limits := o.resourceOf()
	if limits {
		return r.Limits[name]
	}
	return r.Requests[name]
}

// format formats a quantity for people: cpu in thousandths.
func (o quotaExceeded) format(q resource.Quantity) string {
	if name, _ := o.resourceOf(); name == corev1.ResourceCPU {
		return fmt.Sprintf("%dm", q.MilliValue())
	}
	return q.String()
}

// decisiveContainer returns the container that determines the Pod's amount, and the sum of those
// that run together.
func (o quotaExceeded) decisiveContainer(
	s *corev1.PodSpec) (who *corev1.Container, init bool, together resource.Quantity) {
	var largest *corev1.Container
	for i := range s.Containers {
		q := o.amount(s.Containers[i].Resources)
		together.Add(q)
		if largest == nil || q.Cmp(o.amount(largest.Resources)) > 0 {
			largest = &s.Containers[i]
		}
	}
	var sidecars resource.Quantity
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		q := o.amount(c.Resources)
		if pod.IsSidecar(c) {
			sidecars.Add(q)
			together.Add(q)
			continue
		}
		q.Add(sidecars)
		if q.Cmp(o.requested) >= 0 && q.Cmp(together) > 0 {
			who, init = c, true
		}
	}
	if who == nil || together.Cmp(o.requested) >= 0 {
		return largest, false, together
	}
	return who, init, together
}

// overQuota explains where the amount comes from, by how much it exceeds the quota, who uses the
// rest, and what would suffice.
func (s Subject) overQuota(a *Answer, o quotaExceeded, t *corev1.PodTemplateSpec) {
	excess := o.excess()
	who, init, together := o.decisiveContainer(&t.Spec)
	whence := ""
	if who != nil && o.resource != "pods" {
		alone := o.amount(who.Resources)
		switch {
		case init:
			whence = fmt.Sprintf(" (its init container %s; the containers that run later take %s together)", who.Name,
				o.format(together))
		case alone.IsZero(): // it is of something else than containers
		case alone.Cmp(o.requested) == 0:
			whence = fmt.Sprintf(" (its container %s)", who.Name)
		default:
			whence = fmt.Sprintf(" (the sum of its containers, %s the largest with %s)", who.Name, o.format(alone))
		}
	}
	what := "The Pod"
	if strings.Contains(o.resource, "persistentvolumeclaims") || strings.Contains(o.resource, "requests.storage") {
		what = "Its claim"
	}
	a.Cause = fmt.Sprintf("%s: the quota %s of namespace %s refuses it. %s counts %s of %s%s, "+
		"%s of %s are used, so it is %s over.%s",
		s.noPod(a), o.quota, s.Namespace, what, o.format(o.requested), o.resource, whence,
		o.format(o.used), o.format(o.hard), o.format(excess), s.Objects.ScopeOf(s.Namespace, o.quota))
	s.lowerRequest(a, o, who)
	hard := o.hard.DeepCopy()
	hard.Add(excess)
	a.Fixes = append(a.Fixes, commandFix(fmt.Sprintf("raise %s of quota %s to %s", o.resource, o.quota, o.format(hard)),
		fmt.Sprintf(`kubectl -n %s patch resourcequota %s --type=merge -p %s`, s.Namespace, o.quota,
			shellquote.Quoted(fmt.Sprintf(`{"spec":{"hard":{%s:%s}}}`, shellquote.JSON(o.resource),
				shellquote.JSON(o.format(hard)))))))
	s.users(a, o)
}

// lowerRequest adds the fix that lowers the decisive container's amount by the excess.
func (s Subject) lowerRequest(a *Answer, o quotaExceeded, who *corev1.Container) {
	if who == nil || o.resource == "pods" || s.Kind == "job" || s.Kind == "cronjob" {
		return
	}
	name, limits := o.resourceOf()
	now := o.amount(who.Resources)
	now.Sub(o.excess())
	if now.Sign() <= 0 {
		return
	}
	list := "containers"
	if who.RestartPolicy != nil || s.isInit(who.Name) {
		list = "initContainers"
	}
	field := "requests"
	if limits {
		field = "limits"
	}
	a.Fixes = append(a.Fixes, commandFix(fmt.Sprintf("lower %s of %s to %s", o.resource, who.Name, o.format(now)),
		fmt.Sprintf("kubectl -n %s patch %s %s --type=strategic -p %s", s.Namespace, s.Kind, s.Name,
			shellquote.Quoted(fmt.Sprintf(`{"spec":{"template":{"spec":{%q:[{"name":%s,"resources":{%q:{%s:%s}}}]}}}}`,
				list, shellquote.JSON(who.Name), field, shellquote.JSON(string(name)),
				shellquote.JSON(o.format(now)))))))
}

// isInit reports whether the template's container of that name is an init container.
func (s Subject) isInit(name string) bool {
	t := templateOf(s.Object)
	return t != nil && slices.ContainsFunc(t.Spec.InitContainers,
		func(c corev1.Container) bool { return c.Name == name })
}

// users names the Pods that use most of the quota, and those whose deletion would suffice.
func (s Subject) users(a *Answer, o quotaExceeded) {
	if s.ClusterContext == nil {
		return
	}
	name, limits := o.resourceOf()
	take := func(p *corev1.Pod) resource.Quantity {
		if o.resource == "pods" {
			return *resource.NewQuantity(1, resource.DecimalSI)
		}
		if limits {
			return pod.Limits(p)[name]
		}
		return pod.Requests(p)[name]
	}
	var who []*corev1.Pod
	for _, p := range s.ClusterContext.Pods {
		if q := take(p); p.Namespace == s.Namespace && !pod.IsTerminal(p) && q.Sign() > 0 {
			who = append(who, p)
		}
	}
	slices.SortFunc(who, func(x, y *corev1.Pod) int {
		p, q := take(x), take(y)
		return cmp.Or(q.Cmp(p), strings.Compare(x.Name, y.Name))
	})
	excess := o.excess()
	for i, p := range who[:min(len(who), 5)] {
		q := take(p)
		a.Facts = append(a.Facts, fmt.Sprintf("%s uses %s", p.Name, o.format(q)))
		if i == 0 && q.Cmp(excess) >= 0 && len(p.OwnerReferences) == 0 {
			a.Fixes = append(a.Fixes, commandFix(fmt.Sprintf("or end %s, which frees %s", p.Name, o.format(q)),
				fmt.Sprintf("kubectl -n %s delete pod %s", s.Namespace, p.Name)))
		}
	}
}

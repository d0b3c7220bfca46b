package finding

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// The API server's words when it refuses an object.
var (
	quotaWords   = regexp.MustCompile(`exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)`)
	webhookWords = regexp.MustCompile(`failed calling webhook "([^"]+)"|admission webhook "([^"]+)" denied`)
	policyWords  = regexp.MustCompile(
		`ValidatingAdmissionPolicy '([^']+)' with binding '([^']+)' denied request: (.*)`)
	mutatingWords = regexp.MustCompile(
		`(?:^|[^A-Za-z])policy '([^']+)' with binding '([^']+)' denied request: (.*)`)
	securityWords = regexp.MustCompile(`violates PodSecurity "([^":]+):[^"]*": (.*)`)
)

// refusalCauses are the objects to blame for words of a refusal.
func (c *Cluster) refusalCauses(self Object, o metav1.Object, words string) []Finding {
	var out []Finding
	if m := quotaWords.FindStringSubmatch(words); m != nil {
		for _, f := range quotaExceeded(self, m) {
			f.Message += c.ScopeOf(self.Namespace, m[1])
			out = append(out, f)
		}
	}
	if m := policyWords.FindStringSubmatch(words); m != nil {
		out = append(out, c.deniedByPolicy(self, o, m)...)
	}
	if m := mutatingWords.FindStringSubmatch(words); m != nil {
		out = append(out, c.mutationFails(self, m)...)
	}
	if m := webhookWords.FindStringSubmatch(words); m != nil {
		out = append(out, c.webhookCauses(self, m[1]+m[2], words)...)
	}
	if m := securityWords.FindStringSubmatch(words); m != nil {
		out = append(out, c.podSecurity(self, o, m[1], m[2])...)
	}
	if len(out) == 0 {
		out = append(out, c.failedExpressions(self, words)...)
	}
	if len(out) == 0 {
		out = append(out, c.derivedName(self, words)...)
	}
	if len(out) == 0 {
		out = append(out, c.invalidField(self, o, words)...)
	}
	return out
}

// quotaExceeded is one finding for each resource of a quota that is exceeded.
func quotaExceeded(self Object, m []string) []Finding {
	requested, used, limited := pairs(m[2]), pairs(m[3]), pairs(m[4])
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(limited)) {
		hard, err := resource.ParseQuantity(limited[name])
		sum, err2 := resource.ParseQuantity(requested[name])
		more, err3 := resource.ParseQuantity(used[name])
		if err != nil || err2 != nil || err3 != nil {
			continue
		}
		f := Finding{Code: "QuotaExceeded", Stage: StageCreation, Object: Object{"ResourceQuota", self.Namespace, m[1]},
			Field: "spec.hard." + name, Value: hard.String(), Related: []Object{self},
			Numbers: map[string]string{"requested": requested[name], "used": used[name], "hard": limited[name]}}
		f.Message = fmt.Sprintf("Quota %s allows %s of %s, %s are used, and what %s %s makes asks for %s more.", m[1],
			limited[name], name, used[name], self.Kind, self.Name, requested[name])
		never := sum.Cmp(hard) > 0
		sum.Add(more)
		f.Want = sum.String()
		if never {
			f.Message += " That is more than the quota allows even when nothing is used."
		}
		f.Remedies = []Remedy{{Say: fmt.Sprintf("raise %s of the quota to %s", name, f.Want), Run: []string{kubectl(
			f.Object, "patch", "--type=merge -p "+shellquote.Quoted(fmt.Sprintf(`{"spec":{"hard":{%s:%s}}}`,
				jsonText(name),
				jsonText(f.Want))))}}}
		out = append(out, f)
	}
	return out
}

// pairs reads name=value,name=value.
func pairs(s string) map[string]string {
	out := map[string]string{}
	for p := range strings.SplitSeq(strings.Trim(s, ","), ",") {
		if k, v, ok := strings.Cut(p, "="); ok {
			out[k] = v
		}
	}
	return out
}

// webhookCauses blames the configuration of a webhook: what is wrong with it, or that it refuses.
func (c *Cluster) webhookCauses(self Object, name, words string) []Finding {
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		for _, o := range c.Objects[kind] {
			for i, w := range webhooksOf(o) {
				if w.name != name {
					continue
				}
				at := objectOf(kind, o)
				if found := webhook(c, o, at); len(found) > 0 && strings.Contains(words, "failed calling") {
					return append(found, asksAboutItself(c, o, at)...)
				}
				code, field := "WebhookFails", fmt.Sprintf("webhooks[%d].clientConfig", i)
				if !strings.Contains(words, "failed calling") {
					code, field = "DeniedByWebhook", fmt.Sprintf("webhooks[%d]", i)
				}
				f := Finding{Code: code, Stage: StageCreation, Object: at, Field: field, Value: name,
					Related: []Object{self}, Message: fmt.Sprintf("Webhook %s of %s %s keeps the Pods of %s %s "+
						"from being made: %s", name, kind, at.Name, self.Kind, self.Name, words)}
				if u := w.config.URL; u != nil && code == "WebhookFails" {
					f.Field, f.Value = field+".url", *u
				}
				f.Remedies = webhookRemedies(self, at, i, code)
				if code == "WebhookFails" {
					callFailed(&f, w, i, words)
				}
				return append([]Finding{f}, c.quotedByRefusal(self, c.Get(self), code, words)...)
			}
		}
	}
	return nil
}

// hostNamespaces is how a text of PodSecurity about the node's namespaces begins.
const hostNamespaces = "host namespaces"

// givenFields are fields and their contents in a text of PodSecurity.
var givenFields = regexp.MustCompile(`\b(host[A-Z][A-Za-z]*|privileged|runAsUser|type)=([^\s,)]+)`)

// violations are how texts of PodSecurity begin, each with the field of a container or Pod to set.
var violations = []struct{ words, field, value string }{
	{"allowPrivilegeEscalation", "securityContext.allowPrivilegeEscalation", "false"},
	{"unrestricted capabilities", "securityContext.capabilities.drop", `["ALL"]`},
	{notRoot, "securityContext.runAsNonRoot", "true"},
	{"seccompProfile", "securityContext.seccompProfile", `{"type":"RuntimeDefault"}`},
	{sysctlsForbidden, "securityContext.sysctls", ""},
	{"procMount", "securityContext.procMount", `"Default"`},
	{"seLinuxOptions", "securityContext.seLinuxOptions", ""},
	{"hostProcess", "securityContext.windowsOptions.hostProcess", "false"},
	{"forbidden AppArmor profile", "securityContext.appArmorProfile", `{"type":"RuntimeDefault"}`},
	{"privileged", "securityContext.privileged", "false"},
	{hostNamespaces, "hostNetwork", "false"},
	{"hostPath volumes", "volumes", ""},
	{"hostPort", "ports", ""},
	{"runAsUser=0", "securityContext.runAsUser", "1000"},
	{"restricted volume types", "volumes", ""},
	{"non-default capabilities", "securityContext.capabilities.add", "[]"},
}

var quotedNames = regexp.MustCompile(`containers? ((?:"[^"]+"(?:, )?)+)`)

// podSecurity is one finding for each thing that the level of a namespace forbids, and one of the
// namespace.
func (c *Cluster) podSecurity(self Object, o metav1.Object, level, words string) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil {
		return nil
	}
	out := []Finding{{Code: "PodSecurityViolated", Severity: Threat, Stage: StageCreation,
		Object: Object{Kind: "Namespace", Name: self.Namespace},
		Field:  "metadata.labels[pod-security.kubernetes.io/enforce]", Value: level, Related: []Object{self},
		Message: fmt.Sprintf("Namespace %s enforces the Pod Security level %s, and the Pods of %s %s are not so: %s",
			self.Namespace, level, self.Kind, self.Name, words)}}
	var all togetherSet
	parts := strings.Split(words, "), ")
	for i, part := range parts {
		for _, v := range violations {
			if !strings.HasPrefix(part, v.words) {
				continue
			}
			f := Finding{Code: "PodSecurityViolated", Stage: StageCreation, Object: self, Field: at + "." + v.field,
				Numbers: map[string]string{"level": level}, Want: v.value, Message: fmt.Sprintf("Namespace %s "+
					"enforces the Pod Security level %s (label pod-security.kubernetes.io/enforce), which forbids: "+
					"%s).%s",
					self.Namespace,
					level, strings.TrimSuffix(part, ")"), further(i, parts))}
			if v.words == hostNamespaces {
				out = append(out, c.hostFields(f, at, part)...)
				break
			}
			if v.field == "volumes" {
				out = append(out, c.forbiddenVolumes(f, spec, at, part)...)
				break
			}
			if v.words == sysctlsForbidden {
				out = append(out, c.forbiddenSysctls(f, spec, part)...)
				break
			}
			if m := givenFields.FindStringSubmatch(part); m != nil {
				f.Value = m[2]
			}
			all.add(part, v.field, v.value)
			if v.words == notRoot {
				all.addUser(part, spec)
			}
			out = append(out, c.violating(f, o, at, part)...)
			break
		}
	}
	return all.instead(self, spec, level, out)
}

// further says, after the first of several parts of a refusal, what the others are.
func further(i int, parts []string) string {
	if i > 0 || len(parts) < 2 {
		return ""
	}
	what := "further settings are"
	if len(parts) == 2 {
		what = "further setting is"
	}
	return fmt.Sprintf(" %d %s refused too: %s).", len(parts)-1, what, strings.TrimSuffix(strings.Join(
		parts[1:], "), "), ")"))
}

// violating is one finding for each container, of all kinds, that a text of PodSecurity names; the
// finding as it is where it names none. f's field is that of the Pod's path.
func (c *Cluster) violating(f Finding, o metav1.Object, at, words string) []Finding {
	m := quotedNames.FindStringSubmatch(words)
	if m == nil {
		return []Finding{f}
	}
	field := strings.TrimPrefix(f.Field, at+".")
	var out []Finding
	for name := range strings.SplitSeq(m[1], ",") {
		name = strings.Trim(name, `" `)
		out = append(out, eachContainer(o, f.Object, func(x place) []Finding {
			if x.c.Name != name {
				return nil
			}
			g := f
			g.Field = x.at + "." + field
			if p := x.c.SecurityContext; strings.HasSuffix(field, ".seccompProfile") && p != nil &&
				p.SeccompProfile != nil {
				g.Field, g.Value = g.Field+".type", string(p.SeccompProfile.Type)
			}
			g.Remedies = withUser(securityRemedy(f.Object, x, field, f.Want), f.Object, x, field)
			s := x.c.SecurityContext
			if strings.HasSuffix(field, "capabilities.add") && s != nil && s.Capabilities != nil {
				g.Value = strings.Trim(fmt.Sprint(s.Capabilities.Add), "[]")
			}
			if field == "ports" {
				return c.forbiddenPorts(g, x)
			}
			return []Finding{g}
		})...)
	}
	if len(out) == 0 {
		return []Finding{f}
	}
	return out
}

// hostFields is one finding for each of a Pod's own fields that a text of PodSecurity names.
func (c *Cluster) hostFields(f Finding, at, words string) []Finding {
	var out []Finding
	for _, m := range givenFields.FindAllStringSubmatch(words, -1) {
		x := f
		x.Field, x.Value = at+"."+m[1], m[2]
		x.setTo(c, f.Want)
		out = append(out, x)
	}
	return out
}

// securityRemedy sets a field of a container's securityContext.
func securityRemedy(self Object, x place, field, value string) []Remedy {
	last, below := strings.CutPrefix(field, "securityContext.")
	if !below || value == "" || self.Kind == "Pod" || self.Kind == "Job" || self.Kind == "CronJob" {
		return nil
	}
	inner := value
	for _, part := range slices.Backward(strings.Split(last, ".")) {
		inner = fmt.Sprintf("{%s:%s}", jsonText(part), inner)
	}
	return []Remedy{{Say: fmt.Sprintf("set %s of container %s to %s", field, x.c.Name, value),
		Run: []string{securityPatch(self, x, inner)}}}
}

// securityPatch is the command that sets fields, in JSON, of a container's securityContext in the
// template of a workload.
func securityPatch(self Object, x place, fields string) string {
	list := "containers"
	if strings.Contains(x.at, "initContainers[") {
		list = "initContainers"
	}
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{%s:[{"name":%s,"securityContext":%s}]}}}}`, jsonText(list),
		jsonText(x.c.Name), fields)
	return kubectl(self, "patch", "--type=strategic -p "+shellquote.Quoted(patch))
}

// demanded finds containers without a request or limit that a quota of the namespace demands.
func demanded(c *Cluster, o metav1.Object, self Object) []Finding {
	if _, isPod := o.(*corev1.Pod); isPod || metav1.GetControllerOf(o) != nil {
		return nil // it was let in, or its controller says so
	}
	var out []Finding
	for _, q := range in[*corev1.ResourceQuota](c, "ResourceQuota", self.Namespace) {
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			continue
		}
		for hard := range q.Spec.Hard {
			field, name := "requests", string(hard)
			if rest, ok := strings.CutPrefix(name, "limits."); ok {
				field, name = "limits", rest
			} else if rest, ok := strings.CutPrefix(name, "requests."); ok {
				name = rest
			}
			if name != "cpu" && name != "memory" {
				continue
			}
			out = append(out, c.unstated(o, self, demand{q, field, corev1.ResourceName(name)})...)
		}
	}
	return out
}

// demand is what a quota demands: requests or limits of a resource.
type demand struct {
	quota *corev1.ResourceQuota
	field string
	name  corev1.ResourceName
}

// unstated are the containers that say nothing of a resource, where no LimitRange says it for them.
func (c *Cluster) unstated(o metav1.Object, self Object, d demand) []Finding {
	q, field, name := d.quota, d.field, d.name
	for _, l := range in[*corev1.LimitRange](c, "LimitRange", self.Namespace) {
		for _, item := range l.Spec.Limits {
			_, a := item.Default[name]
			_, b := item.DefaultRequest[name]
			_, m := item.Max[name]
			if item.Type == corev1.LimitTypeContainer && (a || m || b && field == "requests") {
				return nil
			}
		}
	}
	return eachContainer(o, self, func(x place) []Finding {
		_, requested := x.c.Resources.Requests[name]
		_, limited := x.c.Resources.Limits[name]
		if limited || requested && field == "requests" || x.spec.Resources != nil {
			return nil
		}
		amount := map[corev1.ResourceName]string{"cpu": "100m", "memory": "128Mi"}[name]
		f := Finding{Code: "DemandedByQuota", Stage: StageCreation, Object: self,
			Field: fmt.Sprintf("%s.resources.%s.%s", x.at, field, name), Want: amount,
			Related: []Object{objectOf("ResourceQuota", q)}, Message: fmt.Sprintf("Quota %s of namespace %s counts %s "+
				"of %s, so every container must state them, and container %s of %s %s does not: the API server "+
				"refuses such Pods.", q.Name, self.Namespace, field, name, x.c.Name, self.Kind, self.Name)}
		if self.Kind != "Job" && self.Kind != "CronJob" {
			f.Remedies = []Remedy{{Say: fmt.Sprintf("state them, for instance %s", amount), Run: []string{
				fmt.Sprintf("kubectl -n %s set resources %s %s -c %s --%s=%s=%s", self.Namespace, self.lower(),
					self.Name,
					x.c.Name, field, name, amount)}}}
		}
		return []Finding{f}
	})
}

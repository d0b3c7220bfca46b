package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/pod"
)

// serviceName parses a DNS name of a Service; full: it has the cluster domain.
func serviceName(host, namespace string) (name string, full, ok bool) {
	parts := strings.Split(host, ".")
	if strings.Trim(host, "0123456789.") == "" || strings.Contains(host, "_") {
		return "", false, false
	}
	switch {
	case len(parts) == 1:
		return parts[0], false, true
	case len(parts) == 2 && parts[1] == namespace:
		return parts[0], false, true
	case len(parts) >= 3 && parts[2] == "svc" && parts[1] == namespace:
		return parts[0], true, true
	}
	return "", false, false
}

// serviceDependency is a Service that an init container waits for.
type serviceDependency struct {
	hostPort
	service   string
	qualified bool
	container container
}

// who names the container that waits.
func (q serviceDependency) who() string { return q.container.title() }

func (q serviceDependency) String() string {
	if q.port == 0 {
		return q.host
	}
	return fmt.Sprintf("%s:%d", q.host, q.port)
}

// dependencyFailed explains what is wrong with the Service that is waited for, in words and as
// data. It returns false for names that are not a Service's nor similar to one.
func dependencyFailed(a *Answer, in In, q serviceDependency) bool {
	var why Answer
	if !serviceFails(&why, in, q) {
		return false
	}
	a.Cause, a.Fixes = why.Cause, append(a.Fixes, why.Fixes...)
	f := finding.Finding{Code: "DependencyFails", Severity: finding.Threat, Stage: finding.StageRun,
		Object: in.object(), Message: why.Cause, Remedies: asRemedies(why.Fixes)}
	f.Field, f.Value = hostField(q.container, pathOf(in.Pod, q.container), q.host)
	if rest, ok := strings.CutPrefix(firstSay(why.Fixes), "ask for "); ok {
		f.Want = rest
	}
	if in.NamespaceContext.service(q.service) == nil {
		f.Severity = finding.Broken
	} else {
		f.Related = []finding.Object{{Kind: "Service", Namespace: in.Ref.Namespace, Name: q.service}}
	}
	if in.Now.Sub(in.Pod.CreationTimestamp.Time) < startTime {
		f.Severity = finding.Note
	}
	a.Findings = append(a.Findings, f)
	return true
}

func firstSay(list []Fix) string {
	if len(list) == 0 {
		return ""
	}
	return list[0].Description
}

// hostField is where a container, whose path is at, names a host: a word of its command line, or a
// variable. The value is the host alone: what stands beside it may be a password.
func hostField(c container, at, host string) (field, value string) {
	for _, part := range []struct {
		list  string
		words []string
	}{{"command", c.spec.Command}, {"args", c.spec.Args}} {
		for i, w := range part.words {
			if strings.Contains(w, host) {
				return fmt.Sprintf("%s.%s[%d]", at, part.list, i), host
			}
		}
	}
	for i, e := range c.spec.Env {
		if strings.Contains(e.Value, host) {
			return fmt.Sprintf("%s.env[%d].value", at, i), host
		}
	}
	return at, host
}

// serviceFails is what is wrong with the Service that is waited for, in words.
func serviceFails(a *Answer, in In, q serviceDependency) bool {
	if in.NamespaceContext == nil {
		return false
	}
	ns := in.Ref.Namespace
	s := in.NamespaceContext.service(q.service)
	if s == nil {
		var names []string
		for _, x := range in.NamespaceContext.Services {
			names = append(names, x.Name)
		}
		near := nearestName(q.service, names)
		if near == "" && !q.qualified {
			return false
		}
		a.Cause = fmt.Sprintf("%s waits for %s, and there is no Service %s in namespace %s.",
			q.who(), q, q.service, ns)
		if near != "" {
			a.Cause += fmt.Sprintf(" There is a Service %s: perhaps that was meant.", near)
			a.Fixes = append(a.Fixes, editedContainer(in, q.container.spec.Name, "ask for "+near,
				func(x *corev1.Container) { replaceHost(x, q.service, near) }))
		}
		a.Fixes = append(a.Fixes, Fix{Description: "or create the Service " + q.service})
		return true
	}
	if spec := &in.Pod.Spec; spec.DNSPolicy == corev1.DNSClusterFirst && pod.DNSPolicy(spec) == corev1.DNSDefault {
		a.Cause = fmt.Sprintf("%s cannot resolve %s because the Pod uses hostNetwork with dnsPolicy ClusterFirst, "+
			"which then means Default: it asks the node's own name server instead of the cluster's, which "+
			"ClusterFirstWithHostNet would ask.",
			q.who(), q.host)
		if in.NamespaceContext.Ready[s.Name] > 0 {
			a.Cause += fmt.Sprintf(" Service %s is fine and has %d ready behind it.", s.Name,
				in.NamespaceContext.Ready[s.Name])
		}
		a.Fixes = append(a.Fixes, editedPodFix(in, "use dnsPolicy ClusterFirstWithHostNet",
			func(x *corev1.PodSpec) { x.DNSPolicy = corev1.DNSClusterFirstWithHostNet }),
			editedPodFix(in, "or do without hostNetwork", func(x *corev1.PodSpec) { x.HostNetwork = false }))
		return true
	}
	return portMissing(a, in, q, s) || noReadyPods(a, in, q, s) || otherNameServers(a, in, q)
}

// otherNameServers explains a Pod with name servers of its own instead of the cluster's, which
// alone resolve Services.
func otherNameServers(a *Answer, in In, q serviceDependency) bool {
	spec := &in.Pod.Spec
	if spec.DNSPolicy != corev1.DNSNone || spec.DNSConfig == nil {
		return false
	}
	a.Cause = fmt.Sprintf("%s waits for %s, and the Pod does not ask the cluster's name server, which alone knows "+
		"Services: dnsPolicy is None, and dnsConfig names only %s.", q.who(), q,
		joinList(spec.DNSConfig.Nameservers))
	a.Fixes = append(a.Fixes, useClusterDNS(in))
	return true
}

// useClusterDNS returns the fix that makes such a Pod use the cluster's DNS.
func useClusterDNS(in In) Fix {
	return editedPodFix(in, "ask the cluster's name server: dnsPolicy ClusterFirst",
		func(x *corev1.PodSpec) { x.DNSPolicy, x.DNSConfig = corev1.DNSClusterFirst, nil })
}

// portMissing explains a Service that lacks the requested port.
func portMissing(a *Answer, in In, q serviceDependency, s *corev1.Service) bool {
	var have []string
	for _, p := range s.Spec.Ports {
		if int(p.Port) == q.port {
			return false
		}
		have = append(have, fmt.Sprint(p.Port))
	}
	if q.port == 0 || len(have) == 0 || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return false
	}
	a.Cause = fmt.Sprintf("%s waits for %s, and Service %s has no port %d; it has %s.", q.who(),
		q, s.Name, q.port, joinList(have))
	for _, p := range have {
		a.Fixes = append(a.Fixes, editedContainer(in, q.container.spec.Name, "ask for port "+p,
			func(x *corev1.Container) {
				replaceText(x, fmt.Sprintf("%s:%d", q.host, q.port), q.host+":"+p)
				replaceText(x, fmt.Sprintf("%s %d", q.host, q.port), q.host+" "+p)
			}))
	}
	return true
}

func replaceHost(c *corev1.Container, was, now string) {
	word := regexp.MustCompile(`(^|[^A-Za-z0-9-])` + regexp.QuoteMeta(was) + `($|[^A-Za-z0-9-])`)
	eachText(c, func(s string) string { return word.ReplaceAllString(s, "${1}"+now+"${2}") })
}

func replaceText(c *corev1.Container, was, now string) {
	eachText(c, func(s string) string { return strings.ReplaceAll(s, was, now) })
}

// eachText calls change for each string in a container's command line and environment.
func eachText(c *corev1.Container, change func(string) string) {
	for _, list := range [][]string{c.Command, c.Args} {
		for i := range list {
			list[i] = change(list[i])
		}
	}
	for _, p := range execProbes(c) {
		for i := range p.Exec.Command {
			p.Exec.Command[i] = change(p.Exec.Command[i])
		}
	}
	for i := range c.Env {
		c.Env[i].Value = change(c.Env[i].Value)
	}
}

// noReadyPods explains an awaited Service without ready Pods.
func noReadyPods(a *Answer, in In, q serviceDependency, s *corev1.Service) bool {
	if in.ClusterContext == nil || in.NamespaceContext.Ready[s.Name] > 0 {
		return false
	}
	if ownService(a, in, q, s) {
		return true
	}
	text, fixes := noEndpointsReason(s, in.ClusterContext.Pods, in.Pod)
	if text == "" {
		return false
	}
	a.Cause = fmt.Sprintf("%s waits for %s, and Service %s %s", q.who(), q, s.Name, text)
	a.Fixes = append(a.Fixes, fixes...)
	return true
}

// ownService explains a container that waits for the Service of its own Pod, or of that and others
// of the same controller: none of them is ready before it goes on.
func ownService(a *Answer, in In, q serviceDependency, s *corev1.Service) bool {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	if in.Pod == nil || len(s.Spec.Selector) == 0 || s.Spec.PublishNotReadyAddresses ||
		!selector.Matches(labels.Set(in.Pod.Labels)) {
		return false
	}
	owner, others := metav1.GetControllerOf(in.Pod), 0
	for _, p := range in.ClusterContext.Pods {
		if p.Namespace != s.Namespace || p.Name == in.Pod.Name || pod.IsTerminal(p) ||
			!selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		of := metav1.GetControllerOf(p)
		if pod.IsReady(p) || owner == nil || of == nil || of.UID != owner.UID {
			return false // it may become ready for another reason
		}
		others++
	}
	alone := "this Pod alone"
	if others > 0 {
		alone = fmt.Sprintf("this Pod and %d others of %s %s", others, owner.Kind, owner.Name)
	}
	a.Cause = fmt.Sprintf("%s waits for %s, and Service %s selects %s (%s): it has no endpoints before one of them is "+
		"ready, and none is ready before that container goes on. Waiting never ends it.", q.who(), q, s.Name, alone,
		labels.Set(s.Spec.Selector))
	at := slices.IndexFunc(in.Pod.Spec.InitContainers,
		func(x corev1.Container) bool { return x.Name == q.container.spec.Name })
	if at >= 0 {
		a.Fixes = append(a.Fixes, jsonPatchFix(in, fmt.Sprintf("do without %s: the program itself can wait for what "+
			"it needs", q.container.spec.Name), op{Op: "remove", Path: fmt.Sprintf("/initContainers/%d", at)}))
	}
	a.Fixes = append(a.Fixes, commandFix("or let the name lead to Pods that are not ready, as members that find each "+
		"other before want it", fmt.Sprintf(`kubectl -n %s patch service %s -p `+
		`'{"spec":{"publishNotReadyAddresses":true}}'`, s.Namespace, s.Name)))
	return true
}

// noEndpointsReason explains why a Service has no endpoints; empty if a ready Pod matches, or it
// has no selector.
func noEndpointsReason(s *corev1.Service, pods []*corev1.Pod, but *corev1.Pod) (text string, fixes []Fix) {
	if len(s.Spec.Selector) == 0 {
		return "", nil
	}
	selector := labels.Set(s.Spec.Selector)
	var ending, unready, near []*corev1.Pod
	for _, p := range pods {
		switch {
		case p.Namespace != s.Namespace || but != nil && p.Name == but.Name || pod.IsTerminal(p):
		case p.DeletionTimestamp != nil && selector.AsSelector().Matches(labels.Set(p.Labels)):
			ending = append(ending, p)
		case selector.AsSelector().Matches(labels.Set(p.Labels)):
			if pod.IsReady(p) {
				return "", nil // it will have an endpoint in a moment
			}
			unready = append(unready, p)
		case probablySelects(s, p):
			near = append(near, p)
		}
	}
	of := fmt.Sprintf("has no endpoints: it selects %s, ", selector)
	switch {
	case len(unready) > 0:
		u := unready[0]
		return of + fmt.Sprintf("and of its Pods none is ready (%s).", u.Name),
			[]Fix{seeWhy("see why "+u.Name+" is not ready", "Pod", u.Namespace, u.Name)}
	case len(ending) > 0:
		return of + fmt.Sprintf("and its Pods are being deleted (%s), which takes them out.", ending[0].Name),
			textFixes(fmt.Sprintf("start others with the labels %s: let what owns these have more replicas", selector))
	case len(near) == 0:
		return of + "and no Pod carries that.",
			textFixes(fmt.Sprintf("start what should stand behind %s, with the labels %s", s.Name, selector))
	}
	p, state := near[0], "there"
	if pod.IsReady(p) {
		state = "running and ready"
	}
	ours, theirs := differingLabels(s, p)
	patch := map[string]string{}
	for k := range ours {
		patch[k] = p.Labels[k]
	}
	fixes = append(fixes, commandFix(fmt.Sprintf("let Service %s select %s", s.Name, labels.Set(patch)),
		fmt.Sprintf("kubectl -n %s patch service %s --type=merge -p '{\"spec\":{\"selector\":%s}}'", s.Namespace,
			s.Name, jsonMap(patch))))
	if len(p.OwnerReferences) == 0 {
		fixes = append(fixes, commandFix(fmt.Sprintf("or label the Pod %s %s", p.Name, ours),
			fmt.Sprintf("kubectl -n %s label pod %s --overwrite %s", p.Namespace, p.Name,
				strings.ReplaceAll(ours.String(), ",", " "))))
	}
	return of + fmt.Sprintf("while the Pod %s, %s, is labelled %s. Only the label stands between them.", p.Name, state,
		theirs), fixes
}

// probablySelects reports whether a Service was probably meant to select the Pod: it has all keys
// of the selector with similar values, or most of them, or the Service's name.
func probablySelects(s *corev1.Service, p *corev1.Pod) bool {
	same, like := 0, 0
	for k, want := range s.Spec.Selector {
		have, ok := p.Labels[k]
		switch {
		case !ok:
			return false
		case have == want:
			same++
		case nearestName(want, []string{have}) != "" || have == s.Name || strings.HasPrefix(p.Name, s.Name) ||
			strings.HasPrefix(want, have) || strings.HasPrefix(have, want):
			like++
		}
	}
	return same+like == len(s.Spec.Selector) || same > 0 && same+1 == len(s.Spec.Selector)
}

// differingLabels returns the labels in which selector and Pod differ: as selected, and as the Pod
// has them.
func differingLabels(s *corev1.Service, p *corev1.Pod) (ours, theirs labels.Set) {
	ours, theirs = labels.Set{}, labels.Set{}
	for _, k := range slices.Sorted(maps.Keys(s.Spec.Selector)) {
		if p.Labels[k] != s.Spec.Selector[k] {
			ours[k], theirs[k] = s.Spec.Selector[k], p.Labels[k]
		}
	}
	return ours, theirs
}

func jsonMap(m map[string]string) string {
	raw, err := json.Marshal(m)
	if err != nil {
		return "{}"
	}
	return string(raw)
}

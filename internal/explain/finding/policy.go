package finding

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	policyrules "github.com/gantry-project/gantry/internal/networkpolicy/rules"
)

// networkPolicy finds peers of a NetworkPolicy that are nobody, and ports that nobody has.
func networkPolicy(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*networkingv1.NetworkPolicy)
	if !ok {
		return nil
	}
	var out []Finding
	chosen := c.selectedPods(p.Namespace, &p.Spec.PodSelector)
	for i, r := range p.Spec.Ingress {
		at := fmt.Sprintf("spec.ingress[%d]", i)
		for j := range r.From {
			out = append(out, c.peer(self, &r.From[j], fmt.Sprintf("%s.from[%d]", at, j))...)
		}
		out = append(out, c.policyPorts(self, r.Ports, chosen, at)...)
	}
	for i, r := range p.Spec.Egress {
		at := fmt.Sprintf("spec.egress[%d]", i)
		var to []labelled
		known := len(r.To) > 0
		for j := range r.To {
			out = append(out, c.peer(self, &r.To[j], fmt.Sprintf("%s.to[%d]", at, j))...)
			known = known && r.To[j].PodSelector != nil && r.To[j].NamespaceSelector == nil
			if known {
				to = append(to, c.selectedPods(p.Namespace, r.To[j].PodSelector)...)
			}
		}
		if known {
			out = append(out, c.policyPorts(self, r.Ports, to, at)...)
		}
	}
	return out
}

// selectedPods returns the Pods and templates of a namespace that a selector selects.
func (c *Cluster) selectedPods(namespace string, s *metav1.LabelSelector) []labelled {
	match, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(c.labelledPods(namespace), func(x labelled) bool {
		return !match.Matches(labels.Set(x.labels))
	})
}

// peer finds a peer of a policy that selects nobody: no namespace, or no Pod of the own namespace.
func (c *Cluster) peer(self Object, p *networkingv1.NetworkPolicyPeer, at string) []Finding {
	var out []Finding
	look := func(field string, s *metav1.LabelSelector, among []labelled, what string) {
		match, err := metav1.LabelSelectorAsSelector(s)
		want := wantedLabels(s)
		if err != nil || len(want) == 0 || slices.ContainsFunc(among, func(x labelled) bool {
			return match.Matches(labels.Set(x.labels))
		}) {
			return
		}
		f := Finding{Code: "SelectsNothing", Severity: Threat, Stage: StageTraffic, Object: self, Field: field,
			Value: labels.Set(want).String(), Message: fmt.Sprintf("NetworkPolicy %s lets traffic pass for %s with %s "+
				"(%s), and there is none: the rule lets nothing pass.", self.Name, what, labels.Set(want), field)}
		if d, ok := nearestLabels(want, among); ok {
			f.describe(d)
			f.Remedies = []Remedy{c.selectIn(self, field, s, d)}
		}
		out = append(out, f)
	}
	if p.NamespaceSelector != nil && c.Read("Namespace") {
		look(at+".namespaceSelector", p.NamespaceSelector, c.labelledNamespaces(), "namespaces")
	}
	if p.PodSelector != nil && c.Read("Pod") && c.onlyOwn(self.Namespace, p.NamespaceSelector) {
		look(at+".podSelector", p.PodSelector, c.labelledPods(self.Namespace), "Pods of its own namespace")
	}
	return out
}

// onlyOwn reports whether a peer's selector of namespaces leaves its policy's own alone: there is
// none, or no other namespace matches.
func (c *Cluster) onlyOwn(own string, s *metav1.LabelSelector) bool {
	if s == nil {
		return true
	}
	match, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return false
	}
	chosen := slices.DeleteFunc(c.labelledNamespaces(), func(x labelled) bool {
		return !match.Matches(labels.Set(x.labels))
	})
	return len(chosen) == 1 && chosen[0].object.Name == own
}

func (c *Cluster) labelledNamespaces() []labelled {
	var out []labelled
	for _, n := range list[*corev1.Namespace](c, "Namespace") {
		out = append(out, labelled{objectOf("Namespace", n), n.Labels})
	}
	return out
}

// policyPorts finds ports of a policy's rule that the Pods it is about do not have.
func (c *Cluster) policyPorts(self Object, ports []networkingv1.NetworkPolicyPort, pods []labelled,
	at string) []Finding {
	var out []Finding
	for j, p := range ports {
		protocol := protocolOf(p)
		names, numbers := c.portsOf(pods, protocol)
		if p.Port != nil && p.EndPort != nil && len(numbers) > 0 {
			out = append(out, c.portRange(self, p, numbers, fmt.Sprintf("%s.ports[%d]", at, j))...)
		}
		if p.Port == nil || p.EndPort != nil || len(numbers) == 0 {
			if f, ok := c.otherProtocol(self, pods, fmt.Sprintf("%s.ports[%d].protocol", at, j), p); ok {
				out = append(out, f)
			}
			continue
		}
		have := numbers
		if p.Port.Type == intstr.String {
			have = names
		}
		if slices.Contains(have, p.Port.String()) {
			continue
		}
		f := Finding{Code: "PolicyPortMissing", Severity: Threat, Stage: StageTraffic, Object: self,
			Field: fmt.Sprintf("%s.ports[%d].port", at, j), Value: p.Port.String(), Message: fmt.Sprintf(
				"NetworkPolicy %s lets %s port %s pass, and no Pod it is about declares that: they declare %s.",
				self.Name, protocol, p.Port.String(), orNone(have, "no such ports"))}
		f.Want, _ = Near(p.Port.String(), have)
		if f.Want == "" && len(have) == 1 {
			f.Want = have[0]
		}
		if target := c.targetOf(self.Namespace, p.Port.IntValue()); slices.Contains(numbers, target) {
			f.Want = target
			f.Message += fmt.Sprintf(" %s is the port of a Service; a policy is about the Pods' ports, %s there.",
				p.Port.String(), target)
		}
		f.setTo(c, jsonNumber(f.Want))
		out = append(out, f)
	}
	return out
}

// portRange finds a range of a policy's ports in which the Pods it is about have none. The end that
// is nearer to a port of theirs is to blame.
func (c *Cluster) portRange(self Object, p networkingv1.NetworkPolicyPort, numbers []string, at string) []Finding {
	first, last := p.Port.IntValue(), int(*p.EndPort)
	far, near := -1, 0
	for _, s := range numbers {
		n, err := strconv.Atoi(s)
		if err != nil || n >= first && n <= last {
			return nil
		}
		if d := max(first-n, n-last); far < 0 || d < far {
			far, near = d, n
		}
	}
	f := Finding{Code: "PolicyPortMissing", Severity: Threat, Stage: StageTraffic, Object: self, Field: at + ".endPort",
		Value: fmt.Sprint(last), Want: fmt.Sprint(near),
		Numbers: map[string]string{"port": fmt.Sprint(first), "endPort": fmt.Sprint(last)},
		Message: fmt.Sprintf("NetworkPolicy %s lets %s ports %d to %d pass, and no Pod it is about declares one of "+
			"them: they declare %s.", self.Name, protocolOf(p), first, last, joined(numbers))}
	if near < first {
		f.Field, f.Value = at+".port", fmt.Sprint(first)
	}
	f.setTo(c, f.Want)
	return []Finding{f}
}

func protocolOf(p networkingv1.NetworkPolicyPort) corev1.Protocol {
	if p.Protocol == nil {
		return corev1.ProtocolTCP
	}
	return *p.Protocol
}

// otherProtocol finds a port that the Pods declare with another protocol alone.
func (c *Cluster) otherProtocol(self Object, pods []labelled, at string,
	p networkingv1.NetworkPolicyPort) (Finding, bool) {
	protocol := protocolOf(p)
	for _, other := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		names, numbers := c.portsOf(pods, other)
		if p.Port == nil || other == protocol || !slices.Contains(slices.Concat(names, numbers), p.Port.String()) {
			continue
		}
		f := Finding{Code: "ProtocolDiffers", Severity: Threat, Stage: StageTraffic, Object: self, Field: at,
			Value: string(protocol), Want: string(other), Message: fmt.Sprintf("NetworkPolicy %s lets port %s pass "+
				"for %s, and the Pods it is about have that port for %s.", self.Name, p.Port.String(), protocol, other)}
		f.setTo(c, jsonText(string(other)))
		return f, true
	}
	return Finding{}, false
}

// targetOf is the port of Pods behind a port of a Service of the namespace; empty where none has
// it.
func (c *Cluster) targetOf(namespace string, port int) string {
	for _, s := range in[*corev1.Service](c, "Service", namespace) {
		for _, p := range s.Spec.Ports {
			if int(p.Port) == port && p.TargetPort.String() != fmt.Sprint(port) {
				return p.TargetPort.String()
			}
		}
	}
	return ""
}

// setTo adds the command that sets the finding's field to what would do, as JSON.
func (f *Finding) setTo(c *Cluster, raw string) {
	if f.Want == "" {
		return
	}
	f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("set %s of %s to %s", f.Field, f.Object, f.Want),
		Run: c.setCommand(f.Object, f.Field, raw)})
}

// jsonNumber is a text as JSON: a number where it is one.
func jsonNumber(s string) string {
	if s != "" && strings.Trim(s, "0123456789") == "" {
		return s
	}
	return jsonText(s)
}

// policiesOver finds what NetworkPolicies do to a Pod, a Service's Pods or a workload's: those that
// let nobody in, and those whose peers or ports are nobody's.
func policiesOver(c *Cluster, o metav1.Object, self Object) []Finding {
	want, ports := c.trafficOf(o)
	if len(want) == 0 {
		return nil
	}
	var over []*networkingv1.NetworkPolicy
	for _, p := range in[*networkingv1.NetworkPolicy](c, "NetworkPolicy", self.Namespace) {
		s, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err == nil && s.Matches(labels.Set(want)) {
			over = append(over, p)
		}
	}
	var out []Finding
	for _, p := range over {
		at := objectOf("NetworkPolicy", p)
		out = append(out, networkPolicy(c, p, at)...)
	}
	return append(out, closed(over, ports, self, func(name string) []int {
		var numbers []int
		for _, x := range selected(want, c.labelledPods(self.Namespace)) {
			numbers = append(numbers, c.named(x, name)...)
		}
		return numbers
	})...)
}

// trafficOf returns the labels that the Pods behind an object have, and the ports that are asked of
// them.
func (c *Cluster) trafficOf(o metav1.Object) (want map[string]string, ports []intstr.IntOrString) {
	if s, ok := o.(*corev1.Service); ok {
		for _, p := range s.Spec.Ports {
			ports = append(ports, p.TargetPort)
		}
		if pods := selected(s.Spec.Selector, c.labelledPods(s.Namespace)); len(s.Spec.Selector) > 0 && len(pods) > 0 {
			return pods[0].labels, ports
		}
		return nil, nil
	}
	spec, _ := podSpecOf(o)
	own := labelsOfPods(o)
	if spec == nil || !c.serves(spec, own, o.GetNamespace()) {
		return nil, nil
	}
	return own, nil
}

// serves reports whether Pods are there to be asked: they declare ports, or a Service selects them.
func (c *Cluster) serves(spec *corev1.PodSpec, own map[string]string, namespace string) bool {
	return slices.ContainsFunc(spec.Containers, func(x corev1.Container) bool { return len(x.Ports) > 0 }) ||
		slices.ContainsFunc(in[*corev1.Service](c, "Service", namespace), func(s *corev1.Service) bool {
			return len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(own))
		})
}

// closed finds that policies together let nobody reach Pods, or not their Service's port. named are
// the numbers of a port's name in the Pods.
func closed(over []*networkingv1.NetworkPolicy, ports []intstr.IntOrString, self Object,
	named func(string) []int) []Finding {
	var ingress []*networkingv1.NetworkPolicy
	rules := 0
	open := map[string]bool{}
	for _, p := range over {
		if !policyrules.Applies(p, networkingv1.PolicyTypeIngress) {
			continue
		}
		ingress = append(ingress, p)
		for _, r := range p.Spec.Ingress {
			rules++
			open[""] = open[""] || len(r.Ports) == 0
			for _, x := range r.Ports {
				switch {
				case x.Port == nil || x.EndPort != nil:
					open[""] = true
				case x.Port.Type == intstr.String:
					numbers := named(x.Port.StrVal)
					open[""] = open[""] || len(numbers) == 0 // that no Pod has it is told of the policy
					for _, n := range numbers {
						open[fmt.Sprint(n)] = true
					}
				default:
					open[x.Port.String()] = true
				}
			}
		}
	}
	var out []Finding
	for _, p := range ingress {
		f := Finding{Severity: Threat, Stage: StageTraffic, Object: objectOf("NetworkPolicy", p), Field: "spec.ingress",
			Related: []Object{self}}
		shut := slices.DeleteFunc(slices.Clone(ports), func(x intstr.IntOrString) bool {
			return open[""] || open[x.String()] || x.Type == intstr.String || x.IntValue() == 0
		})
		switch {
		case rules == 0:
			f.Code, f.Value = "PolicyDeniesAll", "[]"
			f.Message = fmt.Sprintf("NetworkPolicy %s selects the Pods of %s %s and has no ingress rule, nor has any "+
				"other policy over them: nobody can reach them.", p.Name, self.Kind, self.Name)
			f.Remedies = []Remedy{{Say: "add an ingress rule for those that may reach them, for instance all Pods of " +
				"the namespace: this opens them to these", Run: []string{kubectl(f.Object, "patch",
				`--type=merge -p '{"spec":{"ingress":[{"from":[{"podSelector":{}}]}]}}'`)}}}
		case len(shut) > 0:
			f.Code, f.Field, f.Value = "PolicyDeniesPort", "spec.ingress[*].ports", shut[0].String()
			f.Message = fmt.Sprintf("Port %s of the Pods behind Service %s is let through by no rule of the policies "+
				"over them (%s): the Service's traffic is dropped.", shut[0].String(), self.Name, p.Name)
		default:
			continue
		}
		out = append(out, f)
	}
	return out
}

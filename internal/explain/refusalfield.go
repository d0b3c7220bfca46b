package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// refusalField is the field by which a scheduler plugin refused a node, as the API has it.
type refusalField struct {
	object  finding.Object // whose field; zero: the Pod
	field   string
	value   string // what the field says
	want    string // what would do on this node; empty: not known
	related []finding.Object
	numbers map[string]string
}

// refusalFields say for each plugin which field of the Pod, with which content, a node was
// refused by.
var refusalFields = map[string]func(In, journal.NodeRefusal) refusalField{
	"NodeResourcesFit": resourcesRefusal, "TaintToleration": tolerationsRefusal, "NodeUnschedulable": cordonRefusal,
	"NodeAffinity": labelsRefusal, "NodePorts": portsRefusal, "PodTopologySpread": spreadRefusal,
	"InterPodAffinity": affinityRefusal, "VolumeBinding": claimsRefusal, "VolumeZone": claimsRefusal,
	"VolumeRestrictions": claimsRefusal, "NodeVolumeLimits": limitsRefusal, "DynamicResources": devicesRefusal,
	"NodeName": func(in In, _ journal.NodeRefusal) refusalField {
		return refusalField{field: "spec.nodeName", value: in.Pod.Spec.NodeName}
	},
}

// resourcesRefusal is the request of the first resource that is short, and the most that would fit.
func resourcesRefusal(in In, r journal.NodeRefusal) refusalField {
	if len(r.Shortages) == 0 {
		return refusalField{}
	}
	x := r.Shortages[0]
	out := refusalField{field: requestField(in.Pod, x.Resource), value: amount(x.Resource, x.Requested)}
	if x.Resource == string(corev1.ResourcePods) {
		return refusalField{object: finding.Object{Kind: "Node", Name: r.Node}, field: "status.allocatable.pods",
			value: strconv.FormatInt(x.Available, 10), want: strconv.FormatInt(x.Used+1, 10),
			numbers: map[string]string{"pods": strconv.FormatInt(x.Used, 10)}}
	}
	name := corev1.ResourceName(x.Resource)
	for list, specs := range map[string][]corev1.Container{"initContainers": in.Pod.Spec.InitContainers,
		"containers": in.Pod.Spec.Containers} {
		for i := range specs {
			if q, ok := specs[i].Resources.Requests[name]; ok &&
				out.field == fmt.Sprintf("spec.%s[%d].resources.requests.%s", list, i, name) {
				out.value = q.String()
			}
		}
	}
	if free := x.Available - x.Used; free > 0 {
		out.want = amount(x.Resource, free)
	}
	return out
}

// tolerationsRefusal is the toleration that is nearly one for the node's taint, and the one wanted.
func tolerationsRefusal(in In, r journal.NodeRefusal) refusalField {
	out := refusalField{field: "spec.tolerations", related: []finding.Object{{Kind: "Node", Name: r.Node}}}
	n := in.ClusterContext.node(r.Node)
	if n == nil {
		return out
	}
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectPreferNoSchedule || fit.Tolerates(in.Pod.Spec.Tolerations, &t) {
			continue
		}
		out.want = whatif.Taint(t)
		for i, x := range in.Pod.Spec.Tolerations {
			if x.Key == t.Key || x.Key != "" && nearestName(t.Key, []string{x.Key}) != "" {
				out.field, out.value = fmt.Sprintf("spec.tolerations[%d]", i), tolerationOf(x)
			}
		}
		break
	}
	return out
}

// tolerationOf is a toleration as a taint is written.
func tolerationOf(t corev1.Toleration) string {
	s := t.Key
	if t.Value != "" {
		s += "=" + t.Value
	}
	if t.Effect != "" {
		s += ":" + string(t.Effect)
	}
	return s
}

func cordonRefusal(_ In, r journal.NodeRefusal) refusalField {
	return refusalField{field: "spec.tolerations", want: corev1.TaintNodeUnschedulable + ":" +
		string(corev1.TaintEffectNoSchedule), related: []finding.Object{{Kind: "Node", Name: r.Node}}}
}

// labelsRefusal is the label of the node selector, or the expression of the required affinity, that
// the node lacks, and what the node has for it.
func labelsRefusal(in In, r journal.NodeRefusal) refusalField {
	n := in.ClusterContext.node(r.Node)
	for _, key := range slices.Sorted(maps.Keys(in.Pod.Spec.NodeSelector)) {
		want := in.Pod.Spec.NodeSelector[key]
		if n != nil && n.Labels[key] == want {
			continue
		}
		out := refusalField{field: "spec.nodeSelector[" + key + "]", value: key + "=" + want}
		if n != nil && n.Labels[key] != "" {
			out.want = n.Labels[key]
		}
		return out
	}
	out := refusalField{field: "spec.affinity.nodeAffinity"}
	if in.Pod.Spec.Affinity == nil || in.Pod.Spec.Affinity.NodeAffinity == nil ||
		in.Pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return out
	}
	out.field += ".requiredDuringSchedulingIgnoredDuringExecution"
	required := in.Pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for i, t := range required.NodeSelectorTerms {
		for j, e := range t.MatchExpressions {
			if n != nil && expressionFits(n.Labels, e) {
				continue
			}
			out.field += fmt.Sprintf(".nodeSelectorTerms[%d].matchExpressions[%d].values", i, j)
			out.value = strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ",")))
			if n != nil {
				out.want = n.Labels[e.Key]
			}
			return out
		}
		for j, e := range t.MatchFields {
			out.field += fmt.Sprintf(".nodeSelectorTerms[%d].matchFields[%d].values", i, j)
			out.value = strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ",")))
			out.want = r.Node
			return out
		}
	}
	return out
}

// expressionFits reports whether labels fulfil a requirement; Gt and Lt by whole numbers.
func expressionFits(have map[string]string, e corev1.NodeSelectorRequirement) bool {
	v, there := have[e.Key]
	switch e.Operator {
	case corev1.NodeSelectorOpIn:
		return there && slices.Contains(e.Values, v)
	case corev1.NodeSelectorOpNotIn:
		return !there || !slices.Contains(e.Values, v)
	case corev1.NodeSelectorOpExists:
		return there
	case corev1.NodeSelectorOpDoesNotExist:
		return !there
	}
	a, err := strconv.Atoi(v)
	if len(e.Values) != 1 || err != nil {
		return false
	}
	b, err := strconv.Atoi(e.Values[0])
	return err == nil && (e.Operator == corev1.NodeSelectorOpGt && a > b || e.Operator == corev1.NodeSelectorOpLt &&
		a < b)
}

// portsRefusal is the host port that a Pod of the node has.
func portsRefusal(in In, r journal.NodeRefusal) refusalField {
	out := refusalField{field: "spec.containers[*].ports[*].hostPort"}
	for i, c := range in.Pod.Spec.Containers {
		for j, p := range c.Ports {
			if p.HostPort == 0 {
				continue
			}
			for _, other := range in.ClusterContext.podsOn(r.Node) {
				if _, taken := fit.PortConflict([]corev1.ContainerPort{p}, pod.HostPorts(other)); !taken ||
					pod.IsTerminal(other) {
					continue
				}
				return refusalField{field: fmt.Sprintf("spec.containers[%d].ports[%d].hostPort", i, j),
					value: strconv.Itoa(int(p.HostPort)), related: withMaker(in, other)}
			}
			if out.value == "" {
				out.field, out.value = fmt.Sprintf("spec.containers[%d].ports[%d].hostPort", i, j),
					strconv.Itoa(int(p.HostPort))
			}
		}
	}
	return out
}

// withMaker is a Pod, and what makes it anew where it is deleted.
func withMaker(in In, p *corev1.Pod) []finding.Object {
	out := []finding.Object{{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}}
	maker := metav1.GetControllerOf(p)
	if in.Objects != nil {
		if root := in.Objects.PodOwner(p); root.Kind != "Pod" {
			return append(out, root)
		}
	}
	if maker != nil {
		out = append(out, finding.Object{Kind: maker.Kind, Namespace: p.Namespace, Name: maker.Name})
	}
	return out
}

// spreadRefusal is the constraint that the node would break: its key where the node lacks it, or
// its skew with the counts.
func spreadRefusal(in In, r journal.NodeRefusal) refusalField {
	n := in.ClusterContext.node(r.Node)
	for i, c := range in.Pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.DoNotSchedule || n == nil {
			continue
		}
		at := fmt.Sprintf("spec.topologySpreadConstraints[%d]", i)
		domain, has := n.Labels[c.TopologyKey]
		if !has {
			return refusalField{field: at + ".topologyKey", value: c.TopologyKey}
		}
		counts := whatif.Domains(in.Pod, c, in.whatifInput().Snapshot)
		least := whatif.MinDomainCount(c, counts)
		skew := counts[domain] + 1 - least
		if skew <= int(c.MaxSkew) {
			continue
		}
		out := refusalField{field: at + ".maxSkew", value: strconv.Itoa(int(c.MaxSkew)), want: strconv.Itoa(skew),
			numbers: map[string]string{"maxSkew": strconv.Itoa(int(c.MaxSkew)), "skew": strconv.Itoa(skew),
				"matching": strconv.Itoa(counts[domain]), "least": strconv.Itoa(least)}}
		if c.MinDomains != nil && len(counts) < int(*c.MinDomains) {
			out.field, out.value, out.want = at+".minDomains", strconv.Itoa(int(*c.MinDomains)),
				strconv.Itoa(len(counts))
			out.numbers["domains"] = out.want
		}
		return out
	}
	return refusalField{field: "spec.topologySpreadConstraints"}
}

// affinityRefusal is the term of the Pod, or of a Pod that is there, that keeps it from the node.
func affinityRefusal(in In, r journal.NodeRefusal) refusalField {
	a := in.Pod.Spec.Affinity
	const required = ".requiredDuringSchedulingIgnoredDuringExecution"
	term := func(field string, t corev1.PodAffinityTerm) refusalField {
		return refusalField{field: field + ".labelSelector", value: metav1.FormatLabelSelector(t.LabelSelector),
			numbers: map[string]string{"topologyKey": t.TopologyKey}}
	}
	switch {
	case words(r, "existing pods anti-affinity"):
		for _, other := range placed(in, r.Node) {
			for i, t := range antiAffinityOf(other) {
				if selects(t, other.Namespace, in.Pod) {
					out := term(fmt.Sprintf("spec.affinity.podAntiAffinity%s[%d]", required, i), t)
					out.object = finding.Object{Kind: "Pod", Namespace: other.Namespace, Name: other.Name}
					return out
				}
			}
		}
	case words(r, "pod anti-affinity"):
		for i, t := range antiAffinityOf(in.Pod) {
			out := term(fmt.Sprintf("spec.affinity.podAntiAffinity%s[%d]", required, i), t)
			for _, other := range placed(in, r.Node) {
				if selects(t, in.Pod.Namespace, other) {
					out.related = append(out.related, finding.Object{Kind: "Pod", Namespace: other.Namespace,
						Name: other.Name})
					return out
				}
			}
		}
	case a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0:
		list := a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		for i, t := range list {
			met := slices.ContainsFunc(placed(in, ""), func(p *corev1.Pod) bool {
				return selects(t, in.Pod.Namespace, p)
			})
			if met && i < len(list)-1 {
				continue
			}
			out := term(fmt.Sprintf("spec.affinity.podAffinity%s[%d]", required, i), t)
			if namespace := namespaceMeant(in, t); !met && namespace != "" {
				out.field = strings.TrimSuffix(out.field, ".labelSelector") + ".namespaces"
				out.value, out.want = strings.Join(t.Namespaces, ","), namespace
			}
			return out
		}
	}
	return refusalField{field: "spec.affinity"}
}

// namespaceMeant is the namespace in which a term that names others would find a Pod: the asking
// Pod's own, if it is one; empty if there is none.
func namespaceMeant(in In, t corev1.PodAffinityTerm) string {
	if len(t.Namespaces) == 0 {
		return ""
	}
	anywhere, found := t, ""
	for _, p := range placed(in, "") {
		anywhere.Namespaces = []string{p.Namespace}
		if selects(anywhere, in.Pod.Namespace, p) && (found == "" || p.Namespace == in.Pod.Namespace) {
			found = p.Namespace
		}
	}
	return found
}

// words reports whether a refusal's messages have a text.
func words(r journal.NodeRefusal, text string) bool {
	return strings.Contains(strings.Join(r.Messages, " "), text)
}

// placed are the Pods that have a node; those of one node first.
func placed(in In, node string) []*corev1.Pod {
	if in.ClusterContext == nil {
		return nil
	}
	out := slices.DeleteFunc(slices.Clone(in.ClusterContext.Pods), func(p *corev1.Pod) bool {
		return p.Spec.NodeName == "" || pod.IsTerminal(p) || p.UID == in.Pod.UID && p.UID != ""
	})
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int {
		switch {
		case (a.Spec.NodeName == node) == (b.Spec.NodeName == node):
			return 0
		case a.Spec.NodeName == node:
			return -1
		}
		return 1
	})
	return out
}

func antiAffinityOf(p *corev1.Pod) []corev1.PodAffinityTerm {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// selects reports whether a term of a Pod of a namespace selects another Pod, as far as that is
// known without the labels of namespaces.
func selects(t corev1.PodAffinityTerm, namespace string, p *corev1.Pod) bool {
	s, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
	here := len(t.Namespaces) == 0 && namespace == p.Namespace || slices.Contains(t.Namespaces, p.Namespace) ||
		t.NamespaceSelector != nil
	return err == nil && here && s.Matches(labels.Set(p.Labels))
}

// devicesRefusal is the claim for devices that the refusal's words name, or the first.
func devicesRefusal(in In, r journal.NodeRefusal) refusalField {
	out := refusalField{field: "spec.resourceClaims"}
	for i, c := range in.Pod.Spec.ResourceClaims {
		field, name, kind := "resourceClaimName", "", "ResourceClaim"
		if c.ResourceClaimName != nil {
			name = *c.ResourceClaimName
		} else if c.ResourceClaimTemplateName != nil {
			field, name, kind = "resourceClaimTemplateName", *c.ResourceClaimTemplateName, "ResourceClaimTemplate"
		}
		if out.value == "" || strings.Contains(r.Detail+strings.Join(r.Messages, " "), name) {
			out = refusalField{field: fmt.Sprintf("spec.resourceClaims[%d].%s", i, field), value: name,
				related: []finding.Object{{Kind: kind, Namespace: in.Pod.Namespace, Name: name}}}
		}
	}
	return deviceRequest(in, r, out)
}

// nodesOf is the Pod's own node, where it is known.
func nodesOf(in In) []*corev1.Node {
	if in.Node == nil {
		return nil
	}
	return []*corev1.Node{in.Node}
}

// refusalOf is a refusal of a node, of which nothing else is known.
func refusalOf(node string) journal.NodeRefusal { return journal.NodeRefusal{Node: node} }

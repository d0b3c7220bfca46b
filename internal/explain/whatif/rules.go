package whatif

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	framework "k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// repairsByCode are the changes that may lift a refusal, by its code.
var repairsByCode = map[string][]func(searchState, journal.NodeRefusal) []change{
	"NodeResourcesFit":  {lowerRequests, freePods, raiseMaxPods, otherResource},
	"NodeUnschedulable": {uncordon},
	"TaintToleration":   {tolerate, untaint},
	"NodeAffinity":      {loosenAffinity, labelForAffinity, dropAffinity},
	"NodePorts":         {freePort},
	"PodTopologySpread": {labelForSpread, widenSpread, lowerDomains, honorTaints, softenSpread},
	"InterPodAffinity":  {reachNamespaces, dropPodAffinity, removePods},
	"DynamicResources":  {freeDevices},

	"VolumeRestrictions": {freeClaim},
	"NodeVolumeLimits":   {freeAttachments},
}

// changes returns what may lift a refusal.
func changes(st searchState, r journal.NodeRefusal) []change {
	var out []change
	for _, find := range repairsByCode[r.Plugin] {
		out = append(out, find(st, r)...)
	}
	return out
}

// ownPods returns the node's Pods of this Pod's namespace. Where any Pod's end makes room, those of
// other namespaces, which have nothing to do with this one, are not offered.
func ownPods(st searchState, n framework.NodeInfo) []*v1.Pod {
	var out []*v1.Pod
	for _, info := range n.GetPods() {
		if p := info.GetPod(); p.Namespace == st.pod.Namespace {
			out = append(out, p)
		}
	}
	return out
}

// freeDevices deletes a Pod of the node that has devices.
func freeDevices(st searchState, r journal.NodeRefusal) []change {
	n := st.snapshot.Node(r.Node)
	if n == nil {
		return nil
	}
	var out []change
	for _, p := range ownPods(st, n) {
		if len(p.Spec.ResourceClaims) > 0 || p.Status.ExtendedResourceClaimStatus != nil {
			out = append(out, deletePods(r.Node, p))
		}
	}
	return out
}

func uncordon(_ searchState, r journal.NodeRefusal) []change {
	return []change{{kind: "cordon", description: "uncordon " + r.Node, run: []string{"kubectl uncordon " + r.Node},
		cost: 0.5, snapshot: func(w *snapshot.Snapshot) (*snapshot.Snapshot, error) {
			return editNode(w, r.Node, func(n *v1.Node) {
				n.Spec.Unschedulable = false
				n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints,
					func(t v1.Taint) bool { return t.Key == v1.TaintNodeUnschedulable })
			})
		}}}
}

// untolerated returns the node's taints that the Pod does not tolerate.
func untolerated(p *v1.Pod, n *v1.Node) []v1.Taint {
	var out []v1.Taint
	for _, t := range n.Spec.Taints {
		if t.Effect == v1.TaintEffectPreferNoSchedule {
			continue
		}
		if !fit.Tolerates(p.Spec.Tolerations, &t) {
			out = append(out, t)
		}
	}
	return out
}

// Taint formats a taint as kubectl does.
func Taint(t v1.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

func tolerate(st searchState, r journal.NodeRefusal) []change {
	n := st.snapshot.Node(r.Node)
	if n == nil {
		return nil
	}
	taints := untolerated(st.pod, n.Node())
	if len(taints) == 0 || slices.ContainsFunc(taints, isNodeConditionTaint) {
		return nil
	}
	var names []string
	var add []v1.Toleration
	for _, t := range taints {
		names = append(names, Taint(t))
		o := v1.Toleration{Key: t.Key, Operator: v1.TolerationOpEqual, Value: t.Value, Effect: t.Effect}
		if t.Value == "" {
			o.Operator = v1.TolerationOpExists
		}
		add = append(add, o)
	}
	return []change{{kind: "toleration", description: "tolerate " + strings.Join(names, " and "),
		cost: 0.5 + 0.1*float64(len(taints)),
		pod:  func(p *v1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, add...) }}}
}

func untaint(st searchState, r journal.NodeRefusal) []change {
	n := st.snapshot.Node(r.Node)
	if n == nil {
		return nil
	}
	taints := untolerated(st.pod, n.Node())
	if len(taints) == 0 || slices.ContainsFunc(taints, isNodeConditionTaint) {
		return nil
	}
	c := change{kind: "taint", cost: 2}
	var names []string
	for _, t := range taints {
		names = append(names, Taint(t))
		c.run = append(c.run, fmt.Sprintf("kubectl taint node %s %s:%s-", r.Node, t.Key, t.Effect))
	}
	c.description = fmt.Sprintf("take the taint %s off %s", strings.Join(names, " and "), r.Node)
	c.snapshot = func(w *snapshot.Snapshot) (*snapshot.Snapshot, error) {
		return editNode(w, r.Node, func(n *v1.Node) {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints,
				func(t v1.Taint) bool { return slices.Contains(taints, t) })
		})
	}
	return []change{c}
}

// labelNode returns the change that labels a node.
func labelNode(node string, set map[string]string) change {
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		labels = append(labels, k+"="+set[k])
	}
	say := strings.Join(labels, " ")
	return change{kind: "label", description: fmt.Sprintf("label node %s %s", node, say),
		run: []string{fmt.Sprintf("kubectl label node %s %s --overwrite", node, say)}, cost: 1,
		snapshot: func(w *snapshot.Snapshot) (*snapshot.Snapshot, error) {
			return editNode(w, node, func(n *v1.Node) {
				if n.Labels == nil {
					n.Labels = map[string]string{}
				}
				maps.Copy(n.Labels, set)
			})
		}}
}

// labelForAffinity labels the node as the Pod's nodeSelector, or one of its required terms,
// demands.
func labelForAffinity(st searchState, r journal.NodeRefusal) []change {
	n := st.snapshot.Node(r.Node)
	if n == nil {
		return nil
	}
	wanted := map[string]string{}
	for k, v := range st.pod.Spec.NodeSelector {
		if n.Node().Labels[k] != v {
			wanted[k] = v
		}
	}
	terms := RequiredTerms(st.pod)
	var out []change
	for i := range max(len(terms), 1) {
		set := maps.Clone(wanted)
		ok := true
		if i < len(terms) {
			for _, e := range terms[i].MatchExpressions {
				ok = ok && satisfyRequirement(set, n.Node().Labels, e)
			}
			ok = ok && len(terms[i].MatchFields) == 0
		}
		for k := range set {
			ok = ok && k != v1.LabelHostname
		}
		if ok && len(set) > 0 {
			out = append(out, labelNode(r.Node, set))
		}
	}
	return out
}

// satisfyRequirement adds to set labels that satisfy an expression; false if that is not possible.
func satisfyRequirement(set, have map[string]string, e v1.NodeSelectorRequirement) bool {
	v, there := have[e.Key]
	switch e.Operator {
	case v1.NodeSelectorOpIn:
		if !there || !slices.Contains(e.Values, v) {
			if len(e.Values) == 0 {
				return false
			}
			set[e.Key] = e.Values[0]
		}
		return true
	case v1.NodeSelectorOpExists:
		if !there {
			set[e.Key] = "true"
		}
		return true
	case v1.NodeSelectorOpNotIn:
		return !there || !slices.Contains(e.Values, v)
	case v1.NodeSelectorOpDoesNotExist:
		return !there
	}
	return false
}

// RequiredTerms are the terms of a Pod's required node affinity; none without one.
func RequiredTerms(p *v1.Pod) []v1.NodeSelectorTerm {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	return nil
}

func dropAffinity(st searchState, _ journal.NodeRefusal) []change {
	var out []change
	for _, k := range slices.Sorted(maps.Keys(st.pod.Spec.NodeSelector)) {
		out = append(out,
			change{kind: "rule", description: fmt.Sprintf("drop %s=%s from nodeSelector", k,
				st.pod.Spec.NodeSelector[k]), nodeLabel: k + "=" + st.pod.Spec.NodeSelector[k], cost: 2,
				pod: func(p *v1.Pod) { delete(p.Spec.NodeSelector, k) }})
	}
	if len(RequiredTerms(st.pod)) > 0 {
		out = append(out, change{kind: "rule", description: "drop the required node affinity", cost: 2.5,
			pod: func(p *v1.Pod) {
				p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
			}})
	}
	return out
}

// freePort deletes the node's Pods that use a host port of this Pod.
func freePort(st searchState, r journal.NodeRefusal) []change {
	n := st.snapshot.Node(r.Node)
	if n == nil {
		return nil
	}
	var holders []*v1.Pod
	for _, info := range n.GetPods() {
		if _, taken := fit.PortConflict(pod.HostPorts(st.pod), pod.HostPorts(info.GetPod())); taken {
			holders = append(holders, info.GetPod())
		}
	}
	if len(holders) == 0 {
		return nil
	}
	return []change{deletePods(r.Node, holders...), {kind: "rule", description: "give up the host port", cost: 2,
		pod: func(p *v1.Pod) {
			for i := range p.Spec.Containers {
				for j := range p.Spec.Containers[i].Ports {
					p.Spec.Containers[i].Ports[j].HostPort = 0
				}
			}
		}}}
}

// freeClaim deletes the Pods that use a claim of this Pod, on any node: a claim may be
// ReadWriteOncePod. Which of several claims is one is not known here: each is tried.
func freeClaim(st searchState, _ journal.NodeRefusal) []change {
	var out []change
	for _, v := range st.pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		if node, holders := holdersOf(st, v.PersistentVolumeClaim.ClaimName); len(holders) > 0 {
			out = append(out, deletePods(node, holders...))
		}
	}
	return out
}

// freeAttachments deletes one of the node's Pods with claims: its volume is detached then.
func freeAttachments(st searchState, r journal.NodeRefusal) []change {
	var out []change
	for _, n := range st.snapshot.All() {
		if n.Node().Name != r.Node {
			continue
		}
		for _, p := range ownPods(st, n) {
			if slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
				return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
			}) {
				out = append(out, deletePods(r.Node, p))
			}
		}
	}
	return out
}

// holdersOf returns the Pods with a claim on the first node that has any.
func holdersOf(st searchState, claim string) (node string, holders []*v1.Pod) {
	has := func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	}
	for _, n := range st.snapshot.All() {
		for _, info := range n.GetPods() {
			if p := info.GetPod(); p.Namespace == st.pod.Namespace && slices.ContainsFunc(p.Spec.Volumes, has) {
				holders = append(holders, p)
			}
		}
		if len(holders) > 0 {
			return n.Node().Name, holders
		}
	}
	return "", nil
}

func dropPodAffinity(st searchState, _ journal.NodeRefusal) []change {
	a := st.pod.Spec.Affinity
	if a == nil {
		return nil
	}
	var out []change
	if a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		out = append(out, change{kind: "rule", description: "drop the required Pod anti-affinity", cost: 2.5,
			pod: func(p *v1.Pod) {
				p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
			}})
	}
	if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		out = append(out, change{kind: "rule", description: "drop the required Pod affinity", cost: 2.5,
			pod: func(p *v1.Pod) {
				p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
			}})
	}
	return out
}

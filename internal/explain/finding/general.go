package finding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/pod"
)

// owners finds an owner that is not there: the garbage collector deletes the object.
func owners(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	for i, r := range o.GetOwnerReferences() {
		if !builtInGroup(r.APIVersion) {
			continue // kinds of others may have the names of Kubernetes'
		}
		to := Object{r.Kind, self.Namespace, r.Name}
		x := c.Get(to)
		if x != nil && (x.GetUID() == r.UID || r.UID == "" || x.GetUID() == "") || x == nil && !c.knows(to) ||
			r.Kind == "Node" || self.Kind == "Pod" && self.Namespace == "" || clusterKinds[r.Kind] {
			continue
		}
		f := Finding{Code: "OwnerMissing", Severity: Threat, Stage: StageControl, Object: self,
			Field: fmt.Sprintf("metadata.ownerReferences[%d]", i), Value: r.Name, Related: []Object{to},
			Message: fmt.Sprintf("%s %s has the owner %s %s with UID %s, and there is none: the garbage collector "+
				"deletes it, if it has no other owner.", self.Kind, self.Name, r.Kind, r.Name, r.UID)}
		if x != nil {
			f.Message += fmt.Sprintf(" There is one of that name with another UID, %s.", x.GetUID())
		} else if near, how := Near(r.Name, c.names(r.Kind, self.Namespace)); near != "" {
			f.Want = near
			f.Message += fmt.Sprintf(" There is a %s %s; %s.", r.Kind, near, how)
		}
		out = append(out, f)
	}
	return out
}

// builtInGroup tells whether an API version is of Kubernetes itself.
func builtInGroup(version string) bool {
	group, _, found := strings.Cut(version, "/")
	return !found || slices.Contains([]string{"apps", "autoscaling", "batch", "policy"}, group) ||
		strings.HasSuffix(group, ".k8s.io")
}

// clusterKinds are kinds without a namespace, whose objects may own others.
var clusterKinds = map[string]bool{"Node": true, "Namespace": true, "PersistentVolume": true, "ClusterRole": true,
	"CustomResourceDefinition": true, "APIService": true, "StorageClass": true, "PriorityClass": true,
	"RuntimeClass": true, "CSIDriver": true, "CSINode": true, "VolumeAttachment": true, "IngressClass": true,
	"DeviceClass": true, "VolumeAttributesClass": true, "ClusterRoleBinding": true, "ClusterTrustBundle": true,
	"CertificateSigningRequest": true, "ValidatingWebhookConfiguration": true, "MutatingWebhookConfiguration": true,
	"ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true, "MutatingAdmissionPolicy": true,
	"MutatingAdmissionPolicyBinding": true, "FlowSchema": true, "PriorityLevelConfiguration": true, "IPAddress": true,
	"ServiceCIDR": true, "GatewayClass": true, "VolumeSnapshotClass": true, "VolumeSnapshotContent": true}

// lease finds a lease that has run out, whose holder does not renew it.
func lease(c *Cluster, o metav1.Object, self Object) []Finding {
	l, ok := o.(*coordinationv1.Lease)
	if !ok || l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil ||
		componentLeases[l.Name] != "" && l.Namespace == metav1.NamespaceSystem {
		return nil
	}
	age := c.Now.Sub(l.Spec.RenewTime.Time)
	seconds := *l.Spec.LeaseDurationSeconds
	if age <= 2*time.Duration(seconds)*time.Second {
		return nil
	}
	holder := "nobody"
	if h := l.Spec.HolderIdentity; h != nil && *h != "" {
		holder = *h
	}
	return []Finding{{Code: "LeaseExpired", Severity: Threat, Stage: StageControl, Object: self,
		Field: "spec.renewTime",
		Value: l.Spec.RenewTime.UTC().Format(time.RFC3339), Numbers: map[string]string{"age": age.Round(
			time.Second).String(), "leaseDurationSeconds": fmt.Sprint(seconds), "holder": holder},
		Message: fmt.Sprintf("Lease %s has run out: %s renewed it last %s ago, and it is good for %d s. Its holder "+
			"does not run, or cannot write.", self.Name, holder, age.Round(time.Second), seconds)}}
}

// conditions finds an object of a kind without rules of its own whose conditions say that it is not
// well.
func conditions(_ *Cluster, o metav1.Object, self Object) []Finding {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || wanted[self.Kind] != nil {
		return nil
	}
	good := []string{"Ready", "Available", "Healthy", "Synced", "Established", "Accepted", "Programmed", "ResolvedRefs"}
	bad := []string{"Failed", "Degraded", "Stalled", "Error"}
	var out []Finding
	for _, cond := range conditionsOf(u) {
		typ, status := fmt.Sprint(cond["type"]), fmt.Sprint(cond["status"])
		if !(slices.Contains(good, typ) && status != "True") && !(slices.Contains(bad, typ) && status == "True") {
			continue
		}
		out = append(out, Finding{Code: "ConditionWrong", Stage: StageControl, Object: self, Field: "status.conditions",
			Value: typ + "=" + status, Message: fmt.Sprintf("%s %s is not well: %s is %s (%v): %v", self.Kind,
				self.Name,
				typ, status, cond["reason"], cond["message"])})
	}
	return out
}

// runtimeClass finds a class whose handler no node's runtime has, or whose nodes there are not.
func runtimeClass(c *Cluster, o metav1.Object, self Object) []Finding {
	x, ok := o.(*nodev1.RuntimeClass)
	if !ok {
		return nil
	}
	var out []Finding
	var handlers []string
	for _, n := range list[*corev1.Node](c, "Node") {
		for _, h := range n.Status.RuntimeHandlers {
			if h.Name != "" { // that is the default one
				handlers = append(handlers, h.Name)
			}
		}
	}
	if len(handlers) > 0 && !slices.Contains(handlers, x.Handler) {
		f := Finding{Code: "HandlerUnknown", Stage: StageNode, Object: self, Field: "handler", Value: x.Handler,
			Message: fmt.Sprintf("RuntimeClass %s asks for handler %s, and no node's runtime has it; they have %s.",
				self.Name, x.Handler, joined(slices.Compact(slices.Sorted(slices.Values(handlers)))))}
		f.Want, _ = Near(x.Handler, handlers)
		out = append(out, f)
	}
	if x.Scheduling != nil {
		out = append(out, classTolerations(c, &corev1.PodSpec{NodeSelector: x.Scheduling.NodeSelector,
			Tolerations: x.Scheduling.Tolerations}, self)...)
	}
	if x.Scheduling == nil || len(x.Scheduling.NodeSelector) == 0 {
		return out
	}
	var among []labelled
	for _, n := range list[*corev1.Node](c, "Node") {
		among = append(among, labelled{objectOf("Node", n), n.Labels})
	}
	want := x.Scheduling.NodeSelector
	if len(among) == 0 || len(selected(want, among)) > 0 {
		return out
	}
	f := Finding{Code: "NodeLabelMissing", Stage: StagePlacement, Object: self, Field: "scheduling.nodeSelector",
		Value: labels.Set(want).String(), NodeLabels: strings.Split(labels.Set(want).String(), ","),
		Message: fmt.Sprintf("RuntimeClass %s is for nodes with %s, and none of "+
			"the %d nodes has that.", self.Name, labels.Set(want), len(among))}
	if d, ok := nearestNode(want, among); ok {
		f.describe(d)
		f.Remedies = []Remedy{c.selectInstead(self, f.Field, d)}
	}
	return append(out, f)
}

// scaling finds two autoscalers over one target, directions that are switched off, and targets of
// an API that does not serve them.
func scaling(c *Cluster, o metav1.Object, self Object) []Finding {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	var out []Finding
	for _, x := range in[*autoscalingv2.HorizontalPodAutoscaler](c, "HorizontalPodAutoscaler", self.Namespace) {
		a, b := h.Spec.ScaleTargetRef, x.Spec.ScaleTargetRef
		if x.Name != h.Name && a.Kind == b.Kind && a.Name == b.Name {
			out = append(out, Finding{Code: "AutoscalersOverlap", Stage: StageControl, Object: self,
				Field: "spec.scaleTargetRef", Value: a.Name, Related: []Object{objectOf("HorizontalPodAutoscaler", x)},
				Message:  bothScale(h, x),
				Remedies: []Remedy{withoutScaler(x, h.Name), withoutScaler(h, x.Name)}})
		}
	}
	if b := h.Spec.Behavior; b != nil {
		for field, r := range map[string]*autoscalingv2.HPAScalingRules{"scaleUp": b.ScaleUp,
			"scaleDown": b.ScaleDown} {
			if r == nil || r.SelectPolicy == nil || *r.SelectPolicy != autoscalingv2.DisabledPolicySelect {
				continue
			}
			out = append(out, Finding{Code: "ScalingDisabled", Severity: Threat, Stage: StageControl, Object: self,
				Field: "spec.behavior." + field + ".selectPolicy", Value: "Disabled", Want: "Max",
				Message: fmt.Sprintf("Autoscaler %s never scales %s: its behavior.%s.selectPolicy is Disabled.",
					self.Name, strings.ToLower(strings.TrimPrefix(field, "scale")), field),
				Remedies: []Remedy{{Say: "let it", Run: c.replaceCommand(self, "spec.behavior."+field+".selectPolicy",
					"Max")}}})
		}
	}
	if m := h.Spec.MinReplicas; m != nil && *m == h.Spec.MaxReplicas {
		out = append(out, Finding{Code: "NothingToScale", Severity: Note, Stage: StageControl, Object: self,
			Field: "spec.minReplicas", Value: fmt.Sprint(*m), Numbers: map[string]string{"minReplicas": fmt.Sprint(*m),
				"maxReplicas": fmt.Sprint(h.Spec.MaxReplicas)},
			Message: fmt.Sprintf("Autoscaler %s has nothing to choose: minReplicas and maxReplicas are %d.", self.Name,
				*m)})
	}
	return out
}

// fullNode finds a node that takes no more Pods because it has as many as it may.
func fullNode(c *Cluster, o metav1.Object, self Object) []Finding {
	n, ok := o.(*corev1.Node)
	if !ok || !c.Read("Pod") || c.Namespace != "" {
		return nil
	}
	most, known := n.Status.Allocatable[corev1.ResourcePods]
	var have int64
	for _, p := range list[*corev1.Pod](c, "Pod") {
		if p.Spec.NodeName == n.Name && !pod.IsTerminal(p) {
			have++
		}
	}
	if !known || have < most.Value() {
		return nil
	}
	return []Finding{{Code: "NodeFull", Severity: Threat, Stage: StageNode, Object: self,
		Field: "status.allocatable.pods", Value: most.String(), Numbers: map[string]string{"pods": fmt.Sprint(have),
			"allocatable": most.String()},
		Message: fmt.Sprintf("Node %s takes no more Pods: it has %d, and %s are allowed (maxPods of its kubelet).",
			self.Name, have, most.String())}}
}

// leftOut notes nodes on which a DaemonSet is not wanted, and why.
func leftOut(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil || self.Kind != "DaemonSet" {
		return nil
	}
	var out []Finding
	for _, n := range list[*corev1.Node](c, "Node") {
		x := n.DeepCopy()
		x.Spec.Unschedulable = false // its Pods tolerate that
		x.Spec.Taints = slices.DeleteFunc(x.Spec.Taints, func(t corev1.Taint) bool {
			return len(t.Key) > 19 && t.Key[:19] == "node.kubernetes.io/"
		})
		f := Finding{Code: "NodeLeftOut", Severity: Note, Stage: StagePlacement, Object: self,
			Related: []Object{objectOf("Node", n)}}
		if !fitsLabels(spec, x) {
			f.Field, f.Value = at+".nodeSelector", labels.Set(spec.NodeSelector).String()
			f.Message = fmt.Sprintf("DaemonSet %s is not wanted on node %s: its node selector or affinity does not "+
				"fit.",
				self.Name, n.Name)
		} else if left := untolerated(spec, x); len(left) > 0 {
			f.Field, f.Want = at+".tolerations", left[0].ToString()
			f.Numbers = map[string]string{"taint": f.Want}
			all, _ := json.Marshal(append(slices.Clone(spec.Tolerations), corev1.Toleration{Key: left[0].Key,
				Operator: corev1.TolerationOpExists, Effect: left[0].Effect})) // strings always marshal
			f.Remedies = []Remedy{{Say: fmt.Sprintf("if it should run on %s too, let it tolerate the taint", n.Name),
				Run: c.patchCommand(self,
					fmt.Sprintf(`[{"op":"add","path":"/spec/template/spec/tolerations","value":%s}]`,
						all))}}
			f.Message = fmt.Sprintf("DaemonSet %s is not wanted on node %s: it does not tolerate the taint %s.",
				self.Name,
				n.Name, f.Want)
		} else {
			continue
		}
		if out = append(out, f); len(out) == 5 {
			break
		}
	}
	return out
}

// followed are kinds whose own troubles are those of what names them.
var followed = map[string]bool{"ServiceAccount": true, "Secret": true, "RuntimeClass": true, "Service": true,
	"PersistentVolumeClaim": true, "PersistentVolume": true, "ResourceClaim": true, "ResourceClaimTemplate": true,
	"StorageClass": true, "Role": true, "ClusterRole": true, "Deployment": true, "StatefulSet": true,
	"IngressClass": true, "ValidatingAdmissionPolicy": true}

// maxFollowed bounds how many objects are looked at behind one.
const maxFollowed = 20

// selectedRoots are the outermost controllers of the Pods that a Service or a budget selects, or
// would select if there were any; where nothing has its labels, that of the Pod which was probably
// meant.
func (c *Cluster) selectedRoots(o metav1.Object) []Object {
	var want map[string]string
	switch x := o.(type) {
	case *corev1.Service:
		want = x.Spec.Selector
	case *policyv1.PodDisruptionBudget:
		want = wantedLabels(x.Spec.Selector)
	}
	if len(want) == 0 {
		return nil
	}
	among := c.labelledPods(o.GetNamespace())
	found := selected(want, among)
	if len(found) == 0 {
		d, ok := nearestLabels(want, among)
		if !ok {
			d, ok = onlyOtherValue(want, among)
		}
		if ok {
			found = []labelled{d.of}
		}
	}
	var out []Object
	for _, x := range found {
		root := x.object
		if o := c.Get(root); o != nil {
			root = c.outermost(o, root)
		}
		if !slices.Contains(out, root) && len(out) < maxFollowed {
			out = append(out, root)
		}
	}
	return out
}

// MeantPods are the Pods that an object's selector was probably meant to select, where it selects
// none.
func (c *Cluster) MeantPods(self Object) []*corev1.Pod {
	o := c.Get(self)
	if o == nil {
		return nil
	}
	var out []*corev1.Pod
	for _, root := range c.selectedRoots(o) {
		if p, ok := c.Get(root).(*corev1.Pod); ok {
			out = append(out, p)
		} else if x := c.Get(root); x != nil {
			out = append(out, c.podsOf(x)...)
		}
	}
	return out
}

// inside are the findings of a workload, or a Pod, that hinder what it is selected for: its own,
// and those of its ReplicaSets. That it wants no Pods is one of them.
func (c *Cluster) inside(o metav1.Object, self Object) []Finding {
	found := of(c, o, self)
	for _, x := range owned[metav1.Object](c, "ReplicaSet", o) {
		if !superseded(x) {
			found = append(found, of(c, x, objectOf("ReplicaSet", x))...)
		}
	}
	var out []Finding
	for _, f := range found {
		if f.Code == "Warning" || f.Severity == Note && f.Code != "ScaledToZero" {
			continue
		}
		f.Severity = Threat // it is theirs; what it hinders here has a rule of its own
		out = append(out, f)
	}
	return out
}

// referencedFindings are the findings of what an object names, and of what that names.
func (c *Cluster) referencedFindings(self Object) []Finding {
	var out []Finding
	seen := map[Object]bool{self: true}
	next := []Object{self}
	for len(next) > 0 && len(seen) < maxFollowed {
		o := c.Get(next[0])
		next = next[1:]
		if o == nil {
			continue
		}
		for _, to := range c.besidePods(o) {
			if x := c.Get(to); x != nil && !seen[to] {
				seen[to] = true
				next = append(next, to)
				out = append(out, c.inside(x, to)...)
			}
		}
		for _, to := range c.selectedRoots(o) {
			if x := c.Get(to); x != nil && !seen[to] {
				seen[to] = true
				out = append(out, c.inside(x, to)...)
			}
		}
		for _, r := range references(o) {
			x := c.Get(r.To)
			if x == nil || seen[r.To] || !followed[r.To.Kind] {
				continue
			}
			seen[r.To] = true
			next = append(next, r.To)
			for _, f := range of(c, x, r.To) {
				if f.Code == "Warning" || f.Severity == Note {
					continue
				}
				f.Severity = max(f.Severity, Threat) // it is theirs; what it hinders here has a rule of its own
				out = append(out, f)
			}
		}
	}
	return out
}

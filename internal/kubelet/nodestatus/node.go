package nodestatus

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	attachDetachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	cloudTaint             = "node.cloudprovider.kubernetes.io/uninitialized"
	providedIPAnnotation   = "alpha.kubernetes.io/provided-node-ip"
)

// annotateProvidedIP tells an external cloud provider which address the node was given.
func annotateProvidedIP(n *v1.Node, o Options) {
	if !o.Identity.External {
		return
	}
	for _, a := range o.Identity.Addresses {
		if a.Type == v1.NodeInternalIP {
			n.Annotations[providedIPAnnotation] = a.Address
			return
		}
	}
	delete(n.Annotations, providedIPAnnotation)
}

// ownLabels are the labels a kubelet gives its node.
func ownLabels(o Options) map[string]string {
	l := map[string]string{
		v1.LabelHostname:        o.Identity.Hostname,
		v1.LabelOSStable:        "linux",
		v1.LabelArchStable:      o.Machine.Architecture,
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": o.Machine.Architecture,
	}
	maps.Copy(l, o.Identity.Labels)
	return l
}

// newNode is the node as it is registered for the first time, without status.
func newNode(o Options) *v1.Node {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: o.Identity.Name, Labels: ownLabels(o), Annotations: map[string]string{attachDetachAnnotation: "true"},
		},
		Spec: v1.NodeSpec{Unschedulable: o.Identity.Unschedulable, ProviderID: o.Identity.ProviderID,
			Taints: o.Identity.Taints, PodCIDRs: o.Identity.PodCIDRs},
	}
	if len(n.Spec.PodCIDRs) > 0 {
		n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	}
	if o.Identity.External && !hasTaint(n.Spec.Taints, cloudTaint) {
		n.Spec.Taints = append(append([]v1.Taint(nil), n.Spec.Taints...),
			v1.Taint{Key: cloudTaint, Value: "true", Effect: v1.TaintEffectNoSchedule})
	}
	annotateProvidedIP(n, o)
	if o.Identity.Unschedulable && !hasTaint(n.Spec.Taints, v1.TaintNodeUnschedulable) {
		n.Spec.Taints = append(append([]v1.Taint(nil), n.Spec.Taints...),
			v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
	}
	return n
}

func hasTaint(list []v1.Taint, key string) bool {
	for _, t := range list {
		if t.Key == key {
			return true
		}
	}
	return false
}

// reconcile returns the node a restarted kubelet finds, with its own labels and annotation made
// true again; taints and unschedulable are left alone, as somebody may have changed them since.
func reconcile(found *v1.Node, o Options) *v1.Node {
	n := found.DeepCopy()
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	maps.Copy(n.Labels, ownLabels(o))
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[attachDetachAnnotation] = "true"
	annotateProvidedIP(n, o)
	if n.Spec.ProviderID == "" {
		n.Spec.ProviderID = o.Identity.ProviderID
	}
	return n
}

func equal(a, b any) bool { return apiequality.Semantic.DeepEqual(a, b) }

package noderestriction

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
)

func admitNode(name string, a admission.Attributes) error {
	target := a.GetName()
	n, _ := a.GetObject().(*corev1.Node)
	if a.GetOperation() == admission.Create {
		if n == nil {
			return fmt.Errorf("unexpected type %T", a.GetObject())
		}
		if target == "" {
			target = n.Name
		}
	}
	if target != name {
		return fmt.Errorf("node %q is not allowed to modify node %q", name, target)
	}
	switch a.GetOperation() {
	case admission.Create:
		if n.Spec.ConfigSource != nil {
			return fmt.Errorf("node %q is not allowed to create pods with a non-nil configSource", name)
		}
		if bad := forbiddenLabels(changedKeys(n.Labels, nil)); len(bad) > 0 {
			return fmt.Errorf("node %q is not allowed to set the following labels: %s", name, strings.Join(bad, ", "))
		}
		return nil
	case admission.Update:
	default:
		return nil
	}
	old, ok := a.GetOldObject().(*corev1.Node)
	if n == nil || !ok {
		return fmt.Errorf("unexpected type %T", a.GetObject())
	}
	if n.Spec.ConfigSource != nil && !equality.Semantic.DeepEqual(n.Spec.ConfigSource, old.Spec.ConfigSource) {
		return fmt.Errorf("node %q is not allowed to update configSource to a new non-nil configSource", name)
	}
	if !equality.Semantic.DeepEqual(n.Spec.Taints, old.Spec.Taints) {
		return fmt.Errorf("node %q is not allowed to modify taints", name)
	}
	if !equality.Semantic.DeepEqual(n.OwnerReferences, old.OwnerReferences) {
		return fmt.Errorf("node %q is not allowed to modify ownerReferences", name)
	}
	if bad := forbiddenLabels(changedKeys(n.Labels, old.Labels)); len(bad) > 0 {
		return fmt.Errorf("is not allowed to modify labels: %s", strings.Join(bad, ", "))
	}
	return nil
}

// changedKeys lists the keys that differ.
func changedKeys(now, previous map[string]string) []string {
	var out []string
	for k, v := range now {
		if old, there := previous[k]; !there || old != v {
			out = append(out, k)
		}
	}
	for k := range previous {
		if _, there := now[k]; !there {
			out = append(out, k)
		}
	}
	return out
}

// selfSettableLabels are the labels of Kubernetes' domains that a node sets itself.
var selfSettableLabels = map[string]bool{
	corev1.LabelHostname: true, corev1.LabelTopologyZone: true, corev1.LabelTopologyRegion: true,
	corev1.LabelFailureDomainBetaZone: true, corev1.LabelFailureDomainBetaRegion: true,
	corev1.LabelInstanceType: true, corev1.LabelInstanceTypeStable: true, corev1.LabelOSStable: true,
	corev1.LabelArchStable:  true,
	"beta.kubernetes.io/os": true, "beta.kubernetes.io/arch": true, corev1.LabelWindowsBuild: true,
}

// forbiddenLabels picks the labels a node may not touch: those of Kubernetes' domains which it does
// not set itself, else it could draw to itself Pods that are meant for other nodes.
func forbiddenLabels(keys []string) []string {
	var out []string
	for _, k := range keys {
		domain, _, ok := strings.Cut(k, "/")
		if !ok || selfSettableLabels[k] || isSubdomain(domain, "kubelet.kubernetes.io") || isSubdomain(domain,
			"node.kubernetes.io") {
			continue
		}
		if isSubdomain(domain, "kubernetes.io") || isSubdomain(domain, "k8s.io") {
			out = append(out, k)
		}
	}
	sort.Strings(out)
	return out
}

func isSubdomain(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// admitPVCStatus lets a node report how large a volume has become, and nothing else.
func admitPVCStatus(name string, a admission.Attributes) error {
	if a.GetSubresource() != "status" {
		return errors.New("may only update PVC status")
	}
	if a.GetOperation() != admission.Update {
		return fmt.Errorf("unexpected operation %q, node %q may only update PVC status", a.GetOperation(), name)
	}
	old, ok1 := a.GetOldObject().(*corev1.PersistentVolumeClaim)
	claim, ok2 := a.GetObject().(*corev1.PersistentVolumeClaim)
	if !ok1 || !ok2 {
		return fmt.Errorf("unexpected type %T", a.GetObject())
	}
	x, y := old.DeepCopy(), claim.DeepCopy()
	for _, c := range []*corev1.PersistentVolumeClaim{x, y} {
		c.ResourceVersion, c.ManagedFields = "", nil
		c.Status.Capacity, c.Status.Conditions, c.Status.AllocatedResourceStatuses = nil, nil, nil
	}
	if !equality.Semantic.DeepEqual(x, y) {
		return fmt.Errorf("node %q is not allowed to update fields other than status.quantity and status.conditions",
			name)
	}
	return nil
}

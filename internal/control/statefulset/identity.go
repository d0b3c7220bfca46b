package statefulset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// Pod returns the Pod of an ordinal from a revision's template: name, host name, labels and claims.
func Pod(set *appsv1.StatefulSet, template *corev1.PodTemplateSpec, s Replica) *corev1.Pod {
	p := controllerruntime.NewPodFromTemplate(template, controllerruntime.Owner{Object: set, Kind: kind})
	p.GenerateName = ""
	p.Name = fmt.Sprintf("%s-%d", set.Name, s.Ordinal)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[appsv1.StatefulSetRevisionLabel] = s.Revision
	updateIdentity(set, p, s.Ordinal)
	p.Spec.Hostname, p.Spec.Subdomain = p.Name, set.Spec.ServiceName
	updateStorage(set, p, s.Ordinal)
	return p
}

func updateIdentity(set *appsv1.StatefulSet, p *corev1.Pod, ordinal int) {
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[appsv1.StatefulSetPodNameLabel] = p.Name
	p.Labels[appsv1.PodIndexLabel] = strconv.Itoa(ordinal)
}

// updateStorage replaces volumes of the same names by the claims.
func updateStorage(set *appsv1.StatefulSet, p *corev1.Pod, ordinal int) {
	claims := map[string]bool{}
	var volumes []corev1.Volume
	for _, t := range set.Spec.VolumeClaimTemplates {
		claims[t.Name] = true
		volumes = append(volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, t.Name,
				ordinal)},
		}})
	}
	for _, v := range p.Spec.Volumes {
		if !claims[v.Name] {
			volumes = append(volumes, v)
		}
	}
	p.Spec.Volumes = volumes
}

func claimName(set *appsv1.StatefulSet, template string, ordinal int) string {
	return fmt.Sprintf("%s-%s-%d", template, set.Name, ordinal)
}

// Claims returns the claims of an ordinal to create.
func Claims(set *appsv1.StatefulSet, ordinal int) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range set.Spec.VolumeClaimTemplates {
		c := set.Spec.VolumeClaimTemplates[i].DeepCopy()
		c.Name, c.Namespace = claimName(set, c.Name, ordinal), set.Namespace
		c.Status = corev1.PersistentVolumeClaimStatus{}
		labels := maps.Clone(c.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		if set.Spec.Selector != nil {
			maps.Copy(labels, set.Spec.Selector.MatchLabels)
		}
		c.Labels = labels
		out = append(out, c)
	}
	return out
}

// IdentityMatches reports whether a Pod has its name and labels.
func IdentityMatches(set *appsv1.StatefulSet, p *corev1.Pod) bool {
	return p.Labels[appsv1.StatefulSetPodNameLabel] == p.Name &&
		p.Labels[appsv1.PodIndexLabel] == strconv.Itoa(Ordinal(set, p))
}

// ClaimOwnerRefs returns the owner references of a claim by the retention policy (KEP-1847): the
// set, if deleting the set deletes it; the Pod, if scaling down deletes it and the Pod leaves.
// References to other kinds stay. changed: the claim must be written.
func ClaimOwnerRefs(set *appsv1.StatefulSet, p *corev1.Pod, leaves bool,
	have []metav1.OwnerReference) (want []metav1.OwnerReference, changed bool) {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	bySet, byPod := false, false
	if policy != nil {
		byPod = policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType && leaves
		bySet = policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType && !byPod
	}
	for _, o := range have {
		ours := o.UID == set.UID || p != nil && o.UID == p.UID || o.Kind == "Pod" && p != nil && o.Name == p.Name
		if !ours {
			want = append(want, o)
		}
	}
	if bySet {
		want = append(want, *metav1.NewControllerRef(set, kind))
	}
	if byPod {
		want = append(want, *metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod")))
	}
	uids := func(refs []metav1.OwnerReference) []types.UID {
		var out []types.UID
		for _, r := range refs {
			out = append(out, r.UID)
		}
		slices.Sort(out)
		return out
	}
	return want, !slices.Equal(uids(have), uids(want))
}

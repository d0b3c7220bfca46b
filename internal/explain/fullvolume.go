package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// spaceUsedUp is the bound of an emptyDir, or of a claim's volume, that is full.
func spaceUsedUp(in In, c container, at, file string) (restriction, bool) {
	m, _, ok := mountIndex(c, file)
	if !ok {
		return sharedMemoryFull(in, c, at, file)
	}
	for i, v := range in.Pod.Spec.Volumes {
		if v.Name == m.Name && v.PersistentVolumeClaim != nil {
			return claimFull(in, m, v.PersistentVolumeClaim.ClaimName)
		}
		if v.Name != m.Name || v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil {
			continue
		}
		more := v.EmptyDir.SizeLimit.DeepCopy()
		more.Add(more)
		return restriction{field: fmt.Sprintf("spec.volumes[%d].emptyDir.sizeLimit", i),
			value: v.EmptyDir.SizeLimit.String(),
			want:  more.String(), text: fmt.Sprintf("Volume %s at %s is full: its sizeLimit is %s.", v.Name,
				m.MountPath,
				v.EmptyDir.SizeLimit.String()), fixes: []Fix{editedPodFix(in, "let it hold "+more.String(),
				func(s *corev1.PodSpec) { s.Volumes[i].EmptyDir.SizeLimit = &more })}}, true
	}
	return restriction{}, false
}

// claimFull is the size of a claim whose volume is full. Its class decides whether it can grow.
func claimFull(in In, m corev1.VolumeMount, name string) (restriction, bool) {
	self := finding.Object{Kind: "PersistentVolumeClaim", Namespace: in.Ref.Namespace, Name: name}
	if in.Objects == nil {
		return restriction{}, false
	}
	claim, ok := in.Objects.Get(self).(*corev1.PersistentVolumeClaim)
	if !ok {
		return restriction{}, false
	}
	has := claim.Status.Capacity[corev1.ResourceStorage]
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	more := has.DeepCopy()
	more.Add(has)
	r := restriction{object: self, field: "spec.resources.requests.storage", value: asked.String(), want: more.String(),
		text: fmt.Sprintf("Volume %s at %s is full: its claim %s has %s.", m.Name, m.MountPath, name, has.String())}
	grow := Fix{Description: fmt.Sprintf("let claim %s have %s", name, more.String()), Run: []string{fmt.Sprintf(
		`kubectl -n %s patch pvc %s --type=merge -p '{"spec":{"resources":{"requests":{"storage":"%s"}}}}'`,
		in.Ref.Namespace, name, more.String())}}
	if class := claim.Spec.StorageClassName; class != nil {
		c, ok := in.Objects.Get(finding.Object{Kind: "StorageClass", Name: *class}).(*storagev1.StorageClass)
		if ok && (c.AllowVolumeExpansion == nil || !*c.AllowVolumeExpansion) {
			grow = Fix{Description: fmt.Sprintf("move the data to a larger claim: class %s does not let volumes grow "+
				"(allowVolumeExpansion)", *class)}
		}
	}
	r.fixes = append([]Fix{grow}, textFixes("or write less, or remove what is no longer needed")...)
	return r, true
}

package finding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// claimSpecReferences are those of the spec of a claim, whose path is at: of a claim itself, or of
// one that is made from a template.
func claimSpecReferences(s *corev1.PersistentVolumeClaimSpec, ns, at string, stage Stage) []Reference {
	var out []Reference
	add := func(field, kind, namespace, name string) {
		if name != "" {
			out = append(out, Reference{Field: at + "." + field, To: Object{kind, namespace, name}, Stage: stage})
		}
	}
	if c := s.StorageClassName; c != nil {
		add("storageClassName", "StorageClass", "", *c)
	}
	add("volumeName", "PersistentVolume", "", s.VolumeName)
	if c := s.VolumeAttributesClassName; c != nil {
		add("volumeAttributesClassName", "VolumeAttributesClass", "", *c)
	}
	const claimKind = "PersistentVolumeClaim"
	d := s.DataSource
	if d != nil && d.Kind == claimKind && builtInGroup(groupOf(d.APIGroup)) {
		add("dataSource", claimKind, ns, d.Name)
	}
	if r := s.DataSourceRef; r != nil && r.Kind == claimKind && builtInGroup(groupOf(r.APIGroup)) &&
		(d == nil || d.Name != r.Name) { // the API server writes one beside the other
		from := ns
		if r.Namespace != nil && *r.Namespace != "" {
			from = *r.Namespace
		}
		add("dataSourceRef.name", claimKind, from, r.Name)
	}
	return out
}

// groupOf is an API group as the beginning of an API version.
func groupOf(group *string) string {
	if group == nil || *group == "" {
		return "v1"
	}
	return *group + "/v1"
}

// inlineSecrets are the Secrets that a volume of a Pod names beside those that it mounts, by the
// field that names them.
func inlineSecrets(v *corev1.VolumeSource) map[string]string {
	out := map[string]string{}
	for field, r := range inlineSecretRefs(v) {
		if r != nil && r.Name != "" {
			out[field+".secretRef.name"] = r.Name
		}
	}
	if x := v.AzureFile; x != nil && x.SecretName != "" {
		out["azureFile.secretName"] = x.SecretName
	}
	return out
}

func inlineSecretRefs(v *corev1.VolumeSource) map[string]*corev1.LocalObjectReference {
	out := map[string]*corev1.LocalObjectReference{}
	if x := v.ISCSI; x != nil {
		out["iscsi"] = x.SecretRef
	}
	if x := v.RBD; x != nil {
		out["rbd"] = x.SecretRef
	}
	if x := v.FlexVolume; x != nil {
		out["flexVolume"] = x.SecretRef
	}
	if x := v.CephFS; x != nil {
		out["cephfs"] = x.SecretRef
	}
	if x := v.Cinder; x != nil {
		out["cinder"] = x.SecretRef
	}
	if x := v.ScaleIO; x != nil {
		out["scaleIO"] = x.SecretRef
	}
	if x := v.StorageOS; x != nil {
		out["storageos"] = x.SecretRef
	}
	return out
}

// persistentSecrets are the Secrets that a PersistentVolume names, by the field that names them.
func persistentSecrets(v *corev1.PersistentVolumeSource) map[string]*corev1.SecretReference {
	out := map[string]*corev1.SecretReference{}
	if x := v.CSI; x != nil {
		out["csi.nodeStageSecretRef"], out["csi.nodePublishSecretRef"] = x.NodeStageSecretRef, x.NodePublishSecretRef
		out["csi.controllerPublishSecretRef"] = x.ControllerPublishSecretRef
		out["csi.controllerExpandSecretRef"], out["csi.nodeExpandSecretRef"] = x.ControllerExpandSecretRef,
			x.NodeExpandSecretRef
	}
	if x := v.ISCSI; x != nil {
		out["iscsi.secretRef"] = x.SecretRef
	}
	if x := v.RBD; x != nil {
		out["rbd.secretRef"] = x.SecretRef
	}
	if x := v.FlexVolume; x != nil {
		out["flexVolume.secretRef"] = x.SecretRef
	}
	if x := v.CephFS; x != nil {
		out["cephfs.secretRef"] = x.SecretRef
	}
	if x := v.Cinder; x != nil {
		out["cinder.secretRef"] = x.SecretRef
	}
	if x := v.ScaleIO; x != nil {
		out["scaleIO.secretRef"] = x.SecretRef
	}
	if x := v.StorageOS; x != nil && x.SecretRef != nil {
		out["storageos.secretRef"] = &corev1.SecretReference{Name: x.SecretRef.Name, Namespace: x.SecretRef.Namespace}
	}
	if x := v.AzureFile; x != nil && x.SecretNamespace != nil {
		out["azureFile.secretName"] = &corev1.SecretReference{Name: x.SecretName, Namespace: *x.SecretNamespace}
	}
	return out
}

// persistentReferences are what a PersistentVolume names.
func persistentReferences(v *corev1.PersistentVolume) []Reference {
	var out []Reference
	if n := v.Spec.StorageClassName; n != "" {
		out = append(out, Reference{Field: "spec.storageClassName", To: Object{"StorageClass", "", n}, Optional: true})
	}
	if n := v.Spec.VolumeAttributesClassName; n != nil && *n != "" {
		out = append(out, Reference{Field: "spec.volumeAttributesClassName",
			To: Object{"VolumeAttributesClass", "", *n}, Weak: true, Stage: StageVolume})
	}
	if s := v.Spec.CSI; s != nil {
		out = append(out, Reference{Field: "spec.csi.driver", To: Object{"CSIDriver", "", s.Driver}, Weak: true,
			Stage: StageVolume})
	}
	secrets := persistentSecrets(&v.Spec.PersistentVolumeSource)
	for _, field := range slices.Sorted(maps.Keys(secrets)) {
		if r := secrets[field]; r != nil && r.Name != "" {
			out = append(out, Reference{Field: "spec." + field, To: Object{"Secret", r.Namespace, r.Name},
				Weak: strings.Contains(field, "Expand"), Stage: StageVolume})
		}
	}
	return out
}

// secretParameters are the ends of a storage class's parameters that name a Secret for calls of its
// driver.
var secretParameters = []string{"provisioner", "controller-publish", "node-stage", "node-publish", "controller-expand",
	"node-expand"}

// classReferences are the Secrets that a storage class names; names with $ are of each volume.
func classReferences(x *storagev1.StorageClass) []Reference {
	var out []Reference
	for _, call := range secretParameters {
		at := "csi.storage.k8s.io/" + call + "-secret-"
		name, ns := x.Parameters[at+"name"], x.Parameters[at+"namespace"]
		if name == "" || ns == "" || strings.Contains(name+ns, "$") {
			continue
		}
		out = append(out, Reference{Field: fmt.Sprintf("parameters[%sname]", at), To: Object{"Secret", ns, name},
			Weak: call != "provisioner", Stage: StageVolume})
	}
	return out
}

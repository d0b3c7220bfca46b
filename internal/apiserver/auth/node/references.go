package node

import (
	corev1 "k8s.io/api/core/v1"

	poddef "github.com/gantry-project/gantry/internal/pod"
)

// vertex names an object a node may need.
type vertex struct {
	kind      string // resource name: secrets, configmaps, …
	namespace string
	name      string
}

// podReferences lists what a Pod refers to. A mirror Pod, which its node wrote itself, vouches for
// nothing but itself.
func podReferences(p *corev1.Pod) []vertex {
	seen := map[vertex]bool{}
	var out []vertex
	add := func(kind, name string) {
		t := vertex{kind, p.Namespace, name}
		if name != "" && !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	add("pods", p.Name)
	if poddef.IsMirror(p) {
		return out
	}
	poddef.References(p, add)
	return out
}

// volumeSecrets lists the Secrets a node needs to mount a PersistentVolume. What only a controller
// needs is left out.
func volumeSecrets(pv *corev1.PersistentVolume) []vertex {
	var out []vertex
	home := ""
	if pv.Spec.ClaimRef != nil {
		home = pv.Spec.ClaimRef.Namespace
	}
	add := func(r *corev1.SecretReference) {
		if r == nil || r.Name == "" {
			return
		}
		ns := r.Namespace
		if ns == "" {
			ns = home
		}
		out = append(out, vertex{"secrets", ns, r.Name})
	}
	switch s := pv.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		add(s.CSI.NodePublishSecretRef)
		add(s.CSI.NodeStageSecretRef)
		add(s.CSI.NodeExpandSecretRef)
	case s.ISCSI != nil:
		add(s.ISCSI.SecretRef)
	case s.RBD != nil:
		add(s.RBD.SecretRef)
	case s.CephFS != nil:
		add(s.CephFS.SecretRef)
	case s.Cinder != nil:
		add(s.Cinder.SecretRef)
	case s.FlexVolume != nil:
		add(s.FlexVolume.SecretRef)
	case s.ScaleIO != nil:
		add(s.ScaleIO.SecretRef)
	case s.AzureFile != nil:
		r := &corev1.SecretReference{Name: s.AzureFile.SecretName}
		if s.AzureFile.SecretNamespace != nil {
			r.Namespace = *s.AzureFile.SecretNamespace
		}
		add(r)
	}
	return out
}

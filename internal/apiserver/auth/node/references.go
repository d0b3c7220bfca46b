package node

import (
	corev1 "k8s.io/api/core/v1"
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
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return out
	}
	add("serviceaccounts", p.Spec.ServiceAccountName)
	for _, s := range p.Spec.ImagePullSecrets {
		add("secrets", s.Name)
	}
	visitContainers(&p.Spec, func(c *corev1.Container) { containerRefs(c, add) })
	for i := range p.Spec.Volumes {
		volumeRefs(p, &p.Spec.Volumes[i], add)
	}
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			add("resourceclaims", *s.ResourceClaimName)
		}
	}
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			add("resourceclaims", *c.ResourceClaimName)
		}
	}
	return out
}

func visitContainers(s *corev1.PodSpec, visit func(*corev1.Container)) {
	for i := range s.InitContainers {
		visit(&s.InitContainers[i])
	}
	for i := range s.Containers {
		visit(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		c := corev1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		visit(&c)
	}
}

func containerRefs(c *corev1.Container, add func(kind, name string)) {
	for _, f := range c.EnvFrom {
		if f.SecretRef != nil {
			add("secrets", f.SecretRef.Name)
		}
		if f.ConfigMapRef != nil {
			add("configmaps", f.ConfigMapRef.Name)
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			add("secrets", r.Name)
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			add("configmaps", r.Name)
		}
	}
}

func volumeRefs(p *corev1.Pod, v *corev1.Volume, add func(kind, name string)) {
	local := func(r *corev1.LocalObjectReference) {
		if r != nil {
			add("secrets", r.Name)
		}
	}
	switch s := v.VolumeSource; {
	case s.Secret != nil:
		add("secrets", s.Secret.SecretName)
	case s.ConfigMap != nil:
		add("configmaps", s.ConfigMap.Name)
	case s.PersistentVolumeClaim != nil:
		add("persistentvolumeclaims", s.PersistentVolumeClaim.ClaimName)
	case s.Ephemeral != nil:
		add("persistentvolumeclaims", p.Name+"-"+v.Name)
	case s.Projected != nil:
		for _, part := range s.Projected.Sources {
			if part.Secret != nil {
				add("secrets", part.Secret.Name)
			}
			if part.ConfigMap != nil {
				add("configmaps", part.ConfigMap.Name)
			}
		}
	case s.CSI != nil:
		local(s.CSI.NodePublishSecretRef)
	case s.ISCSI != nil:
		local(s.ISCSI.SecretRef)
	case s.RBD != nil:
		local(s.RBD.SecretRef)
	case s.CephFS != nil:
		local(s.CephFS.SecretRef)
	case s.Cinder != nil:
		local(s.Cinder.SecretRef)
	case s.FlexVolume != nil:
		local(s.FlexVolume.SecretRef)
	case s.ScaleIO != nil:
		local(s.ScaleIO.SecretRef)
	case s.StorageOS != nil:
		local(s.StorageOS.SecretRef)
	case s.AzureFile != nil:
		add("secrets", s.AzureFile.SecretName)
	}
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

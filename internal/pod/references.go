package pod

import (
	corev1 "k8s.io/api/core/v1"
)

// References calls add with what a Pod refers to by name in its own namespace: serviceaccounts,
// secrets, configmaps, persistentvolumeclaims, resourceclaims. Names may be empty and come several
// times.
func References(p *corev1.Pod, add func(resource, name string)) {
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

func containerRefs(c *corev1.Container, add func(resource, name string)) {
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

func volumeRefs(p *corev1.Pod, v *corev1.Volume, add func(resource, name string)) {
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

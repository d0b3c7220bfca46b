package static

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// APIReference names the API objects that a Pod needs, with upstream's word for them; empty when it
// needs none. A static Pod may need none: it must run without an API server, and the node must not
// get at objects that way.
func APIReference(p *v1.Pod) (string, error) {
	s := &p.Spec
	switch {
	case s.ServiceAccountName != "" || s.DeprecatedServiceAccount != "":
		return "serviceaccounts", nil
	case len(s.ImagePullSecrets) > 0 || environment(s, "secret") || volumeSecrets(s):
		return "secrets", nil
	case environment(s, "configmap") || volumeConfigMaps(s):
		return "configmaps", nil
	case len(s.ResourceClaims) > 0:
		return "resourceclaims", nil
	}
	for i := range s.Volumes {
		if what, err := volume(&s.Volumes[i]); what != "" || err != nil {
			return what, err
		}
	}
	return "", nil
}

// environment tells whether a container takes variables from objects of the kind.
func environment(s *v1.PodSpec, kind string) bool {
	uses := func(env []v1.EnvVar, from []v1.EnvFromSource) bool {
		for _, e := range env {
			if v := e.ValueFrom; v != nil && (kind == "secret" && v.SecretKeyRef != nil ||
				kind == "configmap" && v.ConfigMapKeyRef != nil) {
				return true
			}
		}
		for _, f := range from {
			if kind == "secret" && f.SecretRef != nil || kind == "configmap" && f.ConfigMapRef != nil {
				return true
			}
		}
		return false
	}
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for _, c := range list {
			if uses(c.Env, c.EnvFrom) {
				return true
			}
		}
	}
	return false
}

// volumeSecrets tells whether a volume names a Secret.
func volumeSecrets(s *v1.PodSpec) bool {
	for i := range s.Volumes {
		v := &s.Volumes[i].VolumeSource
		switch {
		case v.Secret != nil, v.AzureFile != nil,
			v.CephFS != nil && v.CephFS.SecretRef != nil, v.Cinder != nil && v.Cinder.SecretRef != nil,
			v.FlexVolume != nil && v.FlexVolume.SecretRef != nil,
			v.RBD != nil && v.RBD.SecretRef != nil, v.ScaleIO != nil && v.ScaleIO.SecretRef != nil,
			v.ISCSI != nil && v.ISCSI.SecretRef != nil,
			v.StorageOS != nil && v.StorageOS.SecretRef != nil, v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
			return true
		case v.Projected != nil:
			for _, p := range v.Projected.Sources {
				if p.Secret != nil {
					return true
				}
			}
		}
	}
	return false
}

// volumeConfigMaps tells whether a volume names a ConfigMap.
func volumeConfigMaps(s *v1.PodSpec) bool {
	for i := range s.Volumes {
		v := &s.Volumes[i].VolumeSource
		if v.ConfigMap != nil {
			return true
		}
		if v.Projected == nil {
			continue
		}
		for _, p := range v.Projected.Sources {
			if p.ConfigMap != nil {
				return true
			}
		}
	}
	return false
}

// volume checks what is left of a volume's kinds.
func volume(v *v1.Volume) (string, error) {
	switch {
	case v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.CephFS != nil, v.Cinder != nil, v.DownwardAPI != nil,
		v.EmptyDir != nil, v.FC != nil, v.FlexVolume != nil,
		v.Flocker != nil, v.GCEPersistentDisk != nil, v.GitRepo != nil, v.HostPath != nil, v.Image != nil,
		v.ISCSI != nil, v.NFS != nil, v.PhotonPersistentDisk != nil,
		v.PortworxVolume != nil, v.Quobyte != nil, v.RBD != nil, v.ScaleIO != nil, v.StorageOS != nil,
		v.VsphereVolume != nil:
		return "", nil
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)", nil
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)", nil
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims", nil
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)", nil
	case v.Projected != nil:
		return projected(v)
	}
	return "", fmt.Errorf("unknown volume type for volume %q", v.Name)
}

func projected(v *v1.Volume) (string, error) {
	for _, s := range v.Projected.Sources {
		switch {
		case s.ServiceAccountToken != nil:
			return "serviceaccounts (via projected volumes)", nil
		case s.ClusterTrustBundle != nil:
			return "clustertrustbundles", nil
		case s.PodCertificate != nil:
			return "podcertificates", nil
		case s.DownwardAPI != nil:
		default:
			return "", fmt.Errorf("unknown source for projected volume %q", v.Name)
		}
	}
	return "", nil
}

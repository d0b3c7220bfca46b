package serviceaccount

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// MountPath is where a container finds its token, the cluster's CA and its namespace.
	MountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// VolumePrefix begins the name of the volume.
	VolumePrefix = "kube-api-access-"
	// TokenSeconds is what the volume asks a token for; the API server knows it by this odd figure.
	TokenSeconds = 3607
	// RootCA is the ConfigMap with the CA, in every namespace.
	RootCA = "kube-root-ca.crt"
)

func shouldAutomount(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	if b := pod.Spec.AutomountServiceAccountToken; b != nil {
		return *b
	}
	if b := account.AutomountServiceAccountToken; b != nil {
		return *b
	}
	return true
}

// mountServiceAccountToken adds the volume and mounts it in every container that has nothing at its
// path.
func mountServiceAccountToken(pod *corev1.Pod, suffix func() string) {
	name, there := "", false
	for i := range pod.Spec.Volumes {
		if strings.HasPrefix(pod.Spec.Volumes[i].Name, VolumePrefix) {
			name, there = pod.Spec.Volumes[i].Name, true
			break
		}
	}
	if name == "" {
		name = VolumePrefix + suffix()
	}
	needed := false
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if !hasMountAtTokenPath(&list[i]) {
				list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: name, ReadOnly: true,
					MountPath: MountPath})
				needed = true
			}
		}
	}
	if needed && !there {
		pod.Spec.Volumes = append(pod.Spec.Volumes,
			corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenVolumeSource()}})
	}
}

func hasMountAtTokenPath(c *corev1.Container) bool {
	for _, m := range c.VolumeMounts {
		if m.MountPath == MountPath {
			return true
		}
	}
	return false
}

func tokenVolumeSource() *corev1.ProjectedVolumeSource {
	seconds, mode := int64(TokenSeconds), corev1.ProjectedVolumeSourceDefaultMode
	return &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: RootCA},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1",
					FieldPath: "metadata.namespace"}},
			}}},
		},
	}
}

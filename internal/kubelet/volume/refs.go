package volume

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Ref names an object a Pod refers to.
type Ref struct {
	Kind      string // ConfigMap, Secret
	Namespace string
	Name      string
}

// The kinds of objects a Pod refers to by name.
const (
	ConfigMap = "ConfigMap"
	Secret    = "Secret"
)

// Refs is the set of ConfigMaps and Secrets the Pod refers to: by volumes, environment variables
// and pull secrets. It is what the Node authorizer lets the node read.
func Refs(pod *v1.Pod) map[Ref]bool {
	r := refs{pod.Namespace, map[Ref]bool{}}
	for i := range pod.Spec.ImagePullSecrets {
		r.secret(pod.Spec.ImagePullSecrets[i].Name)
	}
	for i := range pod.Spec.InitContainers {
		r.env(pod.Spec.InitContainers[i].Env, pod.Spec.InitContainers[i].EnvFrom)
	}
	for i := range pod.Spec.Containers {
		r.env(pod.Spec.Containers[i].Env, pod.Spec.Containers[i].EnvFrom)
	}
	for i := range pod.Spec.EphemeralContainers {
		r.env(pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom)
	}
	for i := range pod.Spec.Volumes {
		r.volume(&pod.Spec.Volumes[i].VolumeSource)
	}
	return r.set
}

// RequiredRefs is the set of ConfigMaps and Secrets without which the Pod's volumes cannot be made:
// those that are not optional.
func RequiredRefs(pod *v1.Pod) map[Ref]bool {
	r := refs{pod.Namespace, map[Ref]bool{}}
	for i := range pod.Spec.Volumes {
		v := pod.Spec.Volumes[i].VolumeSource
		if v.Secret != nil && isSet(v.Secret.Optional) {
			v.Secret = nil
		}
		if v.ConfigMap != nil && isSet(v.ConfigMap.Optional) {
			v.ConfigMap = nil
		}
		if v.Projected != nil {
			v.Projected = &v1.ProjectedVolumeSource{Sources: slices.DeleteFunc(slices.Clone(v.Projected.Sources),
				func(s v1.VolumeProjection) bool {
					return s.Secret != nil && isSet(s.Secret.Optional) ||
						s.ConfigMap != nil && isSet(s.ConfigMap.Optional)
				})}
		}
		r.volume(&v)
	}
	return r.set
}

func isSet(b *bool) bool { return b != nil && *b }

type refs struct {
	namespace string
	set       map[Ref]bool
}

func (r refs) secret(name string) {
	if name != "" {
		r.set[Ref{Secret, r.namespace, name}] = true
	}
}

func (r refs) configMap(name string) {
	if name != "" {
		r.set[Ref{ConfigMap, r.namespace, name}] = true
	}
}

func (r refs) env(vars []v1.EnvVar, from []v1.EnvFromSource) {
	for i := range from {
		if s := from[i].SecretRef; s != nil {
			r.secret(s.Name)
		}
		if c := from[i].ConfigMapRef; c != nil {
			r.configMap(c.Name)
		}
	}
	for i := range vars {
		if vars[i].ValueFrom == nil {
			continue
		}
		if s := vars[i].ValueFrom.SecretKeyRef; s != nil {
			r.secret(s.Name)
		}
		if c := vars[i].ValueFrom.ConfigMapKeyRef; c != nil {
			r.configMap(c.Name)
		}
	}
}

func (r refs) volume(v *v1.VolumeSource) {
	if v.Secret != nil {
		r.secret(v.Secret.SecretName)
	}
	if v.ConfigMap != nil {
		r.configMap(v.ConfigMap.Name)
	}
	if v.Projected == nil {
		return
	}
	for i := range v.Projected.Sources {
		if s := v.Projected.Sources[i].Secret; s != nil {
			r.secret(s.Name)
		}
		if c := v.Projected.Sources[i].ConfigMap; c != nil {
			r.configMap(c.Name)
		}
	}
}

package podspec

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const oneSourceOnly = "may not have more than one field specified at a time"

func (j *validator) env(list []v1.EnvVar, path *field.Path) {
	for i := range list {
		e, at := &list[i], path.Index(i)
		if e.Name == "" {
			j.Required(at.Child("name"), "")
		} else {
			j.InvalidEach(at.Child("name"), e.Name, validation.IsRelaxedEnvVarName(e.Name))
		}
		if e.ValueFrom != nil {
			j.valueFrom(e, at.Child("valueFrom"))
		}
	}
}

func (j *validator) valueFrom(e *v1.EnvVar, path *field.Path) {
	n, from := 0, e.ValueFrom
	if r := from.FieldRef; r != nil {
		n++
		j.fieldRef(r, path.Child("fieldRef"), envFields())
	}
	if r := from.ResourceFieldRef; r != nil {
		n++
		j.resourceRef(r, path.Child("resourceFieldRef"), false)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		n++
		j.DNSSubdomain(path.Child("configMapKeyRef").Child("name"), r.Name)
		j.dataKey(r.Key, path.Child("configMapKeyRef").Child("key"))
	}
	if r := from.SecretKeyRef; r != nil {
		n++
		j.DNSSubdomain(path.Child("secretKeyRef").Child("name"), r.Name)
		j.dataKey(r.Key, path.Child("secretKeyRef").Child("key"))
	}
	if r := from.FileKeyRef; r != nil {
		n++
		j.fileRef(r, path.Child("fileKeyRef"))
	}
	switch {
	case n == 0:
		j.Invalid(path, "",
			"must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case e.Value != "":
		j.Invalid(path, "", "may not be specified when `value` is not empty")
	case n > 1:
		j.Invalid(path, "", oneSourceOnly)
	}
}

func (j *validator) dataKey(key string, path *field.Path) {
	if key == "" {
		j.Required(path, "")
		return
	}
	j.InvalidEach(path, key, validation.IsConfigMapKey(key))
}

func (j *validator) fileRef(r *v1.FileKeySelector, path *field.Path) {
	if r.Key == "" {
		j.Required(path.Child("key"), "")
	} else {
		j.InvalidEach(path.Child("key"), r.Key, validation.IsRelaxedEnvVarName(r.Key))
	}
	if r.VolumeName == "" {
		j.Required(path.Child("volumeName"), "")
	} else {
		j.DNSLabel(path.Child("volumeName"), r.VolumeName)
	}
	if r.Path == "" {
		j.Required(path.Child("path"), "")
	} else {
		j.pathNoBacksteps(r.Path, path.Child("path"))
	}
}

// fileVolumes checks that each volume of a fileKeyRef exists and is an emptyDir.
func (j *validator) fileVolumes(spec *field.Path) {
	volumes := map[string]*v1.VolumeSource{}
	for i := range j.spec.Volumes {
		volumes[j.spec.Volumes[i].Name] = &j.spec.Volumes[i].VolumeSource
	}
	look := func(c *v1.Container, path *field.Path) {
		for i := range c.Env {
			from := c.Env[i].ValueFrom
			if from == nil || from.FileKeyRef == nil {
				continue
			}
			name, at := from.FileKeyRef.VolumeName, path.Child("env").Index(i).Child("valueFrom", "fileKeyRef",
				"volumeName")
			if v, ok := volumes[name]; !ok {
				j.Add(field.NotFound(at, name))
			} else if v.EmptyDir == nil {
				j.Invalid(at, name, "referenced volume must be of type emptyDir")
			}
		}
	}
	for i := range j.spec.InitContainers {
		look(&j.spec.InitContainers[i], spec.Child("initContainers").Index(i))
	}
	for i := range j.spec.Containers {
		look(&j.spec.Containers[i], spec.Child("containers").Index(i))
	}
	for i := range j.spec.EphemeralContainers {
		c := v1.Container(j.spec.EphemeralContainers[i].EphemeralContainerCommon)
		look(&c, spec.Child("ephemeralContainers").Index(i))
	}
}

func (j *validator) envFrom(list []v1.EnvFromSource, path *field.Path) {
	name := func(n string, p *field.Path) {
		if n == "" {
			j.Required(p.Child("name"), "")
			return
		}
		j.DNSSubdomain(p.Child("name"), n)
	}
	for i := range list {
		e, at, n := &list[i], path.Index(i), 0
		if e.Prefix != "" {
			j.InvalidEach(at.Child("prefix"), e.Prefix, validation.IsRelaxedEnvVarName(e.Prefix))
		}
		if e.ConfigMapRef != nil {
			n++
			name(e.ConfigMapRef.Name, at.Child("configMapRef"))
		}
		if e.SecretRef != nil {
			n++
			name(e.SecretRef.Name, at.Child("secretRef"))
		}
		switch {
		case n == 0:
			j.Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
		case n > 1:
			j.Invalid(path, "", oneSourceOnly)
		}
	}
}

// envFields returns the field paths that an environment variable may refer to.
func envFields() []string {
	return []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
}

// volumeFields returns the field paths that a downward API file may refer to.
func volumeFields() []string {
	return []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
}

// fieldRef validates a reference to a field of the Pod, which must be one of allowed.
func (j *validator) fieldRef(r *v1.ObjectFieldSelector, path *field.Path, allowed []string) {
	at := path.Child("fieldPath")
	if r.APIVersion == "" {
		j.Required(path.Child("apiVersion"), "")
		return
	}
	if r.FieldPath == "" {
		j.Required(at, "")
		return
	}
	name, subscript, hasSubscript := SplitMaybeSubscriptedPath(r.FieldPath)
	if err := downwardLabel(r.APIVersion, r.FieldPath); err != nil {
		j.Invalid(at, r.FieldPath, fmt.Sprintf("error converting fieldPath: %v", err))
		return
	}
	if hasSubscript {
		if name == "metadata.annotations" {
			subscript = strings.ToLower(subscript)
		}
		j.InvalidEach(path, subscript, validation.IsQualifiedName(subscript))
		return
	}
	if name == "spec.host" {
		name = "spec.nodeName"
	}
	typed.Supported(&j.Errors, at, name, allowed...)
}

// downwardLabel returns an error if a field path cannot be referred to at all.
func downwardLabel(version, path string) error {
	if version != "v1" {
		return fmt.Errorf("unsupported pod version: %s", version)
	}
	if name, _, ok := SplitMaybeSubscriptedPath(path); ok {
		if name == "metadata.annotations" || name == "metadata.labels" {
			return nil
		}
		return fmt.Errorf("field label does not support subscript: %s", path)
	}
	switch path {
	case "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
		"spec.nodeName", "spec.restartPolicy",
		"spec.serviceAccountName", "spec.schedulerName", "status.phase", "status.hostIP", "status.hostIPs",
		"status.podIP", "status.podIPs", "spec.host":
		return nil
	}
	return fmt.Errorf("field label not supported: %s", path)
}

// SplitMaybeSubscriptedPath splits metadata.labels['key'] into path and key; false if there is no
// key.
func SplitMaybeSubscriptedPath(path string) (name, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	name, key, ok = strings.Cut(rest, "['")
	if !ok || name == "" {
		return path, "", false
	}
	return name, key, true
}

// resourceRef validates a reference to a container's request or limit.
func (j *validator) resourceRef(r *v1.ResourceFieldSelector, path *field.Path, volume bool) {
	known := []string{"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
		"requests.ephemeral-storage", "requests.memory"}
	huge := strings.HasPrefix(r.Resource, "requests."+v1.ResourceHugePagesPrefix) || strings.HasPrefix(r.Resource,
		"limits."+v1.ResourceHugePagesPrefix)
	switch {
	case volume && r.ContainerName == "":
		j.Required(path.Child("containerName"), "")
	case r.Resource == "":
		j.Required(path.Child("resource"), "")
	case !huge:
		typed.Supported(&j.Errors, path.Child("resource"), r.Resource, known...)
	}
	if r.Divisor.Cmp(resource.Quantity{}) == 0 {
		return
	}
	sizes := []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	units, list, what := sets.New(sizes...), strings.Join(sizes, ", "), ""
	switch {
	case strings.HasSuffix(r.Resource, ".cpu"):
		units, list, what = sets.New("1m", "1"), "1m and 1", "cpu resource"
	case strings.HasSuffix(r.Resource, ".memory"):
		what = "memory resource"
	case strings.HasSuffix(r.Resource, ".ephemeral-storage"):
		what = "local ephemeral storage resource"
	case huge:
		what = "hugepages resource"
	}
	if what != "" && !units.Has(r.Divisor.String()) {
		j.Invalid(path.Child("divisor"), r.Resource, fmt.Sprintf("only divisor's values %s are supported with the %s",
			list, what))
	}
}

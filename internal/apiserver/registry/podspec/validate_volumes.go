package podspec

import (
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const (
	fileModeRange = "must be a number between 0 and 0777 (octal), both inclusive"
	maxFileMode   = 0o777
	oneTypeOnly   = "may not specify more than 1 volume type"
)

func (j *validator) volumes(path *field.Path) {
	names, created := sets.New[string](), sets.New[string]()
	for i := range j.spec.Volumes {
		if v := &j.spec.Volumes[i]; j.pod != "" && v.Ephemeral != nil {
			created.Insert(j.pod + "-" + v.Name)
		}
	}
	for i := range j.spec.Volumes {
		v, at, before := &j.spec.Volumes[i], path.Index(i), j.Len()
		j.volume(v, at)
		if v.Name == "" {
			j.Required(at.Child("name"), "")
		} else {
			j.InvalidEach(at.Child("name"), v.Name, validation.IsDNS1123Label(v.Name))
		}
		if names.Has(v.Name) {
			j.Add(field.Duplicate(at.Child("name"), v.Name))
		}
		if j.Len() == before { // a volume that is wrong is not there for mounts
			names.Insert(v.Name)
			j.vols[v.Name] = &v.VolumeSource
		}
		if c := v.PersistentVolumeClaim; c != nil && created.Has(c.ClaimName) {
			j.Invalid(at.Child("persistentVolumeClaim").Child("claimName"), c.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume")
		}
	}
}

// sources are the volume types in the order of validation, of which the first that is set counts,
// with the names in the errors about further ones.
var sources = []struct{ field, name string }{
	{"EmptyDir", "emptyDir"}, {"HostPath", "hostPath"}, {"GitRepo", "gitRepo"},
	{"GCEPersistentDisk", "gcePersistentDisk"},
	{"AWSElasticBlockStore", "awsElasticBlockStore"}, {"Secret", "secret"}, {"NFS", "nfs"}, {"ISCSI", "iscsi"},
	{"Glusterfs", "glusterfs"},
	{"Flocker", "flocker"}, {"PersistentVolumeClaim", "persistentVolumeClaim"}, {"RBD", "rbd"}, {"Cinder", "cinder"},
	{"CephFS", "cephFS"},
	{"Quobyte", "quobyte"}, {"DownwardAPI", "downwarAPI"}, {"FC", "fc"}, {"FlexVolume", "flexVolume"},
	{"ConfigMap", "configMap"},
	{"AzureFile", "azureFile"}, {"VsphereVolume", "vsphereVolume"}, {"PhotonPersistentDisk", "photonPersistentDisk"},
	{"PortworxVolume", "portworxVolume"}, {"AzureDisk", "azureDisk"}, {"StorageOS", "storageos"},
	{"Projected", "projected"},
	{"ScaleIO", "scaleIO"}, {"CSI", "csi"}, {"Ephemeral", "ephemeral"}, {"Image", "image"},
}

// volume validates the first source of a volume and rejects further ones.
func (j *validator) volume(v *v1.Volume, path *field.Path) {
	n := 0
	given := reflect.ValueOf(&v.VolumeSource).Elem()
	for _, s := range sources {
		source := given.FieldByName(s.field)
		if source.IsNil() {
			continue
		}
		if n++; n > 1 {
			j.Forbidden(path.Child(s.name), oneTypeOnly)
		} else {
			only := v1.Volume{Name: v.Name}
			reflect.ValueOf(&only.VolumeSource).Elem().FieldByName(s.field).Set(source)
			if !j.localVolume(&only, path) {
				j.remoteVolume(&only.VolumeSource, path)
			}
		}
		const longest = 64
		if s.field == "ISCSI" && v.ISCSI.InitiatorName != nil && len(v.Name+":"+v.ISCSI.TargetPortal) > longest {
			j.Invalid(path.Child("name"), v.Name,
				"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "+
					"iscsi.initiatorName is specified.")
		}
	}
	if n == 0 {
		j.Required(path, "must specify a volume type")
	}
}

// localVolume validates volumes of API objects or of the node; false for other types.
func (j *validator) localVolume(v *v1.Volume, path *field.Path) bool {
	switch {
	case v.EmptyDir != nil:
		if q := v.EmptyDir.SizeLimit; q != nil && q.Sign() < 0 {
			j.Forbidden(path.Child("emptyDir").Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")
		}
	case v.HostPath != nil:
		j.Add(ValidateHostPath(v.HostPath, path.Child("hostPath"))...)
	case v.GitRepo != nil:
		at := path.Child("gitRepo")
		if v.GitRepo.Repository == "" {
			j.Required(at.Child("repository"), "")
		}
		j.localDescendingPath(v.GitRepo.Directory, at.Child("directory"))
	case v.Secret != nil:
		at := path.Child("secret")
		if v.Secret.SecretName == "" {
			j.Required(at.Child("secretName"), "")
		}
		j.mode(v.Secret.DefaultMode, at.Child("defaultMode"))
		j.items(v.Secret.Items, at.Child("items"))
	case v.ConfigMap != nil:
		at := path.Child("configMap")
		if v.ConfigMap.Name == "" {
			j.Required(at.Child("name"), "")
		}
		j.mode(v.ConfigMap.DefaultMode, at.Child("defaultMode"))
		j.items(v.ConfigMap.Items, at.Child("items"))
	case v.DownwardAPI != nil:
		at := path.Child("downwardAPI")
		j.mode(v.DownwardAPI.DefaultMode, at.Child("defaultMode"))
		for i := range v.DownwardAPI.Items {
			j.downward(&v.DownwardAPI.Items[i], at)
		}
	case v.Projected != nil:
		j.projected(v.Projected, path.Child("projected"))
	case v.PersistentVolumeClaim != nil:
		if v.PersistentVolumeClaim.ClaimName == "" {
			j.Required(path.Child("persistentVolumeClaim").Child("claimName"), "")
		}
	case v.Ephemeral != nil:
		j.ephemeralVolume(v, path)
	case v.Image != nil:
		at := path.Child("image")
		if v.Image.Reference == "" {
			j.Required(at.Child("reference"), "")
		}
		typed.RequiredOneOf(&j.Errors, at.Child("pullPolicy"), v.Image.PullPolicy, v1.PullAlways, v1.PullIfNotPresent,
			v1.PullNever)
	default:
		return false
	}
	return true
}

// ValidateHostPath validates a hostPath source.
func ValidateHostPath(h *v1.HostPathVolumeSource, path *field.Path) field.ErrorList {
	var j validator
	if h.Path == "" {
		j.Required(path.Child("path"), "")
		return j.List()
	}
	j.pathNoBacksteps(h.Path, path.Child("path"))
	if h.Type != nil {
		typed.Supported(&j.Errors, path.Child("type"), *h.Type, v1.HostPathUnset, v1.HostPathBlockDev,
			v1.HostPathCharDev, v1.HostPathDirectory, v1.HostPathDirectoryOrCreate,
			v1.HostPathFile, v1.HostPathFileOrCreate, v1.HostPathSocket)
	}
	return j.List()
}

func (j *validator) mode(m *int32, path *field.Path) {
	if m != nil && (*m < 0 || *m > maxFileMode) {
		j.Invalid(path, *m, fileModeRange)
	}
}

// items validates keys and the files they are projected to.
func (j *validator) items(list []v1.KeyToPath, path *field.Path) {
	for i := range list {
		j.item(&list[i], path.Index(i))
	}
}

func (j *validator) item(k *v1.KeyToPath, at *field.Path) {
	if k.Key == "" {
		j.Required(at.Child("key"), "")
	}
	if k.Path == "" {
		j.Required(at.Child("path"), "")
	}
	j.localNonReservedPath(k.Path, at.Child("path"))
	j.mode(k.Mode, at.Child("mode"))
}

func (j *validator) downward(f *v1.DownwardAPIVolumeFile, path *field.Path) {
	if f.Path == "" {
		j.Required(path.Child("path"), "")
	}
	j.localNonReservedPath(f.Path, path.Child("path"))
	switch {
	case f.FieldRef != nil:
		j.fieldRef(f.FieldRef, path.Child("fieldRef"), volumeFields())
		if f.ResourceFieldRef != nil {
			j.Invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
		}
	case f.ResourceFieldRef != nil:
		j.resourceRef(f.ResourceFieldRef, path.Child("resourceFieldRef"), true)
	default:
		j.Required(path, "one of fieldRef and resourceFieldRef is required")
	}
	j.mode(f.Mode, path.Child("mode"))
}

func (j *validator) projected(p *v1.ProjectedVolumeSource, path *field.Path) {
	j.mode(p.DefaultMode, path.Child("defaultMode"))
	paths := sets.New[string]()
	for i := range p.Sources {
		j.projection(&p.Sources[i], path, i, paths)
	}
}

// projection validates one source of a projected volume, all that it holds; paths has the files of
// earlier sources. A token's file may be another's, as upstream has it.
func (j *validator) projection(s *v1.VolumeProjection, path *field.Path, index int, paths sets.Set[string]) {
	at := path.Child("sources").Index(index)
	claim := func(file, owner string) {
		if paths.Has(file) {
			j.Invalid(path, owner, "conflicting duplicate paths")
		}
		paths.Insert(file)
	}
	keys := func(name string, items []v1.KeyToPath, at *field.Path) {
		if name == "" {
			j.Required(at.Child("name"), "")
		}
		for i := range items {
			j.item(&items[i], at.Child("items").Index(i))
			if items[i].Path != "" {
				claim(items[i].Path, name)
			}
		}
	}
	n := 0
	if s.Secret != nil {
		n++
		keys(s.Secret.Name, s.Secret.Items, at.Child("secret"))
	}
	if s.ConfigMap != nil {
		n++
		keys(s.ConfigMap.Name, s.ConfigMap.Items, at.Child("configMap"))
	}
	if s.DownwardAPI != nil {
		n++
		for i := range s.DownwardAPI.Items {
			f := &s.DownwardAPI.Items[i]
			j.downward(f, at.Child("downwardAPI"))
			if f.Path != "" {
				claim(f.Path, f.Path)
			}
		}
	}
	if t := s.ServiceAccountToken; t != nil {
		n++
		j.token(t, at.Child("serviceAccountToken"), path)
	}
	if b := s.ClusterTrustBundle; b != nil {
		n++
		j.trustBundle(b, at.Child("clusterTrustBundle"))
		claim(b.Path, b.Path)
	}
	if c := s.PodCertificate; c != nil {
		n++
		j.podCertificate(c, at.Child("podCertificate"), func(file string) { claim(file, file) })
	}
	if n > 1 {
		j.Forbidden(at, oneTypeOnly+" per source")
	}
}

func (j *validator) token(t *v1.ServiceAccountTokenProjection, at, path *field.Path) {
	const least, most = 10 * 60, 1 << 32
	if s := t.ExpirationSeconds; s != nil {
		if *s < least {
			j.Invalid(at.Child("expirationSeconds"), *s, "may not specify a duration less than 10 minutes")
		}
		if *s > most {
			j.Invalid(at.Child("expirationSeconds"), *s, "may not specify a duration larger than 2^32 seconds")
		}
	}
	if t.Path == "" {
		j.Required(path.Child("path"), "")
		return
	}
	j.localNonReservedPath(t.Path, path.Child("path"))
}

// ValidateClaimMeta validates the metadata of a volume claim template: labels and annotations only.
func ValidateClaimMeta(m *metav1.ObjectMeta, at *field.Path) field.ErrorList {
	errs := append(apivalidation.ValidateAnnotations(m.Annotations, at.Child("annotations")),
		metavalidation.ValidateLabels(m.Labels, at.Child("labels"))...)
	set := reflect.ValueOf(m).Elem()
	for i := range set.NumField() {
		name := set.Type().Field(i).Name
		if name == "Labels" || name == "Annotations" || set.Field(i).IsZero() {
			continue
		}
		errs = append(errs, field.Forbidden(at.Child(strings.ToLower(name[:1])+name[1:]), "cannot be set"))
	}
	return errs
}

func (j *validator) ephemeralVolume(v *v1.Volume, path *field.Path) {
	at := path.Child("ephemeral").Child("volumeClaimTemplate")
	t := v.Ephemeral.VolumeClaimTemplate
	if t == nil {
		j.Required(at, "")
		return
	}
	meta := at.Child("metadata")
	j.Add(ValidateClaimMeta(&t.ObjectMeta, meta)...)
	j.Add(ValidateClaim(&t.Spec, at.Child("spec"))...)
	if j.pod == "" || v.Name == "" {
		return
	}
	name := j.pod + "-" + v.Name
	j.InvalidEach(path.Child("name"), v.Name, withPrefix(fmt.Sprintf("PVC name %q: ", name),
		validation.IsDNS1123Subdomain(name)))
}

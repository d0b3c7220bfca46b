package podspec

import (
	"fmt"
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// requireField checks that values are not empty; pairs are field name and value in turn.
func (j *validator) requireField(p *field.Path, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			j.Required(p.Child(pairs[i]), "")
		}
	}
}

// remoteVolume validates network volumes and those of drivers.
func (j *validator) remoteVolume(s *v1.VolumeSource, p *field.Path) {
	switch {
	case s.NFS != nil:
		j.nfs(s.NFS, p.Child("nfs"))
	case s.ISCSI != nil:
		j.iscsi(s.ISCSI, p.Child("iscsi"))
	case s.CSI != nil:
		at := p.Child("csi")
		j.Add(ValidateDriverName(s.CSI.Driver, at.Child("driver"))...)
		if r := s.CSI.NodePublishSecretRef; r != nil {
			if r.Name == "" {
				j.Required(at.Child("nodePublishSecretRef", "name"), "")
			} else {
				j.DNSSubdomain(at.Child("name"), r.Name)
			}
		}
	case s.GCEPersistentDisk != nil:
		at := p.Child("persistentDisk")
		j.requireField(at, "pdName", s.GCEPersistentDisk.PDName)
		j.partition(s.GCEPersistentDisk.Partition, at)
	case s.AWSElasticBlockStore != nil:
		at := p.Child("awsElasticBlockStore")
		j.requireField(at, "volumeID", s.AWSElasticBlockStore.VolumeID)
		j.partition(s.AWSElasticBlockStore.Partition, at)
	case s.FC != nil:
		j.fc(s.FC, p.Child("fc"))
	case s.Glusterfs != nil:
		j.requireField(p.Child("glusterfs"), "endpoints", s.Glusterfs.EndpointsName, "path", s.Glusterfs.Path)
	case s.CephFS != nil:
		if len(s.CephFS.Monitors) == 0 {
			j.Required(p.Child("cephfs").Child("monitors"), "")
		}
	case s.RBD != nil:
		if len(s.RBD.CephMonitors) == 0 {
			j.Required(p.Child("rbd").Child("monitors"), "")
		}
		j.requireField(p.Child("rbd"), "image", s.RBD.RBDImage)
	case s.Flocker != nil:
		j.flocker(s.Flocker, p.Child("flocker"))
	default:
		j.driverVolume(s, p)
	}
}

func (j *validator) driverVolume(s *v1.VolumeSource, p *field.Path) {
	switch {
	case s.Cinder != nil:
		j.requireField(p.Child("cinder"), "volumeID", s.Cinder.VolumeID)
		if r := s.Cinder.SecretRef; r != nil {
			j.requireField(p.Child("cinder").Child("secretRef"), "name", r.Name)
		}
	case s.FlexVolume != nil:
		j.flex(s.FlexVolume.Driver, s.FlexVolume.Options, p.Child("flexVolume"))
	case s.AzureFile != nil:
		j.requireField(p.Child("azureFile"), "secretName", s.AzureFile.SecretName, "shareName", s.AzureFile.ShareName)
	case s.AzureDisk != nil:
		j.azureDisk(s.AzureDisk, p.Child("azureDisk"))
	case s.VsphereVolume != nil:
		j.requireField(p.Child("vsphereVolume"), "volumePath", s.VsphereVolume.VolumePath)
	case s.PhotonPersistentDisk != nil:
		j.requireField(p.Child("photonPersistentDisk"), "pdID", s.PhotonPersistentDisk.PdID)
	case s.PortworxVolume != nil:
		j.requireField(p.Child("portworxVolume"), "volumeID", s.PortworxVolume.VolumeID)
	case s.Quobyte != nil:
		j.quobyte(s.Quobyte, p.Child("quobyte"))
	case s.ScaleIO != nil:
		j.requireField(p.Child("scaleIO"), "gateway", s.ScaleIO.Gateway, "system", s.ScaleIO.System,
			"volumeName", s.ScaleIO.VolumeName)
	case s.StorageOS != nil:
		j.storageOS(s.StorageOS.VolumeName, s.StorageOS.VolumeNamespace, p.Child("storageos"))
		if r := s.StorageOS.SecretRef; r != nil {
			j.requireField(p.Child("storageos", "secretRef"), "name", r.Name)
		}
	}
}

func (j *validator) nfs(n *v1.NFSVolumeSource, p *field.Path) {
	j.requireField(p, "server", n.Server, "path", n.Path)
	if !path.IsAbs(n.Path) {
		j.Invalid(p.Child("path"), n.Path, "must be an absolute path")
	}
}

func (j *validator) iscsi(s *v1.ISCSIVolumeSource, p *field.Path) {
	const started = "must be valid format starting with iqn, eui, or naa"
	j.requireField(p, "targetPortal", s.TargetPortal)
	j.target(s.IQN, p.Child("iqn"), started)
	j.lun(s.Lun, p)
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		j.Required(p.Child("secretRef"), "")
	}
	if s.InitiatorName != nil {
		j.initiator(*s.InitiatorName, p.Child("initiatorname"), started)
	}
}

func (j *validator) lun(n int32, p *field.Path) {
	const most = 255
	if n < 0 || n > most {
		j.Invalid(p.Child("lun"), n, validation.InclusiveRangeError(0, most))
	}
}

// The three forms of an iSCSI name (RFC 3720, 3980), with upstream's patterns.
var (
	iqnName = regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`)
	euiName = regexp.MustCompile(`^eui.[[:alnum:]]{16}$`)
	naaName = regexp.MustCompile(`^naa.[[:alnum:]]{32}$`)
)

// target validates the required iSCSI name of a target; started is as for initiator.
func (j *validator) target(name string, at *field.Path, started string) {
	if name == "" {
		j.Required(at, "")
		return
	}
	j.initiator(name, at, started)
}

// initiator validates an iSCSI name; started is the text of the error for a name with an unknown
// prefix.
func (j *validator) initiator(name string, at *field.Path, started string) {
	form := map[string]*regexp.Regexp{"iqn": iqnName, "eui": euiName, "naa": naaName}[name[:min(len(name), len("iqn"))]]
	switch {
	case form == nil:
		j.Invalid(at, name, started)
	case !form.MatchString(name):
		j.Invalid(at, name, "must be valid format")
	}
}

func (j *validator) fc(s *v1.FCVolumeSource, p *field.Path) {
	switch {
	case len(s.TargetWWNs) < 1 && len(s.WWIDs) < 1:
		j.Required(p.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both")
	case len(s.TargetWWNs) != 0 && len(s.WWIDs) != 0:
		j.Invalid(p.Child("targetWWNs"), s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if len(s.TargetWWNs) == 0 {
		return
	}
	if s.Lun == nil {
		j.Required(p.Child("lun"), "lun is required if targetWWNs is specified")
		return
	}
	j.lun(*s.Lun, p)
}

func (j *validator) flocker(s *v1.FlockerVolumeSource, p *field.Path) {
	switch {
	case s.DatasetName == "" && s.DatasetUUID == "":
		j.Required(p, "one of datasetName and datasetUUID is required")
	case s.DatasetName != "" && s.DatasetUUID != "":
		j.Invalid(p, "resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(s.DatasetName, "/") {
		j.Invalid(p.Child("datasetName"), s.DatasetName, "must not contain '/'")
	}
}

func (j *validator) quobyte(s *v1.QuobyteVolumeSource, p *field.Path) {
	const wanted, longest = "must be a host:port pair or multiple pairs separated by commas", 64
	switch {
	case s.Registry == "":
		j.Required(p.Child("registry"), wanted)
	case len(s.Tenant) > longest:
		j.Required(p.Child("tenant"), fmt.Sprintf("must be a UUID and may not exceed a length of %d characters",
			longest))
	default:
		for _, pair := range strings.Split(s.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				j.Invalid(p.Child("registry"), s.Registry, wanted)
			}
		}
	}
	j.requireField(p, "volume", s.Volume)
}

// flex checks that options do not use Kubernetes' own names.
func (j *validator) flex(driver string, options map[string]string, p *field.Path) {
	j.requireField(p, "driver", driver)
	for _, k := range slices.Sorted(maps.Keys(options)) {
		domain, _, _ := strings.Cut(k, "/")
		domain = "." + strings.ToLower(domain)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			j.Invalid(p.Child("options").Key(k), k, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

func (j *validator) azureDisk(d *v1.AzureDiskVolumeSource, p *field.Path) {
	const (
		managed = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
		blob    = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	)
	uri := p.Child("diskURI")
	j.requireField(p, "diskName", d.DiskName, "diskURI", d.DataDiskURI)
	if m := d.CachingMode; m != nil {
		typed.Supported(&j.Errors, p.Child("cachingMode"), *m, v1.AzureDataDiskCachingNone,
			v1.AzureDataDiskCachingReadOnly, v1.AzureDataDiskCachingReadWrite)
	}
	if d.Kind == nil {
		return
	}
	typed.Supported(&j.Errors, p.Child("kind"), *d.Kind, v1.AzureDedicatedBlobDisk, v1.AzureManagedDisk,
		v1.AzureSharedBlobDisk)
	switch isManaged := *d.Kind == v1.AzureManagedDisk; {
	case isManaged && !strings.HasPrefix(d.DataDiskURI, "/subscriptions/"):
		j.Add(field.NotSupported(uri, d.DataDiskURI, []string{managed}))
	case !isManaged && !strings.HasPrefix(d.DataDiskURI, "https://"):
		j.Add(field.NotSupported(uri, d.DataDiskURI, []string{blob}))
	}
}

func (j *validator) storageOS(volume, namespace string, p *field.Path) {
	if volume == "" {
		j.Required(p.Child("volumeName"), "")
	} else {
		j.DNSLabel(p.Child("volumeName"), volume)
	}
	if namespace != "" {
		j.DNSLabel(p.Child("volumeNamespace"), namespace)
	}
}

func (j *validator) partition(n int32, p *field.Path) {
	const most = 255
	if n < 0 || n > most {
		// 0, the whole disk, is valid, though upstream's text does not say so
		j.Invalid(p.Child("partition"), n, validation.InclusiveRangeError(1, most))
	}
}

// ValidateDriverName validates the name of a CSI driver.
func ValidateDriverName(name string, p *field.Path) field.ErrorList {
	var f typed.Errors
	const longest = 63
	if name == "" {
		f.Required(p, "")
	}
	if len(name) > longest {
		f.Add(field.TooLong(p, name, longest))
	}
	if name != "" {
		f.InvalidEach(p, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))
	}
	return f.List()
}

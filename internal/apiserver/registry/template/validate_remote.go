package template

import (
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// need wants each of the named texts.
func (j *judge) need(p *field.Path, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			j.required(p.Child(pairs[i]), "")
		}
	}
}

// remoteVolume judges volumes that come over the network, or from a driver.
func (j *judge) remoteVolume(s *v1.VolumeSource, p *field.Path) {
	switch {
	case s.NFS != nil:
		j.nfs(s.NFS, p.Child("nfs"))
	case s.ISCSI != nil:
		j.iscsi(s.ISCSI, p.Child("iscsi"))
	case s.CSI != nil:
		at := p.Child("csi")
		j.add(ValidateDriverName(s.CSI.Driver, at.Child("driver"))...)
		if r := s.CSI.NodePublishSecretRef; r != nil {
			if r.Name == "" {
				j.required(at.Child("nodePublishSecretRef", "name"), "")
			} else {
				j.subdomain(at.Child("name"), r.Name)
			}
		}
	case s.GCEPersistentDisk != nil:
		at := p.Child("persistentDisk")
		j.need(at, "pdName", s.GCEPersistentDisk.PDName)
		j.partition(s.GCEPersistentDisk.Partition, at)
	case s.AWSElasticBlockStore != nil:
		at := p.Child("awsElasticBlockStore")
		j.need(at, "volumeID", s.AWSElasticBlockStore.VolumeID)
		j.partition(s.AWSElasticBlockStore.Partition, at)
	case s.FC != nil:
		j.fc(s.FC, p.Child("fc"))
	case s.Glusterfs != nil:
		j.need(p.Child("glusterfs"), "endpoints", s.Glusterfs.EndpointsName, "path", s.Glusterfs.Path)
	case s.CephFS != nil:
		if len(s.CephFS.Monitors) == 0 {
			j.required(p.Child("cephfs").Child("monitors"), "")
		}
	case s.RBD != nil:
		if len(s.RBD.CephMonitors) == 0 {
			j.required(p.Child("rbd").Child("monitors"), "")
		}
		j.need(p.Child("rbd"), "image", s.RBD.RBDImage)
	case s.Flocker != nil:
		j.flocker(s.Flocker, p.Child("flocker"))
	default:
		j.driverVolume(s, p)
	}
}

func (j *judge) driverVolume(s *v1.VolumeSource, p *field.Path) {
	switch {
	case s.Cinder != nil:
		j.need(p.Child("cinder"), "volumeID", s.Cinder.VolumeID)
		if r := s.Cinder.SecretRef; r != nil {
			j.need(p.Child("cinder").Child("secretRef"), "name", r.Name)
		}
	case s.FlexVolume != nil:
		j.need(p.Child("flexVolume"), "driver", s.FlexVolume.Driver)
	case s.AzureFile != nil:
		j.need(p.Child("azureFile"), "secretName", s.AzureFile.SecretName, "shareName", s.AzureFile.ShareName)
	case s.AzureDisk != nil:
		j.need(p.Child("azureDisk"), "diskName", s.AzureDisk.DiskName, "diskURI", s.AzureDisk.DataDiskURI)
	case s.VsphereVolume != nil:
		j.need(p.Child("vsphereVolume"), "volumePath", s.VsphereVolume.VolumePath)
	case s.PhotonPersistentDisk != nil:
		j.need(p.Child("photonPersistentDisk"), "pdID", s.PhotonPersistentDisk.PdID)
	case s.PortworxVolume != nil:
		j.need(p.Child("portworxVolume"), "volumeID", s.PortworxVolume.VolumeID)
	case s.Quobyte != nil:
		j.quobyte(s.Quobyte, p.Child("quobyte"))
	case s.ScaleIO != nil:
		j.need(p.Child("scaleIO"), "gateway", s.ScaleIO.Gateway, "system", s.ScaleIO.System, "volumeName", s.ScaleIO.VolumeName)
	case s.StorageOS != nil:
		j.need(p.Child("storageos"), "volumeName", s.StorageOS.VolumeName)
	}
}

func (j *judge) nfs(n *v1.NFSVolumeSource, p *field.Path) {
	j.need(p, "server", n.Server, "path", n.Path)
	if !path.IsAbs(n.Path) {
		j.invalid(p.Child("path"), n.Path, "must be an absolute path")
	}
}

func (j *judge) iscsi(s *v1.ISCSIVolumeSource, p *field.Path) {
	j.need(p, "targetPortal", s.TargetPortal)
	switch {
	case s.IQN == "":
		j.required(p.Child("iqn"), "")
	case !strings.HasPrefix(s.IQN, "iqn") && !strings.HasPrefix(s.IQN, "eui") && !strings.HasPrefix(s.IQN, "naa"):
		j.invalid(p.Child("iqn"), s.IQN, "must be valid format starting with iqn, eui, or naa")
	}
	const lunMost = 255
	if s.Lun < 0 || s.Lun > lunMost {
		j.invalid(p.Child("lun"), s.Lun, validation.InclusiveRangeError(0, lunMost))
	}
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		j.required(p.Child("secretRef"), "")
	}
}

func (j *judge) fc(s *v1.FCVolumeSource, p *field.Path) {
	switch {
	case len(s.TargetWWNs) < 1 && len(s.WWIDs) < 1:
		j.required(p.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both")
	case len(s.TargetWWNs) != 0 && len(s.WWIDs) != 0:
		j.invalid(p.Child("targetWWNs"), s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if len(s.TargetWWNs) == 0 {
		return
	}
	const lunMost = 255
	switch {
	case s.Lun == nil:
		j.required(p.Child("lun"), "lun is required if targetWWNs is specified")
	case *s.Lun < 0 || *s.Lun > lunMost:
		j.invalid(p.Child("lun"), s.Lun, validation.InclusiveRangeError(0, lunMost))
	}
}

func (j *judge) flocker(s *v1.FlockerVolumeSource, p *field.Path) {
	switch {
	case s.DatasetName == "" && s.DatasetUUID == "":
		j.required(p, "one of datasetName and datasetUUID is required")
	case s.DatasetName != "" && s.DatasetUUID != "":
		j.invalid(p, "resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(s.DatasetName, "/") {
		j.invalid(p.Child("datasetName"), s.DatasetName, "must not contain '/'")
	}
}

func (j *judge) quobyte(s *v1.QuobyteVolumeSource, p *field.Path) {
	const wanted = "must be a host:port pair or multiple pairs separated by commas"
	if s.Registry == "" {
		j.required(p.Child("registry"), wanted)
	} else {
		for _, pair := range strings.Split(s.Registry, ",") {
			if i := strings.LastIndexByte(pair, ':'); i < 0 {
				j.invalid(p.Child("registry"), s.Registry, wanted)
			}
		}
	}
	j.need(p, "volume", s.Volume)
}

func (j *judge) partition(n int32, p *field.Path) {
	const most = 255
	if n < 0 || n > most {
		j.invalid(p.Child("partition"), n, validation.InclusiveRangeError(0, most))
	}
}

// ValidateDriverName judges the name of a CSI driver.
func ValidateDriverName(name string, p *field.Path) field.ErrorList {
	var f findings
	const longest = 63
	if name == "" {
		f.required(p, "")
	}
	if len(name) > longest {
		f.add(field.TooLong(p, name, longest))
	}
	if name != "" {
		f.each(p, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))
	}
	return f.list()
}

// ValidateNFS judges an NFS source.
func ValidateNFS(n *v1.NFSVolumeSource, p *field.Path) field.ErrorList {
	var j judge
	j.nfs(n, p)
	return j.list()
}

// ValidateNoBacksteps refuses '..' in a path.
func ValidateNoBacksteps(text string, p *field.Path) field.ErrorList {
	var j judge
	j.noBacksteps(text, p)
	return j.list()
}

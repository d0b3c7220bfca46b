package podspec

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidatePersistentSource validates the one source of a PersistentVolume with that name. path is
// spec.
func ValidatePersistentSource(s *v1.PersistentVolumeSource, name string, path *field.Path) field.ErrorList {
	j := &validator{}
	// Sources that Pods can have too are validated as there.
	alike := &v1.VolumeSource{
		HostPath: s.HostPath, GCEPersistentDisk: s.GCEPersistentDisk, AWSElasticBlockStore: s.AWSElasticBlockStore,
		Flocker: s.Flocker, NFS: s.NFS,
		Quobyte: s.Quobyte, FC: s.FC, VsphereVolume: s.VsphereVolume, PhotonPersistentDisk: s.PhotonPersistentDisk,
		PortworxVolume: s.PortworxVolume,
		AzureDisk:      s.AzureDisk,
	}
	switch {
	case s.HostPath != nil:
		j.Add(ValidateHostPath(s.HostPath, path.Child("hostPath"))...)
	case *alike != (v1.VolumeSource{}):
		j.remoteVolume(alike, path)
	case s.Local != nil:
		j.requireField(path.Child("local"), "path", s.Local.Path)
		j.pathNoBacksteps(s.Local.Path, path.Child("local", "path"))
	case s.CSI != nil:
		j.persistentCSI(s.CSI, path.Child("csi"))
	case s.ISCSI != nil:
		j.persistentISCSI(s.ISCSI, name, path.Child("iscsi"))
	default:
		j.persistentOthers(s, path)
	}
	return j.List()
}

// persistentOthers validates the sources that differ from a Pod's, mostly by the namespace of a
// secret.
func (j *validator) persistentOthers(s *v1.PersistentVolumeSource, path *field.Path) {
	switch {
	case s.Glusterfs != nil:
		at := path.Child("glusterfs")
		j.requireField(at, "endpoints", s.Glusterfs.EndpointsName, "path", s.Glusterfs.Path)
		if n := s.Glusterfs.EndpointsNamespace; n != nil && *n == "" {
			j.Invalid(at.Child("endpointsNamespace"), *n,
				"if the endpointnamespace is set, it must be a valid namespace name")
		} else if n != nil {
			j.DNSLabel(at.Child("endpointsNamespace"), *n)
		}
	case s.RBD != nil:
		if len(s.RBD.CephMonitors) == 0 {
			j.Required(path.Child("rbd", "monitors"), "")
		}
		j.requireField(path.Child("rbd"), "image", s.RBD.RBDImage)
	case s.CephFS != nil:
		if len(s.CephFS.Monitors) == 0 {
			j.Required(path.Child("cephfs", "monitors"), "")
		}
	case s.Cinder != nil:
		j.requireField(path.Child("cinder"), "volumeID", s.Cinder.VolumeID)
		if r := s.Cinder.SecretRef; r != nil {
			j.requireField(path.Child("cinder", "secretRef"), "name", r.Name, "namespace", r.Namespace)
		}
	case s.FlexVolume != nil:
		j.flex(s.FlexVolume.Driver, s.FlexVolume.Options, path.Child("flexVolume"))
	case s.AzureFile != nil:
		j.requireField(path.Child("azureFile"), "secretName", s.AzureFile.SecretName,
			"shareName", s.AzureFile.ShareName)
		if n := s.AzureFile.SecretNamespace; n != nil {
			j.requireField(path.Child("azureFile"), "secretNamespace", *n)
		}
	case s.ScaleIO != nil:
		j.requireField(path.Child("scaleIO"), "gateway", s.ScaleIO.Gateway, "system", s.ScaleIO.System,
			"volumeName", s.ScaleIO.VolumeName)
	case s.StorageOS != nil:
		j.storageOS(s.StorageOS.VolumeName, s.StorageOS.VolumeNamespace, path.Child("storageos"))
		if r := s.StorageOS.SecretRef; r != nil {
			j.requireField(path.Child("storageos", "secretRef"), "name", r.Name, "namespace", r.Namespace)
		}
	}
}

func (j *validator) persistentISCSI(s *v1.ISCSIPersistentVolumeSource, name string, p *field.Path) {
	const valid, longest = "must be valid format", 64
	j.requireField(p, "targetPortal", s.TargetPortal)
	if s.InitiatorName != nil && len(name+":"+s.TargetPortal) > longest {
		j.Invalid(p.Child("targetportal"), s.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName "+
				"is specified.")
	}
	j.target(s.IQN, p.Child("iqn"), valid)
	j.lun(s.Lun, p)
	switch r := s.SecretRef; {
	case r != nil:
		j.requireField(p.Child("secretRef"), "name", r.Name)
	case s.DiscoveryCHAPAuth || s.SessionCHAPAuth:
		j.Required(p.Child("secretRef"), "")
	}
	if s.InitiatorName != nil {
		j.initiator(*s.InitiatorName, p.Child("initiatorname"), valid)
	}
}

// persistentCSI validates a CSI source. Like upstream, it does not check nodeStageSecretRef.
func (j *validator) persistentCSI(c *v1.CSIPersistentVolumeSource, p *field.Path) {
	j.Add(ValidateDriverName(c.Driver, p.Child("driver"))...)
	j.requireField(p, "volumeHandle", c.VolumeHandle)
	for _, r := range []struct {
		child string
		ref   *v1.SecretReference
	}{
		{"controllerPublishSecretRef", c.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", c.ControllerExpandSecretRef},
		{"nodePublishSecretRef", c.NodePublishSecretRef}, {"nodeExpandSecretRef", c.NodeExpandSecretRef},
	} {
		if r.ref == nil {
			continue
		}
		at := p.Child(r.child)
		j.requireField(at, "name", r.ref.Name)
		if r.ref.Name != "" {
			j.DNSSubdomain(at.Child("name"), r.ref.Name)
		}
		j.requireField(at, "namespace", r.ref.Namespace)
		if r.ref.Namespace != "" {
			j.DNSLabel(at.Child("namespace"), r.ref.Namespace)
		}
	}
}

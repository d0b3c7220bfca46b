package podspec

import v1 "k8s.io/api/core/v1"

// DefaultVolume sets the defaults of one volume; a volume without a source becomes an emptyDir.
func DefaultVolume(v *v1.Volume) {
	s := &v.VolumeSource
	if *s == (v1.VolumeSource{}) {
		s.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	switch {
	case s.Secret != nil:
		setDefault(&s.Secret.DefaultMode, v1.SecretVolumeSourceDefaultMode)
	case s.ConfigMap != nil:
		setDefault(&s.ConfigMap.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode)
	case s.DownwardAPI != nil:
		setDefault(&s.DownwardAPI.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(s.DownwardAPI.Items)
	case s.Projected != nil:
		defaultProjected(s.Projected)
	case s.HostPath != nil:
		setDefault(&s.HostPath.Type, v1.HostPathUnset)
	case s.Ephemeral != nil:
		if s.Ephemeral.VolumeClaimTemplate != nil {
			DefaultClaimSpec(&s.Ephemeral.VolumeClaimTemplate.Spec)
		}
	case s.Image != nil && s.Image.PullPolicy == "":
		s.Image.PullPolicy = PullPolicy(s.Image.Reference)
	}
	defaultRemoteVolume(s)
}

func defaultProjected(p *v1.ProjectedVolumeSource) {
	setDefault(&p.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
	for i := range p.Sources {
		src := &p.Sources[i]
		if src.DownwardAPI != nil {
			defaultDownward(src.DownwardAPI.Items)
		}
		if src.ServiceAccountToken != nil {
			const hour = int64(60 * 60)
			setDefault(&src.ServiceAccountToken.ExpirationSeconds, hour)
		}
	}
}

func defaultDownward(items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		if items[i].FieldRef != nil {
			setIfEmpty(&items[i].FieldRef.APIVersion, "v1")
		}
	}
}

// defaultRemoteVolume sets the defaults of network volumes.
func defaultRemoteVolume(s *v1.VolumeSource) {
	switch {
	case s.ISCSI != nil:
		setIfEmpty(&s.ISCSI.ISCSIInterface, "default")
	case s.RBD != nil:
		defaultRBD(&s.RBD.RBDPool, &s.RBD.RadosUser, &s.RBD.Keyring)
	case s.AzureDisk != nil:
		defaultAzureDisk(s.AzureDisk)
	case s.ScaleIO != nil:
		defaultScaleIO(&s.ScaleIO.StorageMode, &s.ScaleIO.FSType)
	}
}

// DefaultClaimSpec sets the defaults of a PersistentVolumeClaim's spec.
func DefaultClaimSpec(s *v1.PersistentVolumeClaimSpec) {
	setDefault(&s.VolumeMode, v1.PersistentVolumeFilesystem)
}

// CopyDataSource copies dataSource to dataSourceRef or back, where one is missing and the reference
// names no namespace.
func CopyDataSource(s *v1.PersistentVolumeClaimSpec) {
	switch {
	case s.DataSourceRef == nil && s.DataSource != nil:
		s.DataSourceRef = &v1.TypedObjectReference{Kind: s.DataSource.Kind, Name: s.DataSource.Name}
		if s.DataSource.APIGroup != nil {
			s.DataSourceRef.APIGroup = ptr(*s.DataSource.APIGroup)
		}
	case s.DataSource == nil && s.DataSourceRef != nil &&
		(s.DataSourceRef.Namespace == nil || *s.DataSourceRef.Namespace == ""):
		s.DataSource = &v1.TypedLocalObjectReference{Kind: s.DataSourceRef.Kind, Name: s.DataSourceRef.Name}
		if s.DataSourceRef.APIGroup != nil {
			s.DataSource.APIGroup = ptr(*s.DataSourceRef.APIGroup)
		}
	}
}

// DefaultVolumeSource sets the defaults of a PersistentVolume's source.
func DefaultVolumeSource(s *v1.PersistentVolumeSource) {
	switch {
	case s.HostPath != nil:
		setDefault(&s.HostPath.Type, v1.HostPathUnset)
	case s.ISCSI != nil:
		setIfEmpty(&s.ISCSI.ISCSIInterface, "default")
	case s.RBD != nil:
		defaultRBD(&s.RBD.RBDPool, &s.RBD.RadosUser, &s.RBD.Keyring)
	case s.AzureDisk != nil:
		defaultAzureDisk(s.AzureDisk)
	case s.ScaleIO != nil:
		defaultScaleIO(&s.ScaleIO.StorageMode, &s.ScaleIO.FSType)
	}
}

func defaultRBD(pool, user, keyring *string) {
	setIfEmpty(pool, "rbd")
	setIfEmpty(user, "admin")
	setIfEmpty(keyring, "/etc/ceph/keyring")
}

func defaultScaleIO(mode, fsType *string) {
	setIfEmpty(mode, "ThinProvisioned")
	setIfEmpty(fsType, "xfs")
}

func defaultAzureDisk(d *v1.AzureDiskVolumeSource) {
	setDefault(&d.CachingMode, v1.AzureDataDiskCachingReadWrite)
	setDefault(&d.Kind, v1.AzureSharedBlobDisk)
	setDefault(&d.FSType, "ext4")
	setDefault(&d.ReadOnly, false)
}

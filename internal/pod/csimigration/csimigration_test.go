package csimigration

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// row: CSI-01
// Each of the seven plugins has its driver, and volumes of it, with and without a claim, are that
// driver's.
func TestPluginsHaveDrivers(t *testing.T) {
	pv := func(s v1.PersistentVolumeSource) *v1.PersistentVolume {
		return &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: s}}
	}
	claimed := map[string]*v1.PersistentVolume{
		"kubernetes.io/aws-ebs": pv(v1.PersistentVolumeSource{
			AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}),
		"kubernetes.io/azure-disk": pv(v1.PersistentVolumeSource{
			AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "/disks/d"}}),
		"kubernetes.io/azure-file": pv(v1.PersistentVolumeSource{
			AzureFile: &v1.AzureFilePersistentVolumeSource{ShareName: "s", SecretName: "key",
				SecretNamespace: new("ns")}}),
		"kubernetes.io/cinder": pv(v1.PersistentVolumeSource{Cinder: &v1.CinderPersistentVolumeSource{VolumeID: "c"}}),
		"kubernetes.io/gce-pd": pv(v1.PersistentVolumeSource{
			GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "p"}}),
		"kubernetes.io/portworx-volume": pv(v1.PersistentVolumeSource{
			PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "x"}}),
		"kubernetes.io/vsphere-volume": pv(v1.PersistentVolumeSource{
			VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: "[store] v.vmdk"}}),
	}
	drivers := map[string]string{
		"kubernetes.io/aws-ebs": "ebs.csi.aws.com", "kubernetes.io/azure-disk": "disk.csi.azure.com",
		"kubernetes.io/azure-file": "file.csi.azure.com", "kubernetes.io/cinder": "cinder.csi.openstack.org",
		"kubernetes.io/gce-pd": "pd.csi.storage.gke.io", "kubernetes.io/portworx-volume": "pxd.portworx.com",
		"kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
	}
	if got, want := len(Plugins()), len(drivers); got != want {
		t.Errorf("got %d plugins, want %d", got, want)
	}
	for _, plugin := range Plugins() {
		driver, ok := Driver(plugin)
		if !ok || driver != drivers[plugin] {
			t.Errorf("%s: got the driver %q, want %q", plugin, driver, drivers[plugin])
		}
		v := claimed[plugin]
		got, migrated, err := PersistentVolume(v)
		if err != nil || !migrated || got.Spec.CSI == nil || got.Spec.CSI.Driver != driver || v.Spec.CSI != nil {
			t.Errorf("%s: got %+v migrated %v (%v), want a copy of driver %s", plugin, got, migrated, err, driver)
		}
		if name, ok := Plugin(v); !ok || name != plugin {
			t.Errorf("%s: got the plugin %q of its volume", plugin, name)
		}
	}
	csi := pv(v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d"}})
	if got, migrated, err := PersistentVolume(csi); got != csi || migrated || err != nil {
		t.Errorf("a CSI volume: got %v migrated %v (%v), want itself", got, migrated, err)
	}
	inline := &v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
		AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}}
	got, err := Inline(inline, "ns")
	if err != nil || got.Spec.CSI == nil || got.Spec.CSI.VolumeHandle != "vol-1" || !IsInline(inline) {
		t.Errorf("inline: got %+v (%v), want the handle vol-1", got, err)
	}
	if IsInline(&v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}) {
		t.Error("an emptyDir is migrated")
	}
	if _, ok := Driver("example.com/own"); ok {
		t.Error("a provisioner of its own has a driver")
	}
}

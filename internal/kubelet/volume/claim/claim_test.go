package claim_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/claim"
	"github.com/gantry-project/gantry/internal/kubelet/volume/local"
	"github.com/gantry-project/gantry/internal/kubelet/volume/nfs"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// bound has one claim on one volume.
func bound(change func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)) *volumetest.Objects {
	o := volumetest.NewObjects()
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "c"},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{UID: "c"}}}
	change(c, pv)
	o.Claims[c.Namespace+"/"+c.Name], o.Volumes[pv.Name] = c, pv
	return o
}

// fakeNFS notes what is mounted.
type fakeNFS struct {
	mount.DirMounter
	asked []string
}

func (s *fakeNFS) Mount(source, target, kind string, options []string) error {
	s.asked = append(s.asked, strings.Join(append([]string{kind, source}, options...), " "))
	return nil
}

// setUp finds what is behind the claim and sets it up, as the volume manager does.
func setUp(t *testing.T, o *volumetest.Objects, m volume.Mounter, a volume.MounterArgs) (volume.Mounted, error) {
	r := claim.Resolver{Claims: o,
		Labels: func() (map[string]string, bool) { return map[string]string{"zone": "a"}, true }}
	spec, err := r.CreateVolumeSpec(t.Context(), a.Pod, a.Spec.Volume)
	if err != nil {
		return volume.Mounted{}, err
	}
	row, err := volume.PluginMgr{
		{Plugin: local.Plugin{Mounts: m}, PersistentVolume: true},
		{Plugin: nfs.Plugin{Mounts: m}, PersistentVolume: true},
	}.FindPluginBySpec(a.Pod, spec)
	if err != nil {
		return volume.Mounted{}, err
	}
	a.Spec, a.MountOptions = spec, spec.PersistentVolume.Spec.MountOptions
	return row.Plugin.SetUp(t.Context(), a)
}

func TestVolumes(t *testing.T) {
	block := v1.PersistentVolumeBlock
	dir := t.TempDir()
	at := func(path string) func(*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
		return func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			pv.Spec.Local = &v1.LocalVolumeSource{Path: path}
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	zone := func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
		pv.Spec.Local = &v1.LocalVolumeSource{Path: dir}
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{
			Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn,
					Values: []string{"b"}}},
			}}}}
	}
	for _, c := range []struct {
		name   string
		change func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)
		device bool // the container asks for a device
		want   string
	}{
		{"local directory", at(dir), false, ""},
		{"local, not there", at("/nonexistent"), false, "no such file or directory"},
		{"local file", at(file), false, "is not a directory"},
		{"another zone's", zone, false,
			`storage node affinity check failed for volume "pv" : no matching NodeSelectorTerms`},
		{"block in volumeMounts", func(c *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			at(dir)(c, pv)
			pv.Spec.VolumeMode = &block
		}, false,
			"volume v has volumeMode Block, but is specified in volumeMounts"},
		{"directory as block", func(c *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			at(dir)(c, pv)
			pv.Spec.VolumeMode = &block
		}, true, "is not a block device"},
		{"file system in volumeDevices", at(dir), true,
			"volume v has volumeMode Filesystem, but is specified in volumeDevices"},
		{"not there", func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Name = "other" }, false,
			`error processing PVC ns/data: failed to fetch PVC from API server: persistentvolumeclaims "data" not ` +
				`found`},
		{"not bound", func(c *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			at(dir)(c, pv)
			c.Status.Phase = v1.ClaimPending
		}, false, "error processing PVC ns/data: PVC is not bound"},
		{"bound to another", func(c *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			at(dir)(c, pv)
			pv.Spec.ClaimRef.UID = "x"
		}, false, "is not the claim volume pv is bound to"},
		{"iscsi", func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			pv.Spec.ISCSI = &v1.ISCSIPersistentVolumeSource{}
		}, false,
			"volume pv of claim ns/data: volumes of type iscsi are not served by this node"},
	} {
		pod := volumetest.Pod()
		if c.device {
			pod.Spec.Containers[0].VolumeMounts, pod.Spec.Containers[0].VolumeDevices = nil,
				[]v1.VolumeDevice{{Name: "v"}}
		}
		o := bound(c.change)
		v := &v1.Volume{Name: "v",
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
				ClaimName: "data"}}}
		_, err := setUp(t, o, mount.DirMounter{}, volume.MounterArgs{Pod: pod, Spec: volume.Spec{Volume: v},
			Dir: filepath.Join(t.TempDir(), "v")})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestServersDirectoryIsMountedWithItsOptions(t *testing.T) {
	o := bound(func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
		pv.Spec.NFS, pv.Spec.MountOptions = &v1.NFSVolumeSource{Server: "fd00::1", Path: "/export"},
			[]string{"hard", "nfsvers=4.2"}
	})
	s := &fakeNFS{}
	v := &v1.Volume{Name: "v",
		VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data",
			ReadOnly: true}}}
	dir := filepath.Join(t.TempDir(), "v")
	m, err := setUp(t, o, s, volume.MounterArgs{Pod: volumetest.Pod(), Spec: volume.Spec{Volume: v}, Dir: dir})
	if err != nil || m.Path != dir || !m.ReadOnly {
		t.Errorf("got %+v %v, want no error, Path %v and ReadOnly true", m, err, dir)
	}
	if !slices.Equal(s.asked, []string{"nfs [fd00::1]:/export hard nfsvers=4.2 ro"}) {
		t.Errorf("mounted: got %q, want %q", s.asked, []string{"nfs [fd00::1]:/export hard nfsvers=4.2 ro"})
	}
	if err := (nfs.Plugin{Mounts: s}).TearDown(t.Context(), volume.UnmounterArgs{Dir: dir}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
}

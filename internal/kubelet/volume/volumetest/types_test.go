package volumetest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/configmap"
	"github.com/gantry-project/gantry/internal/kubelet/volume/downwardapi"
	"github.com/gantry-project/gantry/internal/kubelet/volume/emptydir"
	"github.com/gantry-project/gantry/internal/kubelet/volume/fsgroup"
	"github.com/gantry-project/gantry/internal/kubelet/volume/hostpath"
	"github.com/gantry-project/gantry/internal/kubelet/volume/image"
	"github.com/gantry-project/gantry/internal/kubelet/volume/local"
	"github.com/gantry-project/gantry/internal/kubelet/volume/nfs"
	"github.com/gantry-project/gantry/internal/kubelet/volume/projected"
	"github.com/gantry-project/gantry/internal/kubelet/volume/secret"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// mounts are the kernel's when we may mount.
func mounts() volume.Mounter {
	if os.Getuid() == 0 {
		return mount.Mounter{}
	}
	return mount.DirMounter{}
}

// noServer mounts nothing: what an NFS server would show is the directory itself.
type noServer struct{ mount.DirMounter }

func (noServer) Mount(string, string, string, []string) error { return nil }

func spec(source v1.VolumeSource) volume.Spec {
	return volume.Spec{Volume: &v1.Volume{Name: "v", VolumeSource: source}}
}

func named(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

func items() []v1.DownwardAPIVolumeFile {
	return []v1.DownwardAPIVolumeFile{
		{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}},
	}
}

// Every type is a row: a type of volumes that is not here is not proven. The Pod's labels cannot
// change under the suite, so downward types change nothing in Change.
//
// row: CSI-16
func TestTypes(t *testing.T) {
	o := volumetest.NewObjects()
	o.SetConfig("cfg", "a", "1")
	o.SetSecret("sec", "s", "2")
	host := t.TempDir()
	behind := func(source v1.PersistentVolumeSource) *v1.PersistentVolume {
		return &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: source}}
	}
	claimed := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	same := map[string]string{"labels": `app="x"`, "cpu": "2"}
	for name, s := range map[string]volumetest.Subject{
		"emptyDir": {Plugin: emptydir.Plugin{Mounts: mounts()},
			Volume: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, Writable: true, Size: volume.SizeOfFiles},
		"emptyDir in memory": {Plugin: emptydir.Plugin{Mounts: mounts()},
			Volume: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}, Writable: true,
			Size: volume.SizeOfFiles},
		"no source": {Plugin: emptydir.Plugin{Mounts: mounts()}, Writable: true, Size: volume.SizeOfFiles},
		"hostPath": {Plugin: hostpath.Plugin{},
			Volume: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host}}, Writable: true},
		"hostPath claim": {Plugin: hostpath.Plugin{}, Volume: claimed,
			PersistentVolume: behind(v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host}}),
			Writable:         true},
		"local claim": {Plugin: local.Plugin{Mounts: mount.DirMounter{}}, Volume: claimed,
			PersistentVolume: behind(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: host}}),
			Writable:         true, Elsewhere: true, Size: volume.SizeOfMount},
		"nfs": {Plugin: nfs.Plugin{Mounts: noServer{}},
			Volume:   v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/x"}},
			Writable: true, Size: volume.SizeOfMount},
		"nfs claim": {Plugin: nfs.Plugin{Mounts: noServer{}}, Volume: claimed,
			PersistentVolume: behind(v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/x"}}),
			Writable:         true, Size: volume.SizeOfMount},
		"staged": {Plugin: volumetest.StagedPlugin{Driver: volumetest.NewDriver()}, Volume: claimed,
			PersistentVolume: behind(v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d",
				VolumeHandle: "h"}}),
			Writable: true, Elsewhere: true, Size: volume.SizeOfMount},
		"not staged": {Plugin: volumetest.StagedPlugin{Driver: volumetest.NewDriver()},
			Volume:   v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d"}},
			Writable: true, Elsewhere: true, Size: volume.SizeOfMount},
		"image": {Plugin: image.Plugin{}, Volume: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "app:1"}}},
		"configMap": {
			Plugin:  configmap.New(mounts(), o),
			Volume:  v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("cfg")}},
			Content: map[string]string{"a": "1"},
			Change:  func() map[string]string { o.SetConfig("cfg", "b", "new"); return map[string]string{"b": "new"} },
			Size:    volume.SizeOfFiles,
		},
		"secret": {
			Plugin:  secret.New(mounts(), o),
			Volume:  v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec"}},
			Content: map[string]string{"s": "2"},
			Change:  func() map[string]string { o.SetSecret("sec", "s", "new"); return map[string]string{"s": "new"} },
			Size:    volume.SizeOfFiles,
		},
		"downwardAPI": {
			Plugin:  downwardapi.New(mounts()),
			Volume:  v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: items()}},
			Content: same, Change: func() map[string]string { return same }, Size: volume.SizeOfFiles,
		},
		"projected": {
			Plugin:  projected.New(mounts(), o, o),
			Restart: func() volume.Plugin { return projected.New(mounts(), o, o) },
			Volume: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{DownwardAPI: &v1.DownwardAPIProjection{Items: items()}},
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "sa/token"}},
			}}},
			Content: same, Change: func() map[string]string { return same }, Size: volume.SizeOfFiles,
		},
	} {
		t.Run(name, func(t *testing.T) { volumetest.Run(t, s) })
	}
}

// row: CSI-19
// row: SEC-07
func TestSecretsStayInMemory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	o := volumetest.NewObjects()
	o.SetSecret("sec", "s", "2")
	for name, tc := range map[string]struct {
		t volume.Plugin
		v v1.VolumeSource
	}{
		"secret": {secret.New(mounts(), o),
			v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec"}}},
		"downwardAPI": {downwardapi.New(mounts()),
			v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: items()}}},
		"projected": {projected.New(mounts(), o, o), v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
			Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}},
		}}},
		"emptyDir": {emptydir.Plugin{Mounts: mounts()},
			v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory,
				SizeLimit: ptr(resource.MustParse("4Mi"))}}},
	} {
		dir := filepath.Join(t.TempDir(), "v")
		node := volume.NodeView{Allocatable: v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Mi"),
			v1.ResourceCPU: resource.MustParse("1")}}
		if _, err := tc.t.SetUp(t.Context(),
			volume.MounterArgs{Pod: volumetest.Pod(), Spec: spec(tc.v), Dir: dir,
				Node: node}); err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
			continue
		}
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil || st.Type != 0x01021994 {
			t.Errorf("%s is on a file system of type %x, want tmpfs", name, st.Type)
		}
		want := uint64(8 << 20)
		if name == "emptyDir" {
			want = 4 << 20
		}
		if size := st.Blocks * uint64(st.Bsize); size != want {
			t.Errorf("%s may grow to %d, want %d", name, size, want)
		}
		if err := tc.t.TearDown(t.Context(), volume.UnmounterArgs{Dir: dir}); err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func TestErrorsReadAsUpstreams(t *testing.T) {
	o := volumetest.NewObjects()
	o.SetConfig("cfg", "a", "1")
	o.SetSecret("sec", "s", "1")
	key := []v1.KeyToPath{{Key: "nokey", Path: "x"}}
	yes := true
	for name, tc := range map[string]struct {
		t   volume.Plugin
		v   v1.VolumeSource
		err string
	}{
		"configMap": {configmap.New(mounts(), o),
			v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("no")}},
			`configmap "no" not found`},
		"secret": {secret.New(mounts(), o),
			v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "no"}}, `secret "no" not found`},
		"key": {
			configmap.New(mounts(), o),
			v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("cfg"), Items: key}},
			"configmap references non-existent config key: nokey",
		},
		"secret key": {secret.New(mounts(), o),
			v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec", Items: key}},
			"references non-existent secret key: nokey"},
		"optional object": {configmap.New(mounts(), o),
			v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("no"), Optional: &yes}},
			""},
		"optional key": {secret.New(mounts(), o),
			v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec", Items: key, Optional: &yes}}, ""},
		"two of a projection": {projected.New(mounts(), o, o),
			v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named("no")}},
				{Secret: &v1.SecretProjection{LocalObjectReference: named("no")}},
			}}}, `[configmap "no" not found, secret "no" not found]`},
		"huge pages": {emptydir.Plugin{Mounts: mounts()},
			v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "HugePages"}},
			`medium HugePages: hugePages storage requested, but there is no resource request for huge pages`},
	} {
		dir := filepath.Join(t.TempDir(), "v")
		_, err := tc.t.SetUp(t.Context(),
			volume.MounterArgs{Pod: volumetest.Pod(), Spec: spec(tc.v), Dir: dir})
		if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%s: %v, want %s", name, err, tc.err)
		}
		if err := tc.t.TearDown(t.Context(), volume.UnmounterArgs{Dir: dir}); err != nil {
			t.Error(err)
		}
	}
}

// recordings/pods/volume-configmap-modes, volume-fsgroup
func TestModesAndGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving files away needs root")
	}
	o := volumetest.NewObjects()
	o.SetConfig("cfg", "a", "1")
	mode, item, group, user := int32(0o755), int32(0o400), int64(2345), int64(1000)
	dir := filepath.Join(t.TempDir(), "v")
	p := volumetest.Pod()
	typ := projected.New(mounts(), o, o)
	v := v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named("cfg"),
			Items: []v1.KeyToPath{{Key: "a", Path: "a"}, {Key: "a", Path: "z", Mode: &item}}}},
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
	}}}
	check := func(when string, want map[string]string) {
		t.Helper()
		if _, err := typ.SetUp(t.Context(), volume.MounterArgs{Pod: p, Spec: spec(v), Dir: dir,
			FSGroup: fsgroup.FSGroup(p)}); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			st, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			sys := st.Sys().(*syscall.Stat_t)
			if got := strings.Join([]string{st.Mode().String(), itoa(sys.Uid), itoa(sys.Gid)}, " "); got != text {
				t.Errorf("%s, %s: %s, want %s", when, name, got, text)
			}
		}
		if err := typ.TearDown(t.Context(), volume.UnmounterArgs{Dir: dir}); err != nil {
			t.Fatal(err)
		}
	}
	check("plain", map[string]string{"a": "-rwxr-xr-x 0 0", "z": "-r-------- 0 0", "token": "-rwxr-xr-x 0 0"})
	p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &user}
	check("one user", map[string]string{"a": "-rwxr-xr-x 0 0", "token": "-rw------- 1000 0"})
	p.Spec.SecurityContext.FSGroup = &group
	check("group", map[string]string{".": "dgtrwxrwxrwx 0 2345", "a": "-rwxr-xr-x 0 2345", "z": "-r--r----- 0 2345",
		"token": "-rw-r----- 1000 2345"})
}

func itoa(n uint32) string {
	return resource.NewQuantity(int64(n), resource.DecimalSI).AsDec().String()
}

func TestTokenIsRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := volumetest.NewObjects()
		typ := projected.New(mount.DirMounter{}, o, o)
		seconds := int64(600)
		a := volume.MounterArgs{Pod: volumetest.Pod(), Dir: filepath.Join(t.TempDir(), "v"),
			Spec: spec(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
				Sources: []v1.VolumeProjection{
					{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", Audience: "vault",
						ExpirationSeconds: &seconds}}},
			}})}
		read := func(want string) volume.Mounted {
			t.Helper()
			m, err := typ.SetUp(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := os.ReadFile(filepath.Join(a.Dir, "token")); string(b) != want {
				t.Errorf("token %q, want %q", b, want)
			}
			return m
		}
		m := read("token-1")
		if got := time.Until(m.RefreshAt); got != 48*time.Minute {
			t.Errorf("to be renewed in %v, want at 80 %% of an hour", got)
		}
		if s := o.TokenRequests[0]; *s.ExpirationSeconds != 600 || s.Audiences[0] != "vault" ||
			s.BoundObjectRef.UID != a.Pod.UID || s.BoundObjectRef.Kind != "Pod" {
			t.Errorf("asked for %+v", s)
		}
		time.Sleep(47 * time.Minute)
		read("token-1")
		time.Sleep(time.Minute)
		o.Deny = errors.New("no server")
		if m := read("token-1"); time.Until(m.RefreshAt) != 30*time.Second {
			t.Errorf("a renewal that failed is tried again in %v", time.Until(m.RefreshAt))
		}
		o.Deny = nil
		read("token-2")
		o.Deny = errors.New("no server")
		time.Sleep(2 * time.Hour)
		if _, err := typ.SetUp(t.Context(), a); err == nil || err.Error() != "failed to fetch token: no server" {
			t.Errorf("an expired token is kept: %v", err)
		}
	})
}

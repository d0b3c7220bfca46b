package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/configmap"
	"github.com/gantry-project/gantry/internal/kubelet/volume/downwardapi"
	"github.com/gantry-project/gantry/internal/kubelet/volume/emptydir"
	"github.com/gantry-project/gantry/internal/kubelet/volume/hostpath"
	"github.com/gantry-project/gantry/internal/kubelet/volume/projected"
	"github.com/gantry-project/gantry/internal/kubelet/volume/secret"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
	"github.com/gantry-project/gantry/internal/kubelet/volumemanager"
	"github.com/gantry-project/gantry/internal/linux/mount"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/test/expect"
)

// testNode is one kubelet's volume manager, and what it reported.
type testNode struct {
	*volumemanager.Manager
	o    *volumetest.Objects
	root string

	mu      sync.Mutex
	events  []string
	changed []types.UID
}

func (n *testNode) Event(_ runtime.Object, kind, why, message string) {
	n.note(kind + " " + why + " " + message)
}
func (n *testNode) Put(_ journal.Ref, f journal.Fact) {
	line := f.Line()
	if r, ok := f.(journal.VolumeReady); ok {
		line = "ready " + r.Volume // without its duration
	}
	n.note("fact " + line)
}

func (n *testNode) note(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, line)
}

func (n *testNode) refreshes() []types.UID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.changed)
}

func (n *testNode) expect(t *testing.T, want ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if d := cmp.Diff(want, n.events); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
	n.events = nil
}

func mounts() volume.Mounter {
	if os.Getuid() == 0 {
		return mount.Mounter{}
	}
	return mount.DirMounter{}
}

// start makes a kubelet on root, as after a restart when the root was used before.
func start(t *testing.T, root string, m volume.Mounter, o *volumetest.Objects) *testNode {
	n := &testNode{o: o, root: root}
	n.Manager = volumemanager.New(volumemanager.Deps{
		Root: root, Objects: o, Mounts: m, Recorder: n, Journal: n,
		Plugins: volume.PluginMgr{
			{Plugin: emptydir.Plugin{Mounts: m}, Inline: true}, {Plugin: hostpath.Plugin{}, Inline: true},
			{Plugin: configmap.New(m, o), Inline: true},
			{Plugin: secret.New(m, o), Inline: true},
			{Plugin: projected.New(m, o, o), Inline: true}, {Plugin: downwardapi.New(m), Inline: true},
		},
		Node: func(*v1.Pod) volume.NodeView { return volume.NodeView{} },
		Changed: func(uid types.UID) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.changed = append(n.changed, uid)
		},
	})
	t.Cleanup(func() {
		if _, err := n.CleanupOrphans(context.WithoutCancel(t.Context()), func(types.UID) bool { return false }); err !=
			nil {
			t.Error(err)
		}
	})
	return n
}

func podOf(volumes ...v1.Volume) *v1.Pod {
	p := volumetest.Pod()
	p.Spec.Volumes = volumes
	p.Spec.Containers[0].VolumeMounts = nil
	for _, v := range volumes {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: v.Name})
	}
	return p
}

func empty(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
}

func config(name, object string) v1.Volume {
	return v1.Volume{Name: name,
		VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: object}}}}
}

func inMemory(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec"}}}
}

// The volume is the Pod's by its UID: one that is made anew under the name begins with nothing,
// also while the volume of the first is there.
//
// row: CSI-16
func TestANewPodOfTheNameHasAnEmptyDirOfItsOwn(t *testing.T) {
	n := start(t, t.TempDir(), mounts(), volumetest.NewObjects())
	first := podOf(empty("e"))
	second := first.DeepCopy()
	second.UID = "another"
	path := func(p *v1.Pod) string {
		t.Helper()
		got, err := n.MountVolumes(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return got["e"].Path
	}
	old := path(first)
	expect.NoError(t, os.WriteFile(filepath.Join(old, "kept"), []byte("x"), 0o600))
	made := path(second)
	if files, err := os.ReadDir(made); err != nil || len(files) > 0 {
		t.Errorf("the new Pod finds %v (%v), want an empty directory", files, err)
	}
	expect.NoError(t, n.UnmountVolumes(t.Context(), second.UID))
	if _, err := os.Stat(filepath.Join(old, "kept")); err != nil {
		t.Errorf("the first Pod's file after the end of the second: got %v, want it kept", err)
	}
	expect.NoError(t, n.UnmountVolumes(t.Context(), first.UID))
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the directory after the end of its Pod: got %v, want it gone", err)
	}
}

// row: CSI-16
func TestVolumeIsMountedUpdatedAndUnmounted(t *testing.T) {
	root, o := t.TempDir(), volumetest.NewObjects()
	o.SetConfig("cfg", "a", "1")
	o.SetSecret("sec", "s", "2")
	n := start(t, root, mounts(), o)
	p := podOf(empty("e"), config("c", "cfg"), inMemory("s"))
	p.Spec.Volumes = append(p.Spec.Volumes, empty("unused"))
	got, err := n.MountVolumes(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "pods", string(p.UID), "volumes")
	want := map[string]volume.Mounted{
		"e": {Name: "e", Type: "emptyDir", Path: dir + "/kubernetes.io~empty-dir/e", Size: volume.SizeOfFiles},
		"c": {Name: "c", Type: "configMap", Path: dir + "/kubernetes.io~configmap/c", ReadOnly: true,
			Size: volume.SizeOfFiles},
		"s": {Name: "s", Type: "secret", Path: dir + "/kubernetes.io~secret/s", ReadOnly: true,
			Size: volume.SizeOfFiles},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want, n.MountedVolumes(p.UID)); d != "" {
		t.Error("reported as mounted: " + d)
	}
	n.expect(t, "fact ready e", "fact ready c", "fact ready s")
	if _, err := n.MountVolumes(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	n.expect(t)
	expect.NoError(t, os.WriteFile(got["e"].Path+"/kept", []byte("x"), 0o600))

	o.SetConfig("cfg", "a", "changed")
	if err := n.RefreshVolumes(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(got["c"].Path + "/a"); string(b) != "changed" {
		t.Errorf("after a refresh the file says %q", b)
	}

	// The kubelet comes back: everything is found again, nothing is lost or doubled.
	n = start(t, root, mounts(), o)
	if _, err := n.MountVolumes(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(got["e"].Path + "/kept"); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := n.UnmountVolumes(t.Context(), p.UID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "pods", string(p.UID))); !os.IsNotExist(err) {
		t.Errorf("the Pod's directory is left: %v", err)
	}
	if len(o.Registered) != 0 {
		t.Errorf("objects are held for a Pod that is gone: got %d, want 0", len(o.Registered))
	}
}

// recordings/pods/volume-configmap-missing
func TestMissingObjectsAreNamed(t *testing.T) {
	n := start(t, t.TempDir(), mounts(), volumetest.NewObjects())
	p := podOf(config("v", "cfg"), empty("e"))
	const text = `MountVolume.SetUp failed for volume "v" : configmap "cfg" not found`
	for i := range 2 {
		_, err := n.MountVolumes(t.Context(), p)
		var r *reason.Refusal
		if !errors.As(err, &r) || r.Code != reason.FailedMount || r.Detail != text || r.Fix == "" {
			t.Fatalf("got %#v", err)
		}
		if i == 0 {
			n.expect(t, "Warning FailedMount "+text, `fact volume v (configMap) waits: configmap "cfg" not found`,
				"fact ready e")
		} else {
			n.expect(t, "Warning FailedMount "+text) // an event each time, the fact once
		}
	}
	n.o.SetConfig("cfg", "a", "1")
	if _, err := n.MountVolumes(t.Context(), p); err != nil {
		t.Error(err)
	}
	n.expect(t, "fact ready v")
	bad := podOf(
		v1.Volume{Name: "h",
			VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/nonexistent",
				Type: ptr(v1.HostPathDirectory)}}},
		v1.Volume{Name: "n", VolumeSource: v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{}}})
	bad.UID = "other"
	_, err := n.MountVolumes(t.Context(), bad)
	var r *reason.Refusal
	if !errors.As(err, &r) ||
		r.Detail != `MountVolume.SetUp failed for volume "h" : hostPath type check failed, /nonexistent is not a `+
			`directory, unable to determine its type: path "/nonexistent" does not exist; `+
			`MountVolume.SetUp failed for volume "n" : volumes of type iscsi are not served by this node` {
		t.Errorf("all that fails is named: %v", err)
	}
}

func ptr[T any](v T) *T { return &v }

func TestOrphanedVolumesAreCleanedUp(t *testing.T) {
	root, o := t.TempDir(), volumetest.NewObjects()
	o.SetSecret("sec", "s", "1")
	before := start(t, root, mounts(), o)
	keep, released := podOf(inMemory("s")), podOf(inMemory("s"))
	released.UID = "gone"
	for _, p := range []*v1.Pod{keep, released} {
		if _, err := before.MountVolumes(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	n := start(t, root, mounts(), o) // knows nothing
	got, err := n.CleanupOrphans(t.Context(), func(uid types.UID) bool { return uid == keep.UID })
	if err != nil || fmt.Sprint(got) != "[gone]" {
		t.Errorf("released %v %v", got, err)
	}
	if e, _ := os.ReadDir(filepath.Join(root, "pods")); len(e) != 1 || e[0].Name() != string(keep.UID) {
		t.Errorf("left %v", e)
	}
	if err := n.UnmountVolumes(t.Context(), "../x"); err == nil {
		t.Error("a uid that leads out of the directory is taken")
	}
}

// What a hostPath or an orphaned mount shows must never be deleted with the Pod.
func TestReleaseKeepsMountedVolumes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	root, host := t.TempDir(), t.TempDir()
	precious := filepath.Join(host, "precious")
	expect.NoError(t, os.WriteFile(precious, []byte("mine"), 0o600))
	n := start(t, root, mounts(), volumetest.NewObjects())
	p := podOf(empty("e"),
		v1.Volume{Name: "h", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host}}})
	got, err := n.MountVolumes(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(got["e"].Path, "bind")
	expect.NoError(t, os.Mkdir(inside, 0o755))
	if err := mounts().Bind(host, inside, false); err != nil {
		t.Fatal(err)
	}
	at, err := n.PrepareSubPath(t.Context(), volumemanager.SubPath{Pod: p, Container: "c", Volume: got["h"],
		Path: "precious"})
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(at); string(b) != "mine" {
		t.Errorf("the subPath reads %q", b)
	}
	if err := n.UnmountVolumes(t.Context(), p.UID); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(precious); err != nil || string(b) != "mine" {
		t.Fatalf("the host's file: %q %v", b, err)
	}
	if points, _ := mounts().MountPoints(root); len(points) != 0 {
		t.Errorf("still mounted: %v, want none", points)
	}
}

// recordings/pods/volume-subpath, volume-subpath-bad
func TestSubPath(t *testing.T) {
	n := start(t, t.TempDir(), mounts(), volumetest.NewObjects())
	p := podOf(empty("v"))
	got, err := n.MountVolumes(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	vol := got["v"].Path
	outside := t.TempDir()
	expect.NoError(t, os.Symlink(outside, filepath.Join(vol, "out")))
	expect.NoError(t, os.Symlink("../../../..", filepath.Join(vol, "up")))
	expect.NoError(t, os.Symlink("real", filepath.Join(vol, "in")))
	expect.NoError(t, os.Mkdir(filepath.Join(vol, "real"), 0o700))
	for i, tc := range []struct {
		path string
		ok   bool
	}{{"new/deep", true}, {"new/deep", true}, {"in/x", true}, {"out", false}, {"out/x", false}, {"up", false},
		{"up/x", false}, {"../x", false}, {"/etc", false}} {
		at, err := n.PrepareSubPath(t.Context(), volumemanager.SubPath{Pod: p, Container: "c", Index: i,
			Volume: got["v"], Path: tc.path})
		var r *reason.Refusal
		switch {
		case tc.ok && err != nil:
			t.Errorf("%s: got %v, want found false", tc.path, err)
		case tc.ok:
			expect.NoError(t, os.WriteFile(filepath.Join(at, "f"), nil, 0o600))
			if _, err := os.Stat(filepath.Join(vol, tc.path, "f")); err != nil {
				t.Errorf("%s is not what is at %s: %v, want no error", tc.path, at, err)
			}
		case !errors.As(err, &r) || r.Code != reason.CreateContainerConfigError ||
			r.Detail != `failed to prepare subPath for volumeMount "v" of container "c"`:
			t.Errorf(`%s: got %v, want an error that is a r, Code CreateContainerConfigError and Detail 'failed to `+
				`prepare subPath for volumeMount "v" of conta…'`, tc.path, err)
		}
	}
	if e, _ := os.ReadDir(outside); len(e) != 0 {
		t.Errorf("made outside the volume: %v, want none", e)
	}
	if st, err := os.Stat(filepath.Join(vol, "new/deep")); err != nil || st.Mode().Perm() != 0o777 {
		t.Errorf("%v %v, want the volume's mode 0777", st.Mode(), err)
	}
	// Again for a restarted container: the same pin.
	if _, err := n.PrepareSubPath(t.Context(), volumemanager.SubPath{Pod: p, Container: "c", Index: 0, Volume: got["v"],
		Path: "new/deep"}); err != nil {
		t.Error(err)
	}
	if err := n.UnmountVolumes(t.Context(), p.UID); err != nil {
		t.Error(err)
	}
}

// A volume whose time has come, and that cannot be brought up to date, is asked for now and then,
// not without end.
func TestFailedRefreshIsRetriedWithBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, t.TempDir(), mount.DirMounter{}, volumetest.NewObjects())
		p := podOf(v1.Volume{Name: "t", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
			Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}},
		}}})
		if _, err := n.MountVolumes(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		n.o.Deny = errors.New("no API server")
		time.Sleep(2 * time.Hour) // the token has ended
		synctest.Wait()
		for range 3 {
			before := len(n.refreshes())
			if err := n.RefreshVolumes(t.Context(), p); err == nil {
				t.Fatal("a token from nobody")
			}
			time.Sleep(29 * time.Second)
			synctest.Wait()
			if more := len(n.refreshes()) - before; more != 0 {
				t.Errorf("asked %d times at once, want 0", more)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if more := len(n.refreshes()) - before; more != 1 {
				t.Errorf("asked %d times within half a minute, want once", more)
			}
		}
	})
}

// TestRefreshAfterRestartIsRetried: a volume that an earlier kubelet made, and that this one cannot
// take over yet, is asked for again half a minute later.
func TestRefreshAfterRestartIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, objects := t.TempDir(), volumetest.NewObjects()
		p := podOf(v1.Volume{Name: "t", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
			Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}},
		}}})
		if _, err := start(t, root, mount.DirMounter{}, objects).MountVolumes(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		objects.Deny = errors.New("no API server")
		restarted := start(t, root, mount.DirMounter{}, objects)
		for want := range 3 {
			if got := restarted.refreshes(); len(got) != want {
				t.Fatalf("got %d wake-ups after %d refreshes that failed, want %d", len(got), want, want)
			}
			if err := restarted.RefreshVolumes(t.Context(), p); err == nil {
				t.Fatal("a token from nobody")
			}
			time.Sleep(31 * time.Second)
			synctest.Wait()
		}
		objects.Deny = nil
		if err := restarted.RefreshVolumes(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if got := restarted.refreshes(); len(got) != 3 {
			t.Errorf("got %d wake-ups, want 3: none after the refresh that worked", len(got))
		}
	})
}

func TestTokenRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, t.TempDir(), mount.DirMounter{}, volumetest.NewObjects())
		p := podOf(v1.Volume{Name: "t", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
			Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}},
		}}})
		if _, err := n.MountVolumes(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(47 * time.Minute)
		if len(n.refreshes()) != 0 {
			t.Error("asked too early")
		}
		time.Sleep(2 * time.Minute)
		if got := n.refreshes(); !slices.Equal(got, []types.UID{p.UID}) {
			t.Errorf("asked for %v", got)
		}
		if err := n.RefreshVolumes(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if n.o.Tokens != 2 {
			t.Errorf("%d tokens made, want a second one", n.o.Tokens)
		}
		if err := n.UnmountVolumes(t.Context(), p.UID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		if got := n.refreshes(); len(got) != 1 {
			t.Errorf("a released Pod is asked to renew its token: %v, want 1 of them", got)
		}
	})
}

func TestManyPodsSideBySide(t *testing.T) {
	o := volumetest.NewObjects()
	o.SetSecret("sec", "s", "1")
	n := start(t, t.TempDir(), mounts(), o)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			p := podOf(empty("e"), inMemory("s"))
			p.UID = types.UID(fmt.Sprint("pod-", i))
			if _, err := n.MountVolumes(t.Context(), p); err != nil {
				t.Error(err)
			}
			if err := n.RefreshVolumes(t.Context(), p); err != nil {
				t.Error(err)
			}
			if err := n.UnmountVolumes(t.Context(), p.UID); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, line := range n.events {
		if strings.Contains(line, "Warning") {
			t.Errorf("got %v, want line without Warning", line)
		}
	}
}

// recordings/pods/volume-downwardapi
func TestLabelsAreFollowed(t *testing.T) {
	n := start(t, t.TempDir(), mounts(), volumetest.NewObjects())
	p := podOf(v1.Volume{Name: "d", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{
		Items: []v1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}}},
	}}})
	got, err := n.MountVolumes(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	changed := p.DeepCopy()
	changed.Labels = map[string]string{"app": "y"}
	if err := n.RefreshVolumes(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(got["d"].Path + "/labels"); string(b) != `app="y"` {
		t.Errorf("labels read %s", b)
	}
}

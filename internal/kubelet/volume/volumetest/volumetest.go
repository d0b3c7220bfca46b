// Package volumetest is the suite every volume type passes, and the objects its tests work with.
//
// To use it: a Subject for the type as a row of types_test.go. StagedPlugin with its Driver is a
// type that stages, for tests of what calls types.
package volumetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Subject is a type under test, with one volume of it.
type Subject struct {
	Plugin volume.Plugin
	Volume v1.VolumeSource
	// PersistentVolume is what is behind Volume when that is a claim.
	PersistentVolume *v1.PersistentVolume
	// Content is what a container reads, by path in the volume; nil when the type does not fill it.
	Content map[string]string
	// Change alters what the content comes from and returns the content from then on; nil when the
	// type does not refresh.
	Change func() map[string]string
	// Elsewhere is true when the volume is not below the Pod's directory although the type may put
	// some there.
	Elsewhere bool
	// Writable is true when containers write into the volume.
	Writable bool
	// Restart is the type as another kubelet has it; nil when it keeps nothing in memory.
	Restart func() volume.Plugin
	// Size is how upstream measures such a volume.
	Size volume.Size
}

// Run proves what all types promise.
func Run(t *testing.T, s Subject) {
	v := &v1.Volume{Name: "v", VolumeSource: s.Volume}
	t.Run("is found by its name", func(t *testing.T) {
		m := volume.PluginMgr{{Plugin: s.Plugin, Inline: true, PersistentVolume: true}}
		if _, err := m.FindPluginBySpec(Pod(), s.spec(v)); err != nil {
			t.Errorf("type %q does not serve its own volume: %v", s.Plugin.Name(), err)
		}
		if got := s.Plugin.RequiresRemount(s.spec(v)); got != (s.Change != nil) {
			t.Errorf("RequiresRemount is %v, want %v", got, s.Change != nil)
		}
	})
	t.Run("tearing down nothing", func(t *testing.T) {
		if err := s.Plugin.TearDown(t.Context(), unmounterArgs(s.args(v, t.TempDir()))); err != nil {
			t.Error(err)
		}
	})
	t.Run("one life", func(t *testing.T) { s.lifecycle(t, v) })
	t.Run("torn down by another kubelet", func(t *testing.T) { s.restart(t, v) })
	t.Run("staging", func(t *testing.T) { s.staging(t, v) })
	t.Run("side by side", func(t *testing.T) {
		root := t.TempDir()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				a := s.args(v, filepath.Join(root, fmt.Sprint(i), s.Plugin.Dir()))
				s.stage(t, &a)
				if _, err := s.Plugin.SetUp(t.Context(), a); err != nil {
					t.Error(err)
				}
				if err := s.Plugin.TearDown(t.Context(), unmounterArgs(a)); err != nil {
					t.Error(err)
				}
				s.unstage(t, a)
			})
		}
		wg.Wait()
	})
}

func (s Subject) lifecycle(t *testing.T, v *v1.Volume) {
	a := s.args(v, filepath.Join(t.TempDir(), "volumes", s.Plugin.Dir()))
	setUp := func() volume.Mounted {
		t.Helper()
		m, err := s.Plugin.SetUp(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	s.stage(t, &a)
	m := setUp()
	t.Cleanup(func() {
		if err := s.Plugin.TearDown(context.WithoutCancel(t.Context()), unmounterArgs(a)); err != nil {
			t.Error(err)
		}
	})
	if m.Size != s.Size {
		t.Errorf("measured by %d, want %d", m.Size, s.Size)
	}
	if m.Path == "" && m.Image == "" {
		t.Errorf("mounted %+v, want a path or an image", m)
	}
	if s.Plugin.Dir() != "" && !s.Elsewhere && m.Path != a.Dir {
		t.Errorf("path %s, want %s", m.Path, a.Dir)
	}
	s.compare(t, m, s.Content)
	s.write(t, m)
	if repeated := setUp(); repeated.Path != m.Path {
		t.Errorf("the second time it is at %s, want %s", repeated.Path, m.Path)
	}
	s.compare(t, m, s.Content)
	s.expectKept(t, m)
	if s.Change != nil {
		s.Content = s.Change()
		setUp()
		s.compare(t, m, s.Content)
	}
	s.tearDown(t, s.Plugin, a)
	s.unstage(t, a)
}

// restart proves that a plugin that remembers nothing finds the volume again and takes it away by
// what was stored.
func (s Subject) restart(t *testing.T, v *v1.Volume) {
	a := s.args(v, filepath.Join(t.TempDir(), "volumes", s.Plugin.Dir()))
	s.stage(t, &a)
	m, err := s.Plugin.SetUp(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, m)
	if s.Restart != nil {
		s.Plugin = s.Restart()
	}
	again, err := s.Plugin.SetUp(t.Context(), a)
	if err != nil || again.Path != m.Path {
		t.Errorf("after a restart it is at %s (%v), want %s", again.Path, err, m.Path)
	}
	s.expectKept(t, m)
	if s.Restart != nil {
		s.Plugin = s.Restart() // this one does not even set it up
	}
	s.tearDown(t, s.Plugin, a)
	s.unstage(t, a)
}

// staging proves that a staged volume serves two Pods, each for as long as it wants.
func (s Subject) staging(t *testing.T, v *v1.Volume) {
	m, ok := s.Plugin.(volume.DeviceMountableVolumePlugin)
	if !ok || !m.CanDeviceMount(s.spec(v)) {
		t.Skip("the type has no staging")
	}
	root := t.TempDir()
	one, two := s.args(v, filepath.Join(root, "one")), s.args(v, filepath.Join(root, "two"))
	s.stage(t, &one)
	two.Data = one.Data
	if err := m.UnmountDevice(t.Context(), one.Data); err != nil {
		t.Errorf("unstaging what no Pod got: %v", err)
	}
	if err := m.UnmountDevice(t.Context(), one.Data); err != nil {
		t.Errorf("unstaging nothing: %v", err)
	}
	s.stage(t, &one)
	for _, a := range []volume.MounterArgs{one, two} {
		if _, err := m.SetUp(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	s.tearDown(t, m, one)
	mounted, err := m.SetUp(t.Context(), two)
	if err != nil {
		t.Errorf("the other Pod's volume is gone too: %v", err)
	}
	s.compare(t, mounted, s.Content)
	s.tearDown(t, m, two)
	s.unstage(t, one)
}

// stage stages the volume, twice, if the type has staging, as the volume manager does before SetUp.
func (s Subject) stage(t *testing.T, a *volume.MounterArgs) {
	t.Helper()
	a.Data = volume.VolumeData{PluginName: s.Plugin.Name(), VolumeName: a.Spec.Volume.Name, SpecVolID: a.Spec.Name()}
	m, ok := s.Plugin.(volume.DeviceMountableVolumePlugin)
	if !ok {
		return
	}
	id, err := m.VolumeID(a.Pod, a.Spec)
	if err != nil || id.VolumeHandle == "" {
		t.Errorf("volume ID %+v %v, want a handle", id, err)
		return
	}
	a.Data.DriverName, a.Data.VolumeHandle = id.DriverName, id.VolumeHandle
	if !m.CanDeviceMount(a.Spec) {
		return
	}
	dir := filepath.Join(filepath.Dir(a.Dir), "device")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Error(err)
		return
	}
	a.Data.DeviceMountPath = filepath.Join(dir, "globalmount")
	for range 2 {
		if err := m.MountDevice(t.Context(), volume.DeviceMounterArgs{Spec: a.Spec, Data: a.Data}); err != nil {
			t.Errorf("stage: %v", err)
		}
	}
}

// unstage unstages the volume, twice, and looks that nothing is left.
func (s Subject) unstage(t *testing.T, a volume.MounterArgs) {
	t.Helper()
	m, ok := s.Plugin.(volume.DeviceMountableVolumePlugin)
	if !ok || a.Data.DeviceMountPath == "" {
		return
	}
	for range 2 {
		if err := m.UnmountDevice(t.Context(), a.Data); err != nil {
			t.Errorf("unstage: %v", err)
		}
	}
	if left, _ := os.ReadDir(a.Data.DeviceMountPath); len(left) != 0 {
		t.Errorf("%s holds %v, want nothing", a.Data.DeviceMountPath, left)
	}
}

// tearDown tears the volume down, twice, and looks that nothing is left.
func (s Subject) tearDown(t *testing.T, p volume.Plugin, a volume.MounterArgs) {
	t.Helper()
	for range 2 {
		if err := p.TearDown(t.Context(), unmounterArgs(a)); err != nil {
			t.Errorf("tear down: %v", err)
		}
	}
	if _, err := os.Lstat(a.Dir); p.Dir() != "" && !os.IsNotExist(err) {
		t.Errorf("%s: %v, want it gone", a.Dir, err)
	}
}

// unmounterArgs is all that a kubelet stores of the volume.
func unmounterArgs(a volume.MounterArgs) volume.UnmounterArgs {
	return volume.UnmounterArgs{Dir: a.Dir, MetaDir: a.MetaDir, Data: a.Data}
}

func (s Subject) args(v *v1.Volume, dir string) volume.MounterArgs {
	return volume.MounterArgs{
		Pod: Pod(), Spec: s.spec(v), Dir: filepath.Join(dir, v.Name),
		Node: volume.NodeView{Allocatable: v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi"),
			v1.ResourceCPU: resource.MustParse("2")}},
	}
}

func (s Subject) spec(v *v1.Volume) volume.Spec {
	return volume.Spec{Volume: v, PersistentVolume: s.PersistentVolume}
}

// write is what a container does.
func (s Subject) write(t *testing.T, m volume.Mounted) {
	t.Helper()
	if !s.Writable {
		return
	}
	if err := os.WriteFile(filepath.Join(m.Path, "written"), []byte("kept"), 0o600); err != nil {
		t.Error(err)
	}
}

func (s Subject) expectKept(t *testing.T, m volume.Mounted) {
	t.Helper()
	if s.Writable {
		s.compare(t, m, map[string]string{"written": "kept"})
	}
}

func (s Subject) compare(t *testing.T, m volume.Mounted, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if b, err := os.ReadFile(filepath.Join(m.Path, name)); err != nil || string(b) != text {
			t.Errorf("%s reads %q %v, want %q", name, b, err, text)
		}
	}
}

// Pod is the Pod of the suite.
func Pod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p",
			UID: types.UID("0c5f6a52-5d11-4a27-9a44-6c3f7c5b7a10"), Labels: map[string]string{"app": "x"}},
		Spec: v1.PodSpec{
			ServiceAccountName: "default",
			Containers:         []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "v"}}}},
		},
	}
}

// Package volumetest is the suite every volume type passes, and the objects its tests work with.
//
// To use it: a Subject for the type as a row of types_test.go.
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
		if err := s.Plugin.TearDown(t.Context(), volume.UnmounterArgs{Dir: filepath.Join(t.TempDir(), "none")}); err !=
			nil {
			t.Error(err)
		}
	})
	t.Run("one life", func(t *testing.T) { s.lifecycle(t, v) })
	t.Run("side by side", func(t *testing.T) {
		root := t.TempDir()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				a := s.args(v, filepath.Join(root, fmt.Sprint(i), s.Plugin.Dir()))
				if _, err := s.Plugin.SetUp(t.Context(), a); err != nil {
					t.Error(err)
				}
				if err := s.Plugin.TearDown(t.Context(), volume.UnmounterArgs{Dir: a.Dir}); err != nil {
					t.Error(err)
				}
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
	m := setUp()
	t.Cleanup(func() {
		if err := s.Plugin.TearDown(context.WithoutCancel(t.Context()), volume.UnmounterArgs{Dir: a.Dir}); err != nil {
			t.Error(err)
		}
	})
	if m.Size != s.Size {
		t.Errorf("measured by %d, want %d", m.Size, s.Size)
	}
	if m.Path == "" && m.Image == "" {
		t.Errorf("mounted %+v", m)
	}
	if s.Plugin.Dir() != "" && !s.Elsewhere && m.Path != a.Dir {
		t.Errorf("path %s, want %s", m.Path, a.Dir)
	}
	s.compare(t, m, s.Content)
	if s.Writable {
		if err := os.WriteFile(filepath.Join(m.Path, "written"), []byte("kept"), 0o600); err != nil {
			t.Error(err)
		}
	}
	if repeated := setUp(); repeated.Path != m.Path {
		t.Errorf("the second time it is at %s", repeated.Path)
	}
	s.compare(t, m, s.Content)
	if s.Writable {
		if b, err := os.ReadFile(filepath.Join(m.Path, "written")); err != nil || string(b) != "kept" {
			t.Errorf("a restart of the kubelet lost what a container wrote: %q %v", b, err)
		}
	}
	if s.Change != nil {
		content := s.Change()
		setUp()
		s.compare(t, m, content)
	}
	for range 2 {
		if err := s.Plugin.TearDown(t.Context(), volume.UnmounterArgs{Dir: a.Dir}); err != nil {
			t.Errorf("tear down: %v", err)
		}
	}
	if _, err := os.Lstat(a.Dir); s.Plugin.Dir() != "" && !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", a.Dir, err)
	}
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

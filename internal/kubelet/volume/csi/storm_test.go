package csi_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume/claim"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
	"github.com/gantry-project/gantry/test/expect"
)

// row: CSI-02
// A hundred claims are mounted at once and unmounted at once: the driver gets each call once for
// each volume, nothing of it is left, and it takes seconds.
func TestAStormOfVolumes(t *testing.T) {
	const many = 100
	r := newRig(t)
	objects := volumetest.NewObjects()
	pods := make([]*v1.Pod, many)
	for i := range pods {
		name, uid := fmt.Sprintf("data-%d", i), types.UID(fmt.Sprintf("c-%d", i))
		objects.Claims["ns/"+name] = &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: name},
			Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound}}
		pv := r.pv.DeepCopy()
		pv.Name, pv.Spec.ClaimRef, pv.Spec.CSI.VolumeHandle = name, &v1.ObjectReference{UID: uid}, "vol-"+name
		objects.Volumes[name] = pv
		pods[i] = claiming(types.UID(fmt.Sprintf("pod-%d", i)))
		pods[i].Spec.Volumes[0].PersistentVolumeClaim.ClaimName = name
	}
	r.resolver = &claim.Resolver{Claims: objects}
	together := func(do func(*v1.Pod) error) {
		t.Helper()
		began, failed := time.Now(), make([]error, many)
		var all sync.WaitGroup
		for i, pod := range pods {
			all.Go(func() { failed[i] = do(pod) })
		}
		all.Wait()
		if err := errors.Join(failed...); err != nil {
			t.Fatal(err)
		}
		if took, most := time.Since(began), expect.Patience(20*time.Second); took > most {
			t.Errorf("took %s, want %s at most", took, most)
		}
	}
	once := func(methods ...string) {
		t.Helper()
		got := map[string]int{}
		for _, call := range r.driver.Calls() {
			got[call]++
		}
		for _, m := range methods {
			for i := range many {
				call := fmt.Sprintf("%s vol-data-%d", m, i)
				if got[call] != 1 {
					t.Errorf("got %s %d times, want once", call, got[call])
				}
				delete(got, call)
			}
		}
		for call, n := range got {
			t.Errorf("got %s %d times, want none", call, n)
		}
	}
	for range 2 { // the second time they are set up already
		together(func(p *v1.Pod) error { _, err := r.MountVolumes(t.Context(), p); return err })
	}
	once("NodeStageVolume", "NodePublishVolume")
	if got := len(r.driver.Left()); got != 2*many {
		t.Errorf("got %d paths staged and published, want %d", got, 2*many)
	}
	together(func(p *v1.Pod) error { return r.UnmountVolumes(t.Context(), p.UID) })
	once("NodeUnpublishVolume", "NodeUnstageVolume")
	if left := r.driver.Left(); len(left) > 0 {
		t.Errorf("the driver has %v, want nothing", left)
	}
	if staged, err := r.StagedVolumes(); err != nil || len(staged) > 0 {
		t.Errorf("got the staged volumes %v (%v), want none", staged, err)
	}
	for _, dir := range []string{"pods", "plugins/kubernetes.io/csi/disk.example.com"} {
		entries, err := os.ReadDir(filepath.Join(r.root, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) || len(entries) > 0 {
			t.Errorf("%s has %d entries (%v), want none", dir, len(entries), err)
		}
	}
	counts := map[string]int{}
	for _, o := range r.operations {
		counts[o.Name]++
		if o.Err != nil {
			t.Errorf("%s: got %v, want no error", o.Name, o.Err)
		}
	}
	for _, name := range []string{"verify_controller_attached_volume", "volume_mount", "volume_unmount",
		"unmount_device"} {
		if counts[name] != many {
			t.Errorf("got %d operations %s, want %d", counts[name], name, many)
		}
	}
}

package podactions

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// slowVolumes take a minute to mount the volume v.
type slowVolumes struct{ fakePorts }

func (*slowVolumes) MountVolumes(context.Context, *v1.Pod) (map[string]volume.Mounted, error) {
	time.Sleep(time.Minute)
	return map[string]volume.Mounted{"v": {Path: "/vol"}}, nil
}

// anyCgroups has every cgroup.
type anyCgroups struct{}

func (anyCgroups) Ensure(string, resource.Values) error { return nil }
func (anyCgroups) Remove(string) error                  { return nil }

// The volumes are mounted when they are said to be prepared, however long it takes: containers come
// after that.
//
// row: PWK-12
func TestPreparedVolumesAreMounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
		call.executor.d.Volumes, call.executor.d.Cgroups = &slowVolumes{}, anyCgroups{}
		began := time.Now()
		if err := call.prepareVolumes(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, took := call.state.mounted["v"].Path, time.Since(began); got != "/vol" || took != time.Minute {
			t.Errorf("prepared after %v: got v mounted at %q, want /vol after 1m", took, got)
		}
		time.Sleep(time.Minute) // what goes on beside it ends in the bubble
		synctest.Wait()
	})
}

package manager_test

import (
	"context"
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/deviceplugintest"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/manager"
	"github.com/gantry-project/gantry/test/devicescenario"
	"github.com/gantry-project/gantry/test/replay/recorded"
)

//go:embed testdata/devices.json.gz
var answers []byte

// TestDevicesAreUpstreams replays random histories of devices and Pods: hints, devices and errors
// must be those of kubelet v1.37.2's device manager (hack/numadiff -devices).
// row: DEV-07
func TestDevicesAreUpstreams(t *testing.T) {
	scenarios, given, refused, wrong := 0, 0, 0, 0
	for r := range recorded.All[devicescenario.Recorded](t, answers, "DEVICE_ANSWERS") {
		scenarios++
		for _, a := range r.Answers {
			given += len(a.Devices)
			if a.Error != "" {
				refused++
			}
		}
		synctest.Test(t, func(t *testing.T) {
			if text := replay(t, r); text != "" {
				if wrong++; wrong <= 5 {
					t.Errorf("seed %d: %s", r.Seed, text)
				}
			}
		})
	}
	t.Logf("%d scenarios, %d containers with devices, %d refusals, %d with another answer", scenarios, given, refused,
		wrong)
	if scenarios < 1000 || given < 3000 || refused < 500 || wrong > 0 {
		t.Errorf("got %d scenarios, %d containers with devices, %d refusals, %d with another answer, want 1000, "+
			"3000, 500 and none", scenarios, given, refused, wrong)
	}
}

// replay is the first difference from the recorded answers; empty when there is none.
func replay(t *testing.T, r devicescenario.Recorded) string {
	t.Helper()
	s := devicescenario.Random(r.Seed)
	var mu sync.Mutex
	pods, affinity := map[types.UID]bool{}, map[string]map[int64]bool{}
	var nodes []int
	for n := range s.NUMANodes {
		nodes = append(nodes, n)
	}
	var sockets deviceplugintest.Sockets
	dir, remove := recorded.TempDir(t, "devices")
	defer remove()
	m := manager.New(manager.Deps{Dir: dir, Sockets: &sockets, CapacityChanged: func() {},
		HealthChanged: func(types.UID) {},
		NUMANodes:     nodes, Active: func(uid types.UID) bool {
			mu.Lock()
			defer mu.Unlock()
			return pods[uid]
		},
		Affinity: func(uid types.UID, container string) map[int64]bool { return affinity[string(uid)+"/"+container] }})
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := m.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p := &deviceplugintest.Plugin{Resource: devicescenario.Resource, Socket: "gpu.sock",
		Options: &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true},
		Prefer: func(c *pluginapi.ContainerPreferredAllocationRequest) []string {
			return s.Prefer(c.AvailableDeviceIDs, slices.Sorted(slices.Values(c.MustIncludeDeviceIDs)),
				int(c.AllocationSize))
		}}
	defer func() {
		cancel()
		wait()
		p.Stop()
		synctest.Wait()
	}()
	for i, step := range s.Steps {
		var got devicescenario.Answer
		switch {
		case step.Report != nil:
			p.Report(reported(step.Report)...)
			if i == 0 {
				if err := p.Start(t.Context(), dir, &sockets); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
		case step.Add == nil:
			mu.Lock()
			delete(pods, types.UID(step.Remove))
			mu.Unlock()
		default:
			mu.Lock()
			pods[types.UID(step.Add.UID)] = true
			mu.Unlock()
			got = admit(t, m, *step.Add, affinity)
			if got.Error != "" {
				mu.Lock()
				delete(pods, types.UID(step.Add.UID))
				mu.Unlock()
			}
		}
		if want := r.Answers[i]; !sameAnswer(got, want) {
			return fmt.Sprintf("step %d (%+v): got %+v, want %+v", i, step.Add, got, want)
		}
	}
	return ""
}

// admit asks for hints and reserves, container by container, as the topology manager does.
func admit(t *testing.T, m *manager.Manager, ask devicescenario.Pod,
	affinity map[string]map[int64]bool) devicescenario.Answer {
	t.Helper()
	out := devicescenario.Answer{Hints: map[string][]string{}, Devices: map[string][]string{}}
	p, hints := ask.MakePod(), m.HintProvider()
	for i, c := range ask.Containers {
		if len(c.Affinity) > 0 {
			nodes := map[int64]bool{}
			for _, n := range c.Affinity {
				nodes[int64(n)] = true
			}
			affinity[ask.UID+"/"+c.Name] = nodes
		}
		var made *v1.Container
		if i < ask.Init {
			made = &p.Spec.InitContainers[i]
		} else {
			made = &p.Spec.Containers[i-ask.Init]
		}
		for _, h := range hints.GetTopologyHints(p, made)[devicescenario.Resource] {
			out.Hints[c.Name] = append(out.Hints[c.Name], fmt.Sprint(h.NUMANodeAffinity.Bits(), " ", h.Preferred))
		}
		slices.Sort(out.Hints[c.Name])
		err := m.Reserve(t.Context(), p, made)
		if err == nil {
			err = m.Allocate(t.Context(), p.UID)
		}
		if err != nil {
			out.Error = err.Error()
			return out
		}
		if a, ok := m.Devices(p.UID, c.Name)[devicescenario.Resource]; ok {
			out.Devices[c.Name] = slices.Sorted(slices.Values(a.DeviceIDs.Devices()))
		}
	}
	return out
}

func reported(list []devicescenario.Device) []*pluginapi.Device {
	var out []*pluginapi.Device
	for _, d := range list {
		health := pluginapi.Healthy
		if !d.Healthy {
			health = pluginapi.Unhealthy
		}
		out = append(out, deviceplugintest.Device(d.ID, health, d.Nodes...))
	}
	return out
}

// sameAnswer compares what is there: no entry and an empty one are the same.
func sameAnswer(a, b devicescenario.Answer) bool {
	clean := func(m map[string][]string) map[string][]string {
		out := map[string][]string{}
		for k, v := range m {
			if len(v) > 0 {
				out[k] = slices.Compact(v)
			}
		}
		return out
	}
	return a.Error == b.Error && reflect.DeepEqual(clean(a.Hints), clean(b.Hints)) &&
		reflect.DeepEqual(clean(a.Devices), clean(b.Devices))
}

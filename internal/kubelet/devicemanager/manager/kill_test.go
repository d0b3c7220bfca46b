package manager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/checkpoint"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/deviceplugintest"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/manager"
	"github.com/gantry-project/gantry/test/statefile"
	"github.com/gantry-project/gantry/test/wrappers"
)

const gpu = "vendor.com/gpu"

// history is a node whose kubelet and plugin are killed; what containers were made with is what
// counts.
type history struct {
	t       *testing.T
	r       *rand.Rand
	kills   map[string]int // by point, of all histories
	dir     string
	sockets deviceplugintest.Sockets
	plugin  *deviceplugintest.Plugin
	serves  bool // the plugin does
	m       *manager.Manager
	end     func()

	mu       sync.Mutex // below: the plugin's goroutines look
	pods     map[types.UID]*v1.Pod
	created  map[types.UID]map[string][]string // devices of containers that were made
	inPlugin bool                              // the next call of Allocate finds the kubelet killed
	found    *[]byte                           // the checkpoint at that moment
	number   int
}

func (h *history) file() string { return filepath.Join(h.dir, checkpoint.File) }

func (h *history) start() {
	h.m = manager.New(manager.Deps{Dir: h.dir, Sockets: &h.sockets, CapacityChanged: func() {},
		HealthChanged: func(types.UID) {}, Active: func(uid types.UID) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.pods[uid] != nil
		}})
	ctx, cancel := context.WithCancel(h.t.Context())
	wait, err := h.m.Start(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	h.end = func() {
		cancel()
		wait()
	}
}

// kill ends the kubelet with the checkpoint as it was at that moment, and starts the next one.
func (h *history) kill(point string, raw []byte) {
	h.kills[point]++
	h.end()
	statefile.Restore(h.t, h.file(), raw)
	h.start()
	if h.serves && h.r.IntN(4) > 0 { // else the plugin comes back later
		h.register()
	}
}

// point is a moment at which the kubelet may be killed; true: it was.
func (h *history) point(name string) bool {
	if h.r.IntN(6) > 0 {
		return false
	}
	h.kill(name, statefile.Read(h.t, h.file()))
	return true
}

func (h *history) register() {
	if err := h.plugin.Register(h.t.Context(), h.dir, &h.sockets); err != nil {
		h.t.Fatal(err)
	}
	time.Sleep(time.Second) // its devices are reported
	synctest.Wait()
}

// restartPlugin kills the plugin, or starts it.
func (h *history) restartPlugin() {
	if h.serves {
		h.kills["plugin"]++
		h.plugin.Stop()
		h.serves = false
		synctest.Wait()
		return
	}
	if err := h.plugin.Serve(h.dir, &h.sockets); err != nil {
		h.t.Fatal(err)
	}
	h.serves = true
	h.register()
}

// allocateCalled is told of each Allocate call of the plugin.
func (h *history) allocateCalled(ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, containers := range h.created {
		for name, has := range containers {
			if slices.ContainsFunc(has, func(id string) bool { return slices.Contains(ids, id) }) {
				h.t.Errorf("the plugin is asked for %v, but %s/%s has %v", ids, uid, name, has)
			}
		}
	}
	if h.inPlugin {
		raw := statefile.Read(h.t, h.file())
		h.found, h.inPlugin = &raw, false
	}
}

// prefer is the plugin's lie about which devices it prefers: some that others have, some that there
// are not, too many or none.
func (h *history) prefer(*pluginapi.ContainerPreferredAllocationRequest) []string {
	all := []string{"a", "b", "c", "d", "e", "f", "none", ""}
	h.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:h.r.IntN(len(all)+1)]
}

func (h *history) add() *v1.Pod {
	h.number++
	p := wrappers.MakePod().Name(fmt.Sprint("p", h.number)).UID(fmt.Sprint("p",
		h.number)).Obj()
	for i := range 1 + h.r.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint("c", i),
			Resources: v1.ResourceRequirements{Limits: v1.ResourceList{
				gpu: *resource.NewQuantity(int64(1+h.r.IntN(2)), resource.DecimalSI)}}})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pods[p.UID] = p
	return p
}

// remove has a Pod end: its containers are gone.
func (h *history) remove(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pods, uid)
	delete(h.created, uid)
}

// fail is the end of a Pod that gets no devices; one whose containers run must not come here.
func (h *history) fail(p *v1.Pod, err error) {
	if len(h.created[p.UID]) > 0 {
		h.t.Errorf("%s has lost what its containers were made with: %v", p.UID, err)
	}
	h.remove(p.UID)
}

// run does what the kubelet does for a Pod, from wherever an earlier one stopped.
func (h *history) run(p *v1.Pod) {
	ctx := h.t.Context()
	for i := range p.Spec.Containers {
		if err := h.m.Reserve(ctx, p, &p.Spec.Containers[i]); err != nil {
			h.fail(p, err)
			return
		}
		if h.point("reserved") {
			return
		}
	}
	if h.r.IntN(2) == 0 { // the status reached the API, or it did not
		now := metav1.Now()
		p.Status.StartTime = &now
	}
	h.mu.Lock()
	h.inPlugin, h.found = h.r.IntN(6) == 0, nil
	h.mu.Unlock()
	err := h.m.Allocate(ctx, p.UID)
	h.mu.Lock()
	found := h.found
	h.inPlugin, h.found = false, nil
	h.mu.Unlock()
	if found != nil {
		h.kill("in the plugin's call", *found)
		return
	}
	if err != nil {
		h.fail(p, err)
		return
	}
	if h.point("allocated") {
		return
	}
	for i := range p.Spec.Containers {
		if !h.create(p, &p.Spec.Containers[i]) || h.point("created") {
			return
		}
	}
}

// create makes a container, unless an earlier kubelet did.
func (h *history) create(p *v1.Pod, c *v1.Container) bool {
	if h.created[p.UID][c.Name] != nil {
		return true
	}
	options, err := h.m.RunOptions(h.t.Context(), p, c)
	if err != nil {
		h.fail(p, err)
		return false
	}
	ids := h.devicesOf(p.UID, c.Name)
	if want := c.Resources.Limits[gpu]; int64(len(ids)) != want.Value() || len(options.Devices) != len(ids) {
		h.t.Errorf("%s/%s is made with %v and %d device nodes, want %s", p.UID, c.Name, ids, len(options.Devices),
			want.String())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.created[p.UID] == nil {
		h.created[p.UID] = map[string][]string{}
	}
	h.created[p.UID][c.Name] = ids
	return true
}

func (h *history) devicesOf(uid types.UID, container string) []string {
	a, ok := h.m.Devices(uid, container)[gpu]
	if !ok {
		return []string{}
	}
	return slices.Sorted(slices.Values(a.DeviceIDs.Devices()))
}

// check holds what containers were made with against each other and against what the manager says.
func (h *history) check(step int) {
	owner := map[string]string{}
	for uid, containers := range h.created {
		for name, ids := range containers {
			if got := h.devicesOf(uid, name); !slices.Equal(got, ids) {
				h.t.Errorf("step %d: %s/%s was made with %v, the manager says %v", step, uid, name, ids, got)
			}
			for _, id := range ids {
				if other := owner[id]; other != "" {
					h.t.Errorf("step %d: %s has been given to %s and to %s/%s", step, id, other, uid, name)
				}
				owner[id] = fmt.Sprint(uid, "/", name)
			}
		}
	}
}

// step does something.
func (h *history) step() {
	uids := make([]types.UID, 0, len(h.pods))
	for uid := range h.pods {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	switch n := h.r.IntN(10); {
	case n < 4:
		h.run(h.add())
	case n < 7 && len(uids) > 0: // one that an earlier kubelet did not finish, or one that is well
		h.run(h.pods[uids[h.r.IntN(len(uids))]])
	case n < 8 && len(uids) > 0:
		h.remove(uids[h.r.IntN(len(uids))])
	case n == 8:
		h.restartPlugin()
	default:
		if h.serves && h.r.IntN(2) == 0 {
			devices := deviceplugintest.Healthy("a", "b", "c", "d", "e", "f")
			devices[h.r.IntN(6)].Health = pluginapi.Unhealthy
			h.plugin.Report(devices...)
			time.Sleep(time.Second)
			synctest.Wait()
			return
		}
		h.point("at rest")
	}
}

// Kubelet and plugin are killed at every step, also while the plugin is asked, and the plugin lies:
// no device is given twice, and no container loses what it was made with.
// row: DEV-03
func TestKilledAtEveryStep(t *testing.T) {
	kills := map[string]int{}
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			h := &history{t: t, r: rand.New(rand.NewPCG(seed, 20)), kills: kills, dir: t.TempDir(),
				pods: map[types.UID]*v1.Pod{}, created: map[types.UID]map[string][]string{},
				plugin: &deviceplugintest.Plugin{Resource: gpu, Socket: "gpu.sock",
					Options: &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}}}
			h.plugin.Prefer = h.prefer
			h.plugin.Answer = func(ids []string) (*pluginapi.AllocateResponse, error) {
				h.allocateCalled(ids)
				switch h.r.IntN(12) {
				case 0:
					kills["the plugin refuses"]++
					return nil, errors.New("the device is broken")
				case 1:
					kills["the plugin answers nothing"]++
					return &pluginapi.AllocateResponse{}, nil
				}
				c := &pluginapi.ContainerAllocateResponse{}
				for _, id := range ids {
					c.Devices = append(c.Devices, &pluginapi.DeviceSpec{ContainerPath: "/dev/" + id, HostPath: "/dev/" +
						id,
						Permissions: "rw"})
				}
				return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{c}}, nil
			}
			h.plugin.Report(deviceplugintest.Healthy("a", "b", "c", "d", "e", "f")...)
			h.start()
			defer func() {
				h.end()
				if h.serves {
					h.plugin.Stop()
				}
				synctest.Wait()
			}()
			h.restartPlugin()
			for i := range 40 {
				h.step()
				h.check(i)
				if t.Failed() {
					t.Fatalf("seed %d fails, want it to hold", seed)
				}
			}
		})
	}
	for _, point := range []string{"reserved", "in the plugin's call", "allocated", "created", "at rest", "plugin",
		"the plugin refuses", "the plugin answers nothing"} {
		if kills[point] < 20 {
			t.Errorf("got %d kills %s, want 20: %v", kills[point], point, kills)
		}
	}
}

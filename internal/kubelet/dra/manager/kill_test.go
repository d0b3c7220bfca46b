package manager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/dra/manager"
	"github.com/gantry-project/gantry/internal/kubelet/dra/state"
	"github.com/gantry-project/gantry/test/statefile"
)

// claimHistory is a node whose kubelet and drivers are killed. What drivers hold and what
// containers were made with is what counts.
type claimHistory struct {
	*node
	r       *rand.Rand
	kills   map[string]int
	drivers []*driver
	serves  map[*driver]bool
	pods    map[types.UID]*v1.Pod
	made    map[types.UID][]string // CDI devices of Pods whose container was made
	ending  map[types.UID]bool     // Pods whose containers have ended
	number  int
	// the next call of a driver finds the kubelet killed, with this in its file
	inCall bool
	found  *[]byte
}

func (h *claimHistory) file() string { return filepath.Join(h.dir, state.File) }

// kill ends the kubelet with its file as it was, and starts the next one; drivers register again,
// now or later.
func (h *claimHistory) kill(point string, raw []byte) {
	h.kills[point]++
	h.stop()
	statefile.Restore(h.t, h.file(), raw)
	h.start()
	for _, d := range h.drivers {
		if h.serves[d] {
			h.register(d)
		}
	}
}

func (h *claimHistory) point(name string) bool {
	if h.r.IntN(6) > 0 {
		return false
	}
	h.kill(name, statefile.Read(h.t, h.file()))
	return true
}

// call runs something in which drivers are called; true: the kubelet was killed within.
func (h *claimHistory) call(point string, f func() error) (killed bool, err error) {
	h.mu.Lock()
	h.inCall, h.found = h.r.IntN(5) == 0, nil
	h.mu.Unlock()
	err = f()
	h.mu.Lock()
	found := h.found
	h.inCall, h.found = false, nil
	h.mu.Unlock()
	if found != nil {
		h.kill(point, *found)
	}
	return found != nil, err
}

func (h *claimHistory) prepareCalled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inCall {
		raw := statefile.Read(h.t, h.file())
		h.found, h.inCall = &raw, false
	}
}

func (h *claimHistory) restartDriver(d *driver) {
	if h.serves[d] {
		h.kills["driver"]++
		d.server.Stop()
		h.serves[d] = false
		synctest.Wait()
		return
	}
	h.serve(d)
	h.serves[d] = true
	h.node.drivers.DeRegisterPlugin(d.name, "/"+d.name+".sock") // its old socket is gone
	h.register(d)
}

// add makes a Pod with a claim of its own and, mostly, one that it shares.
func (h *claimHistory) add() *v1.Pod {
	h.number++
	own := fmt.Sprint("own", h.number)
	names := []string{own}
	if h.r.IntN(3) > 0 {
		names = append(names, fmt.Sprint("shared", h.r.IntN(2)))
	}
	p := user(fmt.Sprint("p", h.number), names...)
	h.claim(own, []string{h.drivers[h.r.IntN(2)].name}, p)
	for _, name := range names[1:] {
		h.mu.Lock()
		c := h.claims[name]
		h.mu.Unlock()
		users := []*v1.Pod{p}
		if c != nil {
			for _, r := range c.Status.ReservedFor {
				if q := h.pods[r.UID]; q != nil {
					users = append(users, q)
				}
			}
		}
		h.claim(name, []string{h.drivers[0].name, h.drivers[1].name}, users...)
	}
	h.pods[p.UID] = p
	return p
}

// run goes on with a Pod: its claims are prepared, its container is made.
func (h *claimHistory) run(p *v1.Pod) {
	if h.made[p.UID] != nil || h.ending[p.UID] {
		return
	}
	killed, err := h.call("in Prepare", func() error { return h.m.Prepare(context.Background(), p) })
	if killed || err != nil || h.point("prepared") {
		return // it is tried again
	}
	devices, err := h.m.CDIDevices(p, &p.Spec.Containers[0])
	if err != nil || len(devices) == 0 {
		h.t.Errorf("%s: got %v, %v, want the devices of what is prepared", p.Name, devices, err)
		return
	}
	h.made[p.UID] = ids(devices)
}

func ids[T any](list []T) (out []string) {
	for _, x := range list {
		out = append(out, fmt.Sprint(x))
	}
	return out
}

// end has a Pod's containers end and undoes its claims; a killed kubelet does it later.
func (h *claimHistory) end(p *v1.Pod) {
	delete(h.made, p.UID)
	h.ending[p.UID] = true
	killed, err := h.call("in Unprepare", func() error { return h.m.Unprepare(context.Background(), p.UID) })
	if killed || err != nil {
		return
	}
	delete(h.pods, p.UID)
	h.mu.Lock()
	h.ended[p.UID] = true
	h.mu.Unlock()
}

// check holds what containers were made with against drivers and manager.
func (h *claimHistory) check(step int) {
	for uid, devices := range h.made {
		p := h.pods[uid]
		got, err := h.m.CDIDevices(p, &p.Spec.Containers[0])
		if err != nil || !slices.Equal(ids(got), devices) {
			h.t.Errorf("step %d: %s was made with %v, the manager says %v, %v", step, p.Name, devices, got, err)
		}
		h.mu.Lock()
		for _, name := range claimNames(p) {
			for _, r := range h.claims[name].Status.Allocation.Devices.Results {
				i := slices.IndexFunc(h.drivers, func(d *driver) bool { return d.name == r.Driver })
				if !h.drivers[i].held[name] {
					h.t.Errorf("step %d: %s uses %s, and %s has undone it", step, p.Name, name, r.Driver)
				}
			}
		}
		h.mu.Unlock()
	}
}

func claimNames(p *v1.Pod) (out []string) {
	for _, c := range p.Spec.ResourceClaims {
		out = append(out, *c.ResourceClaimName)
	}
	return out
}

func (h *claimHistory) step() {
	var list []*v1.Pod
	for _, p := range h.pods {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	switch n := h.r.IntN(10); {
	case n < 3:
		h.run(h.add())
	case n < 6 && len(list) > 0:
		h.run(list[h.r.IntN(len(list))])
	case n < 8 && len(list) > 0:
		h.end(list[h.r.IntN(len(list))])
	case n == 8:
		h.restartDriver(h.drivers[h.r.IntN(2)])
	default:
		d := h.drivers[h.r.IntN(2)]
		if d.fail = nil; h.r.IntN(2) == 0 {
			d.fail = errors.New("hot")
		}
		h.point("at rest")
	}
}

// finish ends all Pods with drivers that work: nothing is prepared any more.
func (h *claimHistory) finish() {
	for _, d := range h.drivers {
		d.fail = nil
		if !h.serves[d] {
			h.restartDriver(d)
		}
	}
	for uid := range h.pods {
		h.mu.Lock()
		h.ended[uid] = true
		h.mu.Unlock()
		_ = h.m.Unprepare(context.Background(), uid) // what does not work now is tried again
	}
	time.Sleep(2*manager.ReconcilePeriod + time.Minute)
	synctest.Wait()
	for _, d := range h.drivers {
		if len(d.held) > 0 {
			h.t.Errorf("all Pods have ended, and %s still holds %v", d.name, d.held)
		}
	}
}

// Kubelet and drivers are killed at every step, also while drivers are called, and drivers fail: no
// container loses what it was made with, no claim in use is undone, and none is forgotten.
func TestKilledAtEveryStep(t *testing.T) {
	kills := map[string]int{}
	for seed := range uint64(60) {
		run(t, func(n *node) {
			h := &claimHistory{node: n, r: rand.New(rand.NewPCG(seed, 37)), kills: kills, serves: map[*driver]bool{},
				pods: map[types.UID]*v1.Pod{}, made: map[types.UID][]string{},
				ending: map[types.UID]bool{}}
			for _, name := range []string{"a.example.com", "b.example.com"} {
				d := n.driver(name)
				d.called, h.serves[d] = h.prepareCalled, true
				h.drivers = append(h.drivers, d)
			}
			for i := range 40 {
				h.step()
				if h.check(i); n.t.Failed() {
					n.t.Fatalf("seed %d fails, want it to hold", seed)
				}
			}
			if h.finish(); n.t.Failed() {
				n.t.Fatalf("seed %d fails, want it to hold", seed)
			}
		})
	}
	for _, point := range []string{"in Prepare", "prepared", "in Unprepare", "at rest", "driver"} {
		if kills[point] < 20 {
			t.Errorf("got %d kills %s, want 20: %v", kills[point], point, kills)
		}
	}
}

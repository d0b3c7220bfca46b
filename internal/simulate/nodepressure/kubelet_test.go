package nodepressure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/eviction/manager"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

const mi = 1 << 20

// kubeletNode is a node under the kubelet's own manager, in virtual time. It counts for itself what
// is left of memory and disk.
type kubeletNode struct {
	n     Node
	began time.Time

	mu      sync.Mutex
	ended   map[types.UID]bool
	images  bool // were reclaimed
	victims []Victim
}

func (k *kubeletNode) Put(_ journal.Ref, f journal.Fact) {
	if e, ok := f.(journal.Evicted); ok {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.victims[len(k.victims)-1].Signal = e.Signal
	}
}

func (k *kubeletNode) podUse(p Pod) eviction.PodUse {
	seconds := int64(time.Since(k.began) / time.Second)
	memory := *p.Use.Memory + p.Growth.Memory*seconds
	layer := p.Use.Containers[0].Layer.Bytes + p.Growth.Layer*seconds
	return eviction.PodUse{Memory: &memory, Containers: []eviction.ContainerUse{{Name: "app", Memory: &memory,
		Layer: &eviction.Space{Bytes: layer}, Logs: &eviction.Space{}}}}
}

func (k *kubeletNode) observe(context.Context) (eviction.Figures, eviction.Disks, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	memory, disk := k.n.Signals[eviction.MemoryAvailable], k.n.Signals[eviction.NodeFsAvailable]
	for _, p := range k.n.Pods {
		memory.Available, disk.Available = memory.Available+*p.Use.Memory,
			disk.Available+p.Use.Containers[0].Layer.Bytes
		if u := k.podUse(p); !k.ended[p.Pod.UID] || k.n.Wedged {
			memory.Available, disk.Available = memory.Available-*u.Memory, disk.Available-u.Containers[0].Layer.Bytes
		}
	}
	if k.images {
		disk.Available += k.n.Reclaim[eviction.UnusedImages]
	}
	of := func(l Level) *eviction.Observation {
		return &eviction.Observation{At: time.Now(), Capacity: l.Capacity,
			Available: min(max(l.Available, 0), l.Capacity)}
	}
	return eviction.Figures{Memory: of(memory), NodeFs: eviction.Filesystem{Bytes: of(disk)}}, eviction.Disks{}, nil
}

func (k *kubeletNode) pods() []*v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []*v1.Pod
	for _, p := range k.n.Pods {
		if !k.ended[p.Pod.UID] {
			out = append(out, p.Pod)
		}
	}
	return out
}

func (k *kubeletNode) kill(uid types.UID, end podplan.Termination) (<-chan struct{}, bool) {
	i := slices.IndexFunc(k.n.Pods, func(p Pod) bool { return p.Pod.UID == uid })
	p := k.n.Pods[i]
	k.mu.Lock()
	k.victims = append(k.victims, Victim{At: time.Since(k.began), Pod: p.Pod.Namespace + "/" + p.Pod.Name})
	k.mu.Unlock()
	done := make(chan struct{})
	go func() {
		time.Sleep(min(p.EndsAfter, end.Grace))
		k.mu.Lock()
		k.ended[uid] = true
		k.mu.Unlock()
		close(done)
	}()
	return done, true
}

// victimsOf runs the kubelet's manager.
func victimsOf(t *testing.T, n Node, watched time.Duration) []Victim {
	var out []Victim
	synctest.Test(t, func(t *testing.T) {
		k := &kubeletNode{n: n, began: time.Now(), ended: map[types.UID]bool{}}
		reclaimed := func(context.Context) error {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.images = true
			return nil
		}
		m := manager.New(manager.Deps{Config: n.Config, Node: &v1.ObjectReference{Kind: "Node", Name: "n"},
			Observe: k.observe, Pods: k.pods, KillPod: k.kill, Events: record.NewFakeRecorder(1000), Journal: k,
			Measure: func(context.Context, v1.ResourceName, []*v1.Pod) (map[types.UID]eviction.PodUse, error) {
				out := map[types.UID]eviction.PodUse{}
				for _, p := range n.Pods {
					out[p.Pod.UID] = k.podUse(p)
				}
				return out, nil
			},
			CleanedUp: func(uid types.UID) bool {
				k.mu.Lock()
				defer k.mu.Unlock()
				return k.ended[uid]
			},
			Reclaim: map[eviction.Reclaim]func(context.Context) error{eviction.UnusedImages: reclaimed,
				eviction.DeadContainers: func(context.Context) error { return nil }}})
		ctx, cancel := context.WithCancel(t.Context())
		go m.Run(ctx)
		time.Sleep(watched + time.Second)
		cancel()
		time.Sleep(time.Minute) // the last victim ends
		synctest.Wait()
		for _, v := range k.victims {
			if v.At <= watched {
				out = append(out, v)
			}
		}
	})
	return out
}

// randomNode is a node whose Pods grow until some have to go.
func randomNode(t *testing.T, seed uint64) Node {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 15))
	settings := eviction.Settings{
		Hard:            map[string]string{"memory.available": "200Mi", "nodefs.available": "10%"},
		Soft:            map[string]string{"memory.available": "500Mi"},
		SoftGracePeriod: map[string]string{"memory.available": "35s"},
		MinimumReclaim:  map[string]string{"memory.available": fmt.Sprintf("%dMi", r.IntN(400))}}
	if r.IntN(3) == 0 {
		settings.Soft = nil
		settings.SoftGracePeriod = nil
	}
	list, errs := eviction.Thresholds(settings)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	n := Node{Name: "n", Wedged: r.IntN(6) == 0,
		Reclaim: map[eviction.Reclaim]int64{eviction.UnusedImages: int64(r.IntN(300)) * mi},
		Config: eviction.Config{Thresholds: list, PressureTransition: 5 * time.Minute, MaxPodGrace: 20 * time.Second,
			Ranking:            eviction.Ranking(eviction.Rankings()[r.IntN(3)]),
			FruitlessEvictions: 3, FruitlessHoldPeriod: 5 * time.Minute},
		Signals: map[eviction.Signal]Level{
			eviction.MemoryAvailable: {Available: int64(300+r.IntN(700)) * mi, Capacity: 8000 * mi},
			eviction.NodeFsAvailable: {Available: int64(1000+r.IntN(500)) * mi, Capacity: 10000 * mi}}}
	for i := range 3 + r.IntN(10) {
		p := &v1.Pod{}
		p.Name, p.Namespace, p.UID = fmt.Sprintf("p%d", i), "default", types.UID(fmt.Sprint(i))
		priority := int32(r.IntN(3))
		p.Spec.Priority = &priority
		p.Spec.Containers = []v1.Container{{Name: "app"}}
		if r.IntN(3) > 0 {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{
				v1.ResourceMemory: *resource.NewQuantity(int64(r.IntN(600))*mi, resource.BinarySI)}
		}
		memory := int64(50+r.IntN(400)) * mi
		x := Pod{Pod: p, EndsAfter: time.Duration(500+r.IntN(30000)) * time.Millisecond,
			Use: eviction.PodUse{Memory: &memory, Containers: []eviction.ContainerUse{{Name: "app", Memory: &memory,
				Layer: &eviction.Space{Bytes: int64(r.IntN(100)) * mi}, Logs: &eviction.Space{}}}}}
		if r.IntN(2) == 0 {
			x.Growth = Growth{Memory: int64(r.IntN(5)) * mi, Layer: int64(r.IntN(2)) * mi}
		}
		n.Pods = append(n.Pods, x)
	}
	return n
}

// The simulator and the kubelet's own manager, over nodes that each counts for itself, evict the
// same Pods at the same times for the same signals.
// row: TOO-01
func TestSimulatorEvictsAsTheKubelet(t *testing.T) {
	victims, signals := 0, map[string]int{}
	for seed := range uint64(100) {
		n := randomNode(t, seed)
		want := victimsOf(t, n, 5*time.Minute)
		got := Run(n, Times{Period: manager.Period, Duration: 5 * time.Minute}).Victims()
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: the simulator evicts %v, the kubelet %v", seed, got, want)
		}
		victims += len(want)
		for _, v := range want {
			signals[v.Signal]++
		}
	}
	if victims < 100 || len(signals) != 2 {
		t.Errorf("got %d victims for %v, want 100 for two signals", victims, signals)
	}
}

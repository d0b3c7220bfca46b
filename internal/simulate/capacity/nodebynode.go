package capacity

import (
	"context"
	"runtime"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// onNodeAlone returns the plugins that have a say about the Pod, when what each of them says of a
// node depends on that node alone, by the plugins' own promises: then each node can be filled by
// itself. A plugin that need not be called now need not be called when more such Pods are placed:
// it looks at what this Pod asks for, or at Pods of others that ask something of it.
func onNodeAlone(ctx context.Context, set *schedule.PluginSet, p *v1.Pod,
	w *snapshot.Snapshot) (needed *schedule.PluginSet, alone bool) {
	skipped := map[string]bool{} // plugins that say in PreFilter that their Filter need not be called
	for _, plugin := range set.PreFilter {
		_, status := plugin.PreFilter(ctx, schedule.NewCycleState(), p, w.All())
		skipped[plugin.Name()] = status.IsSkip()
	}
	skips := func(plugin framework.Plugin) bool {
		s, ok := plugin.(schedule.Skipper)
		return skipped[plugin.Name()] || ok && s.Skips(p, w)
	}
	needed, alone = &schedule.PluginSet{Profile: set.Profile}, true
	local := func(plugin framework.Plugin) bool {
		if l, ok := plugin.(schedule.NodeLocal); ok {
			if _, shared := l.AppendShape(nil, p); shared {
				return true
			}
		}
		return false
	}
	for _, plugin := range set.PreFilter {
		if !skips(plugin) {
			needed.PreFilter, alone = append(needed.PreFilter, plugin), alone && local(plugin)
		}
	}
	for _, plugin := range set.Filter {
		if !skips(plugin) {
			needed.Filter, alone = append(needed.Filter, plugin), alone && local(plugin)
		}
	}
	return needed, alone
}

// counts is how many Pods each node takes, and how many nodes lack what.
type counts struct {
	perNode map[string]int
	causes  map[string]int
}

// fillNodes fills each node by itself, many at once.
func fillNodes(ctx context.Context, in In, cluster placed, set *schedule.PluginSet) (counts, error) {
	out := counts{perNode: make(map[string]int, len(cluster.nodes)), causes: map[string]int{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	next := 0
	take := func() *v1.Node {
		mu.Lock()
		defer mu.Unlock()
		if next == len(cluster.nodes) || failed != nil {
			return nil
		}
		next++
		return cluster.nodes[next-1]
	}
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			f := filler{pod: in.Pod, set: set}
			for n := take(); n != nil; n = take() {
				fits, last, err := f.fillNode(ctx, cluster.only(n))
				mu.Lock()
				if err != nil {
					failed = err
				} else {
					out.perNode[n.Name] = fits
					addCauses(out.causes, last)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out, failed
}

// only is the cache of one node with its Pods.
func (c placed) only(n *v1.Node) *snapshot.Cache {
	cache := snapshot.NewCache()
	cache.SetNode(n)
	for _, p := range c.pods[n.Name] {
		cache.SetPod(p)
	}
	return cache
}

// filler fills node after node with a Pod. One goroutine uses it.
type filler struct {
	pod     *v1.Pod
	set     *schedule.PluginSet
	buffers schedule.Buffers
}

// fillNode places Pods on one node until it takes none; last is the result of that one, until the
// next call.
func (f *filler) fillNode(ctx context.Context, cache *snapshot.Cache) (fits int, last *schedule.Result, err error) {
	for ctx.Err() == nil {
		p := *f.pod // nothing writes below its fields
		p.Name = "capacity-" + strconv.Itoa(fits)
		p.UID = types.UID(p.Name)
		r := schedule.SchedulePod(ctx, schedule.Input{Pod: &p, Snapshot: cache.UpdateSnapshot(), Plugins: f.set,
			Buffers: &f.buffers})
		if !r.Scheduled() {
			return fits, r, nil
		}
		fits++
		p.Spec.NodeName = r.SuggestedHost
		if err := cache.AssumePod(&p, r.SuggestedHost); err != nil {
			return 0, nil, err
		}
	}
	return 0, nil, ctx.Err()
}

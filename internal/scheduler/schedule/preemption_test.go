package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/preemption"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// randomPreemptions is a random cluster where Pods preempt others.
type randomPreemptions struct {
	*randomCluster
	plugins     *schedule.PluginSet
	budgets     map[string]*policy.PodDisruptionBudget
	dryRunCache preemption.DryRunCache
	chosen      int
}

// budget changes what may be disrupted.
func (f *randomPreemptions) budget() {
	app := f.oneOf("budget", "web", "db")
	if f.chance("no budget?", 20) {
		delete(f.budgets, app)
		return
	}
	f.budgets[app] = &policy.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app},
		Spec: policy.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status: policy.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(rapid.IntRange(0, 2).Draw(f.T, "allowed"))}}
}

// listed gives the budgets in no order, as a lister does.
func (f *randomPreemptions) listed() []*policy.PodDisruptionBudget {
	var out []*policy.PodDisruptionBudget
	for _, b := range f.budgets {
		out = append(out, b)
	}
	return out
}

// addPod puts a Pod onto a node; over what it has when room is said to be no matter.
func (f *randomPreemptions) addPod(p *v1.Pod, node string) {
	if err := f.cache.AssumePod(p, node); err != nil {
		f.Fatal(err)
	}
	f.pods = append(f.pods, p)
}

// removePods takes Pods away.
func (f *randomPreemptions) removePods(victims []*v1.Pod) {
	for _, v := range victims {
		f.cache.RemovePod(v.UID)
		f.pods = slices.DeleteFunc(f.pods, func(p *v1.Pod) bool { return p.UID == v.UID })
	}
}

// schedulePod lets one Pod in, and others leave for it if need be.
func (f *randomPreemptions) schedulePod(p *v1.Pod, from int, enough [2]int32) {
	s := f.cache.UpdateSnapshot()
	in := f.input(p, f.plugins, s, from)
	r := schedule.SchedulePod(f.Context(), in)
	if r.Scheduled() {
		f.addPod(p, r.SuggestedHost)
		return
	}
	if r.Failed() || r.Nodes() == 0 {
		return
	}
	in.State = r.State
	plain := preemption.Input{Input: in, NodeToStatus: r.NodeToStatus(), Budgets: f.listed(), Percent: enough[0],
		Absolute: enough[1]}
	quick := plain
	quick.SearchCache, quick.Budgets = &f.dryRunCache, f.listed()
	plain.NominatedNodes, plain.Nominations = nil, nil
	want, err := preemption.Preempt(f.Context(), plain)
	if err != nil {
		f.Fatal(err)
	}
	got, err := preemption.Preempt(f.Context(), quick)
	if err != nil {
		f.Fatal(err)
	}
	for _, d := range preemption.Differences(want, got) {
		f.Errorf("Pod %+v: %s", p.Spec, d)
	}
	if got.Node == "" {
		return
	}
	f.chosen++
	for _, v := range got.Victims {
		if *v.Spec.Priority >= *p.Spec.Priority {
			f.Errorf("victim %s has priority %d, the Pod %d", v.Name, *v.Spec.Priority, *p.Spec.Priority)
		}
	}
	if f.chance("carried out?", 80) {
		f.removePods(got.Victims)
		f.addPod(p, got.Node)
	}
}

// newPreemptor is a Pod of that cluster, more often than there one that asks for room alone, with a
// time at which it began to run, or none.
func (f *randomPreemptions) newPreemptor() *v1.Pod {
	p := f.pod()
	if f.chance("room alone?", 70) {
		p.Spec.Affinity, p.Spec.TopologySpreadConstraints, p.Spec.NodeSelector = nil, nil, nil
		delete(p.Spec.Containers[0].Resources.Requests, "example.com/gpu")
	}
	if n := rapid.IntRange(0, 3).Draw(f.T, "began"); n > 0 {
		p.Status.StartTime = &metav1.Time{Time: time.Unix(int64(n), 0)}
	}
	return p
}

// TestVictimsEqualThoseWithoutCache: through any history of nodes, Pods, nominations and budgets,
// a search that remembers earlier ones chooses the same node and the same victims as one that tries
// every node anew. With GANTRY_LONG on 10,000 random clusters.
//
// row: BND-11
func TestVictimsEqualThoseWithoutCache(t *testing.T) {
	rounds := 5 // of 100 clusters
	if os.Getenv("GANTRY_LONG") != "" {
		rounds = 100
	}
	var held int64
	chosen := 0
	for range rounds {
		rapid.Check(t, func(r *rapid.T) {
			f := &randomPreemptions{randomCluster: newRandomCluster(r), plugins: defaultPlugins(t),
				budgets: map[string]*policy.PodDisruptionBudget{}}
			for i := range rapid.IntRange(1, 5).Draw(r, "nodes") {
				f.cache.SetNode(f.node(fmt.Sprintf("n%d", i)))
			}
			enough := [2]int32{int32(rapid.IntRange(0, 100).Draw(r, "percent")),
				int32(rapid.IntRange(1, 8).Draw(r, "absolute"))}
			var last *v1.Pod
			for range rapid.IntRange(20, 60).Draw(r, "steps") {
				switch {
				case f.chance("change?", 15):
					f.change()
				case f.chance("budget?", 15):
					f.budget()
				}
				p := f.newPreemptor()
				if last != nil && f.chance("again?", 75) {
					p = last.DeepCopy()
					p.Name = fmt.Sprintf("again%d", f.podsMade)
					p.UID = types.UID(p.Name)
				}
				if f.schedulePod(p, rapid.IntRange(0, 9).Draw(r, "from"), enough); r.Failed() {
					return
				}
				if *p.Spec.Priority > 0 {
					last = p
				}
			}
			held += f.dryRunCache.Counts().Hits
			chosen += f.chosen
		})
	}
	if held == 0 || chosen == 0 {
		t.Errorf("%d tries held, %d choices were made: the memory is not tested", held, chosen)
	}
	t.Logf("%d tries held, %d choices", held, chosen)
}

// BenchmarkVictims searches among full nodes for Pods of one shape, where one node changes between
// two searches, and for Pods of ever new shapes; in these, cycle included, and the search alone.
func BenchmarkVictims(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for _, shapes := range []int{1, 1 << 20} {
			b.Run(fmt.Sprintf("nodes=%d/shapes=%d", nodes, shapes),
				func(b *testing.B) { benchmarkPreemption(b, nodes, shapes) })
		}
	}
}

func benchmarkPreemption(b *testing.B, nodes, shapes int) {
	w := snapshot.NewCache()
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range nodes {
		w.SetNode(node(fmt.Sprintf("n%d", i), "4", "32Gi"))
		for k := range 4 {
			p := pod(fmt.Sprintf("low-%d-%d", i, k), "900m", "100Mi")
			p.Spec.Priority = new(int32(0))
			if err := w.AssumePod(p, fmt.Sprintf("n%d", i)); err != nil {
				b.Fatal(err)
			}
		}
	}
	pluginSet, tried, memory, buffers := defaultPlugins(b), preemption.DryRunCache{}, schedule.EquivalenceCache{},
		schedule.Buffers{}
	var searching time.Duration
	for i := 0; b.Loop(); i++ {
		p := pod("high", fmt.Sprintf("%dm", 3000-i%shapes%900), fmt.Sprintf("%dMi", 100+i%shapes/900))
		p.Spec.Priority = new(int32(10))
		in := schedule.Input{Pod: p, Snapshot: w.UpdateSnapshot(), Plugins: pluginSet, State: schedule.NewCycleState(),
			PickTie: rng.IntN, Cache: &memory, Buffers: &buffers}
		r := schedule.SchedulePod(b.Context(), in)
		began := time.Now()
		c, err := preemption.Preempt(b.Context(), preemption.Input{Input: in, NodeToStatus: r.NodeToStatus(),
			Percent: 10, Absolute: 100, SearchCache: &tried})
		searching += time.Since(began)
		if err != nil || c.Node == "" {
			b.Fatalf("got %v, %v, want no error and Node other than empty", c, err)
		}
		w.RemovePod(c.Victims[0].UID)
		if err := w.AssumePod(c.Victims[0], c.Node); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(searching.Nanoseconds())/float64(b.N), "search-ns/op")
}

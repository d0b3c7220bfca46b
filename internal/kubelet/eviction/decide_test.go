package eviction_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/test/wrappers"
)

const gi = 1 << 30

// node is a node that is looked at again and again.
type node struct {
	in   eviction.In
	last eviction.Decision
}

func newNode(t *testing.T, s eviction.Settings) *node {
	t.Helper()
	return &node{in: eviction.In{Now: time.Unix(1000, 0),
		Config: eviction.Config{Thresholds: thresholds(t, s), PressureTransition: 5 * time.Minute}}}
}

// look lets time pass and looks; free is what is left of the signal, of a hundred gibi, inodes or
// ids.
func (n *node) look(after time.Duration, free map[eviction.Signal]int64) eviction.Decision {
	n.in.Now = n.in.Now.Add(after)
	n.in.Observations = eviction.Observations{}
	for s, available := range free {
		n.in.Observations[s] = eviction.Observation{At: n.in.Now, Available: available, Capacity: 100 * gi}
	}
	n.last = eviction.Decide(n.in)
	n.in.State = n.last.State
	return n.last
}

func (n *node) add(p *v1.Pod, use eviction.PodUse) {
	if n.in.Use == nil {
		n.in.Use = map[types.UID]eviction.PodUse{}
	}
	n.in.Pods, n.in.Use[p.UID] = append(n.in.Pods, p), use
}

func named(name string) *v1.Pod {
	return wrappers.MakePod().Name(name).UID(name).Container("app", "").Obj()
}

func working(bytes int64) eviction.PodUse { return eviction.PodUse{Memory: &bytes} }

func memory(free int64) map[eviction.Signal]int64 {
	return map[eviction.Signal]int64{eviction.MemoryAvailable: free}
}

// row: EVC-09
func TestHardThresholdActsAtOnce(t *testing.T) {
	n := newNode(t, eviction.Settings{Hard: map[string]string{"memory.available": "10Gi"}})
	long := named("web")
	long.Spec.TerminationGracePeriodSeconds = ptrTo[int64](300)
	n.add(long, working(gi))
	if d := n.look(0, memory(10*gi)); d.Target != nil {
		t.Errorf("10Gi left: got a target, want none: the threshold is met below 10Gi")
	}
	d := n.look(time.Second, memory(10*gi-1))
	if d.Victim == nil || d.Victim.Pod != long || d.Victim.Grace != time.Second {
		t.Fatalf("below: got %+v, want web at the first look, with 1 s of grace", d.Victim)
	}
	const want = "The node was low on resource: memory. Threshold quantity: 10Gi, available: 10737418239. Container " +
		"app was using 1Gi, request is 0, has larger consumption of memory. "
	n.in.Use[long.UID] = eviction.PodUse{Memory: ptrTo[int64](gi),
		Containers: []eviction.ContainerUse{{Name: "app", Memory: ptrTo[int64](gi)}}}
	if d := n.look(time.Second, memory(10*gi-1)); d.Victim.Message != want {
		t.Errorf("message: got %q, want %q", d.Victim.Message, want)
	}
}

// Whatever the signal, a hard threshold acts at the first look, beside a soft one whether its grace
// is over or not.
//
// row: EVC-09
func TestEachHardThresholdActsAtOnce(t *testing.T) {
	for _, signal := range allSignals {
		n := newNode(t, eviction.Settings{Hard: map[string]string{string(signal): "10%"},
			Soft: map[string]string{string(signal): "20%"}, SoftGracePeriod: map[string]string{string(signal): "2m"}})
		n.in.Config.MaxPodGrace = time.Minute
		web := named("web")
		web.Spec.TerminationGracePeriodSeconds = ptrTo[int64](300)
		n.add(web, eviction.PodUse{})
		if d := n.look(0, map[eviction.Signal]int64{signal: 15 * gi}); d.Victim != nil || len(d.Met) != 1 {
			t.Errorf("%s: got %+v, want the soft threshold met and nobody to go", signal, d)
		}
		d := n.look(time.Second, map[eviction.Signal]int64{signal: 9 * gi})
		if d.Victim == nil || d.Victim.Grace != time.Second || !d.Target.Hard() {
			t.Errorf("%s: got %+v, want web at the first look below, with 1 s of grace", signal, d.Victim)
		}
		d = n.look(3*time.Minute, map[eviction.Signal]int64{signal: 9 * gi})
		if d.Victim == nil || d.Victim.Grace != time.Second || !d.Target.Hard() || len(d.Thresholds) != 2 {
			t.Errorf("%s, the soft grace is over too: got %+v for %v, want web with 1 s of grace", signal, d.Victim,
				d.Thresholds)
		}
	}
}

var allSignals = []eviction.Signal{eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable,
	eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.ImageFsAvailable, eviction.ImageFsInodesFree,
	eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree, eviction.PIDAvailable}

// Each soft threshold has its own grace period, though several are met at once.
//
// row: EVC-08
func TestEachSoftThresholdHasItsOwnGrace(t *testing.T) {
	n := newNode(t, eviction.Settings{
		Soft: map[string]string{"memory.available": "10%", "nodefs.available": "10%",
			"pid.available": "10%"},
		SoftGracePeriod: map[string]string{"memory.available": "2m", "nodefs.available": "90s", "pid.available": "3m"}})
	n.add(named("web"), working(gi))
	low := map[eviction.Signal]int64{eviction.MemoryAvailable: gi, eviction.NodeFsAvailable: gi,
		eviction.PIDAvailable: gi}
	n.look(0, low)
	for _, c := range []struct {
		after time.Duration
		want  []eviction.Signal
	}{
		{89 * time.Second, nil},
		{time.Second, []eviction.Signal{eviction.NodeFsAvailable}},
		{29 * time.Second, []eviction.Signal{eviction.NodeFsAvailable}},
		{time.Second, []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable}},
		{59 * time.Second, []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable}},
		{time.Second, []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable, eviction.PIDAvailable}},
	} {
		var got []eviction.Signal
		for _, x := range n.look(c.after, low).Thresholds {
			got = append(got, x.Signal)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s after the beginning: acts on %v, want %v", n.in.Now.Sub(time.Unix(1000, 0)), got, c.want)
		}
	}
}

// The message says of what the node is short, how much it wants and how much there is.
//
// row: EVC-26
func TestTheMessageNamesTheResource(t *testing.T) {
	for signal, want := range map[eviction.Signal]string{
		eviction.MemoryAvailable:            "memory. Threshold quantity: 10Gi, available: 9Gi. ",
		eviction.AllocatableMemoryAvailable: "memory. Threshold quantity: 10Gi, available: 9Gi. ",
		eviction.NodeFsAvailable:            "ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi. ",
		eviction.NodeFsInodesFree:           "inodes. Threshold quantity: 10Gi, available: 9663676416. ",
		eviction.ImageFsAvailable:           "ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi. ",
		eviction.ImageFsInodesFree:          "inodes. Threshold quantity: 10Gi, available: 9663676416. ",
		eviction.ContainerFsAvailable:       "ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi. ",
		eviction.ContainerFsInodesFree:      "inodes. Threshold quantity: 10Gi, available: 9663676416. ",
		eviction.PIDAvailable:               "pids. Threshold quantity: 10Gi, available: 9663676416. ",
	} {
		n := newNode(t, eviction.Settings{Hard: map[string]string{string(signal): "10Gi"}})
		n.add(named("web"), eviction.PodUse{})
		d := n.look(0, map[eviction.Signal]int64{signal: 9 * gi})
		if d.Victim == nil || d.Victim.Message != "The node was low on resource: "+want {
			t.Errorf("%s: got %+v, want the message %q", signal, d.Victim, want)
		}
	}
}

func ptrTo[T any](v T) *T { return &v }

// row: EVC-07
// row: EVC-08
func TestSoftThresholdActsAfterItsGrace(t *testing.T) {
	for _, signal := range []eviction.Signal{"memory.available", "nodefs.available", "imagefs.available",
		"nodefs.inodesFree", "imagefs.inodesFree", "pid.available"} {
		n := newNode(t, eviction.Settings{Soft: map[string]string{string(signal): "10%"},
			SoftGracePeriod: map[string]string{string(signal): "1m30s"}})
		n.add(named("web"), working(gi))
		low, fine := map[eviction.Signal]int64{signal: 9 * gi}, map[eviction.Signal]int64{signal: 11 * gi}
		if d := n.look(0, low); d.Target != nil || len(d.Met) != 1 || len(d.Conditions) != 1 {
			t.Errorf("%s: at first: got %+v, want it met, with its condition, and nothing done", signal, d)
		}
		if d := n.look(89*time.Second, low); d.Target != nil {
			t.Errorf("%s: after 89 s: got a target, want none", signal)
		}
		n.look(0, fine) // the grace begins anew
		n.look(time.Second, low)
		if d := n.look(89*time.Second, low); d.Target != nil {
			t.Errorf("%s: 89 s after a recovery: got a target, want none", signal)
		}
		if d := n.look(time.Second, low); d.Victim == nil {
			t.Errorf("%s: after 90 s: got no victim, want web", signal)
		}
	}
}

// row: EVC-10
func TestGraceOfAVictimOfASoftThreshold(t *testing.T) {
	for _, c := range []struct {
		most time.Duration
		pod  *int64
		want time.Duration
	}{
		{time.Minute, ptrTo[int64](300), time.Minute}, {time.Minute, ptrTo[int64](30), 30 * time.Second},
		{time.Minute, nil, time.Minute}, {0, ptrTo[int64](300), 0}, {time.Minute, ptrTo[int64](1 << 62), time.Minute},
	} {
		n := newNode(t, eviction.Settings{Soft: map[string]string{"memory.available": "10Gi"},
			SoftGracePeriod: map[string]string{"memory.available": "10s"}})
		n.in.Config.MaxPodGrace = c.most
		p := named("web")
		p.Spec.TerminationGracePeriodSeconds = c.pod
		n.add(p, working(gi))
		n.look(0, memory(gi))
		if d := n.look(10*time.Second, memory(gi)); d.Victim == nil || d.Victim.Grace != c.want {
			t.Errorf("at most %v: got %+v, want a grace of %v", c.most, d.Victim, c.want)
		}
	}
}

// row: EVC-11
func TestMinimumReclaim(t *testing.T) {
	n := newNode(t, eviction.Settings{Hard: map[string]string{"memory.available": "100Mi"},
		MinimumReclaim: map[string]string{"memory.available": "200Mi"}})
	n.add(named("web"), working(gi))
	for _, c := range []struct {
		free int64
		act  bool
	}{{250 * mi, false}, {99 * mi, true}, {250 * mi, true}, {300*mi - 1, true}, {300 * mi, false}, {250 * mi, false}} {
		if d := n.look(10*time.Second, memory(c.free)); (d.Target != nil) != c.act {
			t.Errorf("%d Mi left: got target %v, want one: %t", c.free/mi, d.Target, c.act)
		}
	}
	if o := (eviction.Observations{eviction.MemoryAvailable: {Available: 250 * mi}}); eviction.Resolved(n.in.Config,
		o) {
		t.Error("after a reclaim 250Mi are left: got resolved, want 300Mi needed")
	}
	for _, signal := range allSignals[2:] { // each signal, with amounts of its own and shares
		for value, more := range map[string]string{"10Gi": "500Mi", "10%": "0.48828125%"} {
			n := newNode(t, eviction.Settings{Hard: map[string]string{string(signal): value},
				MinimumReclaim: map[string]string{string(signal): more}})
			n.add(named("web"), working(gi))
			for _, c := range []struct {
				free int64
				act  bool
			}{{10*gi + 100*mi, false}, {10*gi - mi, true}, {10*gi + 499*mi, true}, {10*gi + 501*mi, false},
				{10*gi + 1*mi, false}} {
				if d := n.look(10*time.Second, map[eviction.Signal]int64{signal: c.free}); (d.Target != nil) != c.act {
					t.Errorf("%s below %s and %s more, %d Mi left: got target %v, want one: %t", signal, value, more,
						c.free/mi, d.Target, c.act)
				}
			}
		}
	}
}

// row: EVC-31
// row: EVC-32
func TestConditionsOutlastTheirThresholds(t *testing.T) {
	for signal, want := range map[eviction.Signal]v1.NodeConditionType{
		eviction.MemoryAvailable: v1.NodeMemoryPressure, eviction.AllocatableMemoryAvailable: v1.NodeMemoryPressure,
		eviction.NodeFsAvailable: v1.NodeDiskPressure, eviction.NodeFsInodesFree: v1.NodeDiskPressure,
		eviction.ImageFsAvailable: v1.NodeDiskPressure, eviction.ImageFsInodesFree: v1.NodeDiskPressure,
		eviction.ContainerFsAvailable: v1.NodeDiskPressure, eviction.ContainerFsInodesFree: v1.NodeDiskPressure,
		eviction.PIDAvailable: v1.NodePIDPressure,
	} {
		n := newNode(t, eviction.Settings{Hard: map[string]string{string(signal): "10%"}})
		low, fine := map[eviction.Signal]int64{signal: 9 * gi}, map[eviction.Signal]int64{signal: 11 * gi}
		if d := n.look(0, fine); len(d.Conditions) != 0 {
			t.Errorf("%s above its threshold: got %v, want no condition", signal, d.Conditions)
		}
		if d := n.look(0, low); !slices.Equal(d.Conditions, []v1.NodeConditionType{want}) {
			t.Errorf("%s below: got %v, want %s alone", signal, d.Conditions, want)
		}
		n.look(2*time.Minute, low) // the period counts from when it was last met
		if d := n.look(5*time.Minute-1, fine); !slices.Equal(d.Conditions, []v1.NodeConditionType{want}) {
			t.Errorf("%s within the transition period: got %v, want %s", signal, d.Conditions, want)
		}
		if d := n.look(1, fine); len(d.Conditions) != 0 {
			t.Errorf("%s after the transition period: got %v, want none", signal, d.Conditions)
		}
	}
}

// row: EVC-23
func TestMemoryComesFirst(t *testing.T) {
	n := newNode(t, eviction.Settings{Hard: map[string]string{"pid.available": "10%", "nodefs.available": "10%",
		"memory.available": "10%"}})
	low := map[eviction.Signal]int64{eviction.PIDAvailable: 1, eviction.NodeFsAvailable: 1, eviction.MemoryAvailable: 1}
	if d := n.look(0, low); d.Target.Signal != eviction.MemoryAvailable || len(d.Thresholds) != 3 {
		t.Errorf("got %v of %v, want memory.available of three", d.Target, d.Thresholds)
	}
	n.in.Observations[eviction.MemoryAvailable] = eviction.Observation{At: n.in.Now, Capacity: 1, Available: 1}
	if d := eviction.Decide(n.in); d.Target != nil {
		t.Errorf("figures that were acted on already: got target %v, want none", d.Target)
	}
}

func TestADecisionIsTheSameTwice(t *testing.T) {
	n := newNode(t, eviction.Settings{Hard: map[string]string{"memory.available": "10%"}})
	n.add(named("a"), working(gi))
	n.add(named("b"), working(2*gi))
	n.look(0, memory(gi))
	again := eviction.Decide(n.in)
	n.in.State = eviction.State{}
	first := eviction.Decide(n.in)
	if second := eviction.Decide(n.in); !reflect.DeepEqual(first, second) {
		t.Error("the second decision about the same differs from the first")
	}
	if again.Target != nil {
		t.Error("without news since the last look: got a target, want none")
	}
}

// row: EVC-36
func TestEvictionsThatBringNothingStop(t *testing.T) {
	n := newNode(t, eviction.Settings{Hard: map[string]string{"memory.available": "10Gi"}})
	n.in.Config.FruitlessEvictions, n.in.Config.FruitlessHoldPeriod = 3, 5*time.Minute
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		n.add(named(name), working(100*mi))
	}
	evictions := func(free int64, times int) (went int) {
		for range times {
			if d := n.look(10*time.Second, memory(free)); d.Victim != nil {
				n.in.State = eviction.Evicted(d)
				n.in.Pods = n.in.Pods[1:]
				went++
			}
		}
		return went
	}
	if went := evictions(gi, 20); went != 3 {
		t.Errorf("memory that does not rise: got %d evictions, want 3", went)
	}
	f := n.last.Fruitless
	if f == nil || f.Signal != eviction.MemoryAvailable || f.Evictions != 3 ||
		!strings.HasPrefix(f.Message(),
			"3 Pods in a row were evicted for memory.available and no more became available") {
		t.Fatalf("got %+v, want it named", f)
	}
	if went := evictions(gi, 30); went != 1 {
		t.Errorf("after five minutes: got %d more, want one more Pod to be tried", went)
	}
	if d := n.look(10*time.Second, memory(20*gi)); d.Fruitless != nil || d.State.Gain.Fruitless != 0 {
		t.Errorf("once there is enough: got %+v, want all forgotten", d.State.Gain)
	}
	if went := evictions(gi, 1); went != 1 {
		t.Errorf("short again: got %d evictions, want 1", went)
	}
	for free := int64(2 * gi); n.last.Victim != nil; free += 100 * mi {
		evictions(free, 1)
	}
	if len(n.in.Pods) != 0 {
		t.Errorf("memory that rises with each eviction: got %d Pods left, want none", len(n.in.Pods))
	}
}

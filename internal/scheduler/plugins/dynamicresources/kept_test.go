package dynamicresources_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// counted are Pools that count how often somebody looks.
type counted struct {
	*dynamicresources.Pools
	looks int
}

func (c *counted) Of(node string) ([]*resourceapi.ResourceSlice, *structured.AllocatedState) {
	c.looks++
	return c.Pools.Of(node)
}

// yard is a cluster with devices that changes.
type yard struct {
	world   *snapshot.World
	slices  map[string]*resourceapi.ResourceSlice
	classes map[string]*resourceapi.DeviceClass
	claims  map[string]*resourceapi.ResourceClaim
	pools   *counted
	frozen  *dynamicresources.Frozen
	given   []resourceapi.AllocationResult // decided by Reserve
}

func newYard() *yard {
	y := &yard{world: snapshot.NewWorld(), slices: map[string]*resourceapi.ResourceSlice{}, classes: map[string]*resourceapi.DeviceClass{}, claims: map[string]*resourceapi.ResourceClaim{},
		pools: &counted{Pools: dynamicresources.NewPools()}}
	y.freeze()
	return y
}

func (y *yard) freeze() {
	var all []runtime.Object
	for _, name := range slices.Sorted(maps.Keys(y.slices)) { // of slices that contradict each other the library believes the first
		all = append(all, y.slices[name])
	}
	for _, c := range y.classes {
		all = append(all, c)
	}
	for _, c := range y.claims {
		all = append(all, c)
	}
	y.frozen = dynamicresources.Freeze(all...)
}

func (y *yard) setSlice(name string, s *resourceapi.ResourceSlice) {
	y.pools.SetSlice(y.slices[name], s)
	if s == nil {
		delete(y.slices, name)
	} else {
		y.slices[name] = s
	}
	y.freeze()
}

func (y *yard) setClaim(c *resourceapi.ResourceClaim) {
	var was *resourceapi.AllocationResult
	if old := y.claims[c.Name]; old != nil {
		was = old.Status.Allocation
	}
	y.pools.Give(was, c.Status.Allocation)
	y.claims[c.Name] = c
	y.freeze()
}

const wide = "rack" // a pool that several nodes reach

var (
	kinds   = []string{"gpu", "nic", "whole", "half", "card"}
	dice    = func(t *rapid.T, n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }
	someOf  = func(t *rapid.T, list []string, what string) string { return rapid.SampledFrom(list).Draw(t, what) }
	machine = func(i int) string { return fmt.Sprintf("n%d", i) }
)

const machines = 4

// someSlice is one of a node, of two nodes' pool, of a pool that all or some nodes reach; with taints, counters, shares and binding conditions at times.
func someSlice(t *rapid.T) *resourceapi.ResourceSlice {
	node := machine(dice(t, machines, "node"))
	s := slice(node)
	s.Name = node + someOf(t, []string{"", "-b"}, "which")
	s.Spec.Pool.ResourceSliceCount, s.Spec.Pool.Generation = int64(1+dice(t, 2, "slices")), int64(1+dice(t, 2, "generation"))
	switch dice(t, 12, "reach") {
	case 0:
		s.Spec.Pool.Name = wide
	case 1:
		s.Name, s.Spec.Pool.Name, s.Spec.NodeName, s.Spec.AllNodes = wide, wide, nil, new(true)
	case 2:
		s.Name, s.Spec.Pool.Name, s.Spec.NodeName = wide, wide, nil
		s.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}}}}}
	case 3:
		s.Name, s.Spec.Pool.Name, s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = wide, wide, nil, new(true)
	}
	if dice(t, 4, "counters") == 0 {
		s.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("8Gi")}}}}
		return s
	}
	for i := range 1 + dice(t, 4, "devices") {
		s.Spec.Devices = append(s.Spec.Devices, someDevice(t, s, i))
	}
	return s
}

func someDevice(t *rapid.T, s *resourceapi.ResourceSlice, i int) resourceapi.Device {
	kind := someOf(t, kinds, "kind")
	d := resourceapi.Device{Name: fmt.Sprintf("%s-%d", kind, i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: new(kind)}, "root": {IntValue: new(int64(dice(t, 2, "root")))}}}
	switch kind {
	case "whole", "half":
		uses := map[string]string{"whole": "8Gi", "half": "4Gi"}[kind]
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(uses)}}}}
	case "card":
		d.AllowMultipleAllocations = new(true)
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("8Gi")}}
	}
	if dice(t, 6, "tainted") == 0 {
		d.Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	if dice(t, 8, "conditions") == 0 {
		d.BindingConditions, d.BindingFailureConditions = []string{"attached"}, []string{"failed"}
	}
	if s.Spec.PerDeviceNodeSelection != nil {
		d.NodeName = new(machine(dice(t, machines, "device's node")))
	}
	return d
}

func someRequest(t *rapid.T, name string) resourceapi.DeviceRequest {
	r := exactly(someOf(t, kinds, "class"), int64(1+dice(t, 2, "count")))
	switch dice(t, 8, "request") {
	case 0:
		r = watching(r)
	case 1:
		r = tolerating(r)
	case 2:
		r.Exactly.AllocationMode, r.Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	case 3:
		r = either(someOf(t, kinds, "first"), someOf(t, kinds, "second"))
	case 4:
		r = share(fmt.Sprintf("%dGi", 1+dice(t, 8, "memory")))
	case 5:
		r.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(`device.attributes["%s"].root == %d`, driver, dice(t, 2, "root"))}}}
	}
	r.Name = name
	return r
}

func someClaim(t *rapid.T, name string) *resourceapi.ResourceClaim {
	c := claim(name)
	for i := range 1 + dice(t, 2, "requests") {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, someRequest(t, fmt.Sprintf("r%d", i)))
	}
	if dice(t, 5, "constraint") == 0 {
		c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: new(resourceapi.FullyQualifiedName(driver + "/root"))}}
	}
	return c
}

// step changes something.
func (y *yard) step(t *rapid.T) {
	switch dice(t, 6, "change") {
	case 0, 1:
		s := someSlice(t)
		y.setSlice(s.Name, s)
	case 2:
		name := machine(dice(t, machines, "gone"))
		if y.slices[name] != nil {
			y.setSlice(name, nil)
		}
	case 3:
		name := someOf(t, kinds, "class")
		y.classes[name] = class(name)
		if dice(t, 4, "other class") == 0 {
			y.classes[name].Spec.Selectors = nil
		}
		y.freeze()
	case 4:
		name := machine(dice(t, machines, "node"))
		y.world.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": someOf(t, []string{"a", "b"}, "zone")}}})
	case 5:
		c := y.claims[fmt.Sprintf("held-%d", dice(t, 6, "freed"))]
		if c != nil && c.Status.Allocation != nil {
			c = c.DeepCopy()
			c.Status.Allocation = nil
			y.setClaim(c)
		}
	}
}

// anonymous takes out what the allocator draws at random.
func anonymous(a *resourceapi.AllocationResult) *resourceapi.AllocationResult {
	a = a.DeepCopy()
	for k := range a.Devices.Results {
		if r := &a.Devices.Results[k]; r.ShareID != nil {
			r.ShareID = new(types.UID("any"))
		}
	}
	return a
}

// answer is all that a judge says about a Pod.
type answer struct {
	Said   map[string]string
	Score  map[string]int64
	Given  []*resourceapi.AllocationResult
	Choice string
}

// plain is the yard's manager, which notes what is decided; knowing is the same with its Pools.
type plain struct{ *yard }

type knowing struct {
	plain
	*counted
}

func (p plain) ResourceClaims() framework.ResourceClaimTracker {
	return tracking{p.frozen.ResourceClaims(), p.yard}
}
func (p plain) ResourceSlices() framework.ResourceSliceLister { return p.frozen.ResourceSlices() }
func (p plain) DeviceClasses() framework.DeviceClassLister    { return p.frozen.DeviceClasses() }
func (p plain) DeviceClassResolver() framework.DeviceClassResolver {
	return p.frozen.DeviceClassResolver()
}

type tracking struct {
	framework.ResourceClaimTracker
	*yard
}

func (t tracking) SignalClaimPendingAllocation(_ types.UID, c *resourceapi.ResourceClaim) error {
	t.given = append(t.given, *c.Status.Allocation)
	return nil
}

// asker is a judge, and what is remembered of its verdicts from ruling to ruling; nil: nothing.
type asker struct {
	*dynamicresources.Plugin
	judges *place.Judges
	memory *place.Memory
}

func askerOf(draw framework.SharedDRAManager, memory *place.Memory) asker {
	pl := dynamicresources.New(nil, draw, nil)
	return asker{pl, place.NewJudges("test", place.Seat{Plugin: pl}), memory}
}

// ask lets a judge rule over every node, choose the node, and reserve there.
func (y *yard) ask(t *rapid.T, pl asker, w *snapshot.Snapshot, p *v1.Pod) answer {
	state := place.NewState()
	r := place.One(t.Context(), place.In{Pod: p, World: w, Judges: pl.judges, State: state, Memory: pl.memory})
	a := answer{Said: map[string]string{"": r.Message()}, Score: map[string]int64{}, Choice: r.Winner}
	for _, no := range r.Refusals(w.Len()) {
		a.Said[no.Node] = fmt.Sprint(no.Code, no.Messages, no.Detail, no.Fix)
	}
	for _, s := range r.Scores(w.Len()) {
		a.Score[s.Node] = s.Total
	}
	y.given = nil
	if r.Fits() {
		if s := pl.Reserve(t.Context(), state, p, r.Winner); !s.IsSuccess() {
			a.Said["reserve"] = s.Message()
		}
	}
	for i := range y.given {
		a.Given = append(a.Given, anonymous(&y.given[i]))
	}
	return a
}

// What is kept from earlier Pods never shows: verdicts, numbers, scores and devices are those of a judge that asks the allocator about every node for every Pod, whatever
// changes in between.
func TestKeptVerdictsAreTheAllocators(t *testing.T) {
	cases, looks, parted := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		y := newYard()
		for i := range machines {
			y.world.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine(i)}})
			s := slice(machine(i), "gpu-0", "gpu-1", "nic-0")
			y.setSlice(s.Name, s)
		}
		for _, k := range kinds {
			y.classes[k] = class(k)
		}
		knows, remembers := askerOf(knowing{plain{y}, y.pools}, nil), askerOf(knowing{plain{y}, y.pools}, &place.Memory{})
		shapes := []*resourceapi.ResourceClaim{someClaim(t, "a"), someClaim(t, "a"), claim("a", exactly("gpu", 1))}
		for i := range rapid.IntRange(20, 160).Draw(t, "pods") {
			if dice(t, 2, "changes") == 0 {
				y.step(t)
			}
			c := shapes[dice(t, len(shapes), "shape")].DeepCopy()
			c.Name = fmt.Sprintf("held-%d", i%6)
			c.UID = types.UID(c.Name)
			if old := y.claims[c.Name]; old != nil && old.Status.Allocation != nil {
				continue
			}
			y.setClaim(c)
			w := y.world.Freeze()
			before := y.pools.looks
			got := y.ask(t, remembers, w, using(c.Name))
			again, want := y.ask(t, knows, w, using(c.Name)), y.ask(t, askerOf(plain{y}, nil), w, using(c.Name))
			parted += int(remembers.memory.Counts().Known - remembers.memory.Counts().Swept - remembers.memory.Counts().Plain)
			cases += w.Len()
			looks += y.pools.looks - before
			if !reflect.DeepEqual(want, got) || !reflect.DeepEqual(want, again) {
				t.Fatalf("Pod %d, claim %+v\nremembered: %+v\nkept:  %+v\nasked: %+v", i, c.Spec, got, again, want)
			}
			if len(y.given) > 0 && dice(t, 3, "taken") > 0 {
				c = c.DeepCopy()
				c.Status.Allocation = &y.given[0]
				y.setClaim(c)
			}
		}
	})
	t.Logf("%d verdicts compared, devices looked up %d times, %d rulings by groups", cases, looks, parted)
	if cases < 10000 || looks > 2*cases || parted < 1000 {
		t.Errorf("%d verdicts compared, devices looked up %d times, %d rulings by groups", cases, looks, parted)
	}
}

// Devices that another scheduler's claim got between verdict and Reserve are not given away again, and the node is asked anew.
func TestDevicesGoneBeforeReserveAreNotGivenTwice(t *testing.T) {
	y := newYard()
	y.world.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}})
	y.setSlice("n0", slice("n0", "gpu-0"))
	y.classes["gpu"] = class("gpu")
	y.setClaim(claim("a", exactly("gpu", 1)))
	pl := dynamicresources.New(nil, knowing{plain{y}, y.pools}, nil)
	in := place.In{Pod: using("a"), World: y.world.Freeze(), Judges: place.NewJudges("test", place.Seat{Plugin: pl}), State: place.NewState()}
	if r := place.One(t.Context(), in); r.Winner != "n0" {
		t.Fatal(r.Message())
	}
	y.setClaim(holding(claim("b", exactly("gpu", 1)), "n0", "gpu-0"))
	if s := pl.Reserve(t.Context(), in.State, in.Pod, "n0"); s.IsSuccess() || len(y.given) > 0 {
		t.Errorf("%v, given %v", s, y.given)
	}
	in.State = place.NewState()
	if r := place.One(t.Context(), in); r.Fits() {
		t.Error("the node is still said to have devices")
	}
}

// Nodes whose devices are alike but for names are asked about once, for claims of any shape; what is taken of them tells them apart, and giving it back makes them alike again.
func TestNodesThatLookAlikeAreAskedAboutOnce(t *testing.T) {
	y := newYard()
	const n = 200
	for i := range n {
		y.world.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine(i)}})
		s := slice(machine(i), "gpu-0", "gpu-1", "nic-0")
		y.pools.SetSlice(nil, s)
		y.slices[s.Name] = s
	}
	for _, k := range kinds {
		y.classes[k] = class(k)
	}
	y.freeze()
	pl := askerOf(knowing{plain{y}, y.pools}, &place.Memory{})
	w := y.world.Freeze()
	looksFor := func(name string, fits int, requests ...resourceapi.DeviceRequest) int {
		t.Helper()
		y.setClaim(claim(name, requests...))
		before := y.pools.looks
		r := place.One(t.Context(), place.In{Pod: using(name), World: w, Judges: pl.judges, Memory: pl.memory})
		if r.Feasible() != fits || r.Fits() != (fits > 0) {
			t.Errorf("%s: %d nodes fit, want %d: %s", name, r.Feasible(), fits, r.Message())
		}
		return y.pools.looks - before
	}
	if got := looksFor("first", n, exactly("gpu", 1)); got != n+1 { // each to see what it looks like, one for its devices
		t.Errorf("devices are looked up %d times at first", got)
	}
	if got := looksFor("more", n, exactly("gpu", 2)); got != 1 {
		t.Errorf("another shape looks devices up %d times", got)
	}
	if got := looksFor("too-many", 0, exactly("gpu", 3)); got != 1 {
		t.Errorf("a shape that fits nowhere looks devices up %d times", got)
	}
	y.setClaim(holding(claim("held", exactly("gpu", 1)), machine(7), "gpu-1"))
	if got := looksFor("more", n-1, exactly("gpu", 2)); got != 2 { // of the node that changed: its look, and its devices
		t.Errorf("after a change devices are looked up %d times", got)
	}
	y.setClaim(holding(claim("held-too", exactly("gpu", 1)), machine(9), "gpu-1"))
	if got := looksFor("more", n-2, exactly("gpu", 2)); got != 1 { // a look that is known
		t.Errorf("after the same change elsewhere devices are looked up %d times", got)
	}
	y.setClaim(claim("held", exactly("gpu", 1)))
	if got := looksFor("more", n-1, exactly("gpu", 2)); got != 1 {
		t.Errorf("after devices were given back they are looked up %d times", got)
	}
	other := slice(machine(3), "gpu-0", "nic-0")
	y.pools.SetSlice(y.slices[other.Name], other)
	if got := looksFor("more", n-2, exactly("gpu", 2)); got != 2 {
		t.Errorf("after a slice changed devices are looked up %d times", got)
	}
}

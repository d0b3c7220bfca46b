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

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// countingPools are Pools that count how often somebody looks.
type countingPools struct {
	*dynamicresources.Pools
	calls int
}

func (c *countingPools) DevicesOf(node string) ([]*resourceapi.ResourceSlice, *structured.AllocatedState) {
	c.calls++
	return c.Pools.DevicesOf(node)
}

// fixture is a cluster with devices that changes.
type fixture struct {
	snapshot    *snapshot.Cache
	slices      map[string]*resourceapi.ResourceSlice
	classes     map[string]*resourceapi.DeviceClass
	claims      map[string]*resourceapi.ResourceClaim
	pools       *countingPools
	fixed       *dynamicresources.FixedManager
	allocations []resourceapi.AllocationResult // decided by Reserve
}

func newFixture() *fixture {
	y := &fixture{snapshot: snapshot.NewCache(), slices: map[string]*resourceapi.ResourceSlice{},
		classes: map[string]*resourceapi.DeviceClass{}, claims: map[string]*resourceapi.ResourceClaim{},
		pools: &countingPools{Pools: dynamicresources.NewPools()}}
	y.rebuild()
	return y
}

func (y *fixture) rebuild() {
	var all []runtime.Object
	// of slices that contradict each other the library believes the first
	for _, name := range slices.Sorted(maps.Keys(y.slices)) {
		all = append(all, y.slices[name])
	}
	for _, c := range y.classes {
		all = append(all, c)
	}
	for _, c := range y.claims {
		all = append(all, c)
	}
	y.fixed = dynamicresources.NewFixedManager(all...)
}

func (y *fixture) setSlice(name string, s *resourceapi.ResourceSlice) {
	y.pools.SetSlice(y.slices[name], s)
	if s == nil {
		delete(y.slices, name)
	} else {
		y.slices[name] = s
	}
	y.rebuild()
}

func (y *fixture) setClaim(c *resourceapi.ResourceClaim) {
	var was *resourceapi.AllocationResult
	if old := y.claims[c.Name]; old != nil {
		was = old.Status.Allocation
	}
	y.pools.SetAllocation(was, c.Status.Allocation)
	y.claims[c.Name] = c
	y.rebuild()
}

const ManyNodes = "rack" // a pool that several nodes reach

var (
	kinds     = []string{"gpu", "nic", "whole", "half", "card"}
	randomInt = func(t *rapid.T, n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }
	oneOf     = func(t *rapid.T, list []string, what string) string { return rapid.SampledFrom(list).Draw(t, what) }
	nodeName  = func(i int) string { return fmt.Sprintf("n%d", i) }
)

const nodeCount = 4

// someSlice is one of a node, of two nodes' pool, of a pool that all or some nodes reach; with
// taints, counters, shares and binding conditions at times.
func someSlice(t *rapid.T) *resourceapi.ResourceSlice {
	node := nodeName(randomInt(t, nodeCount, "node"))
	s := slice(node)
	s.Name = node + oneOf(t, []string{"", "-b"}, "which")
	s.Spec.Pool.ResourceSliceCount, s.Spec.Pool.Generation = int64(1+randomInt(t, 2, "slices")),
		int64(1+randomInt(t, 2, "generation"))
	switch randomInt(t, 12, "reach") {
	case 0:
		s.Spec.Pool.Name = ManyNodes
	case 1:
		s.Name, s.Spec.Pool.Name, s.Spec.NodeName, s.Spec.AllNodes = ManyNodes, ManyNodes, nil, new(true)
	case 2:
		s.Name, s.Spec.Pool.Name, s.Spec.NodeName = ManyNodes, ManyNodes, nil
		s.Spec.NodeSelector = &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{
				{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn,
					Values: []string{"a"}}}}}}
	case 3:
		s.Name, s.Spec.Pool.Name, s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = ManyNodes, ManyNodes, nil, new(true)
	}
	if randomInt(t, 4, "counters") == 0 {
		s.Spec.SharedCounters = []resourceapi.CounterSet{
			{Name: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("8Gi")}}}}
		return s
	}
	for i := range 1 + randomInt(t, 4, "devices") {
		s.Spec.Devices = append(s.Spec.Devices, someDevice(t, s, i))
	}
	return s
}

func someDevice(t *rapid.T, s *resourceapi.ResourceSlice, i int) resourceapi.Device {
	kind := oneOf(t, kinds, "kind")
	d := resourceapi.Device{Name: fmt.Sprintf("%s-%d", kind, i),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: new(kind)},
			"root": {IntValue: new(int64(randomInt(t, 2, "root")))}}}
	switch kind {
	case "whole", "half":
		uses := map[string]string{"whole": "8Gi", "half": "4Gi"}[kind]
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{
			{CounterSet: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(uses)}}}}
	case "card":
		d.AllowMultipleAllocations = new(true)
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: resource.MustParse("8Gi")}}
	}
	if randomInt(t, 6, "tainted") == 0 {
		d.Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	if randomInt(t, 8, "conditions") == 0 {
		d.BindingConditions, d.BindingFailureConditions = []string{"attached"}, []string{"failed"}
	}
	if s.Spec.PerDeviceNodeSelection != nil {
		d.NodeName = new(nodeName(randomInt(t, nodeCount, "device's node")))
	}
	return d
}

func someRequest(t *rapid.T, name string) resourceapi.DeviceRequest {
	r := exactly(oneOf(t, kinds, "class"), int64(1+randomInt(t, 2, "count")))
	switch randomInt(t, 8, "request") {
	case 0:
		r = watching(r)
	case 1:
		r = tolerating(r)
	case 2:
		r.Exactly.AllocationMode, r.Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	case 3:
		r = either(oneOf(t, kinds, "first"), oneOf(t, kinds, "second"))
	case 4:
		r = share(fmt.Sprintf("%dGi", 1+randomInt(t, 8, "memory")))
	case 5:
		r.Exactly.Selectors = []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(`device.attributes["%s"].root == %d`, driver,
				randomInt(t, 2, "root"))}}}
	}
	r.Name = name
	return r
}

func someClaim(t *rapid.T, name string) *resourceapi.ResourceClaim {
	c := claim(name)
	for i := range 1 + randomInt(t, 2, "requests") {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, someRequest(t, fmt.Sprintf("r%d", i)))
	}
	if randomInt(t, 5, "constraint") == 0 {
		c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{
			{MatchAttribute: new(resourceapi.FullyQualifiedName(driver + "/root"))}}
	}
	return c
}

// step changes something.
func (y *fixture) step(t *rapid.T) {
	switch randomInt(t, 6, "change") {
	case 0, 1:
		s := someSlice(t)
		y.setSlice(s.Name, s)
	case 2:
		name := nodeName(randomInt(t, nodeCount, "gone"))
		if y.slices[name] != nil {
			y.setSlice(name, nil)
		}
	case 3:
		name := oneOf(t, kinds, "class")
		y.classes[name] = class(name)
		if randomInt(t, 4, "other class") == 0 {
			y.classes[name].Spec.Selectors = nil
		}
		y.rebuild()
	case 4:
		name := nodeName(randomInt(t, nodeCount, "node"))
		y.snapshot.SetNode(
			&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
				Labels: map[string]string{"zone": oneOf(t, []string{"a", "b"}, "zone")}}})
	case 5:
		c := y.claims[fmt.Sprintf("held-%d", randomInt(t, 6, "freed"))]
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

// scheduleResult is all that a plugin says about a Pod.
type scheduleResult struct {
	Statuses    map[string]string
	Score       map[string]int64
	Allocations []*resourceapi.AllocationResult
	Choice      string
}

// plainManager is the fixture's manager, which notes what is decided; knowing is the same with its
// Pools.
type plainManager struct{ *fixture }

type poolsManager struct {
	plainManager
	*countingPools
}

func (p plainManager) ResourceClaims() framework.ResourceClaimTracker {
	return trackingClaims{p.fixed.ResourceClaims(), p.fixture}
}
func (p plainManager) ResourceSlices() framework.ResourceSliceLister { return p.fixed.ResourceSlices() }
func (p plainManager) DeviceClasses() framework.DeviceClassLister    { return p.fixed.DeviceClasses() }
func (p plainManager) DeviceClassResolver() framework.DeviceClassResolver {
	return p.fixed.DeviceClassResolver()
}

type trackingClaims struct {
	framework.ResourceClaimTracker
	*fixture
}

func (t trackingClaims) SignalClaimPendingAllocation(_ types.UID, c *resourceapi.ResourceClaim) error {
	t.allocations = append(t.allocations, *c.Status.Allocation)
	return nil
}

// pluginRunner is a plugin, and what is remembered of its statuses from cycle to cycle; nil:
// nothing.
type pluginRunner struct {
	*dynamicresources.Plugin
	pluginSet *schedule.PluginSet
	eqCache   *schedule.EquivalenceCache
}

func newPluginRunner(draManager framework.SharedDRAManager, memory *schedule.EquivalenceCache) pluginRunner {
	pl := dynamicresources.New(nil, draManager, nil)
	return pluginRunner{pl, schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: pl}), memory}
}

// schedule lets a plugin filter every node, choose the node, and reserve there.
func (y *fixture) schedule(t *rapid.T, pl pluginRunner, w *snapshot.Snapshot, p *v1.Pod) scheduleResult {
	state := schedule.NewCycleState()
	r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: p, Snapshot: w, Plugins: pl.pluginSet, State: state,
		Cache: pl.eqCache})
	a := scheduleResult{Statuses: map[string]string{"": r.Message()}, Score: map[string]int64{},
		Choice: r.SuggestedHost}
	for _, no := range r.Refusals(w.Len()) {
		a.Statuses[no.Node] = fmt.Sprint(no.Code, no.Messages, no.Detail, no.Fix)
	}
	for _, s := range r.Scores(w.Len()) {
		a.Score[s.Node] = s.Total
	}
	y.allocations = nil
	if r.Scheduled() {
		if s := pl.Reserve(t.Context(), state, p, r.SuggestedHost); !s.IsSuccess() {
			a.Statuses["reserve"] = s.Message()
		}
	}
	for i := range y.allocations {
		a.Allocations = append(a.Allocations, anonymous(&y.allocations[i]))
	}
	return a
}

// What is kept from earlier Pods never shows: statuses, numbers, scores and devices are those of a
// plugin that asks the allocator about every node for every Pod, whatever changes in between.
func TestCachedStatusesAreTheAllocators(t *testing.T) {
	cases, lookups, parted := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		y := newFixture()
		for i := range nodeCount {
			y.snapshot.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}})
			s := slice(nodeName(i), "gpu-0", "gpu-1", "nic-0")
			y.setSlice(s.Name, s)
		}
		for _, k := range kinds {
			y.classes[k] = class(k)
		}
		knows, remembers := newPluginRunner(poolsManager{plainManager{y}, y.pools}, nil),
			newPluginRunner(poolsManager{plainManager{y}, y.pools}, &schedule.EquivalenceCache{})
		shapes := []*resourceapi.ResourceClaim{someClaim(t, "a"), someClaim(t, "a"), claim("a", exactly("gpu", 1))}
		for i := range rapid.IntRange(20, 160).Draw(t, "pods") {
			if randomInt(t, 2, "changes") == 0 {
				y.step(t)
			}
			c := shapes[randomInt(t, len(shapes), "shape")].DeepCopy()
			c.Name = fmt.Sprintf("held-%d", i%6)
			c.UID = types.UID(c.Name)
			if old := y.claims[c.Name]; old != nil && old.Status.Allocation != nil {
				continue
			}
			y.setClaim(c)
			w := y.snapshot.UpdateSnapshot()
			before := y.pools.calls
			got := y.schedule(t, remembers, w, podUsing(c.Name))
			again, want := y.schedule(t, knows, w, podUsing(c.Name)),
				y.schedule(t, newPluginRunner(plainManager{y}, nil), w, podUsing(c.Name))
			parted += int(remembers.eqCache.Counts().Hits - remembers.eqCache.Counts().RowsFiltered -
				remembers.eqCache.Counts().Bypassed)
			cases += w.Len()
			lookups += y.pools.calls - before
			if !reflect.DeepEqual(want, got) || !reflect.DeepEqual(want, again) {
				t.Fatalf("Pod %d, claim %+v\nremembered: %+v\nkept:  %+v\nasked: %+v", i, c.Spec, got, again, want)
			}
			if len(y.allocations) > 0 && randomInt(t, 3, "taken") > 0 {
				c = c.DeepCopy()
				c.Status.Allocation = &y.allocations[0]
				y.setClaim(c)
			}
		}
	})
	t.Logf("%d statuses compared, devices looked up %d times, %d results by node groups", cases, lookups, parted)
	if cases < 10000 || lookups > 2*cases || parted < 1000 {
		t.Errorf("%d statuses compared, devices looked up %d times, %d results by node groups", cases, lookups, parted)
	}
}

// Devices that another scheduler's claim got between Filter and Reserve are not given away again,
// and the node is asked anew.
func TestDevicesGoneBeforeReserveAreNotGivenTwice(t *testing.T) {
	y := newFixture()
	y.snapshot.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}})
	y.setSlice("n0", slice("n0", "gpu-0"))
	y.classes["gpu"] = class("gpu")
	y.setClaim(claim("a", exactly("gpu", 1)))
	pl := dynamicresources.New(nil, poolsManager{plainManager{y}, y.pools}, nil)
	in := schedule.Input{Pod: podUsing("a"), Snapshot: y.snapshot.UpdateSnapshot(),
		Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: pl}), State: schedule.NewCycleState()}
	if r := schedule.SchedulePod(t.Context(), in); r.SuggestedHost != "n0" {
		t.Fatalf("got %v, want SuggestedHost n0", r.Message())
	}
	y.setClaim(allocatedTo(claim("b", exactly("gpu", 1)), "n0", "gpu-0"))
	if s := pl.Reserve(t.Context(), in.State, in.Pod, "n0"); s.IsSuccess() || len(y.allocations) > 0 {
		t.Errorf("%v, given %v", s, y.allocations)
	}
	in.State = schedule.NewCycleState()
	if r := schedule.SchedulePod(t.Context(), in); r.Scheduled() {
		t.Error("the node is still said to have devices")
	}
}

// Nodes whose devices are equal but for names are evaluated once, for claims of any shape; what
// is allocated of them makes them differ, and releasing it makes them equal again.
func TestNodesWithEqualDevicesAreEvaluatedOnce(t *testing.T) {
	y := newFixture()
	const n = 200
	for i := range n {
		y.snapshot.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}})
		s := slice(nodeName(i), "gpu-0", "gpu-1", "nic-0")
		y.pools.SetSlice(nil, s)
		y.slices[s.Name] = s
	}
	for _, k := range kinds {
		y.classes[k] = class(k)
	}
	y.rebuild()
	pl := newPluginRunner(poolsManager{plainManager{y}, y.pools}, &schedule.EquivalenceCache{})
	w := y.snapshot.UpdateSnapshot()
	lookupsOf := func(name string, fits int, requests ...resourceapi.DeviceRequest) int {
		t.Helper()
		y.setClaim(claim(name, requests...))
		before := y.pools.calls
		r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: podUsing(name), Snapshot: w, Plugins: pl.pluginSet,
			Cache: pl.eqCache})
		if r.Feasible() != fits || r.Scheduled() != (fits > 0) {
			t.Errorf("%s: %d nodes fit, want %d: %s", name, r.Feasible(), fits, r.Message())
		}
		return y.pools.calls - before
	}
	// each to see what it looks like, one for its devices
	if got := lookupsOf("first", n, exactly("gpu", 1)); got != n+1 {
		t.Errorf("devices are looked up %d times at first, want %v", got, n+1)
	}
	if got := lookupsOf("more", n, exactly("gpu", 2)); got != 1 {
		t.Errorf("another shape looks devices up %d times, want 1", got)
	}
	if got := lookupsOf("too-many", 0, exactly("gpu", 3)); got != 1 {
		t.Errorf("a shape that fits nowhere looks devices up %d times, want 1", got)
	}
	y.setClaim(allocatedTo(claim("held", exactly("gpu", 1)), nodeName(7), "gpu-1"))
	// of the node that changed: its look, and its devices
	if got := lookupsOf("more", n-1, exactly("gpu", 2)); got != 2 {
		t.Errorf("after a change devices are looked up %d times, want 2", got)
	}
	y.setClaim(allocatedTo(claim("held-too", exactly("gpu", 1)), nodeName(9), "gpu-1"))
	if got := lookupsOf("more", n-2, exactly("gpu", 2)); got != 1 { // a look that is known
		t.Errorf("after the same change elsewhere devices are looked up %d times, want 1", got)
	}
	y.setClaim(claim("held", exactly("gpu", 1)))
	if got := lookupsOf("more", n-1, exactly("gpu", 2)); got != 1 {
		t.Errorf("after devices were given back they are looked up %d times, want 1", got)
	}
	other := slice(nodeName(3), "gpu-0", "nic-0")
	y.pools.SetSlice(y.slices[other.Name], other)
	if got := lookupsOf("more", n-2, exactly("gpu", 2)); got != 2 {
		t.Errorf("after a slice changed devices are looked up %d times, want 2", got)
	}
}

package dynamicresources_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// draCycle is a manager and a ClaimWriter that note what is done with claims.
type draCycle struct {
	*dynamicresources.FixedManager
	lines                                   []string
	pending                                 map[types.UID]bool
	signal, list, bind, classes, deallocate error
	plan                                    *dynamicresources.Plan
}

type draClaims struct {
	framework.ResourceClaimTracker
	*draCycle
}

func newDRACycle(all ...runtime.Object) *draCycle {
	return &draCycle{FixedManager: dynamicresources.NewFixedManager(all...), pending: map[types.UID]bool{}}
}

func (d *draCycle) note(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *draCycle) ResourceClaims() framework.ResourceClaimTracker {
	return draClaims{d.FixedManager.ResourceClaims(), d}
}

func (d *draCycle) DeviceClasses() framework.DeviceClassLister {
	return draClasses{d.FixedManager.DeviceClasses(), d.classes}
}

type draClasses struct {
	framework.DeviceClassLister
	err error
}

func (c draClasses) Get(name string) (*resourceapi.DeviceClass, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.DeviceClassLister.Get(name)
}

func (c draClaims) List() ([]*resourceapi.ResourceClaim, error) {
	all, _ := c.ResourceClaimTracker.List()
	return all, c.list
}

func (c draClaims) SignalClaimPendingAllocation(uid types.UID, as *resourceapi.ResourceClaim) error {
	var devices []string
	for _, r := range as.Status.Allocation.Devices.Results {
		devices = append(devices, r.Device)
	}
	slices.Sort(devices)
	c.note("signal %s: %s", uid, strings.Join(devices, " "))
	c.draCycle.pending[uid] = c.signal == nil
	return c.signal
}

func (c draClaims) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	if c.draCycle.pending[uid] {
		return &resourceapi.AllocationResult{}
	}
	return nil
}

func (c draClaims) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) bool {
	had := c.draCycle.pending[uid]
	delete(c.draCycle.pending, uid)
	c.note("remove %s %t", uid, force)
	return had
}

func (c draClaims) AssumedClaimRestore(namespace, name string) {
	c.note("restore %s/%s", namespace, name)
}

func (d *draCycle) Deallocate(_ context.Context, c *resourceapi.ResourceClaim) error {
	d.note("deallocate %s", c.Name)
	return d.deallocate
}

func (d *draCycle) DeleteClaim(_ context.Context, c *resourceapi.ResourceClaim) {
	d.note("delete %s", c.Name)
}

func (d *draCycle) Unreserve(_ context.Context, p *v1.Pod, c *resourceapi.ResourceClaim) {
	d.note("unreserve %s for %s", c.Name, p.Name)
}

// BindClaims does what the plan says, to copies.
func (d *draCycle) BindClaims(_ context.Context, p *v1.Pod, plan *dynamicresources.Plan) error {
	d.plan = plan
	d.note("bind for %s on %s within %v", p.Name, plan.Node, plan.Wait)
	for i := range plan.Claims {
		c := plan.Claims[i].Claim.DeepCopy()
		if plan.Claims[i].Create {
			c.Name = "made"
		}
		if a := plan.Claims[i].Allocation; a != nil {
			c.Status.Allocation = a
		}
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods",
			Name: p.Name, UID: p.UID})
		plan.Claims[i].Claim = c
	}
	return d.bind
}

func twoNodes(change ...func(*v1.Node)) *snapshot.Snapshot {
	var nodes []*v1.Node
	for _, name := range []string{"n1", "n2"} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, f := range change {
			f(n)
		}
		nodes = append(nodes, n)
	}
	return snapshot.Of(nodes, nil)
}

func scheduled(t *testing.T, pl *dynamicresources.Plugin, p *v1.Pod, snap *snapshot.Snapshot) *schedule.Result {
	t.Helper()
	return schedule.SchedulePod(t.Context(), schedule.Input{Pod: p, Snapshot: snap,
		Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: pl})})
}

func line(s *framework.Status) string {
	if s == nil {
		return "Success"
	}
	return s.Code().String() + ": " + s.Message()
}

func reservedFor(c *resourceapi.ResourceClaim, pods ...string) *resourceapi.ResourceClaim {
	c.Status.ReservedFor = nil
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods",
			Name: p, UID: types.UID(p)})
	}
	return c
}

func withBindingConditions(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	c.Status.Allocation.Devices.Results[0].BindingConditions = []string{"Ready"}
	return c
}

// From Reserve to PreBind, and back: devices are kept for the chosen node's claims, what must be
// written is written once, and what comes to nothing is taken back.
func TestClaimsFromReserveToPreBind(t *testing.T) {
	down := errors.New("down")
	there := []runtime.Object{class("gpu"), class("nic"), slice("n1", "gpu-0", "gpu-1"), slice("n2", "nic-0")}
	held := func(pods ...string) *resourceapi.ResourceClaim {
		return reservedFor(allocatedTo(claim("b", exactly("gpu", 1)), "n1", "gpu-0"), pods...)
	}
	for name, c := range map[string]struct {
		p       *v1.Pod
		claims  []runtime.Object
		node    string
		fails   draCycle
		reserve string
		flight  string
		preBind string
		lines   string
	}{
		"no claims": {p: podUsing(), reserve: "Success", flight: "Skip: ", preBind: "Success"},
		"one to allocate": {p: podUsing("a"), claims: []runtime.Object{claim("a", exactly("gpu", 2))},
			reserve: "Success",
			flight:  "Success", preBind: "Success",
			lines: "signal a: gpu-0 gpu-1; bind for p on n1 within 1m0s; remove a false; remove a false; unreserve a " +
				"for p"},
		"it cannot be written": {p: podUsing("a"), claims: []runtime.Object{claim("a", exactly("gpu", 1))},
			fails: draCycle{bind: down}, reserve: "Success", flight: "Success", preBind: "Error: down",
			lines: "signal a: gpu-0; bind for p on n1 within 1m0s; remove a false; remove a false; unreserve a for p"},
		"it is pending elsewhere": {p: podUsing("a"), claims: []runtime.Object{claim("a", exactly("gpu", 1))},
			fails:   draCycle{signal: down},
			reserve: "Error: internal error, couldn't signal allocation for claim a", flight: "Success",
			preBind: "Success",
			lines: "signal a: gpu-0; bind for p on n1 within 1m0s; remove a false; remove a false; unreserve a for " +
				"p"},
		"one that another Pod has, too": {p: podUsing("b"), claims: []runtime.Object{held("q")}, reserve: "Success",
			flight: "Success", preBind: "Success", lines: "bind for p on n1 within 1m0s; unreserve b for p"},
		"one that is its own already": {p: podUsing("b"), claims: []runtime.Object{held("q", "p")}, reserve: "Success",
			flight: "Skip: ", preBind: "Success", lines: "bind for p on n1 within 1m0s"},
		"its own, that must become ready": {p: podUsing("b"),
			claims:  []runtime.Object{withBindingConditions(held("p"))},
			reserve: "Success", flight: "Success", preBind: "Success",
			lines: "bind for p on n1 within 1m0s; unreserve b for p"},
		"both": {p: podUsing("b", "a"), claims: []runtime.Object{held("q"), claim("a", exactly("gpu", 1))},
			reserve: "Success", flight: "Success", preBind: "Success",
			lines: "signal a: gpu-1; bind for p on n1 within 1m0s; remove a false; unreserve b for p; remove a " +
				"false; unreserve a for p"},
		"an extended resource": {p: podRequesting("example.com/gpu"), reserve: "Success", flight: "Success",
			preBind: "Success", lines: "signal <extended-resources>p: gpu-0; bind for p on n1 within 1m0s; " +
				"remove <extended-resources>p false; remove <extended-resources>p false; delete made"},
		"a node that was not looked at": {p: podUsing("a"), claims: []runtime.Object{claim("a", exactly("gpu", 1))},
			node:    "n9",
			reserve: "Error: claim allocation not found for node", flight: "Skip: ", preBind: "Success",
			lines: "bind for p on n9 within 1m0s"},
		"a node that has none": {p: podUsing("a"), claims: []runtime.Object{claim("a", exactly("gpu", 1))}, node: "n2",
			reserve: "Error: claim allocation not found for node", flight: "Skip: ", preBind: "Success",
			lines: "bind for p on n2 within 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.node == "" {
				c.node = "n1"
			}
			d := newDRACycle(append(slices.Clone(there), c.claims...)...)
			d.signal, d.bind = c.fails.signal, c.fails.bind
			minute := &metav1.Duration{Duration: time.Minute}
			pl := dynamicresources.New(&config.DynamicResourcesArgs{BindingTimeout: minute}, d, d)
			state := scheduled(t, pl, c.p, twoNodes()).State
			if got := line(pl.Reserve(t.Context(), state, c.p, c.node)); got != c.reserve {
				t.Errorf("Reserve gave %s, want %s", got, c.reserve)
			}
			r, s := pl.PreBindPreFlight(t.Context(), state, c.p, c.node)
			if got := line(s); got != c.flight || (r != nil) != (s == nil) || r != nil && !r.AllowParallel {
				t.Errorf("PreBindPreFlight gave %+v, %s, want %s", r, got, c.flight)
			}
			if got := line(pl.PreBind(t.Context(), state, c.p, c.node)); got != c.preBind {
				t.Errorf("PreBind gave %s, want %s", got, c.preBind)
			}
			pl.Unreserve(t.Context(), state, c.p, c.node)
			if got := strings.Join(d.lines, "; "); got != c.lines {
				t.Errorf("\n got %s\nwant %s", got, c.lines)
			}
		})
	}
}

// What was reserved and never written is given back to the manager, and nothing is written for it.
func TestUnreserveBeforeAnythingWasWritten(t *testing.T) {
	there := []runtime.Object{class("gpu"), slice("n1", "gpu-0", "gpu-1"), claim("a", exactly("gpu", 1)),
		reservedFor(allocatedTo(claim("b", exactly("gpu", 1)), "n1", "gpu-1"), "q"),
		withBindingConditions(reservedFor(allocatedTo(claim("c", exactly("gpu", 1)), "n1", "gpu-1"), "p"))}
	for name, c := range map[string]struct {
		p    *v1.Pod
		want string
	}{
		"to be allocated": {podUsing("a"), "signal a: gpu-0; remove a false; restore default/a"},
		"another Pod's":   {podUsing("b"), ""},
		"its own already": {podUsing("c"), "unreserve c for p"},
		"for an extended resource": {podRequesting("example.com/gpu"),
			"signal <extended-resources>p: gpu-0; remove <extended-resources>p false; restore " +
				"default/<extended-resources>"},
		"nothing": {podUsing(), ""},
	} {
		d := newDRACycle(there...)
		pl := dynamicresources.New(nil, d, d)
		state := scheduled(t, pl, c.p, twoNodes()).State
		if s := pl.Reserve(t.Context(), state, c.p, "n1"); s != nil {
			t.Errorf("%s: Reserve gave %s, want success", name, line(s))
		}
		pl.Unreserve(t.Context(), state, c.p, "n1")
		if got := strings.Join(d.lines, "; "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		readOnly := dynamicresources.New(nil, d, nil)
		state = scheduled(t, readOnly, c.p, twoNodes()).State
		readOnly.Reserve(t.Context(), state, c.p, "n1")
		d.lines = nil
		if _, s := readOnly.PreBindPreFlight(t.Context(), state, c.p, "n1"); !s.IsSkip() {
			t.Errorf("%s, without a ClaimWriter: PreBindPreFlight gave %s, want Skip", name, line(s))
		}
		if s := readOnly.PreBind(t.Context(), state, c.p, "n1"); s != nil {
			t.Errorf("%s, without a ClaimWriter: PreBind gave %s, want success", name, line(s))
		}
		readOnly.Unreserve(t.Context(), state, c.p, "n1")
		if got := strings.Join(d.lines, "; "); strings.Contains(got, "unreserve") || strings.Contains(got, "bind") {
			t.Errorf("%s, without a ClaimWriter: %s", name, got)
		}
	}
}

// container asks for resources: "NAME gpu=1 nic=2"; of an init container that stays "NAME+ …".
func container(text string) v1.Container {
	words := strings.Fields(text)
	c := v1.Container{Name: words[0], Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}}}
	if name, stays := strings.CutSuffix(c.Name, "+"); stays {
		c.Name, c.RestartPolicy = name, new(v1.ContainerRestartPolicyAlways)
	}
	for _, w := range words[1:] {
		name, n, _ := strings.Cut(w, "=")
		if name != "cpu" {
			name = "example.com/" + name
		}
		c.Resources.Requests[v1.ResourceName(name)] = resource.MustParse(n)
	}
	return c
}

// The claim for extended resources has a request for each container that stays; init containers
// that end use the devices of those after them, and share what they need beyond.
func TestRequestsForExtendedResources(t *testing.T) {
	for name, c := range map[string]struct {
		init, main []string
		requests   string // NAME=CLASSxCOUNT
		mapping    string // CONTAINER:RESOURCE:REQUEST
	}{
		"one container": {nil, []string{"c gpu=1"}, "container-0-request-0=gpux1", "c:gpu:container-0-request-0"},
		"none asked": {nil, []string{"a", "c gpu=2", "d gpu=0"}, "container-1-request-0=gpux2",
			"c:gpu:container-1-request-0"},
		"two resources, after cpu": {nil, []string{"c cpu=1 nic=1 gpu=2"},
			"container-0-request-1=gpux2 container-0-request-2=nicx1",
			"c:gpu:container-0-request-1 c:nic:container-0-request-2"},
		"an init container that needs less": {[]string{"i gpu=1"}, []string{"c gpu=2"}, "container-1-request-0=gpux2",
			"c:gpu:container-1-request-0 i:gpu:container-1-request-0"},
		"one that needs as much": {[]string{"i gpu=2"}, []string{"c gpu=2"}, "container-1-request-0=gpux2",
			"c:gpu:container-1-request-0 i:gpu:container-1-request-0"},
		"one that needs more": {[]string{"i gpu=3"}, []string{"c gpu=2"},
			"container-0-request-0=gpux1 container-1-request-0=gpux2",
			"c:gpu:container-1-request-0 i:gpu:container-1-request-0 i:gpu:container-0-request-0"},
		"one alone": {[]string{"i gpu=1"}, []string{"c"}, "container-0-request-0=gpux1", "i:gpu:container-0-request-0"},
		"two that take turns": {[]string{"i gpu=1", "j gpu=3"}, []string{"c gpu=1"},
			"container-1-request-0=gpux2 container-2-request-0=gpux1", "c:gpu:container-2-request-0 " +
				"i:gpu:container-2-request-0 j:gpu:container-2-request-0 j:gpu:container-1-request-0"},
		"two that need the same": {[]string{"i gpu=2", "j gpu=2"}, []string{"c"}, "container-0-request-0=gpux2",
			"i:gpu:container-0-request-0 j:gpu:container-0-request-0"},
		"as many as it needs, and no more": {[]string{"i gpu=2"}, []string{"a gpu=1", "b gpu=1", "d gpu=1"},
			"container-1-request-0=gpux1 container-2-request-0=gpux1 container-3-request-0=gpux1",
			"a:gpu:container-1-request-0 b:gpu:container-2-request-0 d:gpu:container-3-request-0 " +
				"i:gpu:container-1-request-0 i:gpu:container-2-request-0"},
		"one that stays, before": {[]string{"s+ gpu=1", "i gpu=1"}, []string{"c"},
			"container-0-request-0=gpux1 container-1-request-0=gpux1",
			"s:gpu:container-0-request-0 i:gpu:container-1-request-0"},
		"one that stays, after": {[]string{"i gpu=1", "s+ gpu=1"}, []string{"c"}, "container-1-request-0=gpux1",
			"s:gpu:container-1-request-0 i:gpu:container-1-request-0"},
	} {
		p := podUsing()
		for _, text := range c.init {
			p.Spec.InitContainers = append(p.Spec.InitContainers, container(text))
		}
		for _, text := range c.main {
			p.Spec.Containers = append(p.Spec.Containers, container(text))
		}
		d := newDRACycle(class("gpu"), class("nic"), slice("n1", "gpu-0", "gpu-1", "gpu-2", "gpu-3", "nic-0", "nic-1"))
		pl := dynamicresources.New(nil, d, d)
		state := scheduled(t, pl, p, twoNodes()).State
		pl.Reserve(t.Context(), state, p, "n1")
		pl.PreBind(t.Context(), state, p, "n1")
		if d.plan == nil || len(d.plan.Claims) != 1 || !d.plan.Claims[0].Create {
			t.Errorf("%s: got plan %+v, want one claim to create", name, d.plan)
			continue
		}
		var requests, mapping []string
		for _, r := range d.plan.Claims[0].Claim.Spec.Devices.Requests {
			requests = append(requests, fmt.Sprintf("%s=%sx%d", r.Name, r.Exactly.DeviceClassName, r.Exactly.Count))
		}
		for _, m := range d.plan.Mapping {
			mapping = append(mapping, m.ContainerName+":"+strings.TrimPrefix(m.ResourceName,
				"example.com/")+":"+m.RequestName)
		}
		if got := strings.Join(requests, " "); got != c.requests {
			t.Errorf("%s: requests\n got %s\nwant %s", name, got, c.requests)
		}
		if got := strings.Join(mapping, " "); got != c.mapping {
			t.Errorf("%s: mapping\n got %s\nwant %s", name, got, c.mapping)
		}
		made := d.plan.Claims[0].Claim
		if o := metav1.GetControllerOf(made); o == nil || o.UID != p.UID || o.Kind != "Pod" || o.APIVersion != "v1" ||
			o.Name != "p" || made.GenerateName != "p-extended-resources-" || made.Namespace != "default" ||
			made.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != "true" {
			t.Errorf("%s: the claim is %+v", name, made.ObjectMeta)
		}
	}
}

// A resource that a node offers by itself needs no devices; one that neither a class nor the node
// knows fits nowhere; who is left from an attempt before must go first.
func TestExtendedResourcesOfNodes(t *testing.T) {
	offers := func(pairs ...string) func(*v1.Node) {
		return func(n *v1.Node) {
			n.Status.Allocatable = v1.ResourceList{}
			for _, pair := range pairs {
				name, q, _ := strings.Cut(pair, "=")
				n.Status.Allocatable[v1.ResourceName("example.com/"+name)] = resource.MustParse(q)
			}
		}
	}
	left := func(change func(*resourceapi.ResourceClaim)) runtime.Object {
		c := claim("left", exactly("gpu", 1))
		c.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p",
			Controller: new(true)}}
		change(c)
		return c
	}
	asks := func(text string) *v1.Pod {
		p := podUsing()
		p.Spec.Containers = []v1.Container{container(text)}
		return p
	}
	const refused = "UnschedulableAndUnresolvable: cannot fit resource"
	const old = "UnschedulableAndUnresolvable: cannot schedule extended resource claim"
	for name, c := range map[string]struct {
		p       *v1.Pod
		offers  func(*v1.Node)
		objects []runtime.Object
		n2      string
		creates bool // on n1
	}{
		"of devices": {asks("c gpu=1"), offers(), nil, "UnschedulableAndUnresolvable: cannot allocate all claims",
			true},
		"of the node": {asks("c gpu=1"), offers("gpu=1"), nil, "Success", false},
		"none left on the node": {asks("c gpu=1"), offers("gpu=0"), nil,
			"UnschedulableAndUnresolvable: cannot allocate all claims", true},
		"another that nobody knows":   {asks("c gpu=1 other=1"), offers("gpu=1"), nil, refused, false},
		"another that the node knows": {asks("c gpu=1 other=1"), offers("gpu=1", "other=1"), nil, "Success", false},
		"another of the node's, none": {asks("c gpu=1 other=1"), offers("gpu=1", "other=0"), nil, "Success", false},
		"left from before": {asks("c gpu=1"), offers("gpu=1"),
			[]runtime.Object{left(func(*resourceapi.ResourceClaim) {})}, old, false},
		"left of another Pod": {asks("c gpu=1"), offers("gpu=1"),
			[]runtime.Object{left(func(c *resourceapi.ResourceClaim) {
				c.OwnerReferences[0].UID = "q"
			})}, "Success", false},
		"of another namespace": {asks("c gpu=1"), offers("gpu=1"),
			[]runtime.Object{left(func(c *resourceapi.ResourceClaim) {
				c.Namespace = "other"
			})}, "Success", false},
		"not made for them": {asks("c gpu=1"), offers("gpu=1"),
			[]runtime.Object{left(func(c *resourceapi.ResourceClaim) {
				c.Annotations[resourceapi.ExtendedResourceClaimAnnotation] = "false"
			})}, "Success", false},
	} {
		d := newDRACycle(append([]runtime.Object{class("gpu"), slice("n1", "gpu-0")}, c.objects...)...)
		pl := dynamicresources.New(nil, d, d)
		snap := twoNodes(c.offers)
		r := scheduled(t, pl, c.p, snap)
		if got := line(pl.Filter(t.Context(), r.State, c.p, snap.Node("n2"))); got != c.n2 {
			t.Errorf("%s: n2: got %s, want %s", name, got, c.n2)
		}
		pl.Reserve(t.Context(), r.State, c.p, "n1")
		if creates := len(d.lines) > 0; creates != c.creates {
			t.Errorf("%s: claim made %t, want %t", name, creates, c.creates)
		}
		if pl.Skips(c.p, nil) {
			t.Errorf("%s: skipped", name)
		}
		s := line(lastOf(pl.PostFilter(t.Context(), r.State, c.p, r.NodeToStatus())))
		if want := map[bool]string{true: "Unschedulable: deletion of ResourceClaim completed",
			false: "Unschedulable: "}[c.n2 == old]; s != want ||
			slices.Contains(d.lines, "delete left") != (c.n2 == old) {
			t.Errorf("%s: PostFilter gave %s and did %v, want %s", name, s, d.lines, want)
		}
	}
	for name, p := range map[string]*v1.Pod{"nothing": podUsing(), "cpu": asks("c cpu=1"), "none": asks("c gpu=0"),
		"of no class": asks("c other=1")} {
		pl := dynamicresources.New(nil, newDRACycle(class("gpu")), nil)
		if _, s := pl.PreFilter(t.Context(), schedule.NewCycleState(), p, nil); !s.IsSkip() || !pl.Skips(p, nil) {
			t.Errorf("%s: got %s, skips %t, want Skip", name, line(s), pl.Skips(p, nil))
		}
		if f, s := pl.SignPod(t.Context(), p); f != nil || s != nil {
			t.Errorf("%s: signed %v, %s, want nothing", name, f, line(s))
		}
	}
	d := newDRACycle(class("gpu"))
	d.list = errors.New("down")
	pl := dynamicresources.New(nil, d, nil)
	if _, s := pl.PreFilter(t.Context(), schedule.NewCycleState(), asks("c gpu=1"), nil); line(s) != "Error: down" {
		t.Errorf("claims cannot be listed: got %s, want Error: down", line(s))
	}
	if _, s := pl.SignPod(t.Context(), asks("c gpu=1")); s.Code() != framework.Unschedulable {
		t.Errorf("a Pod that devices serve is signed: %s", line(s))
	}
	if dynamicresources.DeviceClassFor(d, "cpu") != nil || dynamicresources.DeviceClassFor(d,
		"example.com/gpu") == nil {
		t.Errorf("got classes %v for the extended resource and %v for cpu, want one and none",
			dynamicresources.DeviceClassFor(d, "example.com/gpu"), dynamicresources.DeviceClassFor(d, "cpu"))
	}
}

func lastOf[A, B any](_ A, b B) B { return b }

// A claim that keeps the Pod from all nodes is freed when nobody else has it.
func TestPostFilterFreesClaims(t *testing.T) {
	held := func(pods ...string) *resourceapi.ResourceClaim {
		return reservedFor(allocatedTo(claim("a", exactly("gpu", 1)), "n9", "gpu-0"), pods...)
	}
	here := reservedFor(allocatedTo(claim("b", exactly("gpu", 1)), "n1", "gpu-0"))
	for name, c := range map[string]struct {
		claims []runtime.Object
		p      *v1.Pod
		err    error
		want   string
		lines  string
	}{
		"nobody has it": {[]runtime.Object{held()}, podUsing("a"), nil,
			"Unschedulable: deallocation of ResourceClaim completed", "deallocate a"},
		"the Pod has it": {[]runtime.Object{held("p")}, podUsing("a"), nil,
			"Unschedulable: deallocation of ResourceClaim completed", "deallocate a"},
		"another has it": {[]runtime.Object{held("q")}, podUsing("a"), nil, "Unschedulable: ", ""},
		"both have it":   {[]runtime.Object{held("p", "q")}, podUsing("a"), nil, "Unschedulable: ", ""},
		"it is not let go": {[]runtime.Object{held()}, podUsing("a"), errors.New("down"), "Error: down",
			"deallocate a"},
		"one of two": {[]runtime.Object{here, held()}, podUsing("b", "a"), nil,
			"Unschedulable: deallocation of ResourceClaim completed", "deallocate b"},
		"none is allocated": {[]runtime.Object{claim("a", exactly("gpu", 9))}, podUsing("a"), nil, "Unschedulable: ",
			""},
		"without claims": {nil, podUsing(), nil, "Unschedulable: ", ""},
	} {
		d := newDRACycle(append([]runtime.Object{class("gpu"), slice("n1", "gpu-0")}, c.claims...)...)
		d.deallocate = c.err
		for what, pl := range map[string]*dynamicresources.Plugin{"": dynamicresources.New(nil, d, d),
			", without a ClaimWriter": dynamicresources.New(nil, d, nil)} {
			d.lines = nil
			r := scheduled(t, pl, c.p, twoNodes())
			want, lines := c.want, c.lines
			if what != "" {
				want, lines = "Unschedulable: ", ""
			}
			res, s := pl.PostFilter(t.Context(), r.State, c.p, r.NodeToStatus())
			if got := line(s); got != want || strings.Join(d.lines, "; ") != lines || res != nil {
				t.Errorf("%s%s: got %s, %v, want %s, %s", name, what, got, d.lines, want, lines)
			}
		}
	}
	pl := dynamicresources.New(nil, newDRACycle(), nil)
	if _, s := pl.PostFilter(t.Context(), schedule.NewCycleState(), podUsing(), &schedule.NodeStatuses{
		NotRun: []string{"Other", dynamicresources.Name}}); !s.IsError() || !errors.Is(s.AsError(),
		framework.ErrNotFound) {
		t.Errorf("PreFilter did not run: got %s, want an error that it is not found", line(s))
	}
	if _, s := pl.PostFilter(t.Context(), schedule.NewCycleState(), podUsing(), &schedule.NodeStatuses{
		NotRun: []string{"Other"}}); line(s) != "Unschedulable: " {
		t.Errorf("another did not run: got %s, want Unschedulable", line(s))
	}
}

// Until its claims are there a Pod waits outside the queue, and PreFilter refuses it for what makes
// them unusable on every node.
func TestClaimsThatCannotServe(t *testing.T) {
	template := func(made *string) *v1.Pod {
		p := podUsing()
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "t", ResourceClaimTemplateName: new("template")}}
		if made != nil {
			p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "t", ResourceClaimName: made}}
			if *made == "" {
				p.Status.ResourceClaimStatuses[0].ResourceClaimName = nil
			}
		}
		return p
	}
	of := func(name, pod string) *resourceapi.ResourceClaim {
		c := claim(name, exactly("gpu", 1))
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID(pod),
			Controller: new(true)}}
		return c
	}
	deleted := claim("a", exactly("gpu", 1))
	deleted.DeletionTimestamp = &metav1.Time{}
	full := allocatedTo(claim("a", exactly("gpu", 1)), "n1", "gpu-0")
	reservedFor(full, slices.Repeat([]string{"q"}, resourceapi.ResourceClaimReservedForMaxSize)...)
	anywhere := allocatedTo(claim("a", exactly("gpu", 1)), "n1", "gpu-0")
	anywhere.Status.Allocation.NodeSelector = nil
	broken := allocatedTo(claim("a", exactly("gpu", 1)), "n1", "gpu-0")
	broken.Status.Allocation.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Operator = "Like"
	for name, c := range map[string]struct {
		p         *v1.Pod
		claims    []runtime.Object
		fails     draCycle
		enqueue   string // of the message, "": success
		preFilter string // "": as enqueue
	}{
		"there":        {p: podUsing("a"), claims: []runtime.Object{claim("a", exactly("gpu", 1))}},
		"missing":      {p: podUsing("a"), enqueue: `could not find v1.ResourceClaim "default/a"`},
		"not made yet": {p: template(nil), enqueue: "not created yet"},
		"made":         {p: template(new("m")), claims: []runtime.Object{of("m", "p")}},
		"made for another Pod": {p: template(new("m")), claims: []runtime.Object{of("m", "q")},
			enqueue: "was not created for"},
		"none was needed": {p: template(new("")), preFilter: "Skip"},
		"one of two was needed": {p: func() *v1.Pod {
			p := template(new(""))
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, podUsing("a").Spec.ResourceClaims...)
			return p
		}(), enqueue: `could not find v1.ResourceClaim "default/a"`},
		"being deleted": {p: podUsing("a"), claims: []runtime.Object{deleted},
			enqueue: `resourceclaim "a" is being deleted`},
		"of as many as can be": {p: podUsing("a"), claims: []runtime.Object{full}},
		"reachable anywhere":   {p: podUsing("a"), claims: []runtime.Object{anywhere}},
		"nobody knows where":   {p: podUsing("a"), claims: []runtime.Object{broken}, preFilter: "Like"},
		"being allocated": {p: podUsing("a"), claims: []runtime.Object{claim("a", exactly("gpu", 1))},
			fails:     draCycle{pending: map[types.UID]bool{"a": true}},
			preFilter: "resource claim default/a is in the process of being allocated"},
		"of no kind": {p: podUsing("a"), claims: []runtime.Object{claim("a", resourceapi.DeviceRequest{Name: "r"})},
			preFilter: "resource claim default/a, request r: unknown request type"},
		"of no class": {p: podUsing("a"), claims: []runtime.Object{claim("a", exactly("", 1))},
			preFilter: "request req: unsupported request type"},
		"of a class that is not there": {p: podUsing("a"), claims: []runtime.Object{claim("a", exactly("tpu", 1))},
			preFilter: "request req: device class tpu does not exist"},
		"an alternative that is not there": {p: podUsing("a"), claims: []runtime.Object{claim("a", either("gpu",
			"tpu"))},
			preFilter: "request req/tpu: device class tpu does not exist"},
		"classes cannot be read": {p: podUsing("a"), claims: []runtime.Object{claim("a", exactly("gpu", 1))},
			fails: draCycle{classes: errors.New("down")}, preFilter: "request req: look up device class: down"},
	} {
		d := newDRACycle(append([]runtime.Object{class("gpu"), slice("n1", "gpu-0")}, c.claims...)...)
		d.pending, d.classes = c.fails.pending, c.fails.classes
		pl := dynamicresources.New(nil, d, nil)
		if c.preFilter == "" {
			c.preFilter = c.enqueue
		}
		s := pl.PreEnqueue(t.Context(), c.p)
		if got := line(s); (s == nil) != (c.enqueue == "") || !strings.Contains(got, c.enqueue) {
			t.Errorf("%s: PreEnqueue gave %s, want %q", name, got, c.enqueue)
		}
		_, s = pl.PreFilter(t.Context(), schedule.NewCycleState(), c.p, nil)
		if got := line(s); (s == nil) != (c.preFilter == "") || !strings.Contains(got, c.preFilter) {
			t.Errorf("%s: PreFilter gave %s, want %q", name, got, c.preFilter)
		}
		for what, want := range map[*v1.Pod]framework.QueueingHint{
			c.p: map[bool]framework.QueueingHint{true: framework.Queue,
				false: framework.QueueSkip}[c.enqueue == ""],
			podUsing(): framework.Queue} {
			if got, err := pl.IsSchedulableAfterPodChange(logr.Discard(), c.p, nil, what); got != want || err != nil {
				t.Errorf("%s: the Pod changed: got %v, %v, want %v", name, got, err, want)
			}
		}
		other := podUsing()
		other.UID = "other"
		if got, err := pl.IsSchedulableAfterPodChange(logr.Discard(), c.p, nil, other); got != framework.QueueSkip ||
			err != nil {
			t.Errorf("%s: another Pod changed: got %v, %v, want QueueSkip", name, got, err)
		}
	}
}

// Alternatives count by their place in their list, for all claims that are allocated now.
func TestAlternativesAreScored(t *testing.T) {
	second := either("nic", "gpu")
	there := []runtime.Object{class("gpu"), class("nic"), slice("n1", "gpu-0", "gpu-1", "gpu-2"), slice("n2", "nic-0",
		"nic-1", "gpu-2")}
	for name, c := range map[string]struct {
		p      *v1.Pod
		claims []runtime.Object
		want   string // of n1 and n2
	}{
		"no choice": {podUsing("a"), []runtime.Object{claim("a", exactly("gpu", 1))}, "Skip"},
		"no claims": {podUsing(), nil, "Skip"},
		"chosen already": {podUsing("a"), []runtime.Object{reservedFor(allocatedTo(claim("a", second), "n1", "gpu-0"))},
			"Skip"},
		"one": {podUsing("a"), []runtime.Object{claim("a", second)}, "7 8"},
		"two": {podUsing("a", "b"), []runtime.Object{claim("a", second), claim("b", either("gpu", "nic"))}, "15 16"},
		"one beside none": {podUsing("a", "b"), []runtime.Object{claim("a", exactly("gpu", 1)), claim("b", second)},
			"7 8"},
	} {
		pl := dynamicresources.New(nil, newDRACycle(append(slices.Clone(there), c.claims...)...), nil)
		snap := twoNodes()
		state := schedule.NewCycleState()
		if _, s := pl.PreFilter(t.Context(), state, c.p, snap.All()); !s.IsSkip() && s != nil {
			t.Errorf("%s: got %s", name, line(s))
		}
		for _, n := range snap.All() {
			pl.Filter(t.Context(), state, c.p, n)
		}
		got := "Skip"
		if s := pl.PreScore(t.Context(), state, c.p, snap.All()); !s.IsSkip() {
			a, s1 := pl.Score(t.Context(), state, c.p, snap.Node("n1"))
			b, s2 := pl.Score(t.Context(), state, c.p, snap.Node("n2"))
			if got = fmt.Sprint(a, " ", b); s != nil || s1 != nil || s2 != nil {
				t.Errorf("%s: got %s, %s, %s, want success", name, line(s), line(s1), line(s2))
			}
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	pl := dynamicresources.New(nil, newDRACycle(), nil)
	if _, s := pl.Score(t.Context(), schedule.NewCycleState(), podUsing(), twoNodes().Node("n1")); !s.IsError() {
		t.Errorf("without PreFilter: got %s, want an error", line(s))
	}
	for want, scores := range map[string][]int64{"100 50 0": {16, 8, 0}, "0 0": {0, 0}, "53 100": {8, 15}, "": nil} {
		var list framework.NodeScoreList
		for _, s := range scores {
			list = append(list, framework.NodeScore{Score: s})
		}
		if s := pl.NormalizeScore(t.Context(), nil, nil, list); s != nil {
			t.Errorf("got %s, want success", line(s))
		}
		var got []string
		for _, s := range list {
			got = append(got, fmt.Sprint(s.Score))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v became %v, want %s", scores, got, want)
		}
	}
}

// Claims give their devices back when all who reserved them are gone.
func TestWithoutSomePods(t *testing.T) {
	held := func(name string, pods ...string) *resourceapi.ResourceClaim {
		return reservedFor(allocatedTo(claim(name, exactly("gpu", 1)), "n1", "gpu-0"), pods...)
	}
	all := []*resourceapi.ResourceClaim{held("none"), held("stays", "q"), held("goes", "p"), held("both", "p", "q"),
		held("all", "p", "r")}
	var objects []runtime.Object
	for _, c := range all {
		objects = append(objects, c)
	}
	m := dynamicresources.NewFixedManager(append(objects, class("gpu"), slice("n1", "gpu-0"))...)
	got, err := m.Without(map[types.UID]bool{"p": true, "r": true}).ResourceClaims().List()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i, c := range got {
		lines = append(lines, fmt.Sprintf("%s %t %d", c.Name, c.Status.Allocation != nil, len(c.Status.ReservedFor)))
		if all[i].Status.Allocation == nil {
			t.Errorf("the claim %s that was given has changed", c.Name)
		}
	}
	if got, want := strings.Join(lines, "; "),
		"none true 0; stays true 1; goes false 0; both true 1; all false 0"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	there, err := m.Without(nil).ResourceSlices().ListWithDeviceTaintRules()
	classes, err2 := m.Without(nil).DeviceClasses().List()
	if len(there) != 1 || len(classes) != 1 || err != nil || err2 != nil {
		t.Errorf("got %d slices and %d classes, %v, %v, want one of each", len(there), len(classes), err, err2)
	}
}

// What a node lacks is told to the device, and what would help.
func TestWhatANodeLacksIsExplained(t *testing.T) {
	all := func(class string) resourceapi.DeviceRequest {
		r := exactly(class, 0)
		r.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
		return r
	}
	stained := func(effect resourceapi.DeviceTaintEffect) *resourceapi.ResourceSlice {
		s := slice("n1", "gpu-0")
		s.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "k", Value: "v", Effect: effect}}
		return s
	}
	wrong := class("wrong")
	wrong.Spec.Selectors[0].CEL.Expression = "device.nothing"
	two := exactly("gpu", 1)
	two.Name = "second"
	objects := func(more ...runtime.Object) []runtime.Object {
		return append([]runtime.Object{class("gpu"), class("nic"), wrong}, more...)
	}
	var six []runtime.Object
	for i := range 6 {
		six = append(six, allocatedTo(claim(fmt.Sprint("h", i), exactly("gpu", 1)), "n1", fmt.Sprint("gpu-", i)))
	}
	const free = "(end a Pod that has the claim, or delete a claim nobody uses), or add a node with devices of class " +
		"gpu"
	for name, c := range map[string]struct {
		p       *v1.Pod
		objects []runtime.Object
		want    string
	}{
		"held by one": {podUsing("a"), objects(slice("n1", "gpu-0"), six[0], claim("a", exactly("gpu", 1))),
			"claim default/a, request req asks for 1 of device class gpu: 1 of 1 devices of this node match, 1 taken " +
				"(claim default/h0) | free 1 of the devices that are taken " + free},
		"held by six": {podUsing("a"), objects(append(slices.Clone(six), slice("n1", "gpu-0", "gpu-1", "gpu-2", "gpu-3",
			"gpu-4", "gpu-5"), claim("a", exactly("gpu", 2)))...),
			"claim default/a, request req asks for 2 of device class gpu: 6 of 6 devices of this node match, 6 taken " +
				"(claim " +
				"default/h0, claim default/h1, claim default/h2, claim default/h3, claim default/h4 and 1 more) | " +
				"free 2 of the devices that are taken " + free},
		"held by five": {podUsing("a"), objects(append(slices.Clone(six[:5]), slice("n1", "gpu-0", "gpu-1", "gpu-2",
			"gpu-3",
			"gpu-4", "nic-0"), claim("a", exactly("gpu", 1)))...),
			"claim default/a, request req asks for 1 of device class gpu: 5 of 6 devices of this node match, 5 taken " +
				"(claim " +
				"default/h0, claim default/h1, claim default/h2, claim default/h3, claim default/h4) | free 1 of the " +
				"devices that are taken " + free},
		"all of a kind": {podUsing("a"), objects(slice("n1", "gpu-0", "gpu-1"), six[0], claim("a", all("gpu"))),
			"claim default/a, request req asks for 2 of device class gpu: 2 of 2 devices of this node match, 1 taken " +
				"(claim default/h0) | free 1 of the devices that are taken " + free},
		"a taint": {podUsing("a"), objects(stained(resourceapi.DeviceTaintEffectNoSchedule), claim("a", exactly("gpu",
			1))),
			"claim default/a, request req asks for 1 of device class gpu: 1 of 1 devices of this node match, 0 " +
				"taken, 1 " +
				"with a taint that the request does not tolerate: k=v:NoSchedule | give request req a toleration of " +
				"the devices' taint k=v:NoSchedule, or have that taken off them"},
		"a taint of no effect": {podUsing("a"), objects(stained(resourceapi.DeviceTaintEffectNone), claim("a",
			exactly("gpu", 2))),
			"claim default/a, request req asks for 2 of device class gpu: 1 of 1 devices of this node match, 0 taken " +
				"| ask for at most 1 in request req, or add a node with 2 such devices"},
		"not both": {podUsing("a"), objects(slice("n1", "gpu-0"), claim("a", exactly("gpu", 1), two)),
			"claim default/a, request req asks for 1 of device class gpu: 1 of 1 devices of this node match, 0 " +
				"taken; claim " +
				"default/a, request second asks for 1 of device class gpu: 1 of 1 devices of this node match, 0 " +
				"taken | each " +
				"request alone could be served, not all together: ask for fewer devices, loosen the claim's " +
				"constraints, or free devices of this node"},
		"an extended resource": {podRequesting("example.com/gpu"), objects(slice("n1", "nic-0")),
			"claim for the Pod's extended resources, request container-0-request-0 asks for 1 of device class gpu: " +
				"none of " +
				"the 1 devices of this node matches | change the selectors of request container-0-request-0 or of " +
				"class gpu, or add a node whose devices match"},
		"nothing there": {podUsing("a"), objects(claim("a", exactly("gpu", 1))),
			"claim default/a, request req asks for 1 of device class gpu: no ResourceSlice offers devices on this " +
				"node | " +
				"install a driver that publishes ResourceSlices with devices of class gpu for this node, or add a " +
				"node that has some"},
	} {
		pl := dynamicresources.New(nil, newDRACycle(c.objects...), nil)
		snap := twoNodes()
		r := scheduled(t, pl, c.p, snap)
		e := pl.Explain(t.Context(), r.State, c.p, snap.Node("n1"))
		if got := e.Detail + " | " + e.Fix; got != c.want || e.Code != "NoDevices" {
			t.Errorf("%s: %s\n got %s\nwant %s", name, e.Code, got, c.want)
		}
	}
	pl, p := dynamicresources.New(nil, newDRACycle(objects(slice("n1", "gpu-0"), claim("a", exactly("wrong", 1)))...),
		nil),
		podUsing("a")
	snap := twoNodes()
	state := schedule.NewCycleState()
	if _, s := pl.PreFilter(t.Context(), state, p, snap.All()); s != nil {
		t.Fatalf("got %s, want success", line(s))
	}
	if s := pl.Filter(t.Context(), state, p, snap.Node("n1")); !s.IsError() {
		t.Errorf("a selector that cannot be read: got %s, want an error", line(s))
	}
	if e := pl.Explain(t.Context(), state, p, snap.Node("n1")); !strings.HasPrefix(e.Detail,
		"claim default/a, request req: ") {
		t.Errorf("a selector that cannot be read: explained as %s", e.Detail)
	}
	if e := pl.Explain(t.Context(), schedule.NewCycleState(), p, snap.Node("n1")); e.Code != "NoDevices" ||
		e.Detail != "" {
		t.Errorf("without PreFilter: explained as %v", e)
	}
	if _, err := pl.IsSchedulableAfterPodChange(logr.Discard(), p, nil, "p"); err == nil ||
		err.Error() != "got a string, want a Pod" {
		t.Errorf("got %v, want an error about the kind", err)
	}
	if _, err := pl.IsSchedulableAfterClaimChange(logr.Discard(), p, nil, "p"); err == nil ||
		err.Error() != "got a string, want a ResourceClaim" {
		t.Errorf("got %v, want an error about the kind", err)
	}
	if _, s := pl.SignPod(t.Context(), p); line(s) != "Unschedulable: pods with dra resource claims are not signable" {
		t.Errorf("got %s, want %q", line(s), "Unschedulable: pods with dra resource claims are not signable")
	}
}

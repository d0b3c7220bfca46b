package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/deviceplugintest"
	"github.com/gantry-project/gantry/internal/kubelet/dra/manager"
	"github.com/gantry-project/gantry/internal/kubelet/dra/plugin"
	"github.com/gantry-project/gantry/test/wrappers"
)

// driver is a DRA driver that notes its calls. Its devices are named after the claim.
type driver struct {
	drapb.UnimplementedDRAPluginServer
	drahealthv1.UnimplementedDRAResourceHealthServer
	name   string
	node   *node
	answer func(c *drapb.Claim) *drapb.NodePrepareResourceResponse // nil: a device
	fail   error                                                   // of both calls
	report chan *drahealthv1.NodeWatchResourcesResponse
	server *grpc.Server
	held   map[string]bool // claims by name that are prepared, as far as the driver knows
	called func()          // called for each call before it is answered; nil: nobody
}

// hold notes what a call makes of claims; the node's log comes before.
func (d *driver) hold(claims []*drapb.Claim, prepared bool) {
	if d.called != nil {
		d.called()
	}
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	if d.held == nil {
		d.held = map[string]bool{}
	}
	for _, c := range claims {
		if prepared {
			d.held[c.GetName()] = true
		} else if d.fail == nil {
			delete(d.held, c.GetName())
		}
	}
}

func (d *driver) NodePrepareResources(ctx context.Context,
	r *drapb.NodePrepareResourcesRequest) (*drapb.NodePrepareResourcesResponse, error) {
	d.hold(r.GetClaims(), true)
	out := &drapb.NodePrepareResourcesResponse{Claims: map[string]*drapb.NodePrepareResourceResponse{}}
	for _, c := range r.GetClaims() {
		d.node.note("%s prepare %s", d.name, c.GetName())
		out.Claims[c.GetUid()] = &drapb.NodePrepareResourceResponse{Devices: []*drapb.Device{{PoolName: "pool",
			DeviceName: c.GetName(), RequestNames: []string{"r"},
			CdiDeviceIds: []string{d.name + "/dev=" + c.GetName()}}}}
		if d.answer != nil {
			if out.Claims[c.GetUid()] = d.answer(c); out.Claims[c.GetUid()] == nil {
				delete(out.Claims, c.GetUid())
			}
		}
	}
	return out, d.fail
}

func (d *driver) NodeUnprepareResources(_ context.Context,
	r *drapb.NodeUnprepareResourcesRequest) (*drapb.NodeUnprepareResourcesResponse, error) {
	d.hold(r.GetClaims(), false)
	out := &drapb.NodeUnprepareResourcesResponse{Claims: map[string]*drapb.NodeUnprepareResourceResponse{}}
	for _, c := range r.GetClaims() {
		d.node.note("%s unprepare %s", d.name, c.GetName())
		out.Claims[c.GetUid()] = &drapb.NodeUnprepareResourceResponse{}
	}
	return out, d.fail
}

func (d *driver) NodeWatchResources(_ *drahealthv1.NodeWatchResourcesRequest,
	s drahealthv1.DRAResourceHealth_NodeWatchResourcesServer) error {
	for {
		select {
		case r := <-d.report:
			if err := s.Send(r); err != nil {
				return err
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

// node is a manager, its drivers and the API, in virtual time.
type node struct {
	t       *testing.T
	dir     string
	sockets deviceplugintest.Sockets
	m       *manager.Manager
	drivers *plugin.Drivers
	stop    func()
	started []*driver

	mu     sync.Mutex
	log    []string
	claims map[string]*resourceapi.ResourceClaim
	ended  map[types.UID]bool
	woken  []types.UID
}

func (n *node) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, fmt.Sprintf(format, args...))
}

// calls are those since it was called last.
func (n *node) calls() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := strings.Join(n.log, ", ")
	n.log = nil
	return out
}

// GetClaim is the API's.
func (n *node) GetClaim(_ context.Context, _, name string) (*resourceapi.ResourceClaim, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.claims[name]; c != nil {
		return c, nil
	}
	return nil, errors.New("not found")
}

// DeleteSlices is the API's.
func (n *node) DeleteSlices(_ context.Context, driver string) error {
	n.note("wipe %q", driver)
	return nil
}

// claim makes an allocated claim with a device of each driver, reserved for Pods.
func (n *node) claim(name string, drivers []string, pods ...*v1.Pod) {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		UID: "uid-c-" + types.UID(name)},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}}}
	for _, d := range drivers {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Driver: d, Pool: "pool", Device: name, Request: "r"})
	}
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods",
			Name: p.Name, UID: p.UID})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.claims[name] = c
}

// user is a Pod whose one container uses claims.
func user(name string, claims ...string) *v1.Pod {
	p := wrappers.MakePod().Namespace("default").Name(name).
		UID("uid-"+name).Container("main", "").Obj()
	for _, c := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: c, ResourceClaimName: &c})
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, v1.ResourceClaim{Name: c})
	}
	return p
}

func run(t *testing.T, test func(n *node)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t, dir: dir, claims: map[string]*resourceapi.ResourceClaim{}, ended: map[types.UID]bool{}}
		n.start()
		defer func() {
			for _, d := range n.started {
				d.server.Stop()
			}
			n.stop()
		}()
		n.calls()
		test(n)
	})
}

// start begins a kubelet's manager; n.stop ends it as a kill would.
func (n *node) start() {
	n.t.Helper()
	m, err := manager.New(manager.Deps{Dir: n.dir, API: n, Dial: n.sockets.Dial,
		Active: func(uid types.UID) bool { n.mu.Lock(); defer n.mu.Unlock(); return !n.ended[uid] },
		HealthChanged: func(uid types.UID) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.woken = append(n.woken, uid)
		}})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	drivers, wait := m.Start(ctx)
	n.m, n.drivers, n.stop = m, drivers, func() { cancel(); wait() }
	synctest.Wait()
}

func (n *node) driver(name string) *driver {
	n.t.Helper()
	d := &driver{name: name, node: n, report: make(chan *drahealthv1.NodeWatchResourcesResponse)}
	n.serve(d)
	n.register(d)
	return d
}

func (n *node) serve(d *driver) {
	n.t.Helper()
	l, err := n.sockets.Listen("/" + d.name + ".sock")
	if err != nil {
		n.t.Fatal(err)
	}
	d.server = grpc.NewServer()
	drapb.RegisterDRAPluginServer(d.server, d)
	drahealthv1.RegisterDRAResourceHealthServer(d.server, d)
	go func() { _ = d.server.Serve(l) }()
	n.started = append(n.started, d)
}

func (n *node) register(d *driver) {
	n.t.Helper()
	services := []string{drapb.DRAPluginService, drahealthv1.DRAResourceHealthService}
	endpoint := "/" + d.name + ".sock"
	if err := errors.Join(n.drivers.ValidatePlugin(d.name, endpoint, services),
		n.drivers.RegisterPlugin(d.name, endpoint, services)); err != nil {
		n.t.Fatal(err)
	}
	synctest.Wait()
}

func (n *node) prepare(p *v1.Pod, want string) {
	n.t.Helper()
	if err := n.m.Prepare(context.Background(), p); fmt.Sprint(err) != want {
		n.t.Errorf("Prepare %s: got %v, want %s", p.Name, err, want)
	}
}

func (n *node) unprepare(p *v1.Pod, want string) {
	n.t.Helper()
	if err := n.m.Unprepare(context.Background(), p.UID); fmt.Sprint(err) != want {
		n.t.Errorf("Unprepare %s: got %v, want %s", p.Name, err, want)
	}
}

func (n *node) want(calls string) {
	n.t.Helper()
	if got := n.calls(); got != calls {
		n.t.Errorf("calls: got %q, want %q", got, calls)
	}
}

const ok = "<nil>"

// Two Pods share a claim of two drivers: it is prepared with the first, undone with the last, and
// the container gets the CDI devices of both.
func TestClaimOfTwoDriversAndTwoPods(t *testing.T) {
	run(t, func(n *node) {
		n.driver("a.example.com")
		n.driver("b.example.com")
		p, q := user("p", "shared", "own"), user("q", "shared")
		n.claim("shared", []string{"a.example.com", "b.example.com"}, p, q)
		n.claim("own", []string{"a.example.com"}, p)
		n.prepare(p, ok)
		n.want("a.example.com prepare shared, a.example.com prepare own, b.example.com prepare shared")
		n.prepare(q, ok)
		n.prepare(p, ok)
		n.want("")
		got, err := n.m.CDIDevices(p, &p.Spec.Containers[0])
		if want := "[a.example.com/dev=shared b.example.com/dev=shared a.example.com/dev=own]"; err != nil ||
			fmt.Sprint(got) != want {
			t.Errorf("CDI devices: got %v, %v, want %s", got, err, want)
		}
		n.unprepare(p, ok)
		n.want("a.example.com unprepare own")
		if n.m.Holds(p.UID) || !n.m.Holds(q.UID) {
			t.Errorf("holds: got p %t, q %t, want q alone", n.m.Holds(p.UID), n.m.Holds(q.UID))
		}
		n.unprepare(q, ok)
		n.want("a.example.com unprepare shared, b.example.com unprepare shared")
	})
}

// Whatever is wrong is told with upstream's words, and calls no driver that need not be called.
func TestClaimErrorsAreUpstreams(t *testing.T) {
	run(t, func(n *node) {
		p := user("p", "c")
		n.prepare(p, "prepare dynamic resources: fetch ResourceClaim c: not found")
		n.claim("c", []string{"a.example.com"})
		n.prepare(p, "prepare dynamic resources: pod p (uid-p) is not allowed to use ResourceClaim c (uid-c-c)")
		n.claim("c", []string{"a.example.com"}, p)
		n.claims["c"].Status.Allocation = nil
		n.prepare(p, "prepare dynamic resources: ResourceClaim c: not allocated")
		n.claim("c", []string{"a.example.com"}, p)
		n.prepare(p, "prepare dynamic resources: DRA driver a.example.com is not registered")
		if n.m.Holds(p.UID) {
			t.Error("a Pod whose driver was never there holds a claim")
		}
		d := n.driver("a.example.com")
		d.answer = func(*drapb.Claim) *drapb.NodePrepareResourceResponse {
			return &drapb.NodePrepareResourceResponse{Error: "broken"}
		}
		n.prepare(p, "prepare dynamic resources: NodePrepareResources failed for ResourceClaim c: broken")
		d.answer = func(*drapb.Claim) *drapb.NodePrepareResourceResponse { return nil }
		n.prepare(p, "prepare dynamic resources: NodePrepareResources skipped 1 ResourceClaims")
		d.answer, d.fail = nil, errors.New("hot")
		n.prepare(p, "prepare dynamic resources: NodePrepareResources: rpc error: code = Unknown desc = hot")
		n.calls()
		d.fail = nil
		n.prepare(p, ok)
		n.want("a.example.com prepare c") // again: it had not succeeded
		d.fail = errors.New("stuck")
		n.unprepare(p, "unprepare dynamic resources: NodeUnprepareResources: rpc error: code = Unknown desc = stuck")
		q := user("q", "c")
		n.claim("c", []string{"a.example.com"}, p, q)
		n.prepare(q, "prepare dynamic resources: ResourceClaim c is being unprepared")
		d.fail = nil
		n.unprepare(p, ok)
		n.claims["c"].UID = "other"
		n.prepare(q, ok)
		n.claims["c"].UID = "third"
		n.prepare(user("q", "c"),
			"prepare dynamic resources: old ResourceClaim with same name c and different UID other still exists "+
				"(previous pod force-deleted?!)")
	})
}

// A kubelet that was killed knows what it has to undo, of Pods that are there and of Pods that have
// gone meanwhile, and what containers have.
func TestClaimsOutliveTheKubelet(t *testing.T) {
	run(t, func(n *node) {
		d := n.driver("a.example.com")
		p, q := user("p", "cp"), user("q", "cq")
		n.claim("cp", []string{"a.example.com"}, p)
		n.claim("cq", []string{"a.example.com"}, q)
		n.prepare(p, ok)
		d.fail = errors.New("killed while it was called")
		n.prepare(q, "prepare dynamic resources: NodePrepareResources: rpc error: code = Unknown desc = killed while "+
			"it was called")
		d.fail = nil
		n.calls()
		n.stop()
		n.start()
		n.want(`wipe ""`)
		if got, want := []bool{n.m.Holds(p.UID), n.m.Holds(q.UID)}, []bool{true, true}; !slices.Equal(got, want) {
			t.Fatalf("the claims are forgotten: got %v, want %v", got, want)
		}
		if got, err := n.m.CDIDevices(p, &p.Spec.Containers[0]); err != nil || len(got) != 1 {
			t.Errorf("CDI devices: got %v, %v, want one", got, err)
		}
		n.unprepare(p, "unprepare dynamic resources: DRA driver a.example.com is not registered")
		n.register(d)
		n.unprepare(p, ok)
		n.want("a.example.com unprepare cp")
		n.mu.Lock()
		n.ended[q.UID] = true
		n.mu.Unlock()
		time.Sleep(manager.ReconcilePeriod + time.Second)
		n.want("a.example.com unprepare cq")
	})
}

// The ResourceSlices of a driver go when it has been away for a while, not sooner.
func TestSlicesOfDriversThatAreAway(t *testing.T) {
	run(t, func(n *node) {
		d := n.driver("a.example.com")
		time.Sleep(time.Minute)
		n.want("")
		d.server.Stop()
		time.Sleep(plugin.WipingDelay - 5*time.Second)
		n.want("")
		n.serve(d)
		time.Sleep(2 * time.Minute) // it is found again
		n.want("")
		d.server.Stop()
		time.Sleep(plugin.WipingDelay + time.Second)
		n.want(`wipe "a.example.com"`)
		n.drivers.DeRegisterPlugin(d.name, "/"+d.name+".sock")
		p := user("p", "c")
		n.claim("c", []string{"a.example.com"}, p)
		n.prepare(p, "prepare dynamic resources: DRA driver a.example.com is not registered")
	})
}

// A driver's word about a device is shown until it is too old.
func TestHealthOfClaimedDevices(t *testing.T) {
	run(t, func(n *node) {
		d := n.driver("a.example.com")
		p := user("p", "c")
		n.claim("c", []string{"a.example.com"}, p)
		n.prepare(p, ok)
		shown := func() string {
			s := n.m.ResourcesStatus(p, &p.Spec.Containers[0])[0]
			m := ""
			if s.Resources[0].Message != nil {
				m = " " + *s.Resources[0].Message
			}
			return fmt.Sprintf("%s %s %s%s", s.Name, s.Resources[0].ResourceID, s.Resources[0].Health, m)
		}
		want := func(health string) {
			t.Helper()
			if got := shown(); got != "claim:c a.example.com/dev=c "+health {
				t.Errorf("got %s, want claim:c a.example.com/dev=c %s", got, health)
			}
		}
		want("Unknown")
		d.report <- &drahealthv1.NodeWatchResourcesResponse{Devices: []*drahealthv1.DeviceHealth{{
			Device: &drahealthv1.DeviceIdentifier{PoolName: "pool", DeviceName: "c"}, Message: "hot",
			Health: drahealthv1.HealthStatus_UNHEALTHY, HealthCheckTimeoutSeconds: 60}, nil}}
		synctest.Wait()
		want("Unhealthy hot")
		if !slices.Equal(n.woken, []types.UID{p.UID}) {
			t.Errorf("woken: got %v, want the Pod", n.woken)
		}
		time.Sleep(time.Minute + time.Second)
		want("Unknown")
	})
}

// A checkpoint that cannot be read is refused: devices may be prepared that nobody would undo.
func TestBadCheckpoint(t *testing.T) {
	for _, raw := range []string{"{", "", `{"Data":"{}","Checksum":7}`, `{"Data":"x","Checksum":2363233923}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "dra_manager_state"), []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := manager.New(manager.Deps{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "please drain node and remove DRA state file") {
			t.Errorf("%q: got %v, want an error that says what to do", raw, err)
		}
	}
}

package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
)

// Reporter owns the node's Node object and Lease. Run is called once.
type Reporter struct {
	o     Options
	nudge chan struct{}
	ready chan struct{} // closed once the node was posted Ready
	node  atomic.Pointer[v1.Node]
	seen  runtimeSeen // touched by Run's goroutine only

	posted  time.Time // when a status was last written
	started time.Time

	attempt, registered time.Time // of the node, by this kubelet; zero: not, or not yet
}

// runtimeSeen is what the runtime last answered, and when it has to be asked again.
type runtimeSeen struct {
	asked      time.Time // zero: never
	unanswered time.Time // when it was first asked in vain; zero: it answered last time
	doubted    bool      // there was a sign since
	stale      bool      // the images have to be listed again

	status  *runtimeapi.StatusResponse
	version *runtimeapi.VersionResponse
	images  []v1.ContainerImage
}

// New checks the options; nothing is read or written before Run.
func New(o Options) (*Reporter, error) {
	switch {
	case o.Client == nil:
		return nil, errors.New("nodestatus: Options.Client is missing")
	case o.Identity.Name == "":
		return nil, errors.New("nodestatus: Options.Identity.Name is missing: the node needs a name")
	case o.Sources.Runtime == nil:
		return nil, errors.New("nodestatus: Options.Sources.Runtime is missing")
	}
	return &Reporter{o: withDefaults(o), nudge: make(chan struct{}, 1), ready: make(chan struct{})}, nil
}

// Nudge makes Run look at once: a pressure or the runtime's state changed.
func (r *Reporter) Nudge() {
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// Ready is closed once the node was posted Ready for the first time.
func (r *Reporter) Ready() <-chan struct{} { return r.ready }

// Node returns the node as last read or written, nil before it is registered.
func (r *Reporter) Node() *v1.Node { return r.node.Load() }

// Run registers the node, then keeps status and lease true until ctx ends. A server that is away is tried again; Run only returns with ctx.
func (r *Reporter) Run(ctx context.Context) error {
	r.started = time.Now()
	r.event(v1.EventTypeNormal, "Starting", "Starting kubelet.")
	leaseDone := make(chan struct{})
	go func() {
		defer close(leaseDone)
		r.keepLease(ctx)
	}()
	r.register(ctx)
	r.keepStatus(ctx)
	<-leaseDone
	return nil
}

// keepStatus looks often until the node is Ready, then at the periods asked for, and whenever there is a sign.
func (r *Reporter) keepStatus(ctx context.Context) {
	lastFull := r.posted
	written := "" // why the node was not Ready, as last written
	for ctx.Err() == nil {
		now := time.Now()
		if !now.Before(r.askAt()) {
			r.askRuntime(ctx)
		}
		due := now.Sub(lastFull) >= r.o.Timing.StatusEvery
		nudged := taken(r.nudge)
		why := r.unready()
		failed := false
		if due || nudged || why != written || r.posted.IsZero() || why == "" && !r.wasReady() {
			if err := r.update(ctx); err == nil {
				written = why
			} else if ctx.Err() == nil {
				failed = true
				klog.FromContext(ctx).Error(err, "Node status was not written; trying again", "node", r.o.Identity.Name)
			}
			if due && !failed {
				lastFull = now
			}
		}
		r.sleep(ctx, failed)
	}
}

// askAt is when the runtime is asked how it is. One that is well says by signs when it is not; the audit asks one that hangs without a sign.
func (r *Reporter) askAt() time.Time {
	t := r.o.Timing
	switch {
	case r.seen.asked.IsZero(), !r.wasReady():
		return time.Time{}
	case r.seen.doubted:
		return r.seen.asked.Add(doubtEvery)
	case !r.health().well():
		return r.seen.asked.Add(t.UnwellEvery)
	}
	return r.seen.asked.Add(t.RuntimeEvery)
}

// doubtEvery keeps many signs in a row from becoming as many questions.
const doubtEvery = time.Second

// sleep waits until something is to be done: the next round, sooner after one that failed; the next question to the runtime; a nudge; a sign.
func (r *Reporter) sleep(ctx context.Context, failed bool) {
	pause := r.o.Timing.StatusEvery
	switch {
	case !r.wasReady():
		pause = r.o.Timing.StartEvery
		if time.Since(r.started) > time.Minute { // not Ready for long: no need to hurry any more
			pause = time.Second
		}
	case failed:
		pause = min(pause, r.o.Timing.UnwellEvery)
	}
	if r.wasReady() {
		pause = min(pause, max(0, time.Until(r.askAt())))
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-r.nudge:
		r.Nudge()
	case <-r.o.Sources.Doubt:
		r.seen.doubted = true
	}
}

// taken takes a token if there is one.
func taken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (r *Reporter) wasReady() bool {
	return taken(r.ready)
}

// unready is why the node is not Ready, empty when it is.
func (r *Reporter) unready() string {
	text := ""
	for _, err := range r.health().problems(time.Now()) {
		text += err.Error() + "\n"
	}
	return text
}

// askRuntime reads the runtime's status; one that does not answer keeps its last answer for a while. Each answer makes the images be listed anew.
func (r *Reporter) askRuntime(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s := &r.seen
	// One that was away may be another one.
	again := s.doubted || !s.unanswered.IsZero() || s.version == nil
	s.asked, s.doubted = time.Now(), false
	st, err := r.o.Sources.Runtime.Status(ctx, false)
	if err == nil && again {
		var v *runtimeapi.VersionResponse
		if v, err = r.o.Sources.Runtime.Version(ctx, "v1"); err == nil {
			s.version = v
		}
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Container runtime does not answer", "err", err)
		if s.unanswered.IsZero() {
			s.unanswered = s.asked
		}
		return
	}
	s.status, s.unanswered, s.stale = st, time.Time{}, true
}

func (r *Reporter) health() Health {
	h := Health{Unanswered: r.seen.unanswered, Runtime: r.seen.status.GetStatus().GetConditions()}
	if r.o.Sources.Healthy != nil {
		if err := r.o.Sources.Healthy(); err != nil {
			h.Others = append(h.Others, err)
		}
	}
	return h
}

// facts reads everything a status is made of.
func (r *Reporter) facts(ctx context.Context) (Facts, error) {
	o := r.o
	f := Facts{
		Now: time.Now(), Machine: o.Machine, MaxPods: o.MaxPods, KubeletPort: o.KubeletPort, KubeletVersion: o.KubeletVersion,
		Resources: Resources{Allocatable: o.Sources.Allocatable}, Health: r.health(), Runtime: r.seen.status, Version: r.seen.version,
		External: o.Identity.External,
	}
	var err error
	if f.Addresses, err = r.addresses(ctx); err != nil {
		return f, err
	}
	if o.Sources.Extended != nil {
		f.Resources.ExtraCapacity, f.Resources.ExtraAllocable = o.Sources.Extended()
	}
	if o.Sources.Pressure != nil {
		f.Pressure = o.Sources.Pressure()
	}
	if o.Sources.VolumesUsed != nil {
		f.Volumes = &Volumes{}
		f.Volumes.Attached, f.Volumes.InUse = o.Sources.VolumesUsed()
	}
	if o.Sources.Images != nil && f.Runtime != nil {
		f.Images = r.images(ctx)
	}
	return f, nil
}

// images are those of the last list, which is made anew after each answer of the runtime and when an image came or went.
func (r *Reporter) images(ctx context.Context) []v1.ContainerImage {
	r.seen.stale = taken(r.o.Sources.ImagesMoved) || r.seen.stale
	if !r.seen.stale {
		return r.seen.images
	}
	list, err := r.o.Sources.Images.ListImages(ctx, nil)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Images are not listed in the node's status", "err", err)
		return r.seen.images
	}
	r.seen.images, r.seen.stale = imageList(list, r.o.MaxImages), false
	return r.seen.images
}

// addresses returns what was given, or the address of the interface with the default route; the host name comes last, as upstream has it.
func (r *Reporter) addresses(ctx context.Context) ([]v1.NodeAddress, error) {
	list := r.o.Identity.Addresses
	if r.o.Sources.Addresses != nil {
		var err error
		if list, err = r.o.Sources.Addresses(ctx); err != nil {
			return nil, fmt.Errorf("addresses of the node: %w", err)
		}
	}
	if len(list) == 0 {
		ip, err := utilnet.ChooseHostInterface()
		if err != nil {
			return nil, fmt.Errorf("no address of this machine was found: set --node-ip: %w", err)
		}
		list = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: ip.String()}}
	}
	return append(append([]v1.NodeAddress(nil), list...), v1.NodeAddress{Type: v1.NodeHostName, Address: r.o.Identity.Hostname}), nil
}

func (r *Reporter) event(kind, reason, message string) {
	ref := &v1.ObjectReference{Kind: "Node", Name: r.o.Identity.Name, UID: uid(r.o.Identity.Name)}
	r.o.Events.Event(ref, kind, reason, message)
}

// tell says once what changed between two written statuses: the journal gets every condition, events those upstream has.
func (r *Reporter) tell(before, after v1.NodeStatus) {
	old := map[v1.NodeConditionType]v1.NodeCondition{}
	for _, c := range before.Conditions {
		old[c.Type] = c
	}
	for _, c := range after.Conditions {
		was, known := old[c.Type]
		if known && was.Status == c.Status {
			continue
		}
		r.o.Journal.Put(journal.Ref{Kind: "Node", Name: r.o.Identity.Name},
			journal.ConditionChanged{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message})
		if name := eventFor(c); name != "" && (known || c.Type != v1.NodeReady || c.Status == v1.ConditionTrue) {
			r.event(v1.EventTypeNormal, name, fmt.Sprintf("Node %s status is now: %s", r.o.Identity.Name, name))
		}
	}
	if b := before.NodeInfo.BootID; b != "" && b != after.NodeInfo.BootID {
		r.event(v1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", r.o.Identity.Name, after.NodeInfo.BootID))
	}
}

func eventFor(c v1.NodeCondition) string {
	yes := c.Status == v1.ConditionTrue
	switch c.Type {
	case v1.NodeReady:
		return pick(yes, "NodeReady", "NodeNotReady")
	case v1.NodeMemoryPressure:
		return pick(yes, "NodeHasInsufficientMemory", "NodeHasSufficientMemory")
	case v1.NodeDiskPressure:
		return pick(yes, "NodeHasDiskPressure", "NodeHasNoDiskPressure")
	case v1.NodePIDPressure:
		return pick(yes, "NodeHasInsufficientPID", "NodeHasSufficientPID")
	}
	return ""
}

func pick(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

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
	nodeutil "github.com/gantry-project/gantry/internal/node"
)

// Reporter owns the node's Node object and Lease. Run is called once.
type Reporter struct {
	opts    Options
	wakeup  chan struct{}
	ready   chan struct{} // closed once the node was posted Ready
	node    atomic.Pointer[v1.Node]
	runtime runtimeState // touched by Run's goroutine only

	lastPosted time.Time // when a status was last written
	started    time.Time

	attempt, registered time.Time // of the node, by this kubelet; zero: not, or not yet

	cordoned bool // the node was unschedulable when it was last looked at
}

// runtimeState is what the runtime last answered, and when it has to be asked again.
type runtimeState struct {
	checkedAt       time.Time // zero: never
	unansweredSince time.Time // when it first did not answer; zero: it answered last time
	suspect         bool      // there was a sign since
	stale           bool      // the images have to be listed again

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
	return &Reporter{opts: withDefaults(o), wakeup: make(chan struct{}, 1), ready: make(chan struct{})}, nil
}

// Trigger makes Run look at once: a pressure or the runtime's state changed.
func (r *Reporter) Trigger() {
	select {
	case r.wakeup <- struct{}{}:
	default:
	}
}

// Ready is closed once the node was posted Ready for the first time.
func (r *Reporter) Ready() <-chan struct{} { return r.ready }

// Node returns the node as last read or written, nil before it is registered.
func (r *Reporter) Node() *v1.Node { return r.node.Load() }

// Run registers the node, then keeps status and lease true until ctx ends. A server that is away is
// tried again; Run only returns with ctx.
func (r *Reporter) Run(ctx context.Context) error {
	r.started = time.Now()
	r.event(v1.EventTypeNormal, "Starting", "Starting kubelet.")
	leaseDone := make(chan struct{})
	go func() {
		defer close(leaseDone)
		r.renewLeaseLoop(ctx)
	}()
	r.register(ctx)
	r.syncStatusLoop(ctx)
	<-leaseDone
	return nil
}

// syncStatusLoop looks often until the node is Ready, then at the periods asked for, and whenever
// there is a sign.
func (r *Reporter) syncStatusLoop(ctx context.Context) {
	lastFull := r.lastPosted
	written := "" // why the node was not Ready, as last written
	for ctx.Err() == nil {
		now := time.Now()
		if !now.Before(r.nextRuntimeCheck()) {
			r.checkRuntime(ctx)
		}
		due := now.Sub(lastFull) >= r.opts.Timing.StatusEvery
		woken := drain(r.wakeup)
		why := r.notReadyReason()
		failed := false
		if due || woken || why != written || r.lastPosted.IsZero() || why == "" && !r.wasReady() {
			if err := r.update(ctx); err == nil {
				written = why
			} else if ctx.Err() == nil {
				failed = true
				klog.FromContext(ctx).Error(err, "Node status was not written; trying again",
					"node", r.opts.Identity.Name)
			}
			if due && !failed {
				lastFull = now
			}
		}
		r.waitNext(ctx, failed)
	}
}

// nextRuntimeCheck is when the runtime is asked how it is. One that is well says by signs when it
// is not; the audit asks one that hangs without a sign.
func (r *Reporter) nextRuntimeCheck() time.Time {
	t := r.opts.Timing
	switch {
	case r.runtime.checkedAt.IsZero(), !r.wasReady():
		return time.Time{}
	case r.runtime.suspect:
		return r.runtime.checkedAt.Add(suspectInterval)
	case !r.health().ok():
		return r.runtime.checkedAt.Add(t.NotReadyEvery)
	}
	return r.runtime.checkedAt.Add(t.RuntimeEvery)
}

// suspectInterval keeps many signs in a row from becoming as many questions.
const suspectInterval = time.Second

// waitNext waits until something is to be done: the next round, sooner after one that failed; the
// next question to the runtime; a nudge; a sign.
func (r *Reporter) waitNext(ctx context.Context, failed bool) {
	pause := r.opts.Timing.StatusEvery
	switch {
	case !r.wasReady():
		pause = r.opts.Timing.StartEvery
		if time.Since(r.started) > time.Minute { // not Ready for long: ask less often
			pause = time.Second
		}
	case failed:
		pause = min(pause, r.opts.Timing.NotReadyEvery)
	}
	if r.wasReady() {
		pause = min(pause, max(0, time.Until(r.nextRuntimeCheck())))
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-r.wakeup:
		r.Trigger()
	case <-r.opts.Sources.RuntimeSuspect:
		r.runtime.suspect = true
	}
}

// drain takes a token if there is one.
func drain(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (r *Reporter) wasReady() bool {
	return drain(r.ready)
}

// notReadyReason is why the node is not Ready, empty when it is.
func (r *Reporter) notReadyReason() string {
	text := ""
	for _, err := range r.health().notReadyErrors(time.Now()) {
		text += err.Error() + "\n"
	}
	return text
}

// checkRuntime reads the runtime's status; one that does not answer keeps its last answer for a
// while. Each answer makes the images be listed anew.
func (r *Reporter) checkRuntime(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s := &r.runtime
	// One that was away may be another one.
	refresh := s.suspect || !s.unansweredSince.IsZero() || s.version == nil
	s.checkedAt, s.suspect = time.Now(), false
	st, err := r.opts.Sources.Runtime.Status(ctx, false)
	if err == nil && refresh {
		var v *runtimeapi.VersionResponse
		if v, err = r.opts.Sources.Runtime.Version(ctx, "v1"); err == nil {
			s.version = v
		}
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Container runtime does not answer", "err", err)
		if s.unansweredSince.IsZero() {
			s.unansweredSince = s.checkedAt
		}
		return
	}
	s.status, s.unansweredSince, s.stale = st, time.Time{}, true
}

func (r *Reporter) health() Health {
	h := Health{UnansweredSince: r.runtime.unansweredSince, Runtime: r.runtime.status.GetStatus().GetConditions()}
	if r.opts.Sources.Healthy != nil {
		if err := r.opts.Sources.Healthy(); err != nil {
			h.Others = append(h.Others, err)
		}
	}
	return h
}

// facts reads everything a status is made of.
func (r *Reporter) facts(ctx context.Context) (Facts, error) {
	o := r.opts
	f := Facts{
		Now: time.Now(), Machine: o.Machine, MaxPods: o.MaxPods, KubeletPort: o.KubeletPort,
		KubeletVersion: o.KubeletVersion,
		Resources:      Resources{Allocatable: o.Sources.Allocatable}, Health: r.health(), Runtime: r.runtime.status,
		Version:  r.runtime.version,
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
	if o.Sources.VolumesInUse != nil {
		if names, known := o.Sources.VolumesInUse(); known {
			f.Volumes = &Volumes{InUse: names}
		}
	}
	if o.Sources.Images != nil && f.Runtime != nil {
		f.Images = r.images(ctx)
	}
	return f, nil
}

// images are those of the last list, which is made anew after each answer of the runtime and when
// an image came or went.
func (r *Reporter) images(ctx context.Context) []v1.ContainerImage {
	r.runtime.stale = drain(r.opts.Sources.ImagesChanged) || r.runtime.stale
	if !r.runtime.stale {
		return r.runtime.images
	}
	list, err := r.opts.Sources.Images.ListImages(ctx, nil)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Images are not listed in the node's status", "err", err)
		return r.runtime.images
	}
	r.runtime.images, r.runtime.stale = imageList(list, r.opts.MaxImages), false
	return r.runtime.images
}

// addresses returns what was given, or the address of the interface with the default route; the
// host name comes last, as upstream has it.
func (r *Reporter) addresses(ctx context.Context) ([]v1.NodeAddress, error) {
	list := r.opts.Identity.Addresses
	if r.opts.Sources.Addresses != nil {
		var err error
		if list, err = r.opts.Sources.Addresses(ctx); err != nil {
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
	return append(append([]v1.NodeAddress(nil), list...),
		v1.NodeAddress{Type: v1.NodeHostName, Address: r.opts.Identity.Hostname}), nil
}

func (r *Reporter) event(kind, reason, message string) {
	ref := nodeutil.Reference(r.opts.Identity.Name)
	r.opts.Events.Event(ref, kind, reason, message)
}

// reportChanges says once what changed between two written statuses: the journal gets every
// condition, events those upstream has.
func (r *Reporter) reportChanges(before, after v1.NodeStatus) {
	old := map[v1.NodeConditionType]v1.NodeCondition{}
	for _, c := range before.Conditions {
		old[c.Type] = c
	}
	for _, c := range after.Conditions {
		was, known := old[c.Type]
		if known && was.Status == c.Status {
			continue
		}
		r.opts.Journal.Put(journal.Ref{Kind: "Node", Name: r.opts.Identity.Name},
			journal.ConditionChanged{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason,
				Message: c.Message})
		if name := eventFor(c); name != "" && (known || c.Type != v1.NodeReady || c.Status == v1.ConditionTrue) {
			r.event(v1.EventTypeNormal, name, fmt.Sprintf("Node %s status is now: %s", r.opts.Identity.Name, name))
		}
	}
	if b := before.NodeInfo.BootID; b != "" && b != after.NodeInfo.BootID {
		r.event(v1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s",
			r.opts.Identity.Name, after.NodeInfo.BootID))
	}
}

// reportCordon says once that the node takes no new Pods, or takes them again.
func (r *Reporter) reportCordon(n *v1.Node) {
	if r.cordoned == n.Spec.Unschedulable {
		return
	}
	r.cordoned = n.Spec.Unschedulable
	name := choose(r.cordoned, "NodeNotSchedulable", "NodeSchedulable")
	r.event(v1.EventTypeNormal, name, fmt.Sprintf("Node %s status is now: %s", r.opts.Identity.Name, name))
}

func eventFor(c v1.NodeCondition) string {
	isTrue := c.Status == v1.ConditionTrue
	switch c.Type {
	case v1.NodeReady:
		return choose(isTrue, "NodeReady", "NodeNotReady")
	case v1.NodeMemoryPressure:
		return choose(isTrue, "NodeHasInsufficientMemory", "NodeHasSufficientMemory")
	case v1.NodeDiskPressure:
		return choose(isTrue, "NodeHasDiskPressure", "NodeHasNoDiskPressure")
	case v1.NodePIDPressure:
		return choose(isTrue, "NodeHasInsufficientPID", "NodeHasSufficientPID")
	}
	return ""
}

func choose(isTrue bool, a, b string) string {
	if isTrue {
		return a
	}
	return b
}

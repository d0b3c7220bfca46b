package pleg

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// Runtime is the part of CRI that observing needs; internalapi.RuntimeService is one.
type Runtime interface {
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
	PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error)
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
	ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
	GetContainerEvents(ctx context.Context, ch chan *runtimeapi.ContainerEventResponse,
		established func(runtimeapi.RuntimeService_GetContainerEventsClient)) error
}

// Deps is what a PLEG works with.
type Deps struct {
	Runtime Runtime
	Changed func(types.UID) // something of this Pod may have changed; must not block
	// something of this Pod was made or started, which whoever acts for it knows when the call
	// returns; must not block; nil: Changed
	Started      func(types.UID)
	AuditPeriod  time.Duration // between slow lists while events work; 60 s when 0
	RelistPeriod time.Duration // between lists when the runtime has no events; 1 s when 0

	Relisted  func(now time.Time, took time.Duration) // called for each list that the runtime answered; may be nil
	Connected func(error)                             // called for each try to follow events; may be nil
}

// PLEG watches the runtime.
type PLEG struct {
	d               Deps
	missed          atomic.Int64
	relistRequested chan struct{} // one token: an Unavailable answer was seen, list again

	mu      sync.Mutex
	exited  map[string]podplan.Container // by id; what has ended does not change
	running map[string]podplan.Container // by id, while the list says Running
	ips     map[string][]string          // by sandbox id
	records map[types.UID]podRecord      // what was last seen or notified for
}

// podRecord is a fingerprint of a Pod's records, and when somebody was last told of the Pod.
type podRecord struct {
	fingerprint string
	notifiedAt  time.Time
}

// New returns a PLEG; Run makes it watch.
func New(d Deps) *PLEG {
	if d.AuditPeriod == 0 {
		d.AuditPeriod = time.Minute
	}
	if d.RelistPeriod == 0 {
		d.RelistPeriod = time.Second
	}
	if d.Started == nil {
		d.Started = d.Changed
	}
	if d.Relisted == nil {
		d.Relisted = func(time.Time, time.Duration) {}
	}
	if d.Connected == nil {
		d.Connected = func(error) {}
	}
	return &PLEG{
		d: d, relistRequested: make(chan struct{}, 1),
		exited: map[string]podplan.Container{}, running: map[string]podplan.Container{}, ips: map[string][]string{},
		records: map[types.UID]podRecord{},
	}
}

// MissedEvents counts changes that a list found and no event had told of.
func (w *PLEG) MissedEvents() int64 { return w.missed.Load() }

// Run watches until ctx ends.
func (w *PLEG) Run(ctx context.Context) error {
	log := klog.FromContext(ctx)
	events := make(chan *runtimeapi.ContainerEventResponse, 1000)
	broken := make(chan error, 1)
	up := make(chan struct{}, 1)
	follow := func() {
		go func() {
			broken <- w.d.Runtime.GetContainerEvents(ctx, events,
				func(runtimeapi.RuntimeService_GetContainerEventsClient) {
					select {
					case up <- struct{}{}:
					default:
					}
				})
		}()
	}
	follow()
	every := w.d.AuditPeriod
	relist := time.NewTimer(every)
	defer relist.Stop()
	retry, delay := make(<-chan time.Time), 100*time.Millisecond
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			w.handleEvent(e)
		case <-up:
			w.d.Connected(nil)
			delay = 100 * time.Millisecond
			w.relist(ctx, false)
		case err := <-broken:
			switch {
			case ctx.Err() != nil:
				return nil
			case unimplemented(err):
				w.d.Connected(err)
				log.Info("The runtime has no event stream, listing instead", "every", w.d.RelistPeriod)
				every = w.d.RelistPeriod
				relist.Reset(0)
			default:
				w.d.Connected(err)
				log.V(2).Info("Event stream of the runtime ended", "err", err, "retryAfter", delay)
				retry = time.After(delay)
				delay = min(2*delay, 2*time.Second)
			}
		case <-retry:
			follow()
		case <-relist.C:
			w.relist(ctx, every == w.d.AuditPeriod)
			relist.Reset(every)
		}
	}
}

func unimplemented(err error) bool {
	var s interface{ GRPCStatus() *status.Status }
	return errors.As(err, &s) && s.GRPCStatus().Code() == codes.Unimplemented
}

// handleEvent passes an event on, unless all it says is what the last look saw. The event is a
// hint: the state is read by GetPodStatus, so that late and replayed events do no harm; and of two
// events about one Pod the one that was made later tells of both changes, so that nothing is missed
// by passing over one that is old.
func (w *PLEG) handleEvent(e *runtimeapi.ContainerEventResponse) {
	s := e.GetPodSandboxStatus()
	uid := types.UID(s.GetMetadata().GetUid())
	if uid == "" {
		for _, c := range e.GetContainersStatuses() {
			uid = types.UID(c.GetLabels()[kubelettypes.KubernetesPodUIDLabel])
		}
	}
	if uid == "" {
		return
	}
	w.mu.Lock()
	m := w.records[uid]
	m.notifiedAt = time.Now()
	w.records[uid] = m
	w.mu.Unlock()
	switch {
	case s.GetId() != "" && m.fingerprint == eventFingerprint(e):
	case e.ContainerEventType == runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT,
		e.ContainerEventType == runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		w.d.Started(uid)
	default:
		w.d.Changed(uid)
	}
}

// relist compares all records with what was last seen of each Pod and tells of differences; audit
// counts them.
func (w *PLEG) relist(ctx context.Context, audit bool) {
	startedAt := time.Now()
	found, err := w.fingerprints(ctx)
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot list the runtime's Pods")
		}
		return
	}
	var changed []types.UID
	now := time.Now()
	w.d.Relisted(now, now.Sub(startedAt))
	w.mu.Lock()
	for uid := range w.records {
		if _, still := found[uid]; !still {
			found[uid] = ""
		}
	}
	for uid, fingerprint := range found {
		m := w.records[uid]
		if m.fingerprint == fingerprint {
			continue
		}
		if audit && now.Sub(m.notifiedAt) > 2*time.Second {
			w.missed.Add(1)
		}
		if m.notifiedAt = now; fingerprint == "" {
			delete(w.records, uid)
		} else {
			w.records[uid] = m
		}
		changed = append(changed, uid)
	}
	w.mu.Unlock()
	for _, uid := range changed {
		w.d.Changed(uid)
	}
}

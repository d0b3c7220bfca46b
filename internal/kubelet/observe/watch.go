package observe

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
	GetContainerEvents(ctx context.Context, ch chan *runtimeapi.ContainerEventResponse, established func(runtimeapi.RuntimeService_GetContainerEventsClient)) error
}

// Deps is what a Watcher works with.
type Deps struct {
	Runtime Runtime
	Changed func(types.UID) // something of this Pod may have changed; must not block
	Began   func(types.UID) // something of this Pod was made or started, which whoever acts for it knows when the call returns; must not block; nil: Changed
	Audit   time.Duration   // between slow lists while events work; 60 s when 0
	Poll    time.Duration   // between lists when the runtime has no events; 1 s when 0

	Listed    func(now time.Time, took time.Duration) // told of each list that the runtime answered; nil: nobody counts
	Connected func(error)                             // told of each try to follow events; nil: nobody counts
}

// Watcher watches the runtime.
type Watcher struct {
	d      Deps
	missed atomic.Int64
	healed chan struct{} // one token: an Unavailable answer was seen, list again

	mu    sync.Mutex
	ended map[string]podplan.Container // by id; what has ended does not change
	alive map[string]podplan.Container // by id, while the list says Running
	ips   map[string][]string          // by sandbox id
	marks map[types.UID]mark           // what was last seen or rung for
}

// mark is a fingerprint of a Pod's records, and when somebody was last told of the Pod.
type mark struct {
	fingerprint string
	rung        time.Time
}

// New returns a Watcher; Run makes it watch.
func New(d Deps) *Watcher {
	if d.Audit == 0 {
		d.Audit = time.Minute
	}
	if d.Poll == 0 {
		d.Poll = time.Second
	}
	if d.Began == nil {
		d.Began = d.Changed
	}
	if d.Listed == nil {
		d.Listed = func(time.Time, time.Duration) {}
	}
	if d.Connected == nil {
		d.Connected = func(error) {}
	}
	return &Watcher{
		d: d, healed: make(chan struct{}, 1),
		ended: map[string]podplan.Container{}, alive: map[string]podplan.Container{}, ips: map[string][]string{}, marks: map[types.UID]mark{},
	}
}

// Missed counts changes that a list found and no event had told of.
func (w *Watcher) Missed() int64 { return w.missed.Load() }

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	log := klog.FromContext(ctx)
	events := make(chan *runtimeapi.ContainerEventResponse, 1000)
	broken := make(chan error, 1)
	up := make(chan struct{}, 1)
	follow := func() {
		go func() {
			broken <- w.d.Runtime.GetContainerEvents(ctx, events, func(runtimeapi.RuntimeService_GetContainerEventsClient) {
				select {
				case up <- struct{}{}:
				default:
				}
			})
		}()
	}
	follow()
	every := w.d.Audit
	relist := time.NewTimer(every)
	defer relist.Stop()
	retry, delay := make(<-chan time.Time), 100*time.Millisecond
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			w.heard(e)
		case <-up:
			w.d.Connected(nil)
			delay = 100 * time.Millisecond
			w.list(ctx, false)
		case err := <-broken:
			switch {
			case ctx.Err() != nil:
				return nil
			case unimplemented(err):
				w.d.Connected(err)
				log.Info("The runtime has no event stream, listing instead", "every", w.d.Poll)
				every = w.d.Poll
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
			w.list(ctx, every == w.d.Audit)
			relist.Reset(every)
		}
	}
}

func unimplemented(err error) bool {
	var s interface{ GRPCStatus() *status.Status }
	return errors.As(err, &s) && s.GRPCStatus().Code() == codes.Unimplemented
}

// heard passes an event on, unless all it says is what the last look saw. The event is a hint: the state is read by Look, so that late and replayed events do no
// harm; and of two events about one Pod the one that was made later tells of both changes, so that nothing is missed by passing over one that is old.
func (w *Watcher) heard(e *runtimeapi.ContainerEventResponse) {
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
	m := w.marks[uid]
	m.rung = time.Now()
	w.marks[uid] = m
	w.mu.Unlock()
	switch {
	case s.GetId() != "" && m.fingerprint == printOfEvent(e):
	case e.ContainerEventType == runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, e.ContainerEventType == runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		w.d.Began(uid)
	default:
		w.d.Changed(uid)
	}
}

// list compares all records with what was last seen of each Pod and tells of differences; audit counts them.
func (w *Watcher) list(ctx context.Context, audit bool) {
	begun := time.Now()
	prints, err := w.prints(ctx)
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot list the runtime's Pods")
		}
		return
	}
	var changed []types.UID
	now := time.Now()
	w.d.Listed(now, now.Sub(begun))
	w.mu.Lock()
	for uid := range w.marks {
		if _, still := prints[uid]; !still {
			prints[uid] = ""
		}
	}
	for uid, fingerprint := range prints {
		m := w.marks[uid]
		if m.fingerprint == fingerprint {
			continue
		}
		if audit && now.Sub(m.rung) > 2*time.Second {
			w.missed.Add(1)
		}
		if m.rung = now; fingerprint == "" {
			delete(w.marks, uid)
		} else {
			w.marks[uid] = m
		}
		changed = append(changed, uid)
	}
	w.mu.Unlock()
	for _, uid := range changed {
		w.d.Changed(uid)
	}
}

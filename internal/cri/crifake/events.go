package crifake

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// backlog is how many events are kept while nobody listens; containerd keeps a like number for five
// minutes.
const backlog = 100

// eventSender passes events on; *eventBus is one.
type eventSender interface {
	send(e *runtimeapi.ContainerEventResponse)
	// subscribe returns the events from now on, closed when they end, and those that nobody
	// received.
	subscribe() (events chan *runtimeapi.ContainerEventResponse, undelivered []*runtimeapi.ContainerEventResponse)
	unsubscribe(events chan *runtimeapi.ContainerEventResponse)
	// drop ends all subscriptions and forgets what was kept.
	drop()
}

// eventBus passes events to every subscriber; one that does not read loses its stream rather than
// holding up the others.
type eventBus struct {
	mu          sync.Mutex
	subs        map[chan *runtimeapi.ContainerEventResponse]bool
	undelivered []*runtimeapi.ContainerEventResponse
}

func newEventBus() *eventBus {
	return &eventBus{subs: map[chan *runtimeapi.ContainerEventResponse]bool{}}
}

func (b *eventBus) send(e *runtimeapi.ContainerEventResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.subs) == 0 {
		if b.undelivered = append(b.undelivered, e); len(b.undelivered) > backlog {
			b.undelivered = b.undelivered[1:]
		}
		return
	}
	for s := range b.subs {
		select {
		case s <- e:
		default:
			close(s)
			delete(b.subs, s)
		}
	}
}

func (b *eventBus) subscribe() (chan *runtimeapi.ContainerEventResponse, []*runtimeapi.ContainerEventResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := make(chan *runtimeapi.ContainerEventResponse, 4096)
	b.subs[s] = true
	undelivered := b.undelivered
	b.undelivered = nil
	return s, undelivered
}

func (b *eventBus) unsubscribe(s chan *runtimeapi.ContainerEventResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs, s)
}

// drop ends all subscriptions and forgets what was kept, as the death of the runtime's process
// does.
func (b *eventBus) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		close(s)
	}
	clear(b.subs)
	b.undelivered = nil
}

// emit sends an event with the state of the whole sandbox. Callers hold f.mu.
func (f *Fake) emit(s *sandbox, id string, kind runtimeapi.ContainerEventType) {
	e := &runtimeapi.ContainerEventResponse{
		ContainerId: id, ContainerEventType: kind, CreatedAt: time.Now().UnixNano(),
		PodSandboxStatus: s.status(), ContainersStatuses: f.statuses(s),
	}
	if f.server == nil { // killed: nobody receives it
		return
	}
	f.bus.send(proto.Clone(e).(*runtimeapi.ContainerEventResponse))
}

// GetContainerEvents streams events until the client leaves; what happened while nobody listened
// comes first.
func (f *Fake) GetContainerEvents(_ *runtimeapi.GetEventsRequest,
	stream runtimeapi.RuntimeService_GetContainerEventsServer) error {
	ch, undelivered := f.bus.subscribe()
	defer f.bus.unsubscribe(ch)
	for _, e := range undelivered {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case e, open := <-ch:
			if !open {
				return nil
			}
			if err := stream.Send(e); err != nil {
				return err
			}
		}
	}
}

package crifake

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// backlog is how many events are kept without subscribers; containerd keeps about as many for five
// minutes.
const backlog = 100

// eventBus sends events to all subscribers; one that does not read loses its stream instead of
// delaying others.
type eventBus struct {
	mu          sync.Mutex
	subs        map[chan *runtimeapi.ContainerEventResponse]bool
	undelivered []*runtimeapi.ContainerEventResponse
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
	if b.subs == nil {
		b.subs = map[chan *runtimeapi.ContainerEventResponse]bool{}
	}
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

// drop ends all subscriptions and drops kept events, as the death of the runtime's process does.
func (b *eventBus) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		close(s)
	}
	b.subs, b.undelivered = nil, nil
}

// emit sends an event with the state of the whole sandbox. Callers hold f.mu.
func (f *Fake) emit(s *sandbox, id string, kind runtimeapi.ContainerEventType) {
	e := &runtimeapi.ContainerEventResponse{
		ContainerId: id, ContainerEventType: kind, CreatedAt: time.Now().UnixNano(),
		PodSandboxStatus: s.status(), ContainersStatuses: f.statuses(s),
	}
	if f.server == nil { // killed: nobody is connected
		return
	}
	f.bus.send(proto.Clone(e).(*runtimeapi.ContainerEventResponse))
}

// GetContainerEvents streams events until the client disconnects, first those kept while nobody was
// subscribed.
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

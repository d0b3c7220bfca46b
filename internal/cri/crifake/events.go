package crifake

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// backlog is how many events are kept while nobody listens; containerd keeps a like number for five minutes.
const backlog = 100

// bus passes events to every subscriber; one that does not read loses its stream rather than holding up the others.
type bus struct {
	mu   sync.Mutex
	subs map[chan *runtimeapi.ContainerEventResponse]bool
	kept []*runtimeapi.ContainerEventResponse
}

func (b *bus) send(e *runtimeapi.ContainerEventResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.subs) == 0 {
		if b.kept = append(b.kept, e); len(b.kept) > backlog {
			b.kept = b.kept[1:]
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

func (b *bus) subscribe() (chan *runtimeapi.ContainerEventResponse, []*runtimeapi.ContainerEventResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = map[chan *runtimeapi.ContainerEventResponse]bool{}
	}
	s := make(chan *runtimeapi.ContainerEventResponse, 4096)
	b.subs[s] = true
	kept := b.kept
	b.kept = nil
	return s, kept
}

func (b *bus) leave(s chan *runtimeapi.ContainerEventResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs, s)
}

// drop ends all subscriptions and forgets what was kept, as the death of the runtime's process does.
func (b *bus) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		close(s)
	}
	b.subs, b.kept = nil, nil
}

// emit sends an event with the state of the whole sandbox. Callers hold f.mu.
func (f *Fake) emit(s *sandbox, id string, kind runtimeapi.ContainerEventType) {
	e := &runtimeapi.ContainerEventResponse{
		ContainerId: id, ContainerEventType: kind, CreatedAt: time.Now().UnixNano(),
		PodSandboxStatus: s.status(), ContainersStatuses: f.statuses(s),
	}
	if f.server == nil { // killed: nobody hears
		return
	}
	f.bus.send(proto.Clone(e).(*runtimeapi.ContainerEventResponse))
}

// GetContainerEvents streams events until the client leaves; what happened while nobody listened comes first.
func (f *Fake) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream runtimeapi.RuntimeService_GetContainerEventsServer) error {
	ch, kept := f.bus.subscribe()
	defer f.bus.leave(ch)
	for _, e := range kept {
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

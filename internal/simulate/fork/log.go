package fork

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/gantry-project/gantry/internal/journal"
)

// Event is what a controller told about an object.
type Event struct {
	At                    time.Time
	Kind, Namespace, Name string // of the object
	Type, Reason, Message string
}

// Log keeps the facts and events of a fork. It is safe for concurrent use.
type Log struct {
	now func() time.Time

	mu      sync.Mutex
	entries []journal.Entry
	events  []Event
}

// SinkFor returns the journal of a part.
func (l *Log) SinkFor(component string) journal.Sink { return sink{l, component} }

type sink struct {
	log       *Log
	component string
}

// Put implements journal.Sink.
func (s sink) Put(ref journal.Ref, f journal.Fact) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.entries = append(s.log.entries, journal.Entry{Seq: uint64(len(s.log.entries) + 1), At: s.log.now(), Ref: ref,
		By: s.component, Fact: f})
}

// Entries returns the facts about a Pod, oldest first.
func (l *Log) Entries(namespace, name string) []journal.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []journal.Entry
	for _, e := range l.entries {
		if e.Ref.Kind == "" && e.Ref.Namespace == namespace && e.Ref.Name == name {
			out = append(out, e)
		}
	}
	return out
}

// Facts returns all facts, oldest first.
func (l *Log) Facts() []journal.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[:len(l.entries):len(l.entries)]
}

// Events returns the events, oldest first.
func (l *Log) Events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[:len(l.events):len(l.events)]
}

// Event implements record.EventRecorder.
func (l *Log) Event(o runtime.Object, eventType, reason, message string) {
	e := Event{Type: eventType, Reason: reason, Message: message}
	if m, err := meta.Accessor(o); err == nil {
		e.Namespace, e.Name = m.GetNamespace(), m.GetName()
	}
	if kinds, _, err := scheme.Scheme.ObjectKinds(o); err == nil {
		e.Kind = kinds[0].Kind
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = l.now()
	l.events = append(l.events, e)
}

// Eventf implements record.EventRecorder.
func (l *Log) Eventf(o runtime.Object, eventType, reason, format string, args ...any) {
	l.Event(o, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (l *Log) AnnotatedEventf(o runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	l.Event(o, eventType, reason, fmt.Sprintf(format, args...))
}

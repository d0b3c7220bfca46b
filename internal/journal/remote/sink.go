// Package remote sends the facts of a component that runs apart to the API server's journal.
//
// In: facts (Put never blocks). Out: batches posted to podjournals, one per namespace and beat.
// What cannot be sent is kept up to a bound, oldest dropped first; an API server without a journal
// (any other Kubernetes) is noticed once and left alone.
package remote

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
)

// beat is the time between batches; bound is how many facts wait at most; batch is how many go in
// one request.
const (
	flushInterval = 500 * time.Millisecond
	maxQueued     = 1 << 14
	maxBatch      = 2000
)

// apiPath is where the journal is served.
const apiPath = "/apis/journal.gantry.dev/v1alpha1"

// Poster posts a JSON body to a path of the API server.
type Poster interface {
	Post(ctx context.Context, path string, body []byte) error
	// Get reads a path; its error is of the API server's answer.
	Get(ctx context.Context, path string) error
}

// Sink is the Sink of a component.
type Sink struct {
	poster   Poster
	by, node string

	mu     sync.Mutex
	queued []journal.Entry
	wakeup chan struct{}

	refusalLogged map[string]bool // namespaces whose refusal was logged

	bytesPerEntry int // bytes that an entry took in the batch before; only Run's goroutine touches it
}

// New makes a shipper that speaks for a component; Run sends.
func New(p Poster, by, node string) *Sink {
	return &Sink{poster: p, by: by, node: node, wakeup: make(chan struct{}, 1), refusalLogged: map[string]bool{}}
}

// Put keeps the fact until the next beat. Facts about what is in no namespace, nodes and images,
// stay with their component: the API server's journal is kept and read by namespace.
func (s *Sink) Put(ref journal.Ref, fact journal.Fact) {
	if ref.Namespace == "" {
		return
	}
	e := journal.Entry{At: time.Now(), Ref: ref, By: s.by, Node: s.node, Fact: fact}
	s.mu.Lock()
	s.queued = append(s.queued, e)
	if excess := len(s.queued) - maxQueued; excess > 0 {
		s.queued = s.queued[excess:]
	}
	s.mu.Unlock()
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends, and then once more what is left. It ends by itself when the API server
// keeps no journal, and says so once.
func (s *Sink) Run(ctx context.Context) {
	if s.apiAbsent(ctx) {
		return
	}
	for {
		select {
		case <-s.wakeup:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			s.send(last)
			return
		}
		if !s.send(ctx) {
			return
		}
		select {
		case <-time.After(flushInterval):
		case <-ctx.Done():
		}
	}
}

// send posts what waits; false means that there is no journal to send to.
func (s *Sink) send(ctx context.Context) bool {
	s.mu.Lock()
	all := s.queued
	s.queued = nil
	s.mu.Unlock()
	byNamespace := map[string][]journal.Entry{}
	for _, e := range all {
		byNamespace[e.Ref.Namespace] = append(byNamespace[e.Ref.Namespace], e)
	}
	for ns, entries := range byNamespace {
		for len(entries) > 0 {
			n := min(maxBatch, len(entries))
			err := s.postBatch(ctx, ns, entries[:n])
			switch {
			case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
				if !apierrors.IsBadRequest(err) && s.apiAbsent(ctx) {
					return false
				}
				if !s.refusalLogged[ns] {
					s.refusalLogged[ns] = true
					klog.FromContext(ctx).Error(err,
						"The API server refuses the journal's entries; further refusals are not logged",
						"namespace", ns)
				}
			case err != nil:
				for _, unsent := range byNamespace { // those of other namespaces too
					s.requeue(unsent)
				}
				return true
			}
			entries = entries[n:]
			byNamespace[ns] = entries
		}
		delete(byNamespace, ns)
	}
	return true
}

// apiAbsent tells whether the API server has no journal, as any other Kubernetes: who may not write
// one is refused there before it is said that there is none. It is logged.
func (s *Sink) apiAbsent(ctx context.Context) bool {
	if !apierrors.IsNotFound(s.poster.Get(ctx, apiPath)) {
		return false
	}
	klog.FromContext(ctx).Info("The API server keeps no journal: what this component notes of Pods is kept nowhere, "+
		"and gantry why and gantry trace know of it only what Events tell", "component", s.by)
	return true
}

func (s *Sink) postBatch(ctx context.Context, ns string, entries []journal.Entry) error {
	name, err := json.Marshal(ns)
	if err != nil {
		return err
	}
	body := make([]byte, 0, len(entries)*s.bytesPerEntry+1024)
	body = append(
		append(append(body,
			`{"apiVersion":"journal.gantry.dev/v1alpha1","kind":"PodJournal","metadata":{"name":"batch",`+
				`"namespace":`...), name...), `},"entries":[`...)
	for i, e := range entries {
		if i > 0 {
			body = append(body, ',')
		}
		if body, err = e.AppendJSON(body); err != nil {
			return err
		}
	}
	s.bytesPerEntry = len(body)/len(entries) + 64
	body = append(body, "]}"...)
	return s.poster.Post(ctx, apiPath+"/namespaces/"+ns+"/podjournals", body)
}

func (s *Sink) requeue(entries []journal.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued = append(append([]journal.Entry(nil), entries...), s.queued...)
	if excess := len(s.queued) - maxQueued; excess > 0 {
		s.queued = s.queued[excess:]
	}
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

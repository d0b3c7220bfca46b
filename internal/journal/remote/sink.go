// Package remote sends the facts of a component in another process to the API server's journal, and
// reads the journal of a Pod.
//
// In: facts (Put never blocks). Out: batches posted to podjournals, one per namespace and period.
// Facts that cannot be sent are kept up to a bound, the oldest are dropped first. An API server
// without journal (any other Kubernetes) is detected once; sending then stops. Read gives the
// entries of one Pod.
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

// flushInterval is the time between batches, maxQueued the number of facts kept at most, maxBatch
// the number in one request.
const (
	flushInterval = 500 * time.Millisecond
	maxQueued     = 1 << 14
	maxBatch      = 2000
)

// apiPath is the API group version of the journal.
const apiPath = "/apis/journal.gantry.dev/v1alpha1"

// Poster posts a JSON body to a path of the API server and returns an error for any status but
// success.
type Poster interface {
	Post(ctx context.Context, path string, body []byte) error
	// Get requests a path; its error is that of the API server's answer.
	Get(ctx context.Context, path string) error
}

// Sink is a journal.Sink that sends facts to the API server. It is safe for concurrent use.
type Sink struct {
	poster   Poster
	by, node string

	mu     sync.Mutex
	queued []journal.Entry
	wakeup chan struct{}

	refusalLogged map[string]bool // namespaces for which a refusal was logged

	bytesPerEntry int // average size of an entry in the last batch, in bytes; used by Run's goroutine only
}

// New returns a Sink for component by on node, which may be empty. Run sends.
func New(p Poster, by, node string) *Sink {
	return &Sink{poster: p, by: by, node: node, wakeup: make(chan struct{}, 1), refusalLogged: map[string]bool{}}
}

// Put queues the fact for the next batch. Facts about objects without namespace (nodes, images) are
// dropped: the API server's journal is stored and read by namespace.
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

// Run sends batches until ctx ends, and then once more. It returns earlier if the API server has no
// journal, and logs that.
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

// send posts the queued facts; false: the API server has no journal.
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

// apiAbsent reports whether the API server has no journal and logs it. Any other Kubernetes may
// answer Forbidden before NotFound, so discovery decides.
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

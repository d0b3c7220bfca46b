// Package ship sends the facts of a component that runs apart to the API server's journal.
//
// Chapter: every chapter. In: facts (Put never blocks). Out: batches posted to podjournals, one per namespace and beat. What cannot be sent is kept
// up to a bound, oldest dropped first; an API server without a journal (any other Kubernetes) is noticed once and left alone.
package ship

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
)

// beat is the time between batches; bound is how many facts wait at most; batch is how many go in one request.
const (
	beat  = 500 * time.Millisecond
	bound = 1 << 14
	batch = 2000
)

// group is where the journal is served.
const group = "/apis/journal.gantry.dev/v1alpha1"

// Poster posts a JSON body to a path of the API server.
type Poster interface {
	Post(ctx context.Context, path string, body []byte) error
	// Get reads a path; its error is of the API server's answer.
	Get(ctx context.Context, path string) error
}

// Shipper is the Sink of a component.
type Shipper struct {
	post     Poster
	by, node string

	mu      sync.Mutex
	waiting []journal.Entry
	bell    chan struct{}

	told map[string]bool // namespaces whose refusal was logged

	each int // bytes that an entry took in the batch before; only Run's goroutine touches it
}

// New makes a shipper that speaks for a component; Run sends.
func New(p Poster, by, node string) *Shipper {
	return &Shipper{post: p, by: by, node: node, bell: make(chan struct{}, 1), told: map[string]bool{}}
}

// Put keeps the fact until the next beat. Facts about what is in no namespace, nodes and images, stay with their component: the API server's journal
// is kept and read by namespace.
func (s *Shipper) Put(ref journal.Ref, fact journal.Fact) {
	if ref.Namespace == "" {
		return
	}
	e := journal.Entry{At: time.Now(), Ref: ref, By: s.by, Node: s.node, Fact: fact}
	s.mu.Lock()
	s.waiting = append(s.waiting, e)
	if over := len(s.waiting) - bound; over > 0 {
		s.waiting = s.waiting[over:]
	}
	s.mu.Unlock()
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends, and then once more what is left. It ends by itself when the API server keeps no journal, and says so once.
func (s *Shipper) Run(ctx context.Context) {
	if s.absent(ctx) {
		return
	}
	for {
		select {
		case <-s.bell:
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
		case <-time.After(beat):
		case <-ctx.Done():
		}
	}
}

// send posts what waits; false means that there is no journal to send to.
func (s *Shipper) send(ctx context.Context) bool {
	s.mu.Lock()
	all := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	byNamespace := map[string][]journal.Entry{}
	for _, e := range all {
		byNamespace[e.Ref.Namespace] = append(byNamespace[e.Ref.Namespace], e)
	}
	for ns, entries := range byNamespace {
		for len(entries) > 0 {
			n := min(batch, len(entries))
			err := s.postBatch(ctx, ns, entries[:n])
			switch {
			case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
				if !apierrors.IsBadRequest(err) && s.absent(ctx) {
					return false
				}
				if !s.told[ns] {
					s.told[ns] = true
					klog.FromContext(ctx).Error(err, "The API server refuses the journal's entries; further refusals are not logged", "namespace", ns)
				}
			case err != nil:
				for _, unsent := range byNamespace { // those of other namespaces too
					s.putBack(unsent)
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

// absent tells whether the API server has no journal, as any other Kubernetes: who may not write one is refused there before it is said that there is
// none. It is logged.
func (s *Shipper) absent(ctx context.Context) bool {
	if !apierrors.IsNotFound(s.post.Get(ctx, group)) {
		return false
	}
	klog.FromContext(ctx).Info("The API server keeps no journal: what this component notes of Pods is kept nowhere, and gantry why and gantry trace know of it only what Events tell", "component", s.by)
	return true
}

func (s *Shipper) postBatch(ctx context.Context, ns string, entries []journal.Entry) error {
	name, err := json.Marshal(ns)
	if err != nil {
		return err
	}
	body := make([]byte, 0, len(entries)*s.each+1024)
	body = append(append(append(body, `{"apiVersion":"journal.gantry.dev/v1alpha1","kind":"PodJournal","metadata":{"name":"batch","namespace":`...), name...), `},"entries":[`...)
	for i, e := range entries {
		if i > 0 {
			body = append(body, ',')
		}
		if body, err = e.AppendJSON(body); err != nil {
			return err
		}
	}
	s.each = len(body)/len(entries) + 64
	body = append(body, "]}"...)
	return s.post.Post(ctx, group+"/namespaces/"+ns+"/podjournals", body)
}

func (s *Shipper) putBack(entries []journal.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(append([]journal.Entry(nil), entries...), s.waiting...)
	if over := len(s.waiting) - bound; over > 0 {
		s.waiting = s.waiting[over:]
	}
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

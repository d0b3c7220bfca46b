package store

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// resumingStorage is a cached storage whose watches resume from every revision that etcd still has.
// A watch cache has no events from before it was filled: after a restart it would answer all
// watches with 410 Gone, and each client would list again.
type resumingStorage struct {
	storage.Interface
	raw storage.Interface
}

// Watch implements storage.Interface. It opens the watch in the cache, or in etcd if the cache
// answers 410; a compacted revision gets 410 from etcd.
func (r resumingStorage) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	w, err := r.Interface.Watch(ctx, key, o)
	if err != nil || o.ResourceVersion == "" || o.ResourceVersion == "0" || o.SendInitialEvents != nil {
		return w, err
	}
	select {
	case e, ok := <-w.ResultChan():
		switch {
		case !ok:
			return w, nil
		case isGone(e):
			w.Stop()
			return r.raw.Watch(ctx, key, o)
		}
		return newPeekedWatch(e, w), nil
	default: // the cache answers 410 at once or not at all
		return w, nil
	}
}

// isGone reports whether an event is the error 410 Gone.
func isGone(e watch.Event) bool {
	s, ok := e.Object.(*metav1.Status)
	return ok && e.Type == watch.Error && s.Code == http.StatusGone
}

// peekedWatch is a watch whose first event was read already and is delivered again.
type peekedWatch struct {
	watch.Interface
	out  chan watch.Event
	stop context.CancelFunc
}

// newPeekedWatch returns w with the event first in front.
func newPeekedWatch(first watch.Event, w watch.Interface) *peekedWatch {
	ctx, stop := context.WithCancel(context.Background())
	a := &peekedWatch{Interface: w, out: make(chan watch.Event), stop: stop}
	go a.forward(ctx, first)
	return a
}

// forward delivers e and what follows until the watch ends or Stop is called.
func (a *peekedWatch) forward(ctx context.Context, e watch.Event) {
	defer close(a.out)
	for ok := true; ok; e, ok = <-a.Interface.ResultChan() {
		select {
		case a.out <- e:
		case <-ctx.Done():
			return
		}
	}
}

// ResultChan implements watch.Interface.
func (a *peekedWatch) ResultChan() <-chan watch.Event { return a.out }

// Stop implements watch.Interface.
func (a *peekedWatch) Stop() {
	a.stop()
	a.Interface.Stop()
}

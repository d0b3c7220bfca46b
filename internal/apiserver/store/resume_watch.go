package store

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// resumingStorage is a storage whose watches resume from every revision that etcd keeps. A watch
// cache knows nothing from before it was filled: after a restart it would send all watchers away
// with 410 to list anew, though nothing is lost.
type resumingStorage struct {
	storage.Interface
	raw storage.Interface
}

// Watch asks the cache first, and etcd itself when the cache does not reach back far enough. What
// etcd has compacted is 410, as it must be.
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
	default: // what is too old is known at once
		return w, nil
	}
}

func isGone(e watch.Event) bool {
	s, ok := e.Object.(*metav1.Status)
	return ok && e.Type == watch.Error && s.Code == http.StatusGone
}

// peekedWatch is a watch of which one event was taken out already.
type peekedWatch struct {
	watch.Interface
	out  chan watch.Event
	stop context.CancelFunc
}

func newPeekedWatch(first watch.Event, w watch.Interface) *peekedWatch {
	ctx, stop := context.WithCancel(context.Background())
	a := &peekedWatch{Interface: w, out: make(chan watch.Event), stop: stop}
	go a.forward(ctx, first)
	return a
}

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

package csidriver

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// keyLocks are locks by name, of which no two share one. The zero value is ready. Safe for
// concurrent use.
type keyLocks struct {
	mu   sync.Mutex
	held map[string]*keyLock
}

type keyLock struct {
	free chan struct{} // has one element while nobody holds the lock
	by   int           // who holds it or waits
}

// lock waits for the lock of a name; unlock is called once. The error is Aborted, as CSI wants it
// of calls that another one about the same volume keeps waiting, when ctx ends before.
func (k *keyLocks) lock(ctx context.Context, name string) (unlock func(), err error) {
	k.mu.Lock()
	if k.held == nil {
		k.held = map[string]*keyLock{}
	}
	l := k.held[name]
	if l == nil {
		l = &keyLock{free: make(chan struct{}, 1)}
		l.free <- struct{}{}
		k.held[name] = l
	}
	l.by++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.by--; l.by == 0 {
			delete(k.held, name)
		}
	}
	select {
	case <-l.free:
		return func() { l.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, status.Errorf(codes.Aborted, "another call about %s has not ended", name)
	}
}

package controllerruntime

import (
	"container/heap"
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// keyQueue is what a Queue keeps its keys in.
type keyQueue interface {
	Add(key string)
	AddAfter(key string, d time.Duration)
	AddRateLimited(key string)
	Forget(key string)
	Get() (key string, shutDown bool)
	Done(key string)
	ShutDown()
}

// QueueHolder is a Runner that works through several queues.
type QueueHolder interface{ Queues() []*Queue }

// QueuesOf returns the queues of a controller; nil for one that is not made of queues.
func QueuesOf(r Runner) []*Queue {
	switch r := r.(type) {
	case *Queue:
		return []*Queue{r}
	case QueueHolder:
		return r.Queues()
	}
	return nil
}

// ManualQueue is a Queue that its caller runs key by key, on the caller's clock: for simulations in
// virtual time. Only one goroutine may use it, and the Queue it was made from, whose Run is not
// called.
type ManualQueue struct {
	queue *Queue
	keys  *manualKeys
}

// Manual makes q a ManualQueue. now is its clock; keys that were added before are kept.
func (q *Queue) Manual(now func() time.Time) *ManualQueue {
	keys := &manualKeys{now: now, waiting: map[string]bool{}, due: map[string]time.Time{},
		limits: workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 30*time.Second)}
	before := q.queue
	if b, ok := before.(workqueue.TypedRateLimitingInterface[string]); ok {
		for b.Len() > 0 {
			key, _ := b.Get()
			keys.Add(key)
			b.Done(key)
		}
	}
	before.ShutDown()
	q.queue = keys
	return &ManualQueue{queue: q, keys: keys}
}

// Name is the queue's name, as it labels metrics.
func (m *ManualQueue) Name() string { return m.queue.name }

// Step syncs the next key that is due; false: none is. After an error the key is due again with the
// back-off of NewQueue.
func (m *ManualQueue) Step(ctx context.Context) bool {
	key, none := m.keys.Get()
	if none {
		return false
	}
	m.queue.process(ctx, key)
	return true
}

// Wake returns when the next key is due: the present time if one is now, the zero time if none
// will be by itself.
func (m *ManualQueue) Wake() time.Time { return m.keys.wake() }

// manualKeys is a keyQueue on a clock that stands still while its caller works. Get does not wait.
type manualKeys struct {
	now     func() time.Time
	ready   []string
	waiting map[string]bool // keys in ready
	due     map[string]time.Time
	delayed delayedKeys // has all of due, and keys whose time was replaced
	limits  workqueue.TypedRateLimiter[string]
}

// delayedKey is a key that is due at a time.
type delayedKey struct {
	at  time.Time
	key string
}

// delayedKeys is a heap: the earliest first, of equal times the first by name.
type delayedKeys []delayedKey

func (d delayedKeys) Len() int      { return len(d) }
func (d delayedKeys) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *delayedKeys) Push(x any)   { *d = append(*d, x.(delayedKey)) }

func (d delayedKeys) Less(i, j int) bool {
	return d[i].at.Before(d[j].at) || d[i].at.Equal(d[j].at) && d[i].key < d[j].key
}

func (d *delayedKeys) Pop() any {
	last := len(*d) - 1
	out := (*d)[last]
	*d = (*d)[:last]
	return out
}

// Add implements keyQueue.
func (k *manualKeys) Add(key string) {
	if !k.waiting[key] {
		k.waiting[key] = true
		k.ready = append(k.ready, key)
	}
}

// AddAfter implements keyQueue: of several times for one key the first counts.
func (k *manualKeys) AddAfter(key string, d time.Duration) {
	if d <= 0 {
		k.Add(key)
		return
	}
	at := k.now().Add(d)
	if before, ok := k.due[key]; !ok || at.Before(before) {
		k.due[key] = at
		heap.Push(&k.delayed, delayedKey{at, key})
	}
}

// AddRateLimited implements keyQueue.
func (k *manualKeys) AddRateLimited(key string) { k.AddAfter(key, k.limits.When(key)) }

// Forget implements keyQueue.
func (k *manualKeys) Forget(key string) { k.limits.Forget(key) }

// Get implements keyQueue; true: no key is due.
func (k *manualKeys) Get() (string, bool) {
	k.release()
	if len(k.ready) == 0 {
		return "", true
	}
	key := k.ready[0]
	k.ready = k.ready[1:]
	delete(k.waiting, key)
	return key, false
}

// Done implements keyQueue.
func (k *manualKeys) Done(string) {}

// ShutDown implements keyQueue.
func (k *manualKeys) ShutDown() {}

// release moves keys whose time has come to ready, the earliest first.
func (k *manualKeys) release() {
	for now := k.now(); ; {
		first, at := k.earliest()
		if first == "" || at.After(now) {
			return
		}
		delete(k.due, first)
		k.Add(first)
	}
}

// earliest returns the delayed key with the earliest time; of equal times the first by name. None:
// an empty key.
func (k *manualKeys) earliest() (key string, at time.Time) {
	for len(k.delayed) > 0 {
		first := k.delayed[0]
		if at, ok := k.due[first.key]; ok && at.Equal(first.at) {
			return first.key, at
		}
		heap.Pop(&k.delayed)
	}
	return "", time.Time{}
}

func (k *manualKeys) wake() time.Time {
	if len(k.ready) > 0 {
		return k.now()
	}
	_, at := k.earliest()
	return at
}

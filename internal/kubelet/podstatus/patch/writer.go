package patch

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
)

// Writer writes statuses.
type Writer struct {
	client  kubernetes.Interface
	journal journal.Sink
	bell    chan struct{}

	mu      sync.Mutex
	entries map[types.UID]*entry
	queue   []types.UID // those with something to write, oldest change first
}

// entry is one Pod's status on its way.
type entry struct {
	base   *v1.Pod // newest the API is known to have
	status v1.PodStatus
	since  time.Time // of the oldest change not written
	queued bool
	busy   bool // somebody writes it now
	finish bool // delete the object after the status
	after  time.Time
	delay  time.Duration
}

// New returns a Writer; Run makes it write.
func New(client kubernetes.Interface, j journal.Sink) *Writer {
	return &Writer{client: client, journal: j, bell: make(chan struct{}, 1), entries: map[types.UID]*entry{}}
}

// Set makes the status known; it is written when it differs from what the API has.
func (w *Writer) Set(pod *v1.Pod, status v1.PodStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(pod)
	e.status = status
	if e.finish || !equal(e.base.Status, status) {
		w.enqueue(pod.UID, e)
	}
}

// Finish deletes the Pod from the API after its last status.
func (w *Writer) Finish(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(pod)
	e.finish = true
	w.enqueue(pod.UID, e)
}

// Drop forgets a Pod that is gone.
func (w *Writer) Drop(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, uid)
}

func (w *Writer) entry(pod *v1.Pod) *entry {
	e := w.entries[pod.UID]
	if e == nil {
		e = &entry{base: pod, status: pod.Status}
		w.entries[pod.UID] = e
	}
	if newer(pod, e.base) {
		e.base = pod
	}
	return e
}

// newer compares resource versions, which grow.
func newer(a, b *v1.Pod) bool {
	x, errX := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, errY := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errX == nil && (errY != nil || x > y)
}

func (w *Writer) enqueue(uid types.UID, e *entry) {
	if e.since.IsZero() {
		e.since = time.Now()
	}
	if e.queued {
		return
	}
	e.queued = true
	w.queue = append(w.queue, uid)
	w.ring()
}

func (w *Writer) ring() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// writers is how many statuses are written side by side; those of one Pod follow each other.
const writers = 8

// Run writes until ctx ends, then makes one last attempt at what is left.
func (w *Writer) Run(ctx context.Context) error {
	slots := make(chan struct{}, writers)
	var wg sync.WaitGroup
	for {
		uid, wait := w.next()
		if uid != "" {
			slots <- struct{}{}
			wg.Add(1)
			go func() {
				defer func() { <-slots; wg.Done() }()
				w.one(ctx, uid)
			}()
			continue
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			wg.Wait()
			w.last(ctx)
			return nil
		case <-w.bell:
		case <-timer:
		}
	}
}

// last writes what is left when the kubelet ends.
func (w *Writer) last(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	for uid, _ := w.next(); uid != "" && ctx.Err() == nil; uid, _ = w.next() {
		w.one(ctx, uid)
	}
}

// next takes the first Pod that has something to write, nobody writing, and no delay left; else it returns how long to wait, 0 when there is nothing.
func (w *Writer) next() (uid types.UID, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var rest []types.UID
	for i, id := range w.queue {
		e := w.entries[id]
		if e == nil {
			continue
		}
		left := time.Until(e.after)
		if e.busy || left > 0 {
			if !e.busy && (wait == 0 || left < wait) {
				wait = left
			}
			rest = append(rest, id)
			continue
		}
		e.busy, e.queued = true, false
		w.queue = append(rest, w.queue[i+1:]...)
		return id, 0
	}
	w.queue = rest
	return "", wait
}

// one writes one Pod's status, and deletes the Pod if that was asked for.
func (w *Writer) one(ctx context.Context, uid types.UID) {
	w.mu.Lock()
	e := w.entries[uid]
	if e == nil {
		w.mu.Unlock()
		return
	}
	base, status, since, finish := e.base, e.status, e.since, e.finish
	e.since = time.Time{}
	w.mu.Unlock()

	written, err := w.write(ctx, base, status)
	if err == nil && finish {
		err = w.remove(ctx, base)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.ring()
	e.busy = false
	if finish && err == nil {
		e.finish = false // a status that is told late does not ask for it again
	}
	if written != nil && (newer(written, e.base) || written.ResourceVersion == "") {
		e.base = written
	}
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err):
		// The object is gone, or another one has its name: the watch will say so.
		klog.FromContext(ctx).V(2).Info("Status is not wanted any more", "pod", klog.KObj(base), "err", err)
	case err != nil:
		w.again(ctx, e, since, err)
	case written != nil:
		e.delay, e.after = 0, time.Time{}
		rev, _ := strconv.ParseInt(written.ResourceVersion, 10, 64) // 0 when it is no number
		w.journal.Put(ref(base), journal.StatusWritten{Revision: rev, Took: journal.Took(time.Since(since))})
	}
}

// again puts a failed write off.
func (w *Writer) again(ctx context.Context, e *entry, since time.Time, err error) {
	e.delay = min(max(2*e.delay, 100*time.Millisecond), 10*time.Second)
	e.after = time.Now().Add(e.delay)
	w.enqueue(e.base.UID, e)
	e.since = since
	if ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot write the Pod's status, trying again", "pod", klog.KObj(e.base), "after", e.delay)
	}
}

// write patches the status; nil without an error when there is nothing to change.
func (w *Writer) write(ctx context.Context, base *v1.Pod, status v1.PodStatus) (*v1.Pod, error) {
	raw, changed, err := body(base, status)
	if err != nil || !changed {
		return nil, err
	}
	pod, err := w.client.CoreV1().Pods(base.Namespace).Patch(ctx, base.Name, types.StrategicMergePatchType, raw, metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("patch status of %s/%s: %w", base.Namespace, base.Name, err)
	}
	return pod, nil
}

// remove deletes the object now; one that is gone or replaced is none of ours.
func (w *Writer) remove(ctx context.Context, pod *v1.Pod) error {
	zero := int64(0)
	err := w.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// body is the patch from one status to another, with the uid so that it cannot hit another Pod of the name.
func body(base *v1.Pod, status v1.PodStatus) (raw []byte, changed bool, err error) {
	meta := metav1.ObjectMeta{UID: base.UID}
	from, err := json.Marshal(v1.Pod{Status: base.Status})
	if err != nil {
		return nil, false, err
	}
	to, err := json.Marshal(v1.Pod{Status: status})
	if err != nil {
		return nil, false, err
	}
	raw, err = strategicpatch.CreateTwoWayMergePatch(from, to, v1.Pod{})
	if err != nil || string(raw) == "{}" {
		return nil, false, err
	}
	to, err = json.Marshal(v1.Pod{ObjectMeta: meta, Status: status})
	if err != nil {
		return nil, false, err
	}
	raw, err = strategicpatch.CreateTwoWayMergePatch(from, to, v1.Pod{})
	return raw, true, err
}

// equal compares as the API keeps it.
func equal(a, b v1.PodStatus) bool { return equality.Semantic.DeepEqual(a, b) }

func ref(pod *v1.Pod) journal.Ref {
	return journal.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}

package statusmanager

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

// Manager writes statuses.
type Manager struct {
	client  kubernetes.Interface
	journal journal.Sink
	wakeup  chan struct{}

	mu      sync.Mutex
	entries map[types.UID]*entry
	queue   []types.UID // those with something to write, oldest change first
}

// entry is one Pod's status on its way.
type entry struct {
	base      *v1.Pod // newest the API is known to have
	status    v1.PodStatus
	since     time.Time // of the oldest change not written
	queued    bool
	writing   bool // somebody writes it now
	deletePod bool // delete the object after the status
	retryAt   time.Time
	delay     time.Duration
}

// New returns a Manager; Run makes it write.
func New(client kubernetes.Interface, j journal.Sink) *Manager {
	return &Manager{client: client, journal: j, wakeup: make(chan struct{}, 1), entries: map[types.UID]*entry{}}
}

// SetPodStatus makes the status known; it is written when it differs from what the API has.
func (w *Manager) SetPodStatus(pod *v1.Pod, status v1.PodStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(pod)
	e.status = status
	if e.deletePod || !equal(e.base.Status, status) {
		w.enqueue(pod.UID, e)
	}
}

// DeletePod deletes the Pod from the API after its last status.
func (w *Manager) DeletePod(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(pod)
	e.deletePod = true
	w.enqueue(pod.UID, e)
}

// RemoveStatus forgets a Pod that is gone.
func (w *Manager) RemoveStatus(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, uid)
}

func (w *Manager) entry(pod *v1.Pod) *entry {
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

func (w *Manager) enqueue(uid types.UID, e *entry) {
	if e.since.IsZero() {
		e.since = time.Now()
	}
	if e.queued {
		return
	}
	e.queued = true
	w.queue = append(w.queue, uid)
	w.wake()
}

func (w *Manager) wake() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

// maxParallelWrites is how many statuses are written side by side; those of one Pod follow each
// other.
const maxParallelWrites = 8

// Run writes until ctx ends, then makes one last attempt at what is left.
func (w *Manager) Run(ctx context.Context) error {
	slots := make(chan struct{}, maxParallelWrites)
	var wg sync.WaitGroup
	for {
		uid, wait := w.next()
		if uid != "" {
			slots <- struct{}{}
			wg.Add(1)
			go func() {
				defer func() { <-slots; wg.Done() }()
				w.syncPod(ctx, uid)
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
			w.flush(ctx)
			return nil
		case <-w.wakeup:
		case <-timer:
		}
	}
}

// flush writes what is left when the kubelet ends.
func (w *Manager) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	for uid, _ := w.next(); uid != "" && ctx.Err() == nil; uid, _ = w.next() {
		w.syncPod(ctx, uid)
	}
}

// next takes the first Pod that has something to write, nobody writing, and no delay left; else it
// returns how long to wait, 0 when there is nothing.
func (w *Manager) next() (uid types.UID, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var rest []types.UID
	for i, id := range w.queue {
		e := w.entries[id]
		if e == nil {
			continue
		}
		remaining := time.Until(e.retryAt)
		if e.writing || remaining > 0 {
			if !e.writing && (wait == 0 || remaining < wait) {
				wait = remaining
			}
			rest = append(rest, id)
			continue
		}
		e.writing, e.queued = true, false
		w.queue = append(rest, w.queue[i+1:]...)
		return id, 0
	}
	w.queue = rest
	return "", wait
}

// syncPod writes one Pod's status, and deletes the Pod if that was asked for.
func (w *Manager) syncPod(ctx context.Context, uid types.UID) {
	w.mu.Lock()
	e := w.entries[uid]
	if e == nil {
		w.mu.Unlock()
		return
	}
	base, status, since, finish := e.base, e.status, e.since, e.deletePod
	e.since = time.Time{}
	w.mu.Unlock()

	written, err := w.write(ctx, base, status)
	if err == nil && finish {
		err = w.remove(ctx, base)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake()
	e.writing = false
	if finish && err == nil {
		e.deletePod = false // a status that is told late does not ask for it again
	}
	if written != nil && (newer(written, e.base) || written.ResourceVersion == "") {
		e.base = written
	}
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err):
		// The object is gone, or another one has its name: the watch will say so.
		klog.FromContext(ctx).V(2).Info("Status is not wanted any more", "pod", klog.KObj(base), "err", err)
	case err != nil:
		w.retryLater(ctx, e, since, err)
	case written != nil:
		e.delay, e.retryAt = 0, time.Time{}
		rev, _ := strconv.ParseInt(written.ResourceVersion, 10, 64) // 0 when it is no number
		w.journal.Put(ref(base), journal.StatusWritten{Revision: rev, Took: journal.Took(time.Since(since))})
	}
}

// retryLater puts a failed write off.
func (w *Manager) retryLater(ctx context.Context, e *entry, since time.Time, err error) {
	e.delay = min(max(2*e.delay, 100*time.Millisecond), 10*time.Second)
	e.retryAt = time.Now().Add(e.delay)
	w.enqueue(e.base.UID, e)
	e.since = since
	if ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot write the Pod's status, trying again", "pod", klog.KObj(e.base),
			"after", e.delay)
	}
}

// write patches the status; nil without an error when there is nothing to change.
func (w *Manager) write(ctx context.Context, base *v1.Pod, status v1.PodStatus) (*v1.Pod, error) {
	raw, changed, err := patchBody(base, status)
	if err != nil || !changed {
		return nil, err
	}
	pod, err := w.client.CoreV1().Pods(base.Namespace).Patch(ctx, base.Name, types.StrategicMergePatchType, raw,
		metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("patch status of %s/%s: %w", base.Namespace, base.Name, err)
	}
	return pod, nil
}

// remove deletes the object now; one that is gone or replaced is none of ours.
func (w *Manager) remove(ctx context.Context, pod *v1.Pod) error {
	zero := int64(0)
	err := w.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero,
		Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// patchBody is the patch from one status to another, with the uid so that it cannot hit another Pod
// of the name.
func patchBody(base *v1.Pod, status v1.PodStatus) (raw []byte, changed bool, err error) {
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

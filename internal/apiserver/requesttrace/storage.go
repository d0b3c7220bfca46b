package requesttrace

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/gantry-project/gantry/internal/journal"
)

// WrapStorage returns s with its writes recorded.
func (d *Tracer) WrapStorage(s storage.Interface) storage.Interface { return &tracedStorage{s, d} }

// tracedStorage records creates, updates and deletes.
type tracedStorage struct {
	storage.Interface
	tracer *Tracer
}

// Create implements storage.Interface.
func (k *tracedStorage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	t := k.tracer.recorderFrom(ctx)
	if t == nil {
		return k.Interface.Create(ctx, key, obj, out, ttl)
	}
	t.markValidationStarted()
	at := t.elapsed()
	err := k.Interface.Create(ctx, key, obj, out, ttl)
	t.recordStorage(at, storageResult{key: key, out: out, err: err})
	return err
}

// Delete implements storage.Interface.
func (k *tracedStorage) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions,
	validate storage.ValidateObjectFunc,
	cached runtime.Object, o storage.DeleteOptions) error {
	t := k.tracer.recorderFrom(ctx)
	if t == nil {
		return k.Interface.Delete(ctx, key, out, pre, validate, cached, o)
	}
	at := t.elapsed()
	err := k.Interface.Delete(ctx, key, out, pre, validate, cached, o)
	t.recordStorage(at, storageResult{key: key, out: out, err: err, deleted: true})
	return err
}

// GuaranteedUpdate implements storage.Interface. Admission and strategy run inside try; only the
// time after it counts as storage's.
func (k *tracedStorage) GuaranteedUpdate(ctx context.Context, key string, dst runtime.Object, ignoreNotFound bool,
	pre *storage.Preconditions,
	try storage.UpdateFunc, cached runtime.Object) error {
	t := k.tracer.recorderFrom(ctx)
	if t == nil {
		return k.Interface.GuaranteedUpdate(ctx, key, dst, ignoreNotFound, pre, try, cached)
	}
	at, attempts, before := t.elapsed(), 0, ""
	var refused error
	err := k.Interface.GuaranteedUpdate(ctx, key, dst, ignoreNotFound, pre,
		func(in runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
			if attempts++; attempts > 1 {
				t.recordRetry(at)
			}
			before = fmt.Sprint(m.ResourceVersion)
			out, ttl, err := try(in, m)
			refused, at = err, t.elapsed()
			t.markValidationStarted()
			return out, ttl, err
		}, cached)
	if refused != nil {
		return err // recorded by the step that failed
	}
	t.recordStorage(at,
		storageResult{key: key, out: dst, err: err, unchanged: before != "0" && before == resourceVersion(dst)})
	return err
}

// resourceVersion returns obj's resourceVersion; "" without metadata.
func resourceVersion(obj runtime.Object) string {
	if m, err := meta.Accessor(obj); err == nil {
		return m.GetResourceVersion()
	}
	return ""
}

// markValidationStarted ends the strategy's step for writes that no validating plugin sees.
func (t *recorder) markValidationStarted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.validationStarted = true
}

// recordRetry adds a step for a conflict: the object that try got was, or may have been, older than
// the stored one, and try runs again.
func (t *recorder) recordRetry(at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addStep(at,
		journal.Step{Name: journal.StepStorage,
			Message: "what was at hand was not known to be the newest: all is done once more on what is stored now"})
	t.mutationStarted, t.validationStarted = false, false
}

// storageResult is the result of one call of storage.
type storageResult struct {
	key       string
	out       runtime.Object
	err       error
	deleted   bool
	unchanged bool // an update that changed nothing, and wrote nothing
}

// recordStorage adds the step of a storage call that began at the given time.
func (t *recorder) recordStorage(at time.Duration, w storageResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := journal.Step{Name: journal.StepStorage, Refused: w.err != nil, Error: errorText(w.err)}
	switch {
	case w.err != nil:
	case w.unchanged:
		s.Message = "nothing differs from what is stored: not written, revision " + resourceVersion(w.out) + " stays"
	case w.deleted:
		s.Message = "removed " + w.key + " at revision " + resourceVersion(w.out)
	default:
		s.Message = "wrote " + w.key + " at revision " + resourceVersion(w.out)
	}
	if w.err == nil && t.oldObject != nil && !w.deleted && t.object != nil {
		s.Changes = journal.Changes(t.oldObject, t.object)
	}
	t.addStep(at, s)
	if w.err != nil || w.unchanged {
		return
	}
	if n, err := (storage.APIObjectVersioner{}).ObjectResourceVersion(w.out); err == nil {
		t.trace.Revision = int64(n)
	}
}

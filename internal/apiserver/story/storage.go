package story

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/gantry-project/gantry/internal/journal"
)

// Storage makes a storage tell what it writes.
func (d *Desk) Storage(s storage.Interface) storage.Interface { return &keeper{s, d} }

type keeper struct {
	storage.Interface
	desk *Desk
}

// Create implements storage.Interface.
func (k *keeper) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	t := k.desk.follow(ctx)
	if t == nil {
		return k.Interface.Create(ctx, key, obj, out, ttl)
	}
	t.unjudged()
	at := t.now()
	err := k.Interface.Create(ctx, key, obj, out, ttl)
	t.stored(at, written{key: key, out: out, err: err})
	return err
}

// Delete implements storage.Interface.
func (k *keeper) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions, validate storage.ValidateObjectFunc,
	cached runtime.Object, o storage.DeleteOptions) error {
	t := k.desk.follow(ctx)
	if t == nil {
		return k.Interface.Delete(ctx, key, out, pre, validate, cached, o)
	}
	at := t.now()
	err := k.Interface.Delete(ctx, key, out, pre, validate, cached, o)
	t.stored(at, written{key: key, out: out, err: err, gone: true})
	return err
}

// GuaranteedUpdate implements storage.Interface. Most of the write happens inside try; what comes after it is the store's.
func (k *keeper) GuaranteedUpdate(ctx context.Context, key string, dst runtime.Object, ignoreNotFound bool, pre *storage.Preconditions,
	try storage.UpdateFunc, cached runtime.Object) error {
	t := k.desk.follow(ctx)
	if t == nil {
		return k.Interface.GuaranteedUpdate(ctx, key, dst, ignoreNotFound, pre, try, cached)
	}
	at, tries, before := t.now(), 0, ""
	var refused error
	err := k.Interface.GuaranteedUpdate(ctx, key, dst, ignoreNotFound, pre, func(in runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
		if tries++; tries > 1 {
			t.again(at)
		}
		before = fmt.Sprint(m.ResourceVersion)
		out, ttl, err := try(in, m)
		refused, at = err, t.now()
		t.unjudged()
		return out, ttl, err
	}, cached)
	if refused != nil {
		return err // told where it happened
	}
	t.stored(at, written{key: key, out: dst, err: err, same: before != "0" && before == version(dst)})
	return err
}

func version(obj runtime.Object) string {
	if m, err := meta.Accessor(obj); err == nil {
		return m.GetResourceVersion()
	}
	return ""
}

// unjudged closes the kind's own rules for writes without validating plugins.
func (t *teller) unjudged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.judged = true
}

// again notes that the object was written, or may have been, between being read and being written.
func (t *teller) again(at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(at, journal.Step{Name: journal.StepStorage, Says: "what was at hand was not known to be the newest: all is done once more on what is stored now"})
	t.admitted, t.judged = false, false
}

type written struct {
	key  string
	out  runtime.Object
	err  error
	gone bool // deleted
	same bool // nothing to write
}

func (t *teller) stored(at time.Duration, w written) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := journal.Step{Name: journal.StepStorage, Refused: w.err != nil, Error: text(w.err)}
	switch {
	case w.err != nil:
	case w.same:
		s.Says = "nothing differs from what is stored: not written, revision " + version(w.out) + " stays"
	case w.gone:
		s.Says = "removed " + w.key + " at revision " + version(w.out)
	default:
		s.Says = "wrote " + w.key + " at revision " + version(w.out)
	}
	if w.err == nil && t.first != nil && !w.gone && t.object != nil {
		s.Changes = journal.Changes(t.first, t.object)
	}
	t.add(at, s)
	if w.err != nil || w.same {
		return
	}
	if n, err := (storage.APIObjectVersioner{}).ObjectResourceVersion(w.out); err == nil {
		t.story.Revision = int64(n)
	}
}

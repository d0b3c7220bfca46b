package registry

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/gantry-project/gantry/internal/journal"
)

// journalStorage puts a fact into the journal for each acknowledged write of a Pod, from whichever
// endpoint. It does not change the write or its result.
type journalStorage struct {
	storage.Interface
	versioner storage.Versioner
	sink      journal.Sink
}

// userAgentKey is the context key of WithUserAgent.
type userAgentKey struct{}

// WithUserAgent stores the client's User-Agent, up to the first space, in ctx for the facts about
// its writes. The handler chain calls it.
func WithUserAgent(ctx context.Context, userAgent string) context.Context {
	agent, _, _ := strings.Cut(userAgent, " ")
	return context.WithValue(ctx, userAgentKey{}, agent)
}

// Create implements storage.Interface.
func (w *journalStorage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	given := time.Now()
	err := w.Interface.Create(ctx, key, obj, out, ttl)
	if p, ok := out.(*corev1.Pod); ok && err == nil {
		w.sink.Put(podRef(p), w.writtenFact(ctx, p, given))
	}
	return err
}

// GuaranteedUpdate implements storage.Interface. An update that changes nothing makes no fact.
func (w *journalStorage) GuaranteedUpdate(ctx context.Context, key string, dst runtime.Object, ignoreNotFound bool,
	pre *storage.Preconditions, try storage.UpdateFunc, cached runtime.Object) error {
	var before string
	var wasDeleting bool
	var fields []string
	var given time.Time
	watch := func(in runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
		p, ok := in.(*corev1.Pod)
		if !ok {
			return try(in, m)
		}
		before, wasDeleting = p.ResourceVersion, p.DeletionTimestamp != nil
		previous := p.DeepCopy() // try may change its argument
		out, ttl, err := try(in, m)
		if now, ok := out.(*corev1.Pod); ok && err == nil {
			fields = changedFields(previous, now)
		}
		given = time.Now()
		return out, ttl, err
	}
	err := w.Interface.GuaranteedUpdate(ctx, key, dst, ignoreNotFound, pre, watch, cached)
	p, ok := dst.(*corev1.Pod)
	if !ok || err != nil || p.ResourceVersion == before {
		return err // refused, or nothing changed and nothing was written
	}
	f := w.writtenFact(ctx, p, given)
	f.Changed = fields
	w.sink.Put(podRef(p), f)
	if p.DeletionTimestamp != nil && !wasDeleting {
		w.sink.Put(podRef(p), w.deletingFact(ctx, p))
	}
	return nil
}

// Delete implements storage.Interface.
func (w *journalStorage) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, o storage.DeleteOptions) error {
	given := time.Now()
	err := w.Interface.Delete(ctx, key, out, pre, validate, cached, o)
	p, ok := out.(*corev1.Pod)
	if !ok || err != nil {
		return err
	}
	if p.DeletionTimestamp == nil {
		w.sink.Put(podRef(p), w.deletingFact(ctx, p))
	}
	w.sink.Put(podRef(p), journal.Removed{Revision: w.revision(p), Stored: journal.Took(time.Since(given))})
	return nil
}

// writtenFact returns the fact of a write: the user, the client, how long the request took so far,
// and how much of that since storage got the object.
func (w *journalStorage) writtenFact(ctx context.Context, p *corev1.Pod, given time.Time) journal.Written {
	f := journal.Written{Verb: "update", User: userName(ctx), Revision: w.revision(p),
		Stored: journal.Took(time.Since(given))}
	if info, ok := request.RequestInfoFrom(ctx); ok {
		f.Verb, f.Subresource = info.Verb, info.Subresource
	}
	f.Agent, _ = ctx.Value(userAgentKey{}).(string)
	if t, ok := request.ReceivedTimestampFrom(ctx); ok {
		f.Took = journal.Took(time.Since(t))
	}
	return f
}

// deletingFact returns the fact that a Pod's deletion has begun.
func (w *journalStorage) deletingFact(ctx context.Context, p *corev1.Pod) journal.Deleting {
	f := journal.Deleting{User: userName(ctx)}
	if g := p.DeletionGracePeriodSeconds; g != nil {
		f.Grace = *g
	}
	return f
}

// revision returns the Pod's resourceVersion; 0 if it has none.
func (w *journalStorage) revision(p *corev1.Pod) int64 {
	rv, err := w.versioner.ObjectResourceVersion(p)
	if err != nil {
		return 0
	}
	return int64(rv)
}

// userName returns the authenticated user's name; "" without one.
func userName(ctx context.Context) string {
	if u, ok := request.UserFrom(ctx); ok {
		return u.GetName()
	}
	return ""
}

// podRef returns the Pod's identity in the journal.
func podRef(p *corev1.Pod) journal.Ref {
	return journal.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

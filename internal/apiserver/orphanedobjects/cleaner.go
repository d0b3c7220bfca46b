package orphanedobjects

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
)

// pageSize is how many keys are read at a time.
const pageSize = 5000

const (
	// retryPeriod is the wait after an audit that failed, later that after one that left something.
	retryPeriod, recheckPeriod = time.Minute, 10 * time.Minute
	// settlePeriod is the wait after a namespace went: a write that was admitted while it was there
	// lands within the longest time of a request.
	settlePeriod = time.Minute
)

// Cleaner looks for orphans and removes them.
type Cleaner struct {
	Etcd      *clientv3.Client
	Discovery discovery.DiscoveryInterface
	Objects   metadata.Interface
	// Prefix is where the objects of a resource lie, as /registry/pods/; custom says that a
	// definition makes it.
	Prefix func(gr schema.GroupResource, custom bool) string
	// NamespaceDeleted tells that a namespace was removed. It is read without delay.
	NamespaceDeleted <-chan struct{}
	// Period is the time between audits, Settle that between the end of a namespace and the audit
	// that follows it; 0 means a day and a minute.
	Period, SettlePeriod time.Duration
}

// Run audits at once, each Period, and after namespaces went, until ctx ends.
func (a *Cleaner) Run(ctx context.Context) {
	period, after := a.Period, a.SettlePeriod
	if period == 0 {
		period = 24 * time.Hour
	}
	if after == 0 {
		after = settlePeriod
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	next, due, lastReport := time.Now(), time.Time{}, Report{} // due is when the last namespace that went has settled
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.NamespaceDeleted:
			if due = time.Now().Add(after); next.After(due) {
				next = due
				timer.Reset(after)
			}
			continue
		case <-timer.C:
		}
		report, err := a.Clean(ctx)
		if ctx.Err() != nil {
			return
		}
		logReport(ctx, lastReport, report, err)
		recordMetrics(report, err, time.Now())
		lastReport = report
		wait := period
		switch {
		case err != nil:
			wait = min(period, retryPeriod)
		case report.HasRemaining():
			wait = min(period, recheckPeriod)
		}
		now := time.Now()
		if next = now.Add(wait); due.After(now) && due.Before(next) {
			next = due
		}
		timer.Reset(next.Sub(now))
	}
}

// logReport writes to the log what an audit found that the one before did not.
func logReport(ctx context.Context, lastReport, r Report, err error) {
	log := klog.FromContext(ctx)
	if err != nil {
		log.Error(err,
			"Stored objects could not be checked for namespaces that do not exist; the next try is in a minute")
	}
	for _, g := range r.Groups {
		switch g.Outcome {
		case Removed:
			log.Info("Removed objects whose namespace does not exist",
				"namespace", g.Namespace, "resource", g.Resource, "count", g.Count)
		case Terminating, Failed:
			if slices.Contains(lastReport.Groups, g) {
				continue
			}
			log.Info("Objects whose namespace does not exist are still there",
				"namespace", g.Namespace, "resource", g.Resource, "count", g.Count, "why", g.Reason)
		}
	}
}

// Clean looks once. An error says what could not be read; what was found by then is dealt with.
func (a *Cleaner) Clean(ctx context.Context) (r Report, err error) {
	listing, err := a.list(ctx)
	if err != nil {
		return r, err
	}
	found, err := FindOrphans(listing)
	if err != nil {
		return r, err
	}
	for _, o := range found {
		outcome, reason := a.remove(ctx, o)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		r.Add(o, outcome, reason)
	}
	return r, nil
}

// list reads the keys of all namespaces and namespaced objects at one revision.
func (a *Cleaner) list(ctx context.Context) (Listing, error) {
	resources, err := a.resources(ctx)
	if err != nil {
		return Listing{}, err
	}
	s := Listing{Namespaces: map[string]bool{}}
	revision, err := a.keys(ctx, a.namespaces(), 0, func(name string) { s.Namespaces[name] = true })
	if err != nil {
		return s, err
	}
	for prefix, r := range resources {
		if _, err := a.keys(ctx, prefix, revision, func(rest string) {
			if namespace, name, err := SplitKey(rest); err == nil {
				s.Objects = append(s.Objects, ObjectRef{r, namespace, name})
			}
		}); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (a *Cleaner) namespaces() string {
	return a.Prefix(schema.GroupResource{Resource: "namespaces"}, false)
}

// keys reads the keys below a prefix, at a revision or, with 0, at the newest; it returns the one
// it read at.
func (a *Cleaner) keys(ctx context.Context, prefix string, revision int64, each func(rest string)) (int64, error) {
	for from := prefix; ; {
		got, err := a.Etcd.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)),
			clientv3.WithKeysOnly(), clientv3.WithLimit(pageSize), clientv3.WithRev(revision))
		if err != nil {
			return 0, fmt.Errorf("read keys from %s: %w", from, err)
		}
		if revision == 0 {
			revision = got.Header.Revision
		}
		for _, kv := range got.Kvs {
			each(strings.TrimPrefix(string(kv.Key), prefix))
		}
		if !got.More {
			return revision, nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// resources are the namespaced resources that can be listed and deleted, by where they are stored.
// Those of aggregated servers lie elsewhere: nothing is found there.
func (a *Cleaner) resources(ctx context.Context) (map[string]schema.GroupVersionResource, error) {
	custom := map[string]bool{}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	list, err := a.Objects.Resource(definitions).List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list custom resource definitions: %w", err)
	}
	if err == nil {
		for _, d := range list.Items {
			custom[d.Name] = true // PLURAL.GROUP
		}
	}
	served, err := a.Discovery.ServerPreferredNamespacedResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("ask which resources are served: %w", err)
	}
	out := map[string]schema.GroupVersionResource{}
	for _, l := range served {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range l.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") && !strings.Contains(r.Name,
				"/") {
				gvr := gv.WithResource(r.Name)
				out[a.Prefix(gvr.GroupResource(), custom[gvr.GroupResource().String()])] = gvr
			}
		}
	}
	return out, nil
}

// remove deletes one orphan, unless its namespace has come into being. Its UID is a condition: an
// object that took its place stays.
func (a *Cleaner) remove(ctx context.Context, o ObjectRef) (Outcome, string) {
	client := a.Objects.Resource(o.Resource).Namespace(o.Namespace)
	found, err := client.Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Skipped, ""
	case err != nil:
		return Failed, err.Error()
	case found.DeletionTimestamp != nil:
		return Terminating, pendingFinalizers(found)
	}
	now, err := a.Etcd.Get(ctx, a.namespaces()+o.Namespace, clientv3.WithCountOnly())
	switch {
	case err != nil:
		return Failed, fmt.Sprintf("etcd does not say whether namespace %s exists: %v", o.Namespace, err)
	case now.Count > 0:
		return Skipped, ""
	}
	background := metav1.DeletePropagationBackground
	err = client.Delete(ctx, o.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &found.UID}, PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return Failed, err.Error()
	}
	found, err = client.Get(ctx, o.Name, metav1.GetOptions{})
	if err == nil && found.DeletionTimestamp != nil {
		return Terminating, pendingFinalizers(found)
	}
	return Removed, ""
}

// pendingFinalizers says what an object that is being deleted waits for.
func pendingFinalizers(o *metav1.PartialObjectMetadata) string {
	if len(o.Finalizers) > 0 {
		return "finalizers " + strings.Join(o.Finalizers, ", ")
	}
	if g := o.DeletionGracePeriodSeconds; g != nil {
		return fmt.Sprintf("its grace period of %d s", *g)
	}
	return "its deletion"
}

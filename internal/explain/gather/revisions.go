package gather

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/trace"
)

// objectHistory reads the history of one object.
type objectHistory struct {
	objects     dynamic.ResourceInterface
	description string
	isPod       bool
	name        string
}

// ReadHistory reads who wrote what of an object, KIND/NAME in a namespace; a name alone is a Pod's.
// cfg and client are of one person. An object of which nothing is known is an error.
func ReadHistory(ctx context.Context, cfg *rest.Config, client kubernetes.Interface,
	object NamedObject) (trace.History, error) {
	p, err := objectHistoryOf(cfg, client, object)
	if err != nil {
		return trace.History{}, err
	}
	h := trace.HistoryInput{What: p.description}
	if p.isPod {
		h.Entries, err = ReadJournal(ctx, client, object.Namespace, p.name)
		if err != nil && !errors.Is(err, ErrNoJournal) && !apierrors.IsForbidden(err) {
			return trace.History{}, err
		}
	}
	if h.States, h.OldestRevision, err = p.states(ctx); err != nil {
		return trace.History{}, err
	}
	if len(h.States) == 0 && len(h.Entries) == 0 {
		return trace.History{}, cli.WithFix(fmt.Errorf("%s is not there, and nothing is kept about it", p.description),
			"check name and namespace (-n)")
	}
	return h.History(), nil
}

// NamedObject is an object as a person names it.
type NamedObject struct {
	Namespace string
	Arg       string // KIND/NAME, or a Pod's name
}

// objectHistoryOf finds the resource that KIND/NAME means.
func objectHistoryOf(cfg *rest.Config, client kubernetes.Interface, object NamedObject) (*objectHistory, error) {
	kind, name, ok := strings.Cut(object.Arg, "/")
	if !ok {
		kind, name = "pods", object.Arg
	}
	if name == "" {
		return nil, cli.UsageError(fmt.Errorf("%q names no object: write KIND/NAME", object.Arg))
	}
	cached := memory.NewMemCacheClient(client.Discovery())
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	partly := schema.ParseGroupResource(kind)
	gvr, err := mapper.ResourceFor(partly.WithVersion(""))
	if err != nil {
		return nil, cli.WithFix(fmt.Errorf("%q is no kind this API server serves: %w", kind, err),
			"look at gantry kubectl api-resources")
	}
	gvk, err := mapper.KindFor(gvr)
	if err != nil {
		return nil, err
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	p := &objectHistory{name: name, isPod: gvr.Group == "" && gvr.Resource == "pods",
		description: strings.ToLower(gvk.Kind) + "/" + name, objects: dyn.Resource(gvr)}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		p.objects, p.description = dyn.Resource(gvr).Namespace(object.Namespace), p.description+" in "+object.Namespace
	}
	return p, nil
}

func (p *objectHistory) fieldSelector() string { return "metadata.name=" + p.name }

// states reads the object at each revision that the store still keeps, and from which revision on
// it keeps them.
func (p *objectHistory) states(ctx context.Context) ([]trace.State, int64, error) {
	now, err := p.objects.List(ctx, metav1.ListOptions{FieldSelector: p.fieldSelector()})
	if err != nil {
		return nil, 0, err
	}
	end, err := strconv.ParseInt(now.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("revision %q: %w", now.GetResourceVersion(), err)
	}
	oldest, first, err := p.oldest(ctx, end)
	if err != nil {
		return nil, 0, err
	}
	var out []trace.State
	if first != nil {
		out = append(out, traceState(first))
	}
	if len(now.Items) > 0 && len(out) > 0 && traceState(&now.Items[0]).Revision == out[0].Revision {
		return out, oldest, nil
	}
	more, err := p.since(ctx, oldest, end, now)
	return append(out, more...), oldest, err
}

// oldest finds the oldest revision at which the store can still be read, by halving, and the object
// as it was then.
func (p *objectHistory) oldest(ctx context.Context, end int64) (int64, *unstructured.Unstructured, error) {
	low, high := int64(1), end // low-1 is taken to be gone, high is kept
	var first *unstructured.Unstructured
	for low <= high {
		mid := (low + high) / 2
		list, err := p.objects.List(ctx, metav1.ListOptions{FieldSelector: p.fieldSelector(),
			ResourceVersion: strconv.FormatInt(mid, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		switch {
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			low = mid + 1
			continue
		case err != nil:
			return 0, nil, fmt.Errorf("read the store at revision %d: %w", mid, err)
		}
		if first = nil; len(list.Items) > 0 {
			first = &list.Items[0]
		}
		high = mid - 1
	}
	return low, first, nil
}

// maxHistoryWait bounds how long the past is read.
const maxHistoryWait = 10 * time.Second

// since reads every write after a revision up to the state there is now.
func (p *objectHistory) since(ctx context.Context, oldest, end int64,
	now *unstructured.UnstructuredList) ([]trace.State, error) {
	ctx, cancel := context.WithTimeout(ctx, maxHistoryWait)
	defer cancel()
	w, err := p.objects.Watch(ctx, metav1.ListOptions{FieldSelector: p.fieldSelector(),
		ResourceVersion: strconv.FormatInt(oldest, 10), AllowWatchBookmarks: true, TimeoutSeconds: new(int64(3))})
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	defer w.Stop()
	goal := end
	if len(now.Items) > 0 {
		goal = traceState(&now.Items[0]).Revision
	}
	var out []trace.State
	for e := range w.ResultChan() {
		obj, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Error {
			return out, fmt.Errorf("read the history: %w", apierrors.FromObject(e.Object))
		}
		s := traceState(obj)
		if e.Type != watch.Bookmark {
			s.Deleted = e.Type == watch.Deleted
			out = append(out, s)
		}
		if s.Revision >= goal || s.Deleted && len(now.Items) == 0 {
			break
		}
	}
	return out, nil
}

func traceState(obj *unstructured.Unstructured) trace.State {
	n, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		n = 0
	}
	return trace.State{Revision: n, Object: obj.Object}
}

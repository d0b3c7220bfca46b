package kinds

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/registry"
	"github.com/gantry-project/gantry/internal/apiserver/registry/autoscaling"
	"github.com/gantry-project/gantry/internal/apiserver/scheme"
	"github.com/gantry-project/gantry/internal/simulate/memstore"
)

// Registry is the storages of all kinds, over a store in memory.
type Registry struct {
	scheme *scheme.Scheme
	set    *registry.StorageSet
	now    time.Time
}

// seedTime is the time that seeds have in their statuses. The store gives it to what becomes true,
// so
// that what was recorded stays.
var seedTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const stampedTransition = `"lastTransitionTime":"2026-01-01T00:00:00Z"`

// NewRegistry returns the storages with the ServiceCIDR that a server creates at its start, and the
// namespace of the recordings.
func NewRegistry(now time.Time) (*Registry, error) {
	r := &Registry{now: now}
	all, err := apiserver.StandaloneKinds(func(group, resource string) rest.StandardStorage {
		return r.set.Lookup(group, resource)
	})
	if err != nil {
		return nil, err
	}
	if r.scheme, err = scheme.New(all, autoscaling.AddV1); err != nil {
		return nil, err
	}
	store := memstore.New(func() time.Time { return seedTime }, 0)
	if r.set, err = registry.Build(all, registry.Options{Scheme: r.scheme.Scheme,
		RESTOptions: &inMemory{store, r.scheme}}); err != nil {
		return nil, err
	}
	if err := r.addServiceCIDR(); err != nil {
		return nil, err
	}
	_, err = r.Do(Request{List: "/api/v1/namespaces", What: "create",
		Body: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"diff"}}`)})
	return r, err
}

// inMemory opens every resource in a store. Dry runs go through a codec of its group.
type inMemory struct {
	store  *memstore.Store
	scheme *scheme.Scheme
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o *inMemory) GetRESTOptions(r schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	info, _ := runtime.SerializerInfoForMediaType(o.scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	codec := o.scheme.Codecs.CodecForVersions(info.Serializer, o.scheme.Codecs.UniversalDeserializer(),
		schema.GroupVersions(o.scheme.PrioritizedVersionsForGroup(r.Group)),
		schema.GroupVersion{Group: r.Group, Version: runtime.APIVersionInternal})
	return generic.RESTOptions{StorageConfig: &storagebackend.ConfigForResource{GroupResource: r,
		Config: storagebackend.Config{Codec: codec}},
		Decorator: encoded(codec, o.store.Decorator()), EnableGarbageCollection: true, DeleteCollectionWorkers: 1,
		ResourcePrefix: "/" + r.String()}, nil
}

// encoded makes storages that write what a codec makes of an object, as etcd's does.
func encoded(codec runtime.Codec, make generic.StorageDecorator) generic.StorageDecorator {
	return func(c *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		newObject, newList func() runtime.Object, attrs storage.AttrFunc, trigger storage.IndexerFuncs,
		indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := make(c, prefix, key, newObject, newList, attrs, trigger, indexers)
		return &encodedStorage{s, codec}, destroy, err
	}
}

type encodedStorage struct {
	storage.Interface
	codec runtime.Codec
}

// Create implements storage.Interface.
func (s *encodedStorage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	stored, err := s.encode(obj)
	if err != nil {
		return err
	}
	return s.Interface.Create(ctx, key, stored, out, ttl)
}

func (r *Registry) addServiceCIDR() error {
	c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}
	store, ctx := r.set.Lookup(networkingv1.GroupName, "servicecidrs"), request.WithNamespace(context.Background(), "")
	out, err := store.Create(ctx, c, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		return err
	}
	c = out.(*networkingv1.ServiceCIDR).DeepCopy()
	c.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady,
		Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(r.now)}}
	status := r.set.Storages(networkingv1.SchemeGroupVersion)["servicecidrs/status"].(rest.Updater)
	_, _, err = status.Update(ctx, c.Name, rest.DefaultUpdatedObjectInfo(c),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// Request is one write.
type Request struct {
	List   string // path of the list
	Name   string // of an update
	What   string // create, update, or a subresource
	Body   []byte
	DryRun bool
	Table  bool
}

// Result is an answer before it is masked.
type Result struct {
	Refused  *metav1.Status // nil: accepted
	Warnings []string
	Object   []byte
	Table    *metav1.Table // where it was asked for
}

// AddWarning implements warning.Recorder.
func (r *Result) AddWarning(_, text string) { r.Warnings = append(r.Warnings, text) }

// parsed is a request with its storage.
type parsed struct {
	*Request
	gv       schema.GroupVersion
	storage  rest.Storage
	resource string
	ctx      context.Context
	dryRun   []string
}

// Do answers a request.
func (r *Registry) Do(q Request) (*Result, error) {
	p, out := r.parse(&q), &Result{}
	if p.storage == nil {
		return nil, fmt.Errorf("%s is not served", q.List)
	}
	p.ctx = warning.WithWarningRecorder(p.ctx, out)
	obj, err := r.write(p)
	if err != nil {
		out.Refused = responsewriters.ErrorToAPIStatus(err)
		return out, nil
	}
	if q.Table {
		out.Table, err = p.storage.(rest.TableConvertor).ConvertToTable(p.ctx, obj, &metav1.TableOptions{})
		if err != nil {
			return nil, err
		}
	}
	out.Object, err = r.encode(p, obj)
	return out, err
}

// Get returns a stored object.
func (r *Registry) Get(list, name string) ([]byte, error) {
	p := r.parse(&Request{List: list, Name: name, What: "get"})
	obj, err := p.storage.(rest.Getter).Get(p.ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return r.encode(p, obj)
}

func (r *Registry) parse(q *Request) *parsed {
	parts := strings.Split(strings.Trim(q.List, "/"), "/")
	p := &parsed{Request: q, gv: schema.GroupVersion{Version: parts[1]}}
	rest := parts[2:]
	if parts[0] == "apis" {
		p.gv, rest = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	}
	namespace := ""
	if rest[0] == "namespaces" && len(rest) > 2 {
		namespace, rest = rest[1], rest[2:]
	}
	p.resource = rest[0]
	path, sub := rest[0], ""
	switch q.What {
	case "create", "get", "list", "update":
	default:
		sub = q.What
		path += "/" + sub
	}
	p.storage = r.set.Storages(p.gv)[path]
	verb := map[string]string{"create": "create", "get": "get"}[q.What]
	if verb == "" {
		verb = "update"
	}
	ctx := request.WithRequestInfo(context.Background(), &request.RequestInfo{IsResourceRequest: true, Verb: verb,
		APIGroup: p.gv.Group, APIVersion: p.gv.Version, Resource: rest[0], Subresource: sub, Namespace: namespace,
		Name: q.Name})
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "admin", UID: "admin", Groups: []string{"system:masters",
		user.AllAuthenticated}})
	if q.DryRun {
		p.dryRun = []string{metav1.DryRunAll}
	}
	p.ctx = request.WithNamespace(ctx, namespace)
	return p
}

// write decodes the body strictly and calls the storage.
func (r *Registry) write(p *parsed) (runtime.Object, error) {
	obj, err := r.decode(p)
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	if p.What == "create" {
		rest.WipeObjectMetaSystemFields(m) // as the handlers of creations do
		return p.storage.(rest.Creater).Create(p.ctx, obj, rest.ValidateAllObjectFunc,
			&metav1.CreateOptions{DryRun: p.dryRun})
	}
	if m.GetName() != p.Name {
		return nil, apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	out, _, err := p.storage.(rest.Updater).Update(p.ctx, p.Name, rest.DefaultUpdatedObjectInfo(obj),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: p.dryRun})
	return out, err
}

func (r *Registry) decode(p *parsed) (runtime.Object, error) {
	info, _ := runtime.SerializerInfoForMediaType(r.scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	hub := schema.GroupVersion{Group: p.gv.Group, Version: runtime.APIVersionInternal}
	obj, gvk, err := r.scheme.Codecs.DecoderToVersion(info.StrictSerializer, hub).Decode(p.Body, nil, p.storage.New())
	switch {
	case err != nil:
		return nil, apierrors.NewBadRequest(err.Error())
	case gvk.GroupVersion() != p.gv:
		return nil, apierrors.NewGenericServerResponse(http.StatusBadRequest, "create", schema.GroupResource{}, "", "",
			0, true)
	}
	return obj, nil
}

func (r *Registry) encode(p *parsed, obj runtime.Object) ([]byte, error) {
	info, _ := runtime.SerializerInfoForMediaType(r.scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	var b bytes.Buffer
	if err := r.scheme.Codecs.EncoderForVersion(info.Serializer, p.gv).Encode(obj, &b); err != nil {
		return nil, err
	}
	if p.resource == "pods" { // the store in memory fills it
		return bytes.ReplaceAll(b.Bytes(), []byte(stampedTransition), []byte(`"lastTransitionTime":null`)), nil
	}
	return b.Bytes(), nil
}

func (s *encodedStorage) encode(obj runtime.Object) (runtime.Object, error) {
	raw, err := runtime.Encode(s.codec, obj)
	if err != nil {
		return nil, err
	}
	return runtime.Decode(s.codec, raw)
}

// GuaranteedUpdate implements storage.Interface.
func (s *encodedStorage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	pre *storage.Preconditions, try storage.UpdateFunc, cached runtime.Object) error {
	write := func(in runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
		obj, ttl, err := try(in, m)
		if err == nil {
			obj, err = s.encode(obj)
		}
		return obj, ttl, err
	}
	return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, pre, write, cached)
}

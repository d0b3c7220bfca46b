package podinformer

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/randfill"
)

func newFiller() *randfill.Filler {
	return randfill.NewWithSeed(2).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(func(q *resource.Quantity,
		c randfill.Continue) {
		*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
	}, func(raw *runtime.RawExtension, c randfill.Continue) {
		raw.Raw = []byte(`{"a":"b"}`)
	})
}

// Random volumes and claims with every field, alone and in lists: what is decoded is what an
// ordinary decoder gives, but for who wrote it. A field that a newer API server sends, and that no
// decoder knows, is passed over.
func TestVolumesAndClaimsAreDecodedWhole(t *testing.T) {
	for i := range resourceTypes[1:] {
		r := &resourceTypes[1+i]
		d, fill := decoderOf(r), newFiller()
		check := func(what string, raw []byte) {
			t.Helper()
			want, kind, err := d.Serializer.Decode(raw, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, as, err := d.Decode(raw, nil, nil)
			if err != nil || *as != *kind {
				t.Fatalf("%s %s: got %v, %v, want no error and as %v", r.Kind, what, as, err, *kind)
			}
			objects := []runtime.Object{want}
			if apimeta.IsListType(want) {
				if objects, err = apimeta.ExtractList(want); err != nil || len(objects) != 3 {
					t.Fatalf("got %v, %v, want no error and 3 in objects", len(objects), err)
				}
			}
			for _, o := range objects {
				m, err := apimeta.Accessor(o)
				if err != nil {
					t.Fatal(err)
				}
				m.SetManagedFields(nil)
				m.SetSelfLink("")
			}
			want.GetObjectKind().SetGroupVersionKind(got.GetObjectKind().GroupVersionKind())
			if !equality.Semantic.DeepEqual(got, want) {
				t.Fatalf("got %s %s:, want %v\n%s", r.Kind, what, want, cmp.Diff(want, got))
			}
		}
		var all []runtime.Object
		for range 100 {
			o := r.object.DeepCopyObject()
			fill.Fill(o)
			raw := encodedAs(t, o, r.GroupVersionKind)
			check("alone", raw)
			check("with a field of tomorrow", withUnknownField(t, raw))
			all = append(all, o)
		}
		list, _, err := d.Decode(encodedAs(t, listOf(t, r, all[:3]), r.GroupVersion().WithKind(r.listKind)), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		check("in a list", encodedAs(t, list, r.GroupVersion().WithKind(r.listKind)))
	}
}

// withUnknownField adds a field that nobody knows to an object, and one to its metadata.
func withUnknownField(t *testing.T, raw []byte) []byte {
	t.Helper()
	unknown := func(to []byte) []byte {
		return protowire.AppendString(protowire.AppendTag(to, 1999, protowire.BytesType), "news")
	}
	var whole runtime.Unknown
	if err := whole.Unmarshal(raw[len(protobufMagic):]); err != nil {
		t.Fatal(err)
	}
	var out []byte
	err := eachField(whole.Raw, func(n protowire.Number, kind protowire.Type, tag, value []byte) error {
		if n == 1 {
			value = unknown(slices.Clone(value))
		}
		out = protowire.AppendBytes(append(out, tag...), value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	whole.Raw = unknown(out)
	body, err := whole.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(protobufMagic), body...)
}

func listOf(t *testing.T, r *resourceType, items []runtime.Object) runtime.Object {
	t.Helper()
	list, err := r.decodeList(&valueCache{}, nil)
	if err == nil {
		err = apimeta.SetList(list, items)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A row reads its own kind: of another group, version or kind it leaves all to the ordinary
// decoder.
func TestResourceDecodesItsOwnKind(t *testing.T) {
	claims := decoderOf(&resourceTypes[3])
	beta := resourceTypes[3].GroupVersionKind
	beta.Version = "v1beta1"
	for name, raw := range map[string][]byte{
		"another kind": encodedAs(t, &v1.PersistentVolumeClaim{},
			v1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")),
		"another group":   encodedAs(t, &resourceapi.ResourceClaim{}, v1.SchemeGroupVersion.WithKind("ResourceClaim")),
		"another version": encodedAs(t, &resourceapi.ResourceClaim{}, beta),
	} {
		want, _, refused := claims.Serializer.Decode(raw, nil, nil)
		got, _, err := claims.Decode(raw, nil, nil)
		if fmt.Sprint(err) != fmt.Sprint(refused) || !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v, %v", name, got, err, want, refused)
		}
	}
}

// fakeAPI is an API server of one kind: what a list gives, and one watch after another. It tells
// what it was asked.
type fakeAPI struct {
	*testing.T
	row     *resourceType
	lists   chan []runtime.Object
	watches chan chan []byte // nil: the version asked from is too old
	asked   chan string
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	if q.Get("watch") == "" {
		a.asked <- "list " + r.URL.Path
		list := listOf(a.T, a.row, <-a.lists)
		meta, _ := apimeta.ListAccessor(list) // it is a list
		meta.SetResourceVersion("5")
		_, _ = w.Write(encodedAs(a.T, list, a.row.GroupVersion().WithKind(a.row.listKind))) // who is gone asks no more
		return
	}
	a.asked <- "watch from " + q.Get("resourceVersion")
	events := <-a.watches
	if events == nil {
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write(encodedAs(a.T, &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone,
			Reason: metav1.StatusReasonExpired}, v1.SchemeGroupVersion.WithKind("Status")))
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case e, more := <-events:
			if !more {
				return
			}
			if _, err := w.Write(e); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// named is an object of the row.
func (a *fakeAPI) named(name, version string) runtime.Object {
	o := a.row.object.DeepCopyObject()
	m, _ := apimeta.Accessor(o) // it is an object
	m.SetName(name)
	m.SetResourceVersion(version)
	return o
}

func (a *fakeAPI) event(kind watch.EventType, o runtime.Object) []byte {
	return framed(a.T, kind, encodedAs(a.T, o, a.row.GroupVersionKind))
}

// One goroutine's work from the connection to the handler, for each kind: the first list, what
// changes, a watch that breaks off in the middle of an event and goes on where it was, one whose
// version is too old, after which the list is read again and what it lacks is gone.
func TestWatchResumesAfterBreaks(t *testing.T) {
	for i := range resourceTypes {
		t.Run(resourceTypes[i].Kind, func(t *testing.T) { checkInformer(t, &resourceTypes[i]) })
	}
}

func checkInformer(t *testing.T, r *resourceType) {
	api := &fakeAPI{T: t, row: r, lists: make(chan []runtime.Object, 2), watches: make(chan chan []byte, 3),
		asked: make(chan string, 10)}
	server := httptest.NewServer(api)
	defer server.Close()
	f, err := NewFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0),
		&rest.Config{Host: server.URL, QPS: -1}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	informer := map[string]func() cache.SharedIndexInformer{
		"Pod": f.Core().V1().Pods().Informer, "PersistentVolume": f.Core().V1().PersistentVolumes().Informer,
		"PersistentVolumeClaim": f.Core().V1().PersistentVolumeClaims().Informer,
		"ResourceClaim":         f.Resource().V1().ResourceClaims().Informer,
	}[r.Kind]()
	c := make(eventLog, 100)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c <- "add " + nameAndVersion(obj) },
		UpdateFunc: func(_, obj any) { c <- "update " + nameAndVersion(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			c <- "delete " + nameAndVersion(obj)
		},
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // before the server is closed, which waits for its last call
	first, second, third := make(chan []byte, 5), make(chan []byte, 5), make(chan []byte, 5)
	api.lists <- []runtime.Object{api.named("a", "3"), api.named("b", "4")}
	api.watches <- first
	f.Start(ctx.Done())
	want := func(of eventLog, all ...string) {
		t.Helper()
		if got := of.next(t, len(all)); !slices.Equal(got, all) {
			t.Fatalf("%q, want %q", got, all)
		}
	}
	want(c, "add a 3", "add b 4")
	path := "/api/v1/" + r.resource
	if r.Group != "" {
		path = "/apis/" + r.Group + "/" + r.Version + "/" + r.resource
	}
	want(api.asked, "list "+path, "watch from 5")
	first <- api.event(watch.Added, api.named("c", "6"))
	first <- api.event(watch.Modified, api.named("a", "7"))
	want(c, "add c 6", "update a 7")
	api.watches <- second
	first <- bytes.Clone(api.event(watch.Modified, api.named("b", "8")))[:9] // it breaks off
	close(first)
	want(api.asked, "watch from 7")
	second <- api.event(watch.Modified, api.named("b", "8"))
	want(c, "update b 8")
	api.watches <- nil
	api.lists <- []runtime.Object{api.named("a", "9"), api.named("b", "8")}
	api.watches <- third
	close(second)
	want(api.asked, "watch from 8", "list "+path, "watch from 5")
	want(c, "update a 9", "update b 8", "delete c 6")
	third <- api.event(watch.Deleted, api.named("b", "10"))
	want(c, "delete b 10")
}

func nameAndVersion(obj any) string {
	m, err := apimeta.Accessor(obj)
	if err != nil {
		return err.Error()
	}
	return m.GetName() + " " + m.GetResourceVersion()
}

// Informers of other kinds are the factory's own, and nothing is watched that nobody asked for: an
// API server may not serve it.
func TestOnlyWhatIsAskedForIsWatched(t *testing.T) {
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	inner := informers.NewSharedInformerFactory(
		fake.NewClientset(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), 0)
	f, err := NewFactory(inner, &rest.Config{Host: server.URL, QPS: -1}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	nodes := f.Core().V1().Nodes()
	if nodes.Informer().GetStore() != inner.Core().V1().Nodes().Informer().GetStore() {
		t.Error("nodes have an informer of their own")
	}
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	if all, err := nodes.Lister().Get("n"); err != nil || all.Name != "n" {
		t.Errorf("got %v, %v, want no error and Name n", all, err)
	}
	f.Core().V1().PersistentVolumes().Informer()
	f.Start(ctx.Done())
	select {
	case path := <-asked:
		if path != "/api/v1/persistentvolumes" {
			t.Errorf("%s is asked for, want /api/v1/persistentvolumes", path)
		}
	case <-time.After(time.Minute):
		t.Error("volumes are not asked for")
	}
}

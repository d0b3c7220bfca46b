package garbagecollector

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// preferring is a fake client with ServerPreferredResources, which client-go's fake lacks.
type preferring struct{ *fake.Clientset }

func (p preferring) Discovery() discovery.DiscoveryInterfaces {
	return served{p.Clientset.Discovery().(*fakediscovery.FakeDiscovery)}
}

type served struct{ *fakediscovery.FakeDiscovery }

func (s served) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	return s.Resources, nil
}

// Pods come from the informer that all controllers share, other kinds from metadata watches; an
// object without owner is deleted.
func TestPodsAndOtherKindsAreCollected(t *testing.T) {
	owned := func(name, owner string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-of-pod",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner,
				UID: "uid-gone"}}}
	}
	client := preferring{fake.NewClientset(&corev1.Pod{ObjectMeta: owned("p", "gone")})}
	verbs := metav1.Verbs{"delete", "list", "watch"}
	client.Resources = []*metav1.APIResourceList{
		{GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: verbs}}},
		{GroupVersion: "apps/v1",
			APIResources: []metav1.APIResource{{Name: "replicasets", Kind: "ReplicaSet", Namespaced: true,
				Verbs: verbs}}},
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	meta := metadatafake.NewSimpleMetadataClient(scheme,
		&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: owned("p", "gone")})
	deleted, listed := make(chan string, 1), make(chan string, 10)
	meta.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		deleted <- a.(clienttesting.DeleteAction).GetName()
		return false, nil, nil
	})
	meta.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		listed <- a.GetResource().Resource
		return false, nil, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	c := New(controllerruntime.ControllerContext{Client: client, Metadata: meta, Informers: factory})
	factory.Start(t.Context().Done())
	go c.Run(t.Context())
	for _, step := range []struct {
		from <-chan string
		want string
	}{{deleted, "p"}, {listed, "replicasets"}} {
		select {
		case got := <-step.from:
			if got != step.want {
				t.Errorf("got %s, want %s", got, step.want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("no %s within a minute", step.want)
		}
	}
	for _, a := range meta.Actions() {
		if r := a.GetResource().Resource; r == "pods" && (a.GetVerb() == "list" || a.GetVerb() == "watch") {
			t.Errorf("%s of the metadata of %s", a.GetVerb(), r)
		}
	}
}

// An orphaned object is not deleted, although the event of its owner's deletion arrives first.
func TestOrphanedDependentStays(t *testing.T) {
	r := corev1.SchemeGroupVersion.WithResource("pods")
	deleted := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ReplicationController", Name: "gone", UID: "uid-gone"}}
	for name, tt := range map[string]struct {
		live    []metav1.OwnerReference
		uid     types.UID
		deleted bool
	}{
		"still owned":       {deleted, "uid", true},
		"set free":          {nil, "uid", false},
		"another of a name": {deleted, "uid-new", false},
	} {
		t.Run(name, func(t *testing.T) {
			client := preferring{fake.NewClientset()}
			client.Resources = []*metav1.APIResourceList{
				{GroupVersion: "v1",
					APIResources: []metav1.APIResource{{Name: "replicationcontrollers", Kind: "ReplicationController",
						Namespaced: true}}}}
			scheme := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			live := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: tt.uid, OwnerReferences: tt.live}}
			meta := metadatafake.NewSimpleMetadataClient(scheme, live)
			c := newController(controllerruntime.ControllerContext{Client: client, Metadata: meta,
				Informers: informers.NewSharedInformerFactory(client, 0)})
			close(c.complete)
			c.addToGraph(objectOf(r, &metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid",
				OwnerReferences: deleted}))
			if _, err := c.attemptToDeleteItem(t.Context(), "uid"); err != nil {
				t.Fatal(err)
			}
			deleted := slices.ContainsFunc(meta.Actions(),
				func(a clienttesting.Action) bool { return a.GetVerb() == "delete" })
			if deleted != tt.deleted {
				t.Errorf("deleted: %t; %v, want %v", deleted, meta.Actions(), tt.deleted)
			}
		})
	}
}

// A controller that starts sets no object free before it knows all dependents: those of a resource
// whose list comes late are orphaned too, and the owner loses its finalizer last.
func TestNothingIsDecidedBeforeAllIsListed(t *testing.T) {
	client := preferring{fake.NewClientset()}
	verbs := metav1.Verbs{"delete", "list", "watch"}
	client.Resources = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: verbs},
		{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: verbs}}}}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := func(kind, name string, m metav1.ObjectMeta) *metav1.PartialObjectMetadata {
		m.Namespace, m.Name, m.UID = "ns", name, types.UID(name)
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}, ObjectMeta: m}
	}
	now := metav1.Now()
	meta := metadatafake.NewSimpleMetadataClient(scheme,
		object("ConfigMap", "owner", metav1.ObjectMeta{DeletionTimestamp: &now,
			Finalizers: []string{metav1.FinalizerOrphanDependents}}),
		object("Secret", "dependent", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "owner"}}}))
	read, late, patched := make(chan struct{}, 10), make(chan struct{}), make(chan string, 10)
	meta.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		read <- struct{}{}
		return false, nil, nil
	})
	meta.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patched <- a.(clienttesting.PatchAction).GetName()
		return false, nil, nil
	})
	c := newController(controllerruntime.ControllerContext{Client: client, Metadata: meta,
		Informers: informers.NewSharedInformerFactory(client, 0)})
	c.addToGraph(&Object{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: "ns",
		Name: "owner", UID: "owner", Deleting: true, Finalizers: []string{metav1.FinalizerOrphanDependents}})
	go func() {
		if _, err := c.attemptToDeleteItem(t.Context(), "owner"); err != nil {
			t.Error(err)
		}
		close(late)
	}()
	select {
	case name := <-patched:
		t.Fatalf("%s is changed before anything is listed", name)
	case <-late:
		t.Fatal("the owner is done with before anything is listed")
	case <-time.After(50 * time.Millisecond):
	}
	go c.watchResources(t.Context())
	for _, want := range []string{"dependent", "owner"} {
		select {
		case got := <-patched:
			if got != want {
				t.Errorf("%s is changed, want %s first", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is not changed", want)
		}
	}
	<-read
	<-late
}

package objectcache_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/kubelet/volume/objectcache"
	"github.com/gantry-project/gantry/test/wrappers"
)

// TestMain takes out the handler that slows errors down by the wall clock: in a bubble of virtual
// time it would sleep until today.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	m.Run()
}

// fakeAPI lets the node read single ConfigMaps by name, as the Node authorizer does, and refuses
// anything wider.
type fakeAPI struct {
	t       *testing.T
	client  *fake.Clientset
	mu      sync.Mutex
	version int
	stored  map[string]*v1.ConfigMap
	watches map[string][]*watch.FakeWatcher
	refuse  error
	lists   int
	changed []string
}

func serve(t *testing.T) (*fakeAPI, *objectcache.Cache) {
	s := &fakeAPI{t: t, client: fake.NewClientset(), stored: map[string]*v1.ConfigMap{},
		watches: map[string][]*watch.FakeWatcher{}}
	s.client.PrependReactor("list", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name, err := s.admit(a.(clienttesting.ListAction).GetListRestrictions().Fields.String())
		if err != nil {
			return true, nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lists++
		l := &v1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(s.version)}}
		if c := s.stored[name]; c != nil {
			l.Items = append(l.Items, *c.DeepCopy())
		}
		return true, l, nil
	})
	s.client.PrependWatchReactor("configmaps", func(a clienttesting.Action) (bool, watch.Interface, error) {
		name, err := s.admit(a.(clienttesting.WatchAction).GetWatchRestrictions().Fields.String())
		if err != nil {
			return true, nil, err
		}
		w := watch.NewFakeWithChanSize(10, false)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watches[name] = append(s.watches[name], w)
		return true, w, nil
	})
	c := objectcache.New(t.Context(), objectcache.Deps{Client: s.client, Changed: func(uid types.UID) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed = append(s.changed, string(uid))
	}})
	return s, c
}

func (s *fakeAPI) admit(fields string) (name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, ok := strings.CutPrefix(fields, "metadata.name=")
	if !ok {
		s.t.Errorf("asked for %q, the node may read single names only", fields)
	}
	return name, s.refuse
}

// put stores and notifies the watchers; nil deletes.
func (s *fakeAPI) put(name string, c *v1.ConfigMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	old := s.stored[name]
	delete(s.stored, name)
	if c != nil {
		c.Name, c.Namespace, c.ResourceVersion, c.UID = name, "ns", fmt.Sprint(s.version), "uid-of-it"
		s.stored[name] = c
	}
	for _, w := range s.watches[name] {
		switch {
		case w.IsStopped():
		case c == nil:
			w.Delete(old.DeepCopy())
		case old == nil:
			w.Add(c.DeepCopy())
		default:
			w.Modify(c.DeepCopy())
		}
	}
}

func (s *fakeAPI) notified() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := fmt.Sprint(s.changed)
	s.changed = nil
	return got
}

func (s *fakeAPI) watching(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches[name] {
		if !w.IsStopped() {
			n++
		}
	}
	return n
}

func podOf(uid string, configs ...string) *v1.Pod {
	p := wrappers.MakePod().Namespace("ns").Name(uid).UID(uid).Obj()
	for _, c := range configs {
		p.Spec.Volumes = append(p.Spec.Volumes,
			v1.Volume{VolumeSource: v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: c}}}})
	}
	return p
}

func data(text string) *v1.ConfigMap { return &v1.ConfigMap{Data: map[string]string{"k": text}} }

func TestObjectIsReadThroughItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := serve(t)
		s.put("cfg", data("1"))
		c.RegisterPod(podOf("a", "cfg"))
		c.RegisterPod(podOf("b", "cfg"))
		got, err := c.GetConfigMap(t.Context(), "ns", "cfg")
		if err != nil || got.Data["k"] != "1" {
			t.Fatalf("got %v, %v, want no error and Data[k] 1", got, err)
		}
		synctest.Wait()
		if s.watching("cfg") != 1 || c.WatchedObjects() != 1 || s.notified() != "[]" {
			t.Errorf("%d watches of %d objects for two Pods", s.watching("cfg"), c.WatchedObjects())
		}
		s.put("cfg", data("2"))
		synctest.Wait()
		if got := s.notified(); got != "[a b]" && got != "[b a]" {
			t.Errorf("got %s", got)
		}
		if got, _ := c.GetConfigMap(t.Context(), "ns", "cfg"); got.Data["k"] != "2" {
			t.Errorf("after a change %v", got.Data)
		}
		before := s.lists
		time.Sleep(time.Hour)
		if s.lists != before {
			t.Errorf("%d lists in an idle hour", s.lists-before)
		}
		c.UnregisterPod("a")
		synctest.Wait()
		if s.watching("cfg") != 1 {
			t.Error("the other Pod's watch is gone")
		}
		c.UnregisterPod("b")
		c.UnregisterPod("b")
		synctest.Wait()
		if s.watching("cfg") != 0 || c.WatchedObjects() != 0 {
			t.Errorf("a watch nobody needs goes on: got %d watches of %d objects, want none", s.watching("cfg"),
				c.WatchedObjects())
		}
	})
}

func TestConfigMapCreatedAndDeletedIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := serve(t)
		c.RegisterPod(podOf("a", "cfg"))
		_, err := c.GetConfigMap(t.Context(), "ns", "cfg")
		// recordings/pods/env-configmap-missing
		if !apierrors.IsNotFound(err) || err.Error() != `configmap "cfg" not found` {
			t.Fatalf(`got %v, want error NotFound and error 'configmap "cfg" not found'`, err)
		}
		synctest.Wait()
		s.put("cfg", data("1"))
		synctest.Wait()
		if got := s.notified(); got != "[a]" {
			t.Errorf("got %s when it came, want [a]", got)
		}
		if _, err := c.GetConfigMap(t.Context(), "ns", "cfg"); err != nil {
			t.Error(err)
		}
		s.put("cfg", nil)
		synctest.Wait()
		if got := s.notified(); got != "[a]" {
			t.Errorf("got %s when it went, want [a]", got)
		}
		if _, err := c.GetConfigMap(t.Context(), "ns", "cfg"); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want error NotFound", err)
		}
		c.UnregisterPod("a")
	})
}

// The Node authorizer may learn later than the kubelet that the Pod is ours; a reader waits for it,
// but not for ever.
func TestForbiddenIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := serve(t)
		s.put("cfg", data("1"))
		s.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"},
			"cfg", errors.New("no relationship found"))
		c.RegisterPod(podOf("a", "cfg"))
		startedAt := time.Now()
		time.AfterFunc(200*time.Millisecond, func() { s.mu.Lock(); s.refuse = nil; s.mu.Unlock() })
		if _, err := c.GetConfigMap(t.Context(), "ns", "cfg"); err != nil || time.Since(startedAt) > time.Second {
			t.Errorf("after %v: %v", time.Since(startedAt), err)
		}
		c.UnregisterPod("a")
		synctest.Wait()

		s.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"},
			"cfg", errors.New("no relationship found"))
		c.RegisterPod(podOf("a", "cfg"))
		startedAt = time.Now()
		if _, err := c.GetConfigMap(t.Context(), "ns", "cfg"); !apierrors.IsForbidden(err) ||
			time.Since(startedAt) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(startedAt), err)
		}
		s.notified()
		s.mu.Lock()
		s.refuse = nil
		s.mu.Unlock()
		time.Sleep(time.Minute)
		if got := s.notified(); got != "[a]" {
			t.Errorf("got %s when it could be read at last, want [a]", got)
		}
		c.UnregisterPod("a")
	})
}

func TestImmutableIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := serve(t)
		yes := true
		d := data("1")
		d.Immutable = &yes
		s.put("cfg", d)
		c.RegisterPod(podOf("a", "cfg"))
		if got, err := c.GetConfigMap(t.Context(), "ns", "cfg"); err != nil || got.Data["k"] != "1" {
			t.Fatalf("got %v, %v, want no error and Data[k] 1", got, err)
		}
		synctest.Wait()
		if s.watching("cfg") != 0 {
			t.Error("what cannot change is watched")
		}
		c.UnregisterPod("a")
	})
}

func TestUnregisteredObjectIsRead(t *testing.T) {
	s, c := serve(t)
	if _, err := s.client.CoreV1().Secrets("ns").Create(t.Context(),
		&v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetSecret(t.Context(), "ns", "pull"); err != nil {
		t.Error(err)
	}
}

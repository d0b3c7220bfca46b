package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/kubelet/podsource"
	"github.com/gantry-project/gantry/internal/kubelet/podsource/mirror"
	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/test/wrappers"
)

func own(hash string) *v1.Pod {
	p := wrappers.MakePod().Namespace("ns").Name("etcd-n1").UID(hash).Obj()
	p.Annotations = map[string]string{pod.SourceAnnotation: "file", static.HashAnnotation: hash}
	return p
}

func mirrorWithHash(hash string) *v1.Pod {
	p := own(hash)
	p.UID = types.UID("api-" + hash)
	p.Annotations[v1.MirrorPodAnnotationKey] = hash
	return p
}

func node() *v1.Node { return wrappers.MakeNode().Name("n1").UID("uid-n1").Obj() }

func TestNewMirrorPod(t *testing.T) {
	m := mirror.NewMirrorPod(own("a"), node())
	o := m.OwnerReferences
	if m.UID != "" || m.Annotations[v1.MirrorPodAnnotationKey] != "a" || len(o) != 1 || o[0].Kind != "Node" ||
		o[0].Name != "n1" || o[0].UID != "uid-n1" || !*o[0].Controller || !mirror.IsMirrorOf(m, own("a")) ||
		mirror.IsMirrorOf(m, own("b")) {
		t.Errorf("got %+v, want a mirror with hash a of the static Pod, owned by Node n1 alone", m.ObjectMeta)
	}
}

func TestStatusOfAMirrorPod(t *testing.T) {
	early, late := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	m := mirrorWithHash("a")
	m.Status = v1.PodStatus{StartTime: &early, QOSClass: v1.PodQOSBurstable, Conditions: []v1.PodCondition{
		{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: early},
		{Type: v1.PodInitialized, Status: v1.ConditionFalse, LastTransitionTime: early},
		{Type: "theirs", Status: v1.ConditionTrue},
	}}
	got := mirror.MirrorStatus(m, v1.PodStatus{StartTime: &late, Conditions: []v1.PodCondition{
		{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: late},
		{Type: v1.PodInitialized, Status: v1.ConditionTrue, LastTransitionTime: late},
	}})
	c := got.Conditions
	if !got.StartTime.Equal(&early) || got.QOSClass != v1.PodQOSBurstable || len(c) != 3 ||
		!c[0].LastTransitionTime.Equal(&early) || !c[1].LastTransitionTime.Equal(&late) || c[2].Type != "theirs" {
		t.Errorf("got %+v, want StartTime %v, QOSClass PodQOSBurstable, 3 in c, LastTransitionTime %v, "+
			"LastTransitionTime %v and Type theirs", got, &early, &early, &late)
	}
}

// testAPI is a Manager in virtual time over a fake API whose watch is fed by hand.
type testAPI struct {
	mu        sync.Mutex
	creates   []time.Time
	deletes   int
	written   []string
	broken    bool
	k         *mirror.Manager
	to        podsource.Receiver
	last      *v1.Pod
	startedAt time.Time
}

func (w *testAPI) SetPodStatus(p *v1.Pod, s v1.PodStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = append(w.written, fmt.Sprintf("%s %s", p.UID, s.Phase))
}
func (*testAPI) DeletePod(*v1.Pod)            {}
func (*testAPI) RemoveStatus(types.UID)       {}
func (*testAPI) Put(string, *v1.Pod)          {}
func (*testAPI) Remove(string, *v1.Pod, bool) {}
func (*testAPI) Complete(string)              {}

func runTest(t *testing.T, test func(w *testAPI)) {
	synctest.Test(t, func(t *testing.T) {
		w, api := &testAPI{startedAt: time.Now()}, fake.NewClientset()
		api.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.broken {
				return true, nil, errors.New("no connection")
			}
			p := a.(clienttesting.CreateAction).GetObject().(*v1.Pod).DeepCopy()
			w.creates = append(w.creates, time.Now())
			p.UID = types.UID(fmt.Sprintf("api-%d", len(w.creates)))
			w.last = p
			return true, p, nil
		})
		api.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.deletes++
			return true, nil, nil
		})
		w.k = mirror.New(mirror.Deps{Client: api, Statuses: w, Node: node})
		w.to = w.k.Filter(w)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.k.Run(ctx) }()
		w.to.Complete(podsource.API)
		w.k.SourcesReady()
		test(w)
		cancel()
		<-done
	})
}

// row: STA-05
func TestDeletedMirrorComesBackAtOnce(t *testing.T) {
	runTest(t, func(w *testAPI) {
		p := own("a")
		w.k.SetStaticPod(p, false)
		w.k.SetPodStatus(p, v1.PodStatus{Phase: v1.PodRunning})
		synctest.Wait()
		for i := 1; i <= 3; i++ {
			if len(w.creates) != i || !w.creates[i-1].Equal(w.startedAt) {
				t.Fatalf("%d mirrors after %d deletions, at %v", len(w.creates), i-1, w.creates)
			}
			w.to.Put(podsource.API, w.last)
			synctest.Wait()
			w.to.Remove(podsource.API, w.last, true) // somebody deleted it by force
			synctest.Wait()
		}
		if len(w.written) != 3 || w.written[2] != "api-3 Running" {
			t.Errorf("statuses %v: each mirror gets the Pod's", w.written)
		}
		if w.deletes != 0 {
			t.Errorf("%d deletes", w.deletes)
		}
	})
}

func TestMirrorGoesWithItsPod(t *testing.T) {
	runTest(t, func(w *testAPI) {
		p := own("a")
		w.k.SetStaticPod(p, false)
		synctest.Wait()
		w.to.Put(podsource.API, w.last)
		w.k.SetStaticPod(p, true)
		synctest.Wait()
		if w.deletes != 0 {
			t.Errorf("the mirror went before its Pod: got %v, want 0", w.deletes)
		}
		before := len(w.written)
		w.k.SetPodStatus(p, v1.PodStatus{Phase: v1.PodRunning})
		w.k.SetPodStatus(p, v1.PodStatus{Phase: v1.PodSucceeded})
		if now := w.written[before:]; len(now) != 1 || !strings.HasSuffix(now[0], "Running") {
			t.Errorf("got %v: a Pod that its source has no more has no last phase", now)
		}
		w.k.RemoveStatus(p.UID)
		synctest.Wait()
		if w.deletes != 1 {
			t.Errorf("%d deletes after the Pod left", w.deletes)
		}
		w.to.Remove(podsource.API, w.last, true)
		time.Sleep(time.Hour)
		if len(w.creates) != 1 || w.deletes != 1 {
			t.Errorf("%d creates, %d deletes", len(w.creates), w.deletes)
		}
	})
}

func TestFailedCreateIsTriedAgain(t *testing.T) {
	runTest(t, func(w *testAPI) {
		w.broken = true
		w.k.SetStaticPod(own("a"), false)
		time.Sleep(5 * time.Minute)
		w.mu.Lock()
		w.broken = false
		w.mu.Unlock()
		healed := time.Now()
		for len(w.creates) == 0 && time.Since(healed) < time.Minute {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		w.to.Put(podsource.API, w.last)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(w.creates) != 1 || w.creates[0].Sub(healed) > 30*time.Second {
			t.Errorf("created at %v, the API is back since %v", w.creates, healed)
		}
	})
}

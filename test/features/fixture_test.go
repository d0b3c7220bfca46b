package features_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/wrappers"
	"github.com/gantry-project/gantry/testcluster"
)

func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{}) // refusals that are provoked are no news
	os.Exit(m.Run())
}

// fixture is a cluster and the patience a test has with it.
type fixture struct {
	*testcluster.Cluster
	t   *testing.T
	ctx context.Context
}

func start(t *testing.T, opts ...testcluster.Option) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	return &fixture{testcluster.Start(t, opts...), t, ctx}
}

// forSubtest is the same fixture for a subtest, with a timeout of its own that outlasts a wait.
func (w *fixture) forSubtest(t *testing.T) *fixture {
	ctx, cancel := context.WithTimeout(t.Context(), 2*expect.Patience(90*time.Second))
	t.Cleanup(cancel)
	return &fixture{w.Cluster, t, ctx}
}

// scriptPod is a Pod with a container that does what its script says; no script runs until it is
// stopped.
func scriptPod(name, script string) *v1.Pod {
	c := v1.Container{Name: "app", Image: "app:1"}
	if script != "" {
		c.Command = []string{"sh", "-c", script}
	}
	return wrappers.MakePod().Name(name).TerminationGracePeriodSeconds(1).Containers(c).Obj()
}

// scriptContainer is a container that does what its script says.
func scriptContainer(name, script string) v1.Container {
	return v1.Container{Name: name, Image: "app:1", Command: []string{"sh", "-c", script}}
}

func (w *fixture) create(p *v1.Pod) *v1.Pod {
	w.t.Helper()
	out, err := w.Client.CoreV1().Pods("default").Create(w.ctx, p, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	return out
}

func (w *fixture) get(name string) *v1.Pod {
	w.t.Helper()
	p, err := w.Client.CoreV1().Pods("default").Get(w.ctx, name, metav1.GetOptions{})
	expect.NoError(w.t, err)
	return p
}

func (w *fixture) delete(name string, o metav1.DeleteOptions) {
	w.t.Helper()
	expect.NoError(w.t, w.Client.CoreV1().Pods("default").Delete(w.ctx, name, o))
}

// wait waits until the Pod is as ok says.
func (w *fixture) wait(name string, ok func(*v1.Pod) bool) (p *v1.Pod) {
	w.t.Helper()
	w.until("Pod "+name, func() bool { p = w.get(name); return ok(p) })
	return p
}

func (w *fixture) waitForDeletion(name string) {
	w.t.Helper()
	w.until("the end of "+name, func() bool {
		_, err := w.Client.CoreV1().Pods("default").Get(w.ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// patience bounds one wait: what a test waits for takes a second at most on an idle machine.
var patience = expect.Patience(2 * time.Minute)

// until waits for what no watch tells; it fails the test after patience.
func (w *fixture) until(what string, ok func() bool) {
	w.t.Helper()
	expect.Poll(w.t, 3*time.Millisecond, patience, what, func() error {
		if ok() {
			return nil
		}
		return expect.Lazy(w.Dump)
	})
}

// expectRefused creates and expects an error that has all these words.
func (w *fixture) expectRefused(p *v1.Pod, words ...string) {
	w.t.Helper()
	_, err := w.Client.CoreV1().Pods("default").Create(w.ctx, p, metav1.CreateOptions{DryRun: []string{"All"}})
	w.expectRefusal(err, words...)
}

func (w *fixture) expectRefusal(err error, words ...string) {
	w.t.Helper()
	if err == nil {
		w.t.Errorf("taken, though it should be refused with %q", words)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.t.Errorf("refused without %q: %v", word, err)
		}
	}
}

func (w *fixture) expectAccepted(p *v1.Pod) {
	w.t.Helper()
	if _, err := w.Client.CoreV1().Pods("default").Create(w.ctx, p,
		metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
		w.t.Errorf("refused: %v, want no error", err)
	}
}

// record keeps every state of the namespace's Pods from now on, in the order in which a watch
// delivers them.
func (w *fixture) record() (states func() []*v1.Pod) {
	w.t.Helper()
	list, err := w.Client.CoreV1().Pods("default").List(w.ctx, metav1.ListOptions{})
	expect.NoError(w.t, err)
	wa, err := w.Client.CoreV1().Pods("default").Watch(w.ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	expect.NoError(w.t, err)
	return func() []*v1.Pod {
		w.t.Helper()
		defer wa.Stop()
		// the watch tells of this Pod after all that was before it, Pods that have gone too
		last := scriptPod("told-last", "")
		last.Spec.NodeSelector = map[string]string{"no": "node"}
		w.create(last)
		now, err := w.Client.CoreV1().Pods("default").List(w.ctx, metav1.ListOptions{})
		expect.NoError(w.t, err)
		var out []*v1.Pod
		for _, e := range w.eventsUntil(wa, list, now) {
			if p, ok := e.Object.(*v1.Pod); ok && e.Type != watch.Deleted && p.Name != last.Name {
				out = append(out, p)
			}
		}
		return out
	}
}

// eventsUntil receives the events of a watch that began at one list until they have told all that
// a later list shows.
func (w *fixture) eventsUntil(wa watch.Interface, began, now runtime.Object) (out []watch.Event) {
	w.t.Helper()
	versions := func(list runtime.Object) map[types.UID]string {
		all := map[types.UID]string{}
		expect.NoError(w.t, meta.EachListItem(list, func(o runtime.Object) error {
			m, err := meta.Accessor(o)
			if err == nil {
				all[m.GetUID()] = m.GetResourceVersion()
			}
			return err
		}))
		return all
	}
	told, want := versions(began), versions(now)
	older := func(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }
	behind := func() bool {
		for uid, version := range want {
			if older(told[uid], version) {
				return true
			}
		}
		for uid := range told {
			if _, ok := want[uid]; !ok {
				return true
			}
		}
		return false
	}
	end := time.After(patience)
	for behind() {
		select {
		case e, ok := <-wa.ResultChan():
			m, err := meta.Accessor(e.Object)
			if !ok || err != nil {
				w.t.Fatalf("the watch ended before it told all: %+v", e)
			}
			out = append(out, e)
			told[m.GetUID()] = m.GetResourceVersion()
			if e.Type == watch.Deleted {
				delete(told, m.GetUID())
				delete(want, m.GetUID())
			} else if _, ok := want[m.GetUID()]; !ok && !older(m.GetResourceVersion(), now.(metav1.ListInterface).
				GetResourceVersion()) {
				want[m.GetUID()] = m.GetResourceVersion() // created after the later list
			}
		case <-end:
			w.t.Fatalf("the watch told %v within %s, want %v", told, patience, want)
		}
	}
	return out
}

func phase(want v1.PodPhase) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool { return p.Status.Phase == want }
}

func condition(p *v1.Pod, kind v1.PodConditionType) v1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.PodCondition{}
}

func ptr[T any](v T) *T { return &v }

// fact is the place in a Pod's journal of the first fact that begins so, by kind and line; -1 when
// there is none.
func (w *fixture) fact(pod, kind string) int {
	for i, e := range w.Journal("default", pod) {
		if strings.HasPrefix(kindOf(e.Fact)+" "+e.Fact.Line(), kind) {
			return i
		}
	}
	return -1
}

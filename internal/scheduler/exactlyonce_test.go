package scheduler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/config"
)

// apiAnswer is what an API server says to a binding, and whether it made it.
type apiAnswer int

const (
	answerMade apiAnswer = iota
	answerConflict
	answerBusy
	answerBroken
	answerSilent     // a timeout; nothing was done
	answerSilentMade // a timeout, but the Pod is bound
	answerCount
)

// apiEvent is something that happens to the cluster, some time after the one before.
type apiEvent struct {
	after time.Duration
	what  string
}

// apiHistory is a random sequence of API events and failures.
type apiHistory struct {
	events  []apiEvent
	answers []apiAnswer
}

func drawHistory(t *rapid.T) apiHistory {
	d := apiHistory{
		answers: rapid.SliceOfN(rapid.Map(rapid.IntRange(0, int(answerCount)-1),
			func(i int) apiAnswer { return apiAnswer(i) }), 0, 24).Draw(t, "answers")}
	for range rapid.IntRange(1, 16).Draw(t, "deeds") {
		d.events = append(d.events, apiEvent{
			after: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 20, 900, 3000, 40_000}).Draw(t, "after")) *
				time.Millisecond,
			what: rapid.SampledFrom([]string{"pod", "pod", "pod", "cut", "away", "back", "restart"}).Draw(t, "what"),
		})
	}
	return d
}

// faultyAPI is an API server that does not always answer bindings, and not always as it should. As
// any, it refuses Pods that have a node.
type faultyAPI struct {
	*cluster
	reported map[string]bool // Pods whose binding was made and answered

	answersMu   sync.Mutex
	answersLeft []apiAnswer
	disconnects int // how often all watches ended
	seen        map[schema.GroupVersionResource]int
	boundAgain  []string // Pods that were to be bound although the scheduler had been notified that they are
}

// expired reports whether a watch comes with a version from before the last cut, of which this fake
// remembers nothing.
func (f *faultyAPI) expired(r schema.GroupVersionResource, o *apiOutage) bool {
	f.answersMu.Lock()
	defer f.answersMu.Unlock()
	if o.isAway() || f.seen[r] == f.disconnects {
		return false
	}
	f.seen[r] = f.disconnects
	return true
}

func (o *apiOutage) isAway() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.down
}

func (f *faultyAPI) next() apiAnswer {
	if len(f.answersLeft) == 0 {
		return answerMade
	}
	say := f.answersLeft[0]
	f.answersLeft = f.answersLeft[1:]
	return say
}

func (f *faultyAPI) bind(a clienttesting.Action) (bool, runtime.Object, error) {
	if a.GetSubresource() != "binding" {
		return false, nil, nil
	}
	f.answersMu.Lock()
	defer f.answersMu.Unlock()
	name, kind := a.(clienttesting.CreateAction).GetObject().(*v1.Binding).Name, schema.GroupResource{Resource: "pods"}
	if f.reported[name] {
		f.boundAgain = append(f.boundAgain, name)
	}
	say := f.next()
	switch say {
	case answerConflict:
		return true, nil, apierrors.NewConflict(kind, name, errors.New("somebody else was quicker"))
	case answerBusy:
		return true, nil, apierrors.NewTooManyRequests("busy", 1)
	case answerBroken:
		return true, nil, apierrors.NewInternalError(errors.New("etcd is away"))
	case answerSilent:
		return true, nil, apierrors.NewTimeoutError("no answer", 1)
	}
	obj, err := f.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), "default", name)
	if err != nil {
		return true, nil, err
	}
	if on := obj.(*v1.Pod).Spec.NodeName; on != "" {
		return true, nil, apierrors.NewConflict(kind, name, fmt.Errorf("pod %s is already assigned to node %q", name,
			on))
	}
	did, out, err := f.cluster.bind(a)
	if say == answerSilentMade {
		return true, nil, apierrors.NewTimeoutError("no answer", 1)
	}
	f.reported[name] = err == nil
	return did, out, err
}

// run plays a history and returns what went wrong; every Pod fits, so that in the end all must be
// bound, each once.
func (d apiHistory) run(t *testing.T) error {
	clientset := fake.NewClientset(aNode("n1", "16"), aNode("n2", "16"))
	o := &apiOutage{Clientset: clientset}
	c := &cluster{when: map[string]time.Time{}, Clientset: clientset, t: t,
		notes: &recordedFacts{facts: map[string][]journal.Fact{}}}
	server := &faultyAPI{cluster: c, answersLeft: d.answers, reported: map[string]bool{},
		seen: map[schema.GroupVersionResource]int{}}
	clientset.PrependReactor("create", "pods", server.bind)
	pods := 0
	clientset.PrependReactor("*", "*", o.call)
	clientset.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		if server.expired(a.GetResource(), o) {
			return true, nil, apierrors.NewResourceExpired("too old resource version")
		}
		return o.watch(a)
	})
	set := func(away bool) {
		server.answersMu.Lock()
		server.disconnects++
		server.answersMu.Unlock()
		o.set(away)
	}
	begin := func() (end func()) {
		s, err := New(Options{Client: c, Journal: c.notes, Seed: 1, Config: longBackoffConfig()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	end := begin()
	for _, e := range d.events {
		time.Sleep(e.after)
		switch e.what {
		case "pod":
			gvr := v1.SchemeGroupVersion.WithResource("pods")
			if err := clientset.Tracker().Create(gvr, aPod(fmt.Sprintf("p%d", pods), "1"), "default"); err != nil {
				t.Fatal(err)
			}
			pods++
		case "cut":
			set(o.isAway())
		case "away", "back":
			set(e.what == "away")
		case "restart":
			end()
			end = begin()
		}
	}
	for range 2 { // what was written between a list and its watch is lost to this fake: have all listed anew
		set(false)
		time.Sleep(6 * time.Minute)
	}
	synctest.Wait()
	end()
	return server.checkBoundOnce(pods)
}

func longBackoffConfig() *schedulerconfig.KubeSchedulerConfiguration {
	c := config.Default()
	c.PodMaxBackoffSeconds = new(int64(4))
	return c
}

// checkBoundOnce reports a Pod that is bound not at all or more than once, or was tried again
// after the scheduler had been notified that it is bound; nothing runs any more.
func (f *faultyAPI) checkBoundOnce(pods int) error {
	at := map[string][]string{}
	for _, b := range f.bindings {
		at[b.Name] = append(at[b.Name], b.Target.Name)
	}
	var wrong []string
	for _, name := range f.boundAgain {
		wrong = append(wrong, fmt.Sprintf("Pod %s was to be bound again", name))
	}
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		if p, err := f.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), "default", name); err != nil ||
			len(at[name]) != 1 || p.(*v1.Pod).Spec.NodeName != at[name][0] {
			wrong = append(wrong, fmt.Sprintf("Pod %s was bound to %q, %v", name, at[name], err))
		}
	}
	if wrong != nil {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// However an API server answers bindings, goes away, ends watches, and whenever the scheduler
// starts anew: every Pod that fits is bound, once, and none whose binding was answered is tried
// again. 100 histories, or 10,000 with GANTRY_LONG (rapid's number of checks, times 100).
//
// row: BND-07
func TestEveryPodIsBoundOnce(t *testing.T) {
	rounds := 1
	if os.Getenv("GANTRY_LONG") != "" {
		rounds = 100
	}
	for range rounds {
		rapid.Check(t, func(r *rapid.T) {
			d := drawHistory(r)
			var err error
			synctest.Test(t, func(t *testing.T) { err = d.run(t) })
			if err != nil {
				r.Fatal(err)
			}
		})
	}
}

package scheduler

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/scheduler/config"
)

// apiOutage is an API server that can go away: watches end, and every call fails.
type apiOutage struct {
	*fake.Clientset
	mu      sync.Mutex
	down    bool
	watches []watch.Interface
	refused int // bindings
}

var errAPIDown = fmt.Errorf("dial tcp 127.0.0.1:6443: connect: connection refused")

func (o *apiOutage) call(a clienttesting.Action) (bool, runtime.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down && a.GetSubresource() == "binding" {
		o.refused++
	}
	return o.down, nil, errAPIDown
}

func (o *apiOutage) watch(a clienttesting.Action) (bool, watch.Interface, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		return true, nil, errAPIDown
	}
	var from metav1.ListOptions // without it, what is made between the list and the watch is lost
	if asked, ok := a.(clienttesting.WatchActionImpl); ok {
		from = asked.ListOptions
	}
	w, err := o.Tracker().Watch(a.GetResource(), a.GetNamespace(), from)
	if err == nil {
		o.watches = append(o.watches, w)
	}
	return true, w, err
}

func (o *apiOutage) set(away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = away
	for _, w := range o.watches {
		w.Stop()
	}
	o.watches = nil
}

// The API server goes away for a minute while Pods are being bound: no Pod is lost, none is bound
// twice, and no node gets more than it has.
func TestAnAPIServerThatIsAwayForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pods = 40
		clientset := fake.NewClientset(aNode("n1", "16"), aNode("n2", "16"))
		o := &apiOutage{Clientset: clientset}
		c := runOn(t, t.Context(), clientset, func(opts *Options) {
			opts.Config = config.Default()
			opts.Config.PodMaxBackoffSeconds = new(int64(10))
		})
		clientset.PrependReactor("*", "*", o.call) // before all others
		clientset.PrependWatchReactor("*", o.watch)
		synctest.Wait()
		for i := range pods {
			c.create(aPod(fmt.Sprintf("p%d", i), "1"))
			if i == pods/4 {
				synctest.Wait()
			}
		}
		o.set(true)
		time.Sleep(time.Minute) // of the bubble
		o.set(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		c.mu.Lock()
		times, load := map[string]int{}, map[string]int{}
		for _, b := range c.bindings {
			times[b.Name]++
			load[b.Target.Name]++
		}
		c.mu.Unlock()
		for name, n := range times {
			if n > 1 {
				t.Errorf("Pod %s was bound %d times", name, n)
			}
		}
		if len(times) != 32 || load["n1"] != 16 || load["n2"] != 16 {
			t.Errorf("%d Pods are bound, by node %v; want 32, 16 on each", len(times), load)
		}
		if o.refused == 0 {
			t.Error("no binding met the outage: nothing was tried")
		}
		list, err := clientset.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if p := &list.Items[i]; p.Spec.NodeName == "" {
				if cond := scheduled(p); cond == nil || cond.Reason != v1.PodReasonUnschedulable {
					t.Errorf("Pod %s waits and has no reason: %v", p.Name, p.Status.Conditions)
				}
			}
		}
	})
}

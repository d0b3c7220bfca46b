package scheduler

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/scheduler/config"
)

// TestAnAPIServerInTroubleLosesNothing lets every second write fail with 409, 429 or 500, or
// succeed and say that it failed.
//
// row: SCH-13, BND-07
func TestAnAPIServerInTroubleLosesNothing(t *testing.T) {
	t.Parallel()
	const pods = 60
	c := start(t, func(o *Options) {
		seconds := int64(1)
		o.Config = config.Default()
		o.Config.PodMaxBackoffSeconds = &seconds
	}, aNode("n1", "64"), aNode("n2", "64"))
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(7, 7))
	said := map[string]int{}
	c.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "binding" {
			return false, nil, nil
		}
		name := a.(clienttesting.CreateAction).GetObject().(*v1.Binding).Name
		resource := schema.GroupResource{Resource: "pods"}
		mu.Lock()
		n := rng.IntN(10)
		mu.Unlock()
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			said[what]++
		}
		switch n {
		case 0:
			note("409")
			return true, nil, apierrors.NewConflict(resource, name, fmt.Errorf("somebody else was quicker"))
		case 1:
			note("429")
			return true, nil, apierrors.NewTooManyRequests("busy", 1)
		case 2:
			note("500")
			return true, nil, apierrors.NewInternalError(fmt.Errorf("etcd is away"))
		case 3: // done, but the answer is lost
			note("lost")
			if _, _, err := c.bind(a); err != nil {
				return true, nil, err
			}
			return true, nil, apierrors.NewTimeoutError("no answer", 1)
		}
		return false, nil, nil
	})
	for i := range pods {
		c.create(aPod(fmt.Sprintf("p%d", i), "1"))
	}
	for i := range pods {
		c.bound(fmt.Sprintf("p%d", i))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	times := map[string]int{}
	for _, b := range c.bindings {
		if times[b.Name]++; times[b.Name] > 1 {
			t.Errorf("Pod %s was bound %d times", b.Name, times[b.Name])
		}
	}
	for _, what := range []string{"409", "429", "500", "lost"} {
		if said[what] == 0 {
			t.Errorf("the API server never answered %s", what)
		}
	}
}

// TestPreemptionThroughAnAPIServerInTroubleTakesNoMoreThanItNeeds lets the first patch and the
// first deletion of each Pod fail, with 409, 429 and 500 in turn: all who preempt get their room in
// the end, each victim is deleted once, and the Pod that nobody had to disturb is there still.
func TestPreemptionThroughAnAPIServerInTroubleTakesNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	const pods = 6
	objects := []runtime.Object{aNode("aside", "1"), aPod("bystander", "1", onNode("aside", 500))}
	for i := range pods {
		objects = append(objects, aNode(fmt.Sprintf("n%d", i), "1"),
			aPod(fmt.Sprintf("low%d", i), "1", onNode(fmt.Sprintf("n%d", i), 1)))
	}
	client := fake.NewClientset(objects...)
	var mu sync.Mutex
	failed, said, deleted := map[string]bool{}, map[int32]int{}, map[string]int{}
	trouble := func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		named := a.(interface{ GetName() string }).GetName()
		if key := a.GetVerb() + " " + named; !failed[key] {
			failed[key] = true
			kind := schema.GroupResource{Resource: "pods"}
			err := []*apierrors.StatusError{apierrors.NewConflict(kind, named, fmt.Errorf("somebody else was quicker")),
				apierrors.NewTooManyRequests("busy", 0), apierrors.NewInternalError(fmt.Errorf("etcd is away"))}[len(
				failed)%3]
			said[err.ErrStatus.Code]++
			return true, nil, err
		}
		if a.GetVerb() == "delete" { // one that finds the Pod: the preemptor may see its end a moment later
			if _, err := client.Tracker().Get(a.GetResource(), a.GetNamespace(), named); err == nil {
				deleted[named]++
			}
		}
		return false, nil, nil
	}
	client.PrependReactor("delete", "pods", trouble)
	client.PrependReactor("patch", "pods", trouble)
	c := runOn(t, t.Context(), client, func(o *Options) {
		o.Config = config.Default()
		o.Config.PodMaxBackoffSeconds = new(int64(1))
	})
	for i := range pods {
		c.create(aPod(fmt.Sprintf("high%d", i), "1", highPriority))
	}
	for i := range pods {
		c.boundAt(fmt.Sprintf("high%d", i))
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range pods {
		if n := deleted[fmt.Sprintf("low%d", i)]; n != 1 {
			t.Errorf("low%d was deleted %d times, want 1", i, n)
		}
	}
	if n := deleted["bystander"]; n != 0 {
		t.Errorf("a Pod had to go that was in nobody's way: got %v, want 0", n)
	}
	for _, code := range []int32{409, 429, 500} {
		if said[code] == 0 {
			t.Errorf("the API server never answered %d", code)
		}
	}
	if n := c.bindingsMade(); n != pods {
		t.Errorf("%d bindings of %d Pods", n, pods)
	}
}

// TestUnschedulablePodsDoNotDelayOthers: many wait for a node of a kind that there is
// none of; 10,000 beside 1,000 with GANTRY_LOAD set.
func TestUnschedulablePodsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	hopeless, hopeful := 1_000, 100
	if os.Getenv("GANTRY_LOAD") != "" {
		hopeless, hopeful = 10_000, 1_000
	}
	objects := []runtime.Object{}
	for i := range 20 {
		objects = append(objects, aNode(fmt.Sprintf("n%d", i), "64"))
	}
	for i := range hopeless {
		objects = append(objects,
			aPod(fmt.Sprintf("hopeless%d", i), "1",
				func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"kind": "none"} }))
	}
	client := fake.NewClientset(objects...)
	swallow := func(a clienttesting.Action) (bool, runtime.Object, error) { // a millisecond each in this fake
		if a.GetResource().Resource == "pods" && a.GetSubresource() != "status" {
			return false, nil, nil
		}
		if create, ok := a.(clienttesting.CreateAction); ok {
			return true, create.GetObject(), nil
		}
		return true, &v1.Pod{}, nil
	}
	client.PrependReactor("create", "events", swallow)
	client.PrependReactor("patch", "pods", swallow)
	r := metrics.NewKubeRegistry()
	c := runOn(t, t.Context(), client, func(o *Options) { o.Metrics = r })
	for end := time.Now().Add(60 * time.Second); gather(t, r)["scheduler_pending_pods/unschedulable"] < float64(
		hopeless) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	const refused = "scheduler_schedule_attempts_total/unschedulable"
	before := gather(t, r)[refused]
	began := map[string]time.Time{}
	for i := range hopeful {
		name := fmt.Sprintf("fits%d", i)
		began[name] = time.Now()
		c.create(aPod(name, "1"))
		if i%50 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	slow := 0
	var worst time.Duration
	for name, at := range began {
		if d := c.boundAt(name).Sub(at); d > time.Second {
			slow++
			worst = max(worst, d)
		}
	}
	if after := gather(t, r)[refused]; after != before {
		t.Errorf("meanwhile Pods that fit nowhere were tried %v times: nothing that happened could help them",
			after-before)
	}
	if slow > hopeful/100 && os.Getenv("GANTRY_LOAD") != "" { // a busy machine is slow whatever the scheduler does
		t.Errorf("%d of %d Pods took longer than a second, the slowest %v", slow, hopeful, worst)
	}
	if list, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(list.Items) != hopeless+hopeful {
		t.Errorf("%d Pods, %v, want no error, %v", len(list.Items), err, hopeless+hopeful)
	}
}

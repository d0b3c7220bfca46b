package scheduler

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/expect"
)

// An error of a plugin, at any point, ends the attempt: what had been claimed is given back, the
// Pod waits for a back-off and is tried again.
//
// row: SCH-09, SCH-13, SCH-16
func TestAnErrorAtAnyPointIsTriedAgain(t *testing.T) {
	t.Parallel()
	for point, ends := range map[string]string{"PreFilter": "PreFilter", "Filter": "Filter", "PreScore": "PreScore",
		"Score": "Score", "NormalizeScore": "NormalizeScore", "Reserve": "Reserve Unreserve",
		"Permit": "Permit Unreserve", "PreBind": "PreBind Unreserve", "Bind": "Bind Unreserve"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			e := &allPointsPlugin{status: func(p string) *framework.Status {
				if p != point {
					return nil
				}
				if n := asked.Add(1); n == 1 || n == 2 && p == "PreFilter" {
					return framework.NewStatus(framework.Error, "not well")
				}
				return nil
			}}
			nodes := []runtime.Object{aNode("n1", "1"), aNode("n2", "1")}
			if strings.Contains(ends, "Unreserve") { // there is room for one, if it was given back
				nodes = nodes[:1]
			}
			c := start(t, withPlugin(t, e, ""), nodes...)
			c.create(aPod("web", "1"))
			node := c.bound("web")
			c.event("web", "Scheduled", "Successfully assigned default/web to "+node)
			first := e.attempts()[0] // one of PreFilter alone looks like the beginning of the next
			if point != "PreFilter" && first != ends && !strings.HasSuffix(first, " "+ends) {
				t.Errorf("the first attempt asked %s, want it to end with %s", first, ends)
			}
			// the failure is told beside the next attempt, which may be over first
			expect.Eventually(t, "the Pod was in the queue backoff", func() bool {
				return slices.ContainsFunc(c.notes.factsOf("web"), func(f journal.Fact) bool {
					q, ok := f.(journal.Queued)
					return ok && q.Queue == "backoff"
				})
			})
			expect.Eventually(t, "an event FailedScheduling with what the plugin said", func() bool {
				events, err := c.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
				return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
					return e.Reason == "FailedScheduling" && strings.Contains(e.Note, "not well")
				})
			})
			if asks := strings.Count(e.Called(), "PostBind"); asks != 1 {
				t.Errorf("asked %s, want PostBind once", e.Called())
			}
		})
	}
}

// A refusal at any point that may refuse ends the attempt, and the Pod waits until something
// changes.
//
// row: SCH-04, SCH-08, SCH-13
func TestARefusalAtAnyPointEndsTheAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ point, ends, message string }{
		{"PreFilter", "PreFilter PostFilter", "0/1 nodes are available: not today. nothing helps"},
		{"Filter", "PreFilter Filter PostFilter", "0/1 nodes are available: 1 not today. nothing helps"},
		{"Reserve", "Reserve Unreserve", "0/1 nodes are available: 1 not today."},
		{"Permit", "Reserve Permit Unreserve", "0/1 nodes are available: 1 not today."},
		{"PreBind", "Permit PreBind Unreserve", "0/1 nodes are available: 1 not today."},
		{"Bind", "PreBind Bind Unreserve", "0/1 nodes are available: 1 not today."},
	} {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			e := &allPointsPlugin{status: func(p string) *framework.Status {
				if p == c.point {
					return framework.NewStatus(framework.Unschedulable, "not today")
				}
				return nil
			}}
			cluster := start(t, withPlugin(t, e, "    postFilter: {disabled: [{name: DefaultPreemption}]}\n"),
				aNode("n1", "1"))
			cluster.create(aPod("web", "1"))
			p := cluster.refused("web", c.message)
			if got := scheduled(p).Reason; got != v1.PodReasonUnschedulable {
				t.Errorf("reason %s, want Unschedulable", got)
			}
			if first := e.attempts()[0]; !strings.HasSuffix(first, c.ends) {
				t.Errorf("the attempt asked %s, want it to end with %s", first, c.ends)
			}
			cluster.awaitFact("web", "among the unschedulable Pods", func(f journal.Fact) bool {
				q, ok := f.(journal.Queued)
				return ok && q.Queue == "unschedulable"
			})
			cluster.mu.Lock()
			defer cluster.mu.Unlock()
			if len(cluster.bindings) > 0 {
				t.Errorf("bindings: %v, want none", cluster.bindings)
			}
		})
	}
}

// What makes room for a Pod that fits nowhere has it tried again, without a restart.
//
// row: SCH-30
func TestAnUnschedulablePodIsTriedWhenSomethingChanges(t *testing.T) {
	t.Parallel()
	tainted := func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}}
	}
	cordoned := func(n *v1.Node) { n.Spec.Unschedulable = true }
	updateNode := func(n *v1.Node) func(*cluster) error {
		return func(c *cluster) error {
			_, err := c.CoreV1().Nodes().Update(c.t.Context(), n, metav1.UpdateOptions{})
			return err
		}
	}
	for name, c := range map[string]struct {
		node   *v1.Node
		wants  func(*v1.Pod)
		change func(*cluster) error
	}{
		"a node comes": {aNode("n1", "500m"), nil, func(c *cluster) error {
			_, err := c.CoreV1().Nodes().Create(c.t.Context(), aNode("n2", "1"), metav1.CreateOptions{})
			return err
		}},
		"the node grows":   {aNode("n1", "500m"), nil, updateNode(aNode("n1", "1"))},
		"its taint goes":   {aNode("n1", "1", tainted), nil, updateNode(aNode("n1", "1"))},
		"it is uncordoned": {aNode("n1", "1", cordoned), nil, updateNode(aNode("n1", "1"))},
		"it gets another label": {aNode("n1", "1"),
			func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} },
			updateNode(aNode("n1", "1", func(n *v1.Node) { n.Labels["a"] = "b" }))},
		"the Pod tolerates it": {aNode("n1", "1", tainted), nil, func(c *cluster) error {
			p, err := c.CoreV1().Pods("default").Get(c.t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			p.Spec.Tolerations = []v1.Toleration{{Key: "k", Value: "v"}}
			_, err = c.CoreV1().Pods("default").Update(c.t.Context(), p, metav1.UpdateOptions{})
			return err
		}},
		"a Pod there ends": {aNode("n1", "2"), nil, func(c *cluster) error {
			p, err := c.CoreV1().Pods("default").Get(c.t.Context(), "there", metav1.GetOptions{})
			if err != nil {
				return err
			}
			p.Status.Phase = v1.PodSucceeded
			_, err = c.CoreV1().Pods("default").UpdateStatus(c.t.Context(), p, metav1.UpdateOptions{})
			return err
		}},
		"a Pod there asks less": {aNode("n1", "2"), nil, func(c *cluster) error {
			p, err := c.CoreV1().Pods("default").Get(c.t.Context(), "there", metav1.GetOptions{})
			if err != nil {
				return err
			}
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1")
			_, err = c.CoreV1().Pods("default").Update(c.t.Context(), p, metav1.UpdateOptions{})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := []runtime.Object{c.node}
			if c.node.Status.Allocatable.Cpu().Value() == 2 { // else there is no room for it
				objects = append(objects, aPod("there", "2", onNode("n1", 0)))
			}
			cluster := start(t, nil, objects...)
			cluster.create(aPod("web", "1", func(p *v1.Pod) {
				if c.wants != nil {
					c.wants(p)
				}
			}))
			cluster.await("web", "refused", isUnschedulable)
			cluster.awaitFact("web", "among the unschedulable Pods", func(f journal.Fact) bool {
				q, ok := f.(journal.Queued)
				return ok && q.Queue == "unschedulable"
			})
			if err := c.change(cluster); err != nil {
				t.Fatal(err)
			}
			cluster.bound("web")
		})
	}
}

package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
)

// twoProfiles is the seed's example (E-01), unchanged.
const twoProfiles = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      score:
        disabled:
          - name: NodeResourcesBalancedAllocation
  - schedulerName: batch-scheduler
    plugins:
      queueSort:
        enabled:
          - name: Coscheduling
      preFilter:
        enabled:
          - name: Coscheduling
      permit:
        enabled:
          - name: Coscheduling
    pluginConfig:
      - name: Coscheduling
        args:
          permitWaitingTimeSeconds: 60
`

// startPodGroup starts a scheduler with the configuration, one node of the given CPUs, and a
// PodGroup "train" of the given spec.
func startPodGroup(t *testing.T, text, cpus string, spec map[string]any) *cluster {
	t.Helper()
	cfg, err := config.Load([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
		"metadata": map[string]any{"name": "train", "namespace": "default"}, "spec": spec,
	}}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{coscheduling.PodGroups: "PodGroupList"}, group)
	c := start(t, func(o *Options) { o.Config, o.Dynamic = cfg, client }, aNode("n1", cpus))
	c.groups = client
	return c
}

func memberPod(p *v1.Pod) {
	p.Spec.SchedulerName = "batch-scheduler"
	p.Labels = map[string]string{coscheduling.Label: "train"}
}

func (c *cluster) awaitUnschedulable(name string) {
	c.t.Helper()
	c.awaitFact(name, "waits at Permit", func(f journal.Fact) bool {
		w, ok := f.(journal.Waiting)
		return ok && strings.Contains(w.For, "Coscheduling")
	})
}

// row: SCH-21, SCH-22, SCH-23
func TestAGangIsBoundTogether(t *testing.T) {
	c := startPodGroup(t, twoProfiles, "8", map[string]any{"minMember": int64(3)})
	c.create(aPod("train-0", "1", memberPod))
	c.refused("train-0",
		"0/1 nodes are available: pre-filter pod train-0 cannot find enough sibling pods, current pods number: 1, "+
			"minMember of group: 3."+preemptionEnd+"0/1 nodes are available: 1 Preemption is not helpful for "+
			"scheduling.")
	c.create(aPod("train-1", "1", memberPod))
	c.create(aPod("train-2", "1", memberPod))
	for _, name := range []string{"train-0", "train-1", "train-2"} {
		c.bound(name)
	}
	c.create(aPod("web", "1"))
	c.bound("web")
	c.awaitGroupStatus("Scheduled", 3)
}

// awaitGroupStatus waits for the PodGroup's status.
func (c *cluster) awaitGroupStatus(phase string, scheduled int64) {
	c.t.Helper()
	var status map[string]any
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		g, err := c.groups.Resource(coscheduling.PodGroups).Namespace("default").Get(context.Background(),
			"train", metav1.GetOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		status, _, _ = unstructured.NestedMap(g.Object, "status")
		if status["phase"] == phase && status["scheduled"] == scheduled {
			return
		}
	}
	c.t.Fatalf("the group says %v, want %s with %d", status, phase, scheduled)
}

// Two of three members wait at Permit for as long as the group says, or else the plugin's
// arguments.
//
// row: SCH-20, SCH-23
func TestAGangWithRoomForTwoIsNotBound(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		spec map[string]any
		wait string
	}{
		"as the group says": {"60",
			map[string]any{"minMember": int64(3), "scheduleTimeoutSeconds": int64(1)}, "1s"},
		"as the plugin's arguments say": {"2", map[string]any{"minMember": int64(3)}, "2s"},
	} {
		t.Run(name, func(t *testing.T) {
			args := strings.Replace(twoProfiles, "permitWaitingTimeSeconds: 60", "permitWaitingTimeSeconds: "+c.args, 1)
			s := startPodGroup(t, args, "2", c.spec)
			for _, name := range []string{"train-0", "train-1", "train-2"} {
				s.create(aPod(name, "1", memberPod))
			}
			s.awaitUnschedulable("train-0")
			s.event("train-0", "FailedScheduling", "0/1 nodes are available: 1 rejected due to timeout after waiting "+
				c.wait+" at plugin Coscheduling.")
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.bindings) > 0 {
				t.Errorf("bound %v, want none of the members", s.bindings)
			}
		})
	}
}

// Members are tried in the order of their names once the last of them is there, however they came;
// until then an arrival that does not complete the group wakes nobody.
//
// row: SCH-22
func TestMembersAreTriedTogetherInTheirOrder(t *testing.T) {
	c := startPodGroup(t, twoProfiles, "2", map[string]any{"minMember": int64(3)})
	tooFew := func(p *v1.Pod) bool {
		return isUnschedulable(p) && strings.Contains(scheduled(p).Message, "cannot find enough sibling pods")
	}
	c.create(aPod("train-1", "1", memberPod))
	c.await("train-1", "refused for its siblings", tooFew)
	c.create(aPod("train-2", "1", memberPod))
	c.await("train-2", "refused for its siblings", tooFew)
	attempts := 0
	for _, f := range c.notes.factsOf("train-1") {
		if _, ok := f.(journal.Ruled); ok {
			attempts++
		}
	}
	if attempts != 1 {
		t.Errorf("train-1 was tried %d times before its group was complete", attempts)
	}
	c.create(aPod("train-0", "1", memberPod))
	c.awaitUnschedulable("train-0")
	c.awaitUnschedulable("train-1")
	c.await("train-2", "refused for want of room",
		func(p *v1.Pod) bool {
			return isUnschedulable(p) && strings.Contains(scheduled(p).Message, "1 Insufficient cpu")
		})
}

func TestGangIsRejectedIfAMemberFitsNowhere(t *testing.T) {
	text := strings.Replace(twoProfiles, "      permit:\n",
		"      reserve: {enabled: [{name: Coscheduling}]}\n      postFilter: {enabled: [{name: Coscheduling}]}\n     "+
			" permit:\n", 1)
	c := startPodGroup(t, text, "2", map[string]any{"minMember": int64(3)})
	for _, name := range []string{"train-0", "train-1", "train-2"} {
		c.create(aPod(name, "1", memberPod))
	}
	c.event("train-0", "FailedScheduling", "0/1 nodes are available: 1 optimistic rejection in PostFilter.")
}

func TestAGangAsksForItsResourcesFirst(t *testing.T) {
	c := startPodGroup(t, twoProfiles, "2",
		map[string]any{"minMember": int64(1), "minResources": map[string]any{"cpu": "3"}})
	c.create(aPod("train-0", "1", memberPod))
	c.await("train-0", "refused", func(p *v1.Pod) bool {
		cond := scheduled(p)
		return cond != nil && strings.Contains(cond.Message, "resource gap: map[cpu:")
	})
	group, err := c.groups.Resource(coscheduling.PodGroups).Namespace("default").Get(context.Background(),
		"train", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(group.Object, "spec", "minResources")
	if _, err := c.groups.Resource(coscheduling.PodGroups).Namespace("default").Update(context.Background(), group,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.bound("train-0")
}

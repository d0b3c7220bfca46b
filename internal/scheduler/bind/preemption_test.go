package bind

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodename"
	"github.com/gantry-project/gantry/internal/scheduler/preemption"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/wrappers"
)

// switchingFilter is a filter that claims to decide by the Pod's shape and the node, and does not:
// it refuses a node that the test sets.
type switchingFilter struct{ refuses string }

func (*switchingFilter) Name() string { return nodename.Name }

func (*switchingFilter) AppendShape(to []byte, _ *v1.Pod) ([]byte, bool) { return to, true }

func (m *switchingFilter) Filter(_ context.Context, _ framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	if n.Node().Name == m.refuses {
		return framework.NewStatus(framework.Unschedulable, "not in the mood")
	}
	return nil
}

// newPreemptionProfile is the preemption of a default profile with a switchingFilter, and
// that profile.
func newPreemptionProfile(t *testing.T, m *switchingFilter,
	hook frameworkruntime.Hooks) (*defaultPreemption, *frameworkruntime.Profile) {
	t.Helper()
	client := fake.NewClientset()
	all := Factories(nil, APIWriter{})
	all[nodename.Name] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
		return m, nil
	}
	var own *defaultPreemption
	factory := all[plugins.DefaultPreemption]
	all[plugins.DefaultPreemption] = func(ctx context.Context, args runtime.Object,
		h framework.Handle) (framework.Plugin, error) {
		pl, err := factory(ctx, args, h)
		own, _ = pl.(*defaultPreemption)
		return pl, err
	}
	p, err := frameworkruntime.NewProfile(t.Context(), &config.Default().Profiles[0], all, frameworkruntime.Deps{
		Client: client, Informers: informers.NewSharedInformerFactory(client, 0),
		Recorder:     func(string) events.EventRecorderLogger { return nil },
		Parallelizer: frameworkruntime.Parallelizer{Workers: 1}, WaitingPods: frameworkruntime.NewWaitingPods(),
		Snapshot: &frameworkruntime.CurrentSnapshot{}, Hooks: hook,
	})
	if err != nil || own == nil {
		t.Fatalf("got %v, %v, want no error and set own", own, err)
	}
	return own, p
}

func podOnNode(name, node, cpu string, priority int32) *v1.Pod {
	return wrappers.MakePod().Namespace("ns").Name(name).UID(name).Node(node).Priority(priority).
		Req(map[v1.ResourceName]string{v1.ResourceCPU: cpu}).Obj()
}

func newNode(name string) *v1.Node {
	return wrappers.MakeNode().Name(name).
		Allocatable(map[v1.ResourceName]string{v1.ResourceCPU: "1", v1.ResourcePods: "10"}).Obj()
}

// A filter that depends on undeclared state makes the cache wrong: the shadow check reports it, and
// the search without cache counts.
func TestShadowCheckOfPreemption(t *testing.T) {
	m := &switchingFilter{}
	var hook [][]string
	own, profile := newPreemptionProfile(t, m,
		frameworkruntime.Hooks{ShadowCheckFailed: func(_ context.Context, _ *v1.Pod, differ []string) {
			hook = append(hook, differ)
		}})
	snap := snapshot.Of([]*v1.Node{newNode("n1"), newNode("n2")},
		[]*v1.Pod{podOnNode("least", "n1", "1", 1), podOnNode("less", "n2", "1", 2)})
	look := func() preemption.Candidate {
		t.Helper()
		in := schedule.Input{Pod: podOnNode("high", "", "1", 10), Snapshot: snap, Plugins: profile.Plugins,
			State: schedule.NewCycleState()}
		r := schedule.SchedulePod(t.Context(), in)
		c, err := own.searchChecked(t.Context(), preemption.Input{Input: in, NodeToStatus: r.NodeToStatus(),
			Percent: 10, Absolute: 100})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := look(); c.Node != "n1" || len(hook) != 1 || len(hook[0]) != 0 {
		t.Fatalf("first: %s, got %q; want n1 and a check without differences", c.Node, hook)
	}
	if c := look(); c.Node != "n1" || len(hook) != 2 || len(hook[1]) != 0 || own.dryRunCache.Counts().Hits == 0 {
		t.Fatalf("again: %s, got %q, %+v; want n1 from memory and a check without differences", c.Node, hook,
			own.dryRunCache.Counts())
	}
	m.refuses = "n1" // nothing about the node has changed: memory holds
	c := look()
	if c.Node != "n2" || c.Victims[0].Name != "less" {
		t.Errorf("the search without memory does not count: %s", c.Node)
	}
	if len(hook) != 3 || !slices.ContainsFunc(hook[2],
		func(d string) bool { return strings.HasPrefix(d, "node: n1, other n2") }) {
		t.Errorf("got %q, want that the nodes differ", hook)
	}
}

// brokenPDBLister is a lister that panics.
type brokenPDBLister struct {
	policylisters.PodDisruptionBudgetLister
}

// List panics.
func (brokenPDBLister) List(labels.Selector) ([]*policy.PodDisruptionBudget, error) {
	panic("the store is damaged")
}

// A search that panics did not succeed, whoever catches the panic.
func TestASearchThatBreaksOffIsAnError(t *testing.T) {
	var hook []frameworkruntime.PreemptionAttempt
	own, _ := newPreemptionProfile(t, &switchingFilter{},
		frameworkruntime.Hooks{PreemptionSearched: func(h frameworkruntime.PreemptionAttempt) {
			hook = append(hook, h)
		}})
	own.budgets = brokenPDBLister{}
	for name, search := range map[string]func(){
		"for a Pod": func() {
			own.PostFilter(t.Context(), schedule.NewCycleState(), podOnNode("high", "", "1", 10),
				nil)
		},
		"for a group": func() {
			own.PostFilterPodGroup(t.Context(),
				frameworkruntime.UnschedulablePodGroup{Pods: []*v1.Pod{podOnNode("high", "", "1", 10)}})
		},
	} {
		hook = nil
		var caught any
		func() {
			defer func() { caught = recover() }()
			search()
		}()
		if caught == nil || len(hook) != 1 || hook[0].Code != framework.Error {
			t.Errorf("%s: caught %v, got %v; want the panic and one search that ended with an error", name, caught,
				fmt.Sprint(hook))
		}
	}
}

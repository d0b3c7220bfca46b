package bind

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodename"
	"github.com/gantry-project/gantry/internal/scheduler/preempt"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// moody is a filter that claims to judge by the Pod's shape and the node, and does not: it refuses a node that it is told to.
type moody struct{ refuses string }

func (*moody) Name() string { return nodename.Name }

func (*moody) Shape(to []byte, _ *v1.Pod) ([]byte, bool) { return to, true }

func (m *moody) Filter(_ context.Context, _ framework.CycleState, _ *v1.Pod, n framework.NodeInfo) *framework.Status {
	if n.Node().Name == m.refuses {
		return framework.NewStatus(framework.Unschedulable, "not in the mood")
	}
	return nil
}

// seated is the preemption of a default profile in which a moody filter sits, and that profile.
func seated(t *testing.T, m *moody, told glue.Told) (*preemption, *glue.Profile) {
	t.Helper()
	client := fake.NewClientset()
	all := Factories(nil, Quick{})
	all[nodename.Name] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) { return m, nil }
	var own *preemption
	factory := all[plugins.DefaultPreemption]
	all[plugins.DefaultPreemption] = func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
		pl, err := factory(ctx, args, h)
		own, _ = pl.(*preemption)
		return pl, err
	}
	p, err := glue.NewProfile(t.Context(), &config.Default().Profiles[0], all, glue.Deps{
		Client: client, Informers: informers.NewSharedInformerFactory(client, 0), Recorder: func(string) events.EventRecorderLogger { return nil },
		Parallel: glue.Parallelizer{Workers: 1}, Waiting: glue.NewWaiting(), World: &glue.Current{}, Told: told,
	})
	if err != nil || own == nil {
		t.Fatal(own, err)
	}
	return own, p
}

func inhabitant(name, node, cpu string, priority int32) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{NodeName: node, Priority: &priority,
		Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}}}
}

func home(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourcePods: resource.MustParse("10")}}}
}

// A filter that breaks its word makes memory wrong: the shadow check tells, and the search without memory counts.
func TestADoubtedSearchForVictimsIsMadeTwice(t *testing.T) {
	m := &moody{}
	var told [][]string
	own, profile := seated(t, m, glue.Told{Doubted: func(_ context.Context, _ *v1.Pod, differ []string) { told = append(told, differ) }})
	world := snapshot.Of([]*v1.Node{home("n1"), home("n2")}, []*v1.Pod{inhabitant("least", "n1", "1", 1), inhabitant("less", "n2", "1", 2)})
	look := func() preempt.Choice {
		t.Helper()
		in := place.In{Pod: inhabitant("high", "", "1", 10), World: world, Judges: profile.Judges, State: place.NewState()}
		r := place.One(t.Context(), in)
		c, err := own.search(t.Context(), preempt.In{In: in, Refused: r.Reader(), Percent: 10, Absolute: 100})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := look(); c.Node != "n1" || len(told) != 1 || len(told[0]) != 0 {
		t.Fatalf("first: %s, told %q; want n1 and a check without differences", c.Node, told)
	}
	if c := look(); c.Node != "n1" || len(told) != 2 || len(told[1]) != 0 || own.tried.Counts().Held == 0 {
		t.Fatalf("again: %s, told %q, %+v; want n1 from memory and a check without differences", c.Node, told, own.tried.Counts())
	}
	m.refuses = "n1" // nothing about the node has changed: memory holds
	c := look()
	if c.Node != "n2" || c.Victims[0].Name != "less" {
		t.Errorf("the search without memory does not count: %s", c.Node)
	}
	if len(told) != 3 || !slices.ContainsFunc(told[2], func(d string) bool { return strings.HasPrefix(d, "node: n1, other n2") }) {
		t.Errorf("told %q, want that the nodes differ", told)
	}
}

// broken is a lister that panics.
type broken struct {
	policylisters.PodDisruptionBudgetLister
}

// List panics.
func (broken) List(labels.Selector) ([]*policy.PodDisruptionBudget, error) {
	panic("the store is damaged")
}

// A search that panics did not succeed, whoever catches the panic.
func TestASearchThatBreaksOffIsAnError(t *testing.T) {
	var told []glue.Hunt
	own, _ := seated(t, &moody{}, glue.Told{Searched: func(h glue.Hunt) { told = append(told, h) }})
	own.budgets = broken{}
	for name, search := range map[string]func(){
		"for a Pod":   func() { own.PostFilter(t.Context(), place.NewState(), inhabitant("high", "", "1", 10), nil) },
		"for a group": func() { own.PostFilterGang(t.Context(), glue.Gang{Pods: []*v1.Pod{inhabitant("high", "", "1", 10)}}) },
	} {
		told = nil
		var caught any
		func() {
			defer func() { caught = recover() }()
			search()
		}()
		if caught == nil || len(told) != 1 || told[0].Code != framework.Error {
			t.Errorf("%s: caught %v, told %v; want the panic and one search that ended with an error", name, caught, fmt.Sprint(told))
		}
	}
}

package testcluster_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/eviction/manager"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/testcluster"
)

// A budget that lets no Pod go refuses an eviction through the API; the eviction manager of a node
// that is short of memory ends the Pod nevertheless, and the budget counts one healthy Pod less.
//
// row: PDB-01
// row: PDB-02
// row: EVC-34
func TestNodePressureAsksNoBudget(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	ctx := within(t, 2*time.Minute)
	two := intstr.FromInt32(2)
	for _, name := range []string{"web-a", "web-b"} {
		p := pod(name, "web")
		p.Labels = map[string]string{"app": "web"}
		create(t, c, p)
	}
	budgets := c.Client.PolicyV1().PodDisruptionBudgets("default")
	if _, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &two, Selector: selector("web")}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	healthy := func(n int32) func() bool {
		return func() bool {
			b, err := budgets.Get(ctx, "web", metav1.GetOptions{})
			return err == nil && b.Status.CurrentHealthy == n && b.Status.DesiredHealthy == 2 &&
				b.Status.DisruptionsAllowed == 0
		}
	}
	eventually(t, c, "two healthy Pods, of which none may go", healthy(2))
	err := c.Client.PolicyV1().Evictions("default").Evict(ctx,
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web-a", Namespace: "default"}})
	if !apierrors.IsTooManyRequests(err) {
		t.Fatalf("an eviction through the API: got %v, want 429", err)
	}
	victim, err := c.Client.CoreV1().Pods("default").Get(ctx, "web-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	runOutOfMemory(t, c, victim)
	const message = "The node was low on resource: memory. Threshold quantity: 10, available: 9. "
	c.WaitPod(ctx, "default", "web-a", func(p *corev1.Pod) bool {
		return p != nil && (p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded) &&
			slices.ContainsFunc(p.Status.Conditions, func(x corev1.PodCondition) bool {
				return x.Type == corev1.DisruptionTarget && x.Message == message
			})
	})
	eventually(t, c, "the budget counts the Pod that is gone", healthy(1))
	// And it stays so when the controller looks again, now that the Pod has failed.
	if _, err := budgets.Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"minAvailable":1}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	var changed *policyv1.PodDisruptionBudget
	eventually(t, c, "a look at the changed budget", func() bool {
		b, err := budgets.Get(ctx, "web", metav1.GetOptions{})
		changed = b
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.DesiredHealthy == 1
	})
	if s := changed.Status; s.CurrentHealthy != 1 || s.DisruptionsAllowed != 0 {
		t.Errorf("the budget once the Pod has failed: got %d healthy, %d may go, want 1 and 0", s.CurrentHealthy,
			s.DisruptionsAllowed)
	}
}

// runOutOfMemory runs the eviction manager on the victim's node: it finds 9 of 100 bytes free, with
// a threshold of 10, until a Pod has ended; the victim alone takes memory.
func runOutOfMemory(t *testing.T, c *testcluster.Cluster, victim *corev1.Pod) {
	t.Helper()
	node := victim.Spec.NodeName
	list, errs := eviction.Thresholds(eviction.Settings{Hard: map[string]string{
		string(eviction.MemoryAvailable): "10%"}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var free atomic.Int64
	free.Store(9)
	m := manager.New(manager.Deps{
		Config: eviction.Config{Thresholds: list, PressureTransition: time.Minute, MaxPodGrace: time.Second},
		Node:   &corev1.ObjectReference{Kind: "Node", Name: node},
		Observe: func(context.Context) (eviction.Figures, eviction.Disks, error) {
			return eviction.Figures{Memory: &eviction.Observation{At: time.Now(), Available: free.Load(),
				Capacity: 100}}, eviction.Disks{}, nil
		},
		Measure: func(_ context.Context, _ corev1.ResourceName, pods []*corev1.Pod) (map[types.UID]eviction.PodUse,
			error) {
			out := map[types.UID]eviction.PodUse{}
			for _, p := range pods {
				n := int64(1)
				if p.UID == victim.UID {
					n = 80
				}
				out[p.UID] = eviction.PodUse{Memory: &n}
			}
			return out, nil
		},
		Pods: func() []*corev1.Pod { return []*corev1.Pod{victim} },
		KillPod: func(uid types.UID, end podplan.Termination) (<-chan struct{}, bool) {
			terminated := c.KillPod(node, uid, end)
			go func() { <-terminated; free.Store(50) }()
			return terminated, true
		},
		CleanedUp: func(types.UID) bool { return true },
		Events:    &record.FakeRecorder{}, Journal: journal.Discard{},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

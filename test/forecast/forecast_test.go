package forecast_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"

	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/scenario"
	"github.com/gantry-project/gantry/internal/simulate/source"
	"github.com/gantry-project/gantry/testcluster"
)

// seeds is how many simulations must agree for a scenario to be determined: where they differ, the
// cluster itself leaves it to chance (equal nodes, evictions at once, who is ready first).
const seeds = 6

// shortScenarios is how many scenarios are compared unless FORECAST_SCENARIOS says otherwise.
const shortScenarios = 6

// state is where the Pods of a namespace are: nodes by owner, and which of the first Pods are gone.
type state struct {
	placed string
	gone   string
}

// lab is a cluster in which scenarios are made, tried and done.
type lab struct {
	t       *testing.T
	cluster *testcluster.Cluster
	client  kubernetes.Interface
	rand    *rand.Rand
	ns      string
	sets    []string // names of the Deployments
	first   []string // names of the Pods before the change
}

// row: TOO-06
// What is foretold where nothing is left to chance is what comes: the same Pods go, and those that
// come go to the same nodes.
func TestForecastsComeTrue(t *testing.T) {
	n := shortScenarios
	if s := os.Getenv("FORECAST_SCENARIOS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	c := testcluster.Start(t, testcluster.WithNodes("n1", "n2", "n3", "n4"))
	l := &lab{t: t, cluster: c, client: c.Client, rand: rand.New(rand.NewPCG(1, 2))}
	compared, open, equal := map[string]int{}, 0, 0
	for i := 0; equal < n && i < 4*n; i++ {
		l.ns = fmt.Sprint("scenario-", i)
		l.make()
		change, do := l.change(i)
		foretold, determined := l.foretell(change)
		verb := change().Verb()
		if !determined {
			open++
			l.clean()
			continue
		}
		do()
		came := l.settled(foretold)
		if came != foretold {
			t.Errorf("scenario %d, %s %v:\nforetold %+v\ncame     %+v", i, verb, change().Target(), foretold, came)
		}
		compared[verb]++
		equal++
		l.clean()
	}
	t.Logf("compared %v; %d scenarios were not determined", compared, open)
	if equal < n {
		t.Errorf("only %d scenarios of %d were determined", equal, n)
	}
}

// make makes nodes differ by fillers, and Deployments with or without a budget.
func (l *lab) make() {
	l.t.Helper()
	ctx := l.t.Context()
	_, err := l.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.ns}},
		metav1.CreateOptions{})
	l.must(err)
	l.wait("the service account", func() bool {
		_, err := l.client.CoreV1().ServiceAccounts(l.ns).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	for i, used := range l.rand.Perm(4) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("filler-", i)},
			Spec: template("filler", 300+900*used+l.rand.IntN(400), 300+700*used+l.rand.IntN(500)).Spec}
		p.Spec.NodeName = fmt.Sprint("n", i+1)
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		_, err := l.client.CoreV1().Pods(l.ns).Create(ctx, p, metav1.CreateOptions{})
		l.must(err)
	}
	l.sets = nil
	for i := range 1 + l.rand.IntN(2) {
		name, replicas := fmt.Sprint("web-", i), int32(1+l.rand.IntN(4))
		l.must(l.deploy(ctx, name, replicas))
		l.sets = append(l.sets, name)
		if replicas > 1 && l.rand.IntN(3) == 0 {
			_, err := l.client.PolicyV1().PodDisruptionBudgets(l.ns).Create(ctx, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
					MinAvailable: new(intstr.FromInt32(replicas - 1)), Selector: selector(name)}}, metav1.CreateOptions{})
			l.must(err)
		}
	}
	l.wait("the Deployments", l.ready)
	l.first = nil
	for _, p := range l.pods() {
		l.first = append(l.first, p.Name)
	}
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func template(name string, milliCPU, memory int) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)), Containers: []corev1.Container{{Name: "c",
			Image: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(milliCPU), resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(int64(memory)<<20, resource.BinarySI)}}}}}}
}

func (l *lab) deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: l.ns},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(name),
			Template: template(name, 130+l.rand.IntN(700), 200+l.rand.IntN(900))}}
}

func (l *lab) deploy(ctx context.Context, name string, replicas int32) error {
	_, err := l.client.AppsV1().Deployments(l.ns).Create(ctx, l.deployment(name, replicas), metav1.CreateOptions{})
	return err
}

// change draws a change: as one that is simulated, and as one that is made.
func (l *lab) change(i int) (func() scenario.Change, func()) {
	ctx := l.t.Context()
	web := scenario.Object{Kind: "Deployment", Namespace: l.ns, Name: l.sets[l.rand.IntN(len(l.sets))]}
	switch i % 4 {
	case 0:
		node := fmt.Sprint("n", 1+l.rand.IntN(4))
		return func() scenario.Change { return &scenario.Drain{Nodes: []string{node}, Force: true} },
			func() { l.drain(ctx, node) }
	case 1:
		surge, unavailable := intstr.FromInt(1+l.rand.IntN(2)), intstr.FromInt(l.rand.IntN(2))
		patch := fmt.Sprintf(`{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":%d,`+
			`"maxUnavailable":%d}},"template":{"metadata":{"annotations":{"again":"yes"}}}}}`, surge.IntVal,
			unavailable.IntVal)
		return func() scenario.Change {
			return &scenario.Rollout{Object: web, MaxSurge: &surge, MaxUnavailable: &unavailable}
		}, func() { l.patch(ctx, web.Name, patch) }
	case 2:
		n := int32(l.rand.IntN(7))
		return func() scenario.Change { return &scenario.Scale{Object: web, Replicas: n} },
			func() { l.patch(ctx, web.Name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)) }
	}
	d := l.deployment("more", int32(1+l.rand.IntN(4)))
	given := source.Copied{}
	given.Objects = append(given.Objects, d.DeepCopy())
	return func() scenario.Change { return &scenario.Apply{Objects: given.Objects, Namespace: l.ns} }, func() {
		_, err := l.client.AppsV1().Deployments(l.ns).Create(ctx, d, metav1.CreateOptions{})
		l.must(err)
	}
}

func (l *lab) patch(ctx context.Context, name, body string) {
	_, err := l.client.AppsV1().Deployments(l.ns).Patch(ctx, name, types.StrategicMergePatchType, []byte(body),
		metav1.PatchOptions{})
	l.must(err)
}

// drain is kubectl's own.
func (l *lab) drain(ctx context.Context, node string) {
	h := &drain.Helper{Ctx: ctx, Client: l.client, Force: true, GracePeriodSeconds: -1, IgnoreAllDaemonSets: true,
		Out: io.Discard, ErrOut: io.Discard, Timeout: time.Minute}
	n, err := l.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	l.must(err)
	l.must(drain.RunCordonOrUncordon(h, n, true))
	l.must(drain.RunNodeDrain(h, node))
}

// foretell simulates a change with all seeds; false: they do not agree.
func (l *lab) foretell(change func() scenario.Change) (state, bool) {
	copied, err := source.FromCluster(l.t.Context(), l.client)
	l.must(err)
	times := behavior.Times{Start: behavior.Span{P50: 60 * time.Millisecond, P99: 250 * time.Millisecond},
		Stop: behavior.Span{P50: 20 * time.Millisecond, P99: 150 * time.Millisecond}}
	var all []state
	for seed := range seeds {
		_, err := scenario.Simulate(l.t.Context(), scenario.Input{Objects: copied.Objects, Start: time.Now(),
			Model: behavior.Model{Default: times}, FirstSeed: uint64(seed)}, change,
			func(ctx context.Context, r *scenario.Run) error {
				list, err := r.Cluster.Client().CoreV1().Pods(l.ns).List(ctx, metav1.ListOptions{})
				if err == nil {
					all = append(all, l.stateOf(list.Items))
				}
				return err
			})
		l.must(err)
		if all[len(all)-1] != all[0] {
			return state{}, false
		}
	}
	return all[0], true
}

func (l *lab) stateOf(pods []corev1.Pod) state {
	var placed, gone []string
	there := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil {
			continue
		}
		there[p.Name] = true
		placed = append(placed, scenario.OwnerOf(p)+" on "+p.Spec.NodeName)
	}
	for _, name := range l.first {
		if !there[name] {
			gone = append(gone, name)
		}
	}
	slices.Sort(placed)
	slices.Sort(gone)
	return state{strings.Join(placed, ", "), strings.Join(gone, ", ")}
}

// settled waits until the cluster is in the state wanted, or does not change any more.
func (l *lab) settled(want state) state {
	var last state
	same := 0
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		now := l.stateOf(l.pods())
		switch {
		case now == want && l.ready():
			return now
		case now == last:
			same++
		default:
			last, same = now, 0
		}
		if same > 60 && l.ready() {
			return now
		}
		time.Sleep(50 * time.Millisecond)
	}
	return last
}

// ready tells whether all Deployments are rolled out and no Pod is on its way out.
func (l *lab) ready() bool {
	list, err := l.client.AppsV1().Deployments(l.ns).List(l.t.Context(), metav1.ListOptions{})
	l.must(err)
	for _, d := range list.Items {
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.Replicas != *d.Spec.Replicas ||
			s.AvailableReplicas != *d.Spec.Replicas {
			return false
		}
	}
	return !slices.ContainsFunc(l.pods(), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

func (l *lab) pods() []corev1.Pod {
	list, err := l.client.CoreV1().Pods(l.ns).List(l.t.Context(), metav1.ListOptions{})
	l.must(err)
	return list.Items
}

// clean deletes the namespace and uncordons the nodes.
func (l *lab) clean() {
	ctx := l.t.Context()
	l.must(l.client.CoreV1().Namespaces().Delete(ctx, l.ns, metav1.DeleteOptions{}))
	nodes, err := l.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	l.must(err)
	for i := range nodes.Items {
		h := &drain.Helper{Ctx: ctx, Client: l.client}
		l.must(drain.RunCordonOrUncordon(h, &nodes.Items[i], false))
	}
	l.wait("the end of the namespace's Pods", func() bool { return len(l.pods()) == 0 })
	l.wait("untainted nodes", func() bool {
		nodes, err := l.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		l.must(err)
		return !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return len(n.Spec.Taints) > 0 })
	})
}

func (l *lab) wait(what string, ok func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("waited a minute for %s", what)
		}
	}
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

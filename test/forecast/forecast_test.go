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
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/internal/simulate/scenario"
	"github.com/gantry-project/gantry/internal/simulate/source"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// seeds is how many simulations must agree for a scenario to be determined: where they differ, the
// cluster itself leaves it to chance (equal nodes, evictions at once, who is ready first).
const seeds = 6

// restOfCopy is how long a copy rests before a change.
const restOfCopy = 20 * time.Second

// gracePeriod is how long the cluster waits for a report of a node.
const gracePeriod = 25 * time.Second

// shortScenarios is how many scenarios are compared unless FORECAST_SCENARIOS says otherwise.
const shortScenarios = 6

// state is where the Pods of a namespace are: nodes by owner, and which of the first Pods are gone.
type state struct {
	placed string
	gone   string
	order  string // in which the Pods of a StatefulSet left
}

// lab is a cluster in which scenarios are made, tried and done.
type lab struct {
	t       *testing.T
	cluster *testcluster.Cluster
	client  kubernetes.Interface
	rand    *rand.Rand
	ns      string
	claims  bool     // the scenario has a StatefulSet with claims
	lost    string   // the node that is silent; empty: none
	sets    []string // names of the Deployments
	first   []string // names of the Pods before the change
	// kill and start end and begin the kubelet of a node
	kill, start func(node string)
	// patience is how many looks in a row see the same other state when a forecast is wrong
	patience int
	spread   spread // of the last forecast
	slow     bool   // containers of workloads take stopTime to end
}

// row: TOO-06
// What is foretold where nothing is left to chance is what comes: the same Pods go, and those that
// come go to the same nodes.
func TestForecastsComeTrue(t *testing.T) {
	n, seed := fromEnv(t, "FORECAST_SCENARIOS", shortScenarios), fromEnv(t, "FORECAST_SEED", 2)
	c := testcluster.Start(t, testcluster.WithNodes("n1", "n2", "n3", "n4"),
		testcluster.WithNodeMonitorGracePeriod(gracePeriod))
	l := labOf(t, c)
	l.rand = rand.New(rand.NewPCG(1, uint64(seed)))
	_, err := c.Client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}, metav1.CreateOptions{})
	l.must(err)
	l.diskClass()
	c.On(testcluster.Match{Image: slowImage}, testcluster.Script{Main: stopsSlowly})
	all := comparison{run: result.Here("forecasts", ""), compared: map[string]int{}}
	defer all.record(t)
	for i := 0; !all.enough(n) && i < 4*n+2*kindsOfScenario; i++ {
		l.ns = fmt.Sprint("scenario-", i)
		l.claims = i%kindsOfScenario == 5
		l.slow = l.rand.IntN(2) == 0
		l.make()
		change, do := l.change(i)
		foretold, determined := l.foretell(change)
		verb := change().Verb()
		if !determined {
			all.open++
			l.clean()
			continue
		}
		left := l.watchLeaving()
		ctx, cancel := context.WithCancel(t.Context())
		begun, lost := time.Now(), stalls(ctx)
		do()
		came, at := l.settled(foretold, left)
		cancel()
		took := time.Duration(0)
		if !at.IsZero() {
			took = at.Sub(begun)
		}
		all.times.compare(t, verb, l.spread, took, lost())
		if came == foretold {
			all.equal++
		} else {
			all.other++
			t.Errorf("scenario %d, %s %v:\nforetold %+v\ncame     %+v", i, verb, change().Target(), foretold, came)
		}
		t.Logf("%s %v: %s; gone: %s; order: %s", verb, change().Target(), came.placed, came.gone, came.order)
		all.compared[verb]++
		if l.claims {
			all.compared["claims"]++
		}
		l.clean()
		l.memory(i)
	}
	all.times.report(t)
	t.Logf("compared %v; %d scenarios were not determined", all.compared, all.open)
	if !all.enough(n) {
		t.Errorf("only %d scenarios of %d were determined", all.all(), n)
	}
}

// labOf is a lab of a cluster in memory.
func labOf(t *testing.T, c *testcluster.Cluster) *lab {
	return &lab{t: t, cluster: c, client: c.Client, kill: c.KillNode, start: func(node string) { c.StartNode(node) },
		patience: 160}
}

// fromEnv is the number that a variable of the environment has, or else the usual one.
func fromEnv(t *testing.T, name string, usual int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: got error %v, want a number", name, err)
	}
	return n
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
			b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(replicas - 1)),
					Selector: selector(name)}}
			_, err := l.client.PolicyV1().PodDisruptionBudgets(l.ns).Create(ctx, b, metav1.CreateOptions{})
			l.must(err)
		}
	}
	if l.claims {
		l.makeClaims(ctx)
	} else if l.rand.IntN(3) == 0 {
		three := int32(3)
		_, err := l.client.AppsV1().StatefulSets(l.ns).Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: &three,
				Selector: selector("db"), Template: l.template("db", 100+l.rand.IntN(300), 100)}},
			metav1.CreateOptions{})
		l.must(err)
		l.sets = append(l.sets, "db")
	}
	l.wait("the workloads", l.ready)
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
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)), Tolerations: briefly(),
			Containers: []corev1.Container{{Name: "c",
				Image: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(milliCPU), resource.DecimalSI),
					corev1.ResourceMemory: *resource.NewQuantity(int64(memory)<<20, resource.BinarySI)}}}}}}
}

func (l *lab) deployment(name string, replicas int32) *appsv1.Deployment {
	return l.deploymentOf(name, replicas, l.template(name, 130+l.rand.IntN(700), 200+l.rand.IntN(900)))
}

func (l *lab) deploymentOf(name string, replicas int32, t corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: l.ns},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(name), Template: t}}
}

func (l *lab) deploy(ctx context.Context, name string, replicas int32) error {
	_, err := l.client.AppsV1().Deployments(l.ns).Create(ctx, l.deployment(name, replicas), metav1.CreateOptions{})
	return err
}

// change draws a change: as one that is simulated, and as one that is made.
func (l *lab) change(i int) (func() scenario.Change, func()) {
	ctx := l.t.Context()
	web := scenario.Object{Kind: "Deployment", Namespace: l.ns, Name: l.sets[l.rand.IntN(len(l.sets))]}
	if web.Name == "db" {
		web.Kind = "StatefulSet"
	}
	switch kind := i % kindsOfScenario; {
	case kind == 4:
		node := fmt.Sprint("n", 1+l.rand.IntN(4))
		return func() scenario.Change {
				return &scenario.Lose{Nodes: []string{node}, NodeMonitorGracePeriod: gracePeriod}
			}, func() {
				l.lost = node
				l.kill(node)
			}
	case l.claims && l.rand.IntN(2) == 0:
		node := l.nodeOf("db-0")
		return func() scenario.Change { return &scenario.Drain{Nodes: []string{node}, Force: true} },
			func() { l.drain(ctx, node) }
	case l.claims:
		db := scenario.Object{Kind: "StatefulSet", Namespace: l.ns, Name: "db"}
		return func() scenario.Change { return &scenario.Scale{Object: db, Replicas: 3} },
			func() { l.patch(ctx, db, `{"spec":{"replicas":3}}`) }
	case kind%4 == 0:
		node := fmt.Sprint("n", 1+l.rand.IntN(4))
		return func() scenario.Change { return &scenario.Drain{Nodes: []string{node}, Force: true} },
			func() { l.drain(ctx, node) }
	case kind%4 == 1:
		if web.Kind == "StatefulSet" {
			return func() scenario.Change { return &scenario.Rollout{Object: web} }, func() {
				l.patch(ctx, web, `{"spec":{"template":{"metadata":{"annotations":{"again":"yes"}}}}}`)
			}
		}
		surge, unavailable := intstr.FromInt(1+l.rand.IntN(2)), intstr.FromInt(l.rand.IntN(2))
		patch := fmt.Sprintf(`{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":%d,`+
			`"maxUnavailable":%d}},"template":{"metadata":{"annotations":{"again":"yes"}}}}}`, surge.IntVal,
			unavailable.IntVal)
		return func() scenario.Change {
			return &scenario.Rollout{Object: web, MaxSurge: &surge, MaxUnavailable: &unavailable}
		}, func() { l.patch(ctx, web, patch) }
	case kind%4 == 2:
		n := int32(l.rand.IntN(7))
		return func() scenario.Change { return &scenario.Scale{Object: web, Replicas: n} },
			func() { l.patch(ctx, web, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)) }
	}
	d := l.deployment("more", int32(1+l.rand.IntN(4)))
	if l.rand.IntN(2) == 0 { // it pushes others out
		d.Spec.Template = l.template("more", 3200+l.rand.IntN(900), 300)
		d.Spec.Template.Spec.PriorityClassName = "high"
	}
	given := source.Copied{}
	given.Objects = append(given.Objects, d.DeepCopy())
	return func() scenario.Change { return &scenario.Apply{Objects: given.Objects, Namespace: l.ns} }, func() {
		_, err := l.client.AppsV1().Deployments(l.ns).Create(ctx, d, metav1.CreateOptions{})
		l.must(err)
	}
}

func (l *lab) patch(ctx context.Context, o scenario.Object, body string) {
	if o.Kind == "StatefulSet" {
		_, err := l.client.AppsV1().StatefulSets(l.ns).Patch(ctx, o.Name, types.StrategicMergePatchType, []byte(body),
			metav1.PatchOptions{})
		l.must(err)
		return
	}
	_, err := l.client.AppsV1().Deployments(l.ns).Patch(ctx, o.Name, types.StrategicMergePatchType, []byte(body),
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
	var all []state
	l.spread = spread{}
	defer func() { l.spread.Spread(l.spread.took) }()
	for seed := range seeds {
		// a change comes when the copy has rested: now, or later, when Pods' ages are more alike
		at := time.Now().Add(-time.Duration(seed%2) * restOfCopy)
		_, err := scenario.Simulate(l.t.Context(), scenario.Input{Objects: copied.Objects, Start: at,
			Model: l.model(), FirstSeed: uint64(seed)}, change,
			func(ctx context.Context, r *scenario.Run) error {
				l.spread.add(r.Forecast.Outcome.Done, r.Forecast.Outcome.Took)
				list, err := r.Cluster.Client().CoreV1().Pods(l.ns).List(ctx, metav1.ListOptions{})
				if err == nil {
					s := l.stateOf(list.Items)
					s.order = orderOf(r.Forecast.Pods)
					all = append(all, s)
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
	return state{placed: strings.Join(placed, ", "), gone: strings.Join(gone, ", ")}
}

// orderOf is the order in which a StatefulSet's Pods leave.
func orderOf(pods []forecast.Pod) string {
	var names []string
	for _, p := range pods {
		if p.Owner == "statefulset/db" && p.Created == nil && p.Leaves != nil && p.Cause == "statefulset" {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, ", ")
}

// leaving collects the first Pods of a StatefulSet as their deletion is asked for by it.
type leaving struct {
	mu    sync.Mutex
	names []string
	stop  func()
}

func (l *lab) watchLeaving() *leaving {
	w, err := l.client.CoreV1().Pods(l.ns).Watch(l.t.Context(), metav1.ListOptions{})
	l.must(err)
	out := &leaving{stop: w.Stop}
	seen := map[types.UID]bool{}
	born := map[types.UID]bool{}
	for _, p := range l.pods() {
		born[p.UID] = true
	}
	go func() {
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok || p.DeletionTimestamp == nil || seen[p.UID] || !born[p.UID] ||
				scenario.OwnerOf(p) != "statefulset/db" || slices.ContainsFunc(p.Status.Conditions,
				func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }) {
				continue
			}
			seen[p.UID] = true
			out.mu.Lock()
			out.names = append(out.names, p.Name)
			out.mu.Unlock()
		}
	}()
	return out
}

func (w *leaving) order() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.names, ", ")
}

// settled waits until the cluster has been in the state wanted for a while, or in another for long.
// at is since when it is in that state and finished; zero: it is not.
func (l *lab) settled(want state, left *leaving) (last state, at time.Time) {
	defer left.stop()
	same := 0
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		now := l.stateOf(l.pods())
		now.order = left.order()
		if now != last {
			last, same, at = now, 0, time.Time{}
		}
		if same++; now == want && at.IsZero() && l.finished() {
			at = time.Now()
		}
		if now == want && same > 12 && (!at.IsZero() || l.spread.undone || same > l.patience) ||
			now != want && same > l.patience && l.lost == "" {
			return now, at
		}
	}
	return last, at
}

// ready tells whether all workloads are rolled out and no Pod is on its way out.
func (l *lab) ready() bool {
	list, err := l.client.AppsV1().Deployments(l.ns).List(l.t.Context(), metav1.ListOptions{})
	l.must(err)
	for _, d := range list.Items {
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != *d.Spec.Replicas ||
			s.Replicas != *d.Spec.Replicas || s.AvailableReplicas != *d.Spec.Replicas {
			return false
		}
	}
	sets, err := l.client.AppsV1().StatefulSets(l.ns).List(l.t.Context(), metav1.ListOptions{})
	l.must(err)
	for _, d := range sets.Items {
		if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != *d.Spec.Replicas {
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
	if l.lost != "" {
		l.start(l.lost)
		l.lost = ""
	}
	l.must(l.client.CoreV1().Namespaces().Delete(ctx, l.ns, metav1.DeleteOptions{}))
	nodes, err := l.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	l.must(err)
	for i := range nodes.Items {
		h := &drain.Helper{Ctx: ctx, Client: l.client}
		l.must(drain.RunCordonOrUncordon(h, &nodes.Items[i], false))
	}
	l.wait("the end of the namespace's Pods", func() bool { return len(l.pods()) == 0 })
	l.must(l.client.CoreV1().PersistentVolumes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	l.wait("the end of the volumes", func() bool {
		list, err := l.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		l.must(err)
		return len(list.Items) == 0
	})
	l.wait("untainted nodes", func() bool {
		nodes, err := l.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		l.must(err)
		return !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return len(n.Spec.Taints) > 0 })
	})
}

func (l *lab) wait(what string, ok func() bool) {
	l.t.Helper()
	expect.Eventually(l.t, what, ok)
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

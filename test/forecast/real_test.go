package forecast_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/simulate/scenario"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/test/process"
	"github.com/gantry-project/gantry/test/up"
)

// realImage is what the Pods of the real nodes run.
const realImage = "docker.io/library/busybox:1.28"

// realLab is a lab of two nodes with real containers on this host: `gantry up` is node-1, a kubelet
// beside it node-2. Nothing but what a test makes runs on them.
type realLab struct {
	*lab
	cpu, memory int64 // allocatable on each node: milli-cores, bytes
}

// realGracePeriod is how long the real cluster waits for a report of a node: sixteen reports of
// kubelets with quickReports, so that a busy machine does not lose one.
const realGracePeriod = 16 * time.Second

// quickReports is the configuration of a kubelet that renews its lease each second.
const quickReports = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
	"nodeLeaseDurationSeconds: 4\n"

func newRealLab(t *testing.T) *realLab {
	t.Helper()
	config := filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(config, []byte(quickReports), 0o600); err != nil {
		t.Fatal(err)
	}
	c := up.New(t, "gxq", "--dashboard=false", "--scheduler-port", fmt.Sprint(up.FreePort(t)),
		"--node-monitor-grace-period", realGracePeriod.String(), "--kubelet-config", config)
	second := startSecond(t, c, config)
	archive := filepath.Join(t.TempDir(), "images.tar")
	if err := images.Archive(archive, images.Select(images.Standard(), realImage)); err != nil {
		t.Fatal(err)
	}
	c.Start()
	second.start()
	as, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	as.QPS = -1
	client, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	l := &realLab{lab: &lab{t: t, client: client, patience: 1200, kill: func(string) { second.process.Kill() },
		start: func(string) { second.start() }}}
	l.wait("two ready nodes", func() bool {
		nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		l.must(err)
		ready := 0
		for _, n := range nodes.Items {
			l.cpu, l.memory = n.Status.Allocatable.Cpu().MilliValue(), n.Status.Allocatable.Memory().Value()
			if node.IsReady(&n) && len(n.Spec.Taints) == 0 {
				ready++
			}
		}
		return ready == 2
	})
	for _, dir := range []string{c.Dir, second.dir} {
		c.Gantry("image", "import", "--data-dir", dir, archive)
	}
	for name, value := range map[string]int32{"high": 1000, "pinned": 2000, "low": -1000} {
		_, err := client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{})
		l.must(err)
	}
	return l
}

// secondNode is the kubelet beside `gantry up`.
type secondNode struct {
	roles   *up.Roles
	dir     string
	args    []string
	process *process.Process
}

// startSecond prepares a second node with a kubelet's configuration, and has it removed and checked
// for leftovers when the test ends. It speaks to the API server as the administrator.
func startSecond(t *testing.T, c *up.Cluster, config string) *secondNode {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "gantry-gxq2-")
	if err != nil {
		t.Fatal(err)
	}
	network, err := ports.ReserveNetwork("gxq")
	if err != nil {
		t.Fatal(err)
	}
	s := &secondNode{roles: &up.Roles{TB: t, Bin: c.Bin, Log: filepath.Join(dir, "gantry.log")}, dir: dir}
	s.args = []string{"kubelet", "--kubeconfig", c.Kubeconfig, "--data-dir", dir, "--hostname-override", "node-2",
		"--config", config,
		"--node-ip", "127.0.0.1", "--kubelet-port", fmt.Sprint(up.FreePort(t)), "--bridge", network.Bridge,
		"--pod-cidr", network.PodCIDR, "--client-ca-file", filepath.Join(c.Dir, "pki/ca.crt")}
	t.Cleanup(func() {
		defer network.Release()
		s.roles.End()
		c.Gantry("clean", "--data-dir", dir, "--bridge", network.Bridge, "--pod-cidr", network.PodCIDR)
		for _, left := range append(instance.Mounts(dir), up.Processes(dir)...) {
			t.Errorf("left behind: %s", left)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// start runs the kubelet, in the place of one that was killed.
func (s *secondNode) start() {
	s.roles.All = nil
	s.process = s.roles.Start(s.args...)
}

// begin makes the namespace of a scenario.
func (l *realLab) begin(t *testing.T, ns string) {
	t.Helper()
	l.t, l.ns, l.sets, l.first = t, ns, nil, nil
	ctx := t.Context()
	_, err := l.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
		metav1.CreateOptions{})
	l.must(err)
	l.wait("the service account", func() bool {
		_, err := l.client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

// asking is a template of a real container that asks for percents of a node's cores, and of its
// memory as many.
func (l *realLab) asking(name string, percent int64, class string) corev1.PodTemplateSpec {
	t := template(name, 0, 0)
	t.Spec.PriorityClassName = class
	c := &t.Spec.Containers[0]
	c.Image, c.ImagePullPolicy = realImage, corev1.PullNever
	c.Command = []string{"sh", "-c", "trap 'exit 0' TERM; while true; do sleep 0.1; done"}
	c.Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(l.cpu*percent/100, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(l.memory*percent/100, resource.BinarySI)}
	return t
}

// pin runs a Pod on a node that nothing pushes out.
func (l *realLab) pin(node string, percent int64) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pinned-" + node},
		Spec: l.asking("pinned", percent, "pinned").Spec}
	p.Spec.NodeName = node
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	_, err := l.client.CoreV1().Pods(l.ns).Create(l.t.Context(), p, metav1.CreateOptions{})
	l.must(err)
}

// deploy makes a Deployment and waits until its Pods are ready, so that what comes next finds them
// placed.
func (l *realLab) deploy(name string, replicas int32, percent int64, class string) {
	_, err := l.client.AppsV1().Deployments(l.ns).Create(l.t.Context(),
		l.deploymentOf(name, replicas, l.asking(name, percent, class)), metav1.CreateOptions{})
	l.must(err)
	l.wait("the workload "+name, l.ready)
}

// stateful makes the StatefulSet db and waits until its Pods are ready.
func (l *realLab) stateful(replicas int32, percent int64) {
	_, err := l.client.AppsV1().StatefulSets(l.ns).Create(l.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: &replicas,
			Selector: selector("db"), Template: l.asking("db", percent, "")}}, metav1.CreateOptions{})
	l.must(err)
	l.wait("the workload db", l.ready)
}

func (l *realLab) budget(name string, least int) {
	_, err := l.client.PolicyV1().PodDisruptionBudgets(l.ns).Create(l.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt(least)), Selector: selector(name)}}, metav1.CreateOptions{})
	l.must(err)
	l.wait("the budget", func() bool {
		b, err := l.client.PolicyV1().PodDisruptionBudgets(l.ns).Get(l.t.Context(), name, metav1.GetOptions{})
		l.must(err)
		return b.Status.ObservedGeneration == b.Generation && b.Status.DisruptionsAllowed > 0
	})
}

// comesTrue foretells a change, makes it and compares. What a scenario means to show must be among
// what was foretold.
func (l *realLab) comesTrue(change func() scenario.Change, do func(), means state) {
	l.t.Helper()
	l.wait("that Pods run everywhere", func() bool {
		for _, p := range l.pods() {
			if p.Status.Phase != corev1.PodRunning {
				return false
			}
		}
		return true
	})
	for _, p := range l.pods() {
		l.first = append(l.first, p.Name)
	}
	foretold, determined := l.foretell(change)
	if !determined {
		l.t.Fatalf("%s %v is left to chance", change().Verb(), change().Target())
	}
	if means.placed != foretold.placed || means.order != foretold.order {
		l.t.Errorf("foretold %+v, want the placements and the order of %+v", foretold, means)
	}
	left := l.watchLeaving()
	do()
	came, _ := l.settled(foretold, left)
	if came != foretold {
		l.t.Errorf("%s %v:\nforetold %+v\ncame     %+v", change().Verb(), change().Target(), foretold, came)
	}
	l.t.Logf("%s %v: %+v", change().Verb(), change().Target(), came)
}

// row: TOO-06
// What is foretold of a cluster of two nodes with real containers is what comes: the same Pods go,
// in the same order, and those that come go to the same nodes.
func TestForecastsOfRealNodesComeTrue(t *testing.T) {
	t.Parallel()
	l := newRealLab(t)
	t.Run("rollout", func(t *testing.T) { realRollout(t, l) })
	t.Run("statefulset", func(t *testing.T) { realStatefulSet(t, l) })
	t.Run("drain", func(t *testing.T) { realDrain(t, l) })
	t.Run("apply", func(t *testing.T) { realApply(t, l) })
	t.Run("lose", func(t *testing.T) { realLoss(t, l) })
	l.t = t
}

const again = `{"spec":{"template":{"metadata":{"annotations":{"again":"yes"}}}}}`

// realRollout: the new Pods are spread, and of three most go to the node with more room.
func realRollout(t *testing.T, l *realLab) {
	l.begin(t, "rollout")
	defer l.clean()
	l.pin("node-2", 40)
	l.deploy("web", 3, 4, "")
	l.pin("node-1", 70)
	web := scenario.Object{Kind: "Deployment", Namespace: l.ns, Name: "web"}
	surge, unavailable := intstr.FromInt(1), intstr.FromInt(0)
	l.comesTrue(func() scenario.Change {
		return &scenario.Rollout{Object: web, MaxSurge: &surge, MaxUnavailable: &unavailable}
	}, func() {
		l.patch(t.Context(), web, `{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1,`+
			`"maxUnavailable":0}},"template":{"metadata":{"annotations":{"again":"yes"}}}}}`)
	}, state{placed: " on node-1,  on node-2, deployment/web on node-1, deployment/web on node-2, " +
		"deployment/web on node-2"})
}

// realStatefulSet: the last one goes first.
func realStatefulSet(t *testing.T, l *realLab) {
	l.begin(t, "statefulset")
	defer l.clean()
	l.pin("node-2", 50)
	l.stateful(3, 3)
	db := scenario.Object{Kind: "StatefulSet", Namespace: l.ns, Name: "db"}
	l.comesTrue(func() scenario.Change { return &scenario.Rollout{Object: db} },
		func() { l.patch(t.Context(), db, again) },
		state{placed: " on node-2, statefulset/db on node-1, statefulset/db on node-1, statefulset/db on node-2",
			order: "db-2, db-1, db-0"})
}

// realDrain: a budget holds the drain up, and the last of three Pods finds no room.
func realDrain(t *testing.T, l *realLab) {
	l.begin(t, "drain")
	defer l.clean()
	l.pin("node-1", 55)
	l.deploy("web", 3, 20, "") // node-1 has room for two
	l.budget("web", 2)
	l.comesTrue(func() scenario.Change { return &scenario.Drain{Nodes: []string{"node-2"}, Force: true} },
		func() { l.drain(t.Context(), "node-2") },
		state{placed: " on node-1, deployment/web on , deployment/web on node-1, deployment/web on node-1"})
}

// realApply: of two Pods that could be pushed out the less important one is, and finds no other
// room.
func realApply(t *testing.T, l *realLab) {
	l.begin(t, "apply")
	defer l.clean()
	l.pin("node-1", 80)
	l.deploy("cheap", 1, 40, "low")
	l.deploy("web", 1, 25, "")
	more := l.deploymentOf("more", 1, l.asking("more", 60, "high"))
	l.comesTrue(func() scenario.Change {
		return &scenario.Apply{Objects: []runtime.Object{more.DeepCopy()}, Namespace: l.ns}
	}, func() {
		_, err := l.client.AppsV1().Deployments(l.ns).Create(t.Context(), more, metav1.CreateOptions{})
		l.must(err)
	}, state{placed: " on node-1, deployment/cheap on , deployment/more on node-2, deployment/web on node-2"})
}

// realLoss: a node falls silent; a Deployment's Pods come again elsewhere, a StatefulSet's do not.
func realLoss(t *testing.T, l *realLab) {
	l.begin(t, "lose")
	defer l.clean()
	l.pin("node-1", 60)
	l.deploy("web", 2, 5, "")
	l.stateful(1, 5)
	l.comesTrue(func() scenario.Change {
		return &scenario.Lose{Nodes: []string{"node-2"}, NodeMonitorGracePeriod: realGracePeriod}
	}, func() {
		l.lost = "node-2"
		l.kill("node-2")
	}, state{placed: " on node-1, deployment/web on node-1, deployment/web on node-1"})
}

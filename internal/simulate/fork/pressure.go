package fork

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	podutil "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/memapi"
	"github.com/gantry-project/gantry/internal/simulate/usage"
)

const (
	// monitoringInterval is how often a kubelet looks at its node's memory.
	monitoringInterval = 10 * time.Second
	// metricsWindow is over how long a figure of the metrics API is told to be measured.
	metricsWindow = 15 * time.Second
	// hardMemory is the default threshold of memory.available, which a node's allocatable memory
	// leaves out.
	hardMemory = "100Mi"
	hardBytes  = 100 << 20
)

// nodeUsage is what Pods take, and what kubelets do about it: how they evict, and what each
// remembers.
type nodeUsage struct {
	model   *usage.Model
	started bool // kubelets look at their nodes' memory
	config  eviction.Config
	nodes   map[string]eviction.State
	kills   map[string]int // kills out of memory, by namespace/name of the Pod and container
}

func newNodeUsage(figures usage.Figures, lives behavior.Model) *nodeUsage {
	thresholds, _ := eviction.Thresholds(eviction.Settings{Hard: map[string]string{
		string(eviction.MemoryAvailable): hardMemory}})
	return &nodeUsage{model: usage.NewModel(figures, lives), nodes: map[string]eviction.State{},
		kills:  map[string]int{},
		config: eviction.Config{Thresholds: thresholds, PressureTransition: 5 * time.Minute}}
}

// Load changes the load of an owner's Pods (by behavior.OwnerKey). From the first call on nodes
// come under pressure of memory, and containers that exceed their limit of it are killed.
func (c *Cluster) Load(owner string, change usage.Change) usage.Loaded {
	var pods []*corev1.Pod
	for _, p := range c.pods() {
		if behavior.OwnerKey(p) == owner {
			pods = append(pods, p)
		}
	}
	loaded := c.usage.model.Load(owner, pods, change)
	if !c.usage.started {
		c.usage.started = true
		c.At(c.clock, c.monitor)
	}
	return loaded
}

// Usage returns what a Pod's containers take now.
func (c *Cluster) Usage(p *corev1.Pod) map[string]usage.Amounts { return c.usage.model.Of(p) }

// KilledOutOfMemory returns how often a container of a Pod (namespace/name) was killed because it
// took more memory than its limit.
func (c *Cluster) KilledOutOfMemory(pod, container string) int {
	return c.usage.kills[pod+" "+container]
}

// pods returns all Pods by namespace and name. They must not be changed.
func (c *Cluster) pods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range c.store.Objects(memapi.Prefix(schema.GroupResource{Resource: "pods"})) {
		out = append(out, o.(*corev1.Pod))
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return out
}

// podMetrics is what the metrics API answers: what is known of the Pods that run.
func (c *Cluster) podMetrics(namespace string, which labels.Selector) *metricsv1beta1.PodMetricsList {
	out := &metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{}}
	for _, p := range c.pods() {
		if namespace != "" && p.Namespace != namespace || !which.Matches(labels.Set(p.Labels)) ||
			p.Status.Phase != corev1.PodRunning || !c.usage.model.Known(p) {
			continue
		}
		m := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name,
			Labels: p.Labels}, Timestamp: metav1.NewTime(c.clock), Window: metav1.Duration{Duration: metricsWindow}}
		of := c.usage.model.Of(p)
		for _, k := range sortedNames(of) {
			m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: k, Usage: of[k].Resources()})
		}
		out.Items = append(out.Items, m)
	}
	return out
}

func sortedNames(of map[string]usage.Amounts) []string {
	var out []string
	for name := range of {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// monitor has every kubelet look at its node's memory, and asks to be called again.
func (c *Cluster) monitor(ctx context.Context) {
	byNode := map[string][]*corev1.Pod{}
	for _, p := range c.pods() {
		if p.Spec.NodeName != "" && !podutil.IsTerminal(p) {
			byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], p)
		}
	}
	for _, o := range c.store.Objects(memapi.Prefix(schema.GroupResource{Resource: "nodes"})) {
		n := o.(*corev1.Node)
		if !c.kubelets.Lost(n.Name) {
			c.killExceeding(byNode[n.Name])
			c.evict(ctx, n, byNode[n.Name])
		}
	}
	c.At(c.clock.Add(monitoringInterval), c.monitor)
}

// killExceeding ends containers that take more memory than their limit, as the kernel does.
func (c *Cluster) killExceeding(pods []*corev1.Pod) {
	for _, p := range pods {
		of := c.usage.model.Of(p)
		for i := range p.Spec.Containers {
			x := &p.Spec.Containers[i]
			limit := x.Resources.Limits.Memory().Value()
			if limit > 0 && of[x.Name].Memory > limit && c.kubelets.KillOutOfMemory(p.UID, x.Name) {
				c.usage.kills[nameOf(p)+" "+x.Name]++
			}
		}
	}
}

// evict is one look of a kubelet at its node: what Pods do not take of the node's allocatable
// memory is available, and the threshold. What the node takes itself is what it does not allocate.
func (c *Cluster) evict(ctx context.Context, n *corev1.Node, pods []*corev1.Pod) {
	capacity, allocatable := n.Status.Capacity.Memory().Value(), n.Status.Allocatable.Memory().Value()
	if capacity == 0 {
		return
	}
	free := min(allocatable+hardBytes, capacity)
	use := map[types.UID]eviction.PodUse{}
	var running []*corev1.Pod
	for _, p := range pods {
		if p.Status.Phase != corev1.PodRunning {
			continue
		}
		u := podUse(c.usage.model.Of(p))
		free -= *u.Memory
		use[p.UID] = u
		running = append(running, p)
	}
	d := eviction.Decide(eviction.In{Config: c.usage.config, Pods: running, Use: use, Now: c.clock,
		State: c.usage.nodes[n.Name], Observations: eviction.Observe(eviction.Figures{
			Memory: &eviction.Observation{At: c.clock, Available: max(free, 0), Capacity: capacity}})})
	c.usage.nodes[n.Name] = d.State
	if v := d.Victim; v != nil && c.kubelets.Evict(v.Pod.UID, podplan.Termination{Cause: "evicted",
		Reason: eviction.Reason, Message: v.Message, Victim: v.Message, RequestedAt: c.clock, Grace: v.Grace}) {
		c.usage.nodes[n.Name] = eviction.Evicted(d)
	}
	c.setPressure(ctx, n, slices.Contains(d.Conditions, corev1.NodeMemoryPressure))
}

func podUse(of map[string]usage.Amounts) eviction.PodUse {
	sum := int64(0)
	var out eviction.PodUse
	for _, name := range sortedNames(of) {
		memory := of[name].Memory
		sum += memory
		out.Containers = append(out.Containers, eviction.ContainerUse{Name: name, Memory: &memory})
	}
	out.Memory = &sum
	return out
}

// setPressure writes the node's condition MemoryPressure when it changed.
func (c *Cluster) setPressure(ctx context.Context, n *corev1.Node, is bool) {
	want := corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse,
		Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"}
	if is {
		want.Status, want.Reason, want.Message = corev1.ConditionTrue, "KubeletHasInsufficientMemory",
			"kubelet has insufficient memory available"
	}
	i := slices.IndexFunc(n.Status.Conditions,
		func(x corev1.NodeCondition) bool { return x.Type == corev1.NodeMemoryPressure })
	if i < 0 && !is || i >= 0 && n.Status.Conditions[i].Status == want.Status {
		return
	}
	want.LastHeartbeatTime, want.LastTransitionTime = metav1.NewTime(c.clock), metav1.NewTime(c.clock)
	n = n.DeepCopy()
	if i < 0 {
		n.Status.Conditions = append(n.Status.Conditions, want)
	} else {
		n.Status.Conditions[i] = want
	}
	n.ResourceVersion = ""
	// a node that was deleted has no condition
	_, _ = c.Client().CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
}

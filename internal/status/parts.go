package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	nodeutil "github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/pod"
)

// Read is what was read of a kind, or why it could not be.
type Read[T any] struct {
	Items []T
	Err   error
}

// Facts is what a map is made from.
type Facts struct {
	Now     time.Time
	Server  string
	Version string
	Err     error              // of the API server: it does not answer
	Checks  map[string]bool    // of /readyz by name; nil: not read
	Metrics map[string]float64 // of the API server, sums over labels; nil: not read
	Leases  Read[coordinationv1.Lease]
	Nodes   Read[Node]
	Pods    Read[corev1.Pod]
	// Workloads are objects that controllers work on: generation and the one that was observed.
	Workloads Read[Observed]
	// SchedulerHealth is what the scheduler's own port answered; nil: it was not asked.
	SchedulerHealth *Answer
	DNS             *Answer // what the name server answered, asked for the API server's name; nil: not asked
	DNSVersion      string
	DNSEndpoints    int // ready ones of the Service kube-dns
}

// Node is a node with what its own ports answered.
type Node struct {
	Node    corev1.Node
	Metrics map[string]float64 // of the kubelet; nil: not read
	Proxy   *Answer            // of the Service proxy's health port; nil: not asked
}

// Answer is what a port answered.
type Answer struct {
	Address string
	OK      bool
	Text    string
}

// Observed is one object that a controller works on.
type Observed struct {
	Name                 string
	Generation, Observed int64
	Changed              time.Time // no later than its last change that is known
}

// staleAfter is after how long without a sign a part is down: upstream's lease duration and a half,
// and twice the time in which nodes report.
const (
	leaseSilence = 20 * time.Second
	nodeSilence  = 40 * time.Second
	workSilence  = 15 * time.Second
)

func apiServer(f Facts) Part {
	p := Part{Kind: APIServer, Version: f.Version, Health: OK}
	if f.Err != nil {
		p.Health, p.Because = Down, f.Err.Error()
		return p
	}
	var failing []string
	for name, ok := range f.Checks {
		if !ok {
			failing = append(failing, name)
		}
	}
	slices.Sort(failing)
	switch {
	case len(failing) > 0:
		p.Health, p.Because = Down, "/readyz fails: "+strings.Join(failing, ", ")
	case f.Checks == nil:
		p.Because = "it answers"
	default:
		p.Because = fmt.Sprintf("/readyz: %d checks pass", len(f.Checks))
	}
	p.Age = started(f, f.Metrics)
	if f.Metrics != nil {
		p.Load = fmt.Sprintf("%g requests in flight, %g watches and other long ones",
			f.Metrics["apiserver_current_inflight_requests"], f.Metrics["apiserver_longrunning_requests"])
	}
	return p
}

// started is the age of a process by its metrics.
func started(f Facts, metrics map[string]float64) time.Duration {
	at := metrics["process_start_time_seconds"]
	if at == 0 {
		return 0
	}
	return max(0, f.Now.Sub(time.UnixMilli(int64(1000*at))))
}

func etcd(f Facts) Part {
	p := Part{Kind: Etcd, Health: Unknown, Because: "the API server's checks cannot be read"}
	if f.Err != nil {
		p.Because = "the API server does not answer"
		return p
	}
	if ok, read := f.Checks["etcd"]; read {
		p.Health, p.Because = OK, "the API server's check etcd passes"
		if !ok {
			p.Health, p.Because = Down, "the API server's check etcd fails"
		}
	}
	if n, ok := f.Metrics["apiserver_resource_objects"]; ok {
		p.Load = fmt.Sprintf("%g objects", n)
	} else if n, ok := f.Metrics["apiserver_storage_objects"]; ok {
		p.Load = fmt.Sprintf("%g objects", n)
	}
	return p
}

// leaseOf finds the lease that the holders of a role renew.
func leaseOf(f Facts, name string) *coordinationv1.Lease {
	for i := range f.Leases.Items {
		if l := &f.Leases.Items[i]; l.Namespace == "kube-system" && l.Name == name {
			return l
		}
	}
	return nil
}

// byLease concludes from a lease; false when there is none that somebody holds.
func byLease(f Facts, p *Part) bool {
	l := leaseOf(f, p.Kind)
	if l == nil || l.Spec.RenewTime == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return false
	}
	since := f.Now.Sub(l.Spec.RenewTime.Time)
	p.Health, p.Because = OK, fmt.Sprintf("%s renewed its lease %s ago", *l.Spec.HolderIdentity, ago(since))
	if since > leaseSilence {
		p.Health, p.Because = Down, fmt.Sprintf("%s renewed its lease last %s ago", *l.Spec.HolderIdentity, ago(since))
	}
	return true
}

func ago(d time.Duration) string {
	if d < time.Second {
		return "less than a second"
	}
	return age(d)
}

// scheduler concludes from its lease, its port, or its work: whether Pods wait that it said nothing
// of.
func scheduler(f Facts) Part {
	p := Part{Kind: Scheduler, Health: Unknown, Because: "no lease, and its port was not asked"}
	if f.Err != nil {
		p.Because = "the API server does not answer"
		return p
	}
	waiting, silent, placed := schedulerWork(f)
	if f.Pods.Err == nil {
		p.Load = fmt.Sprintf("%d Pods without a node", waiting)
	}
	switch a := f.SchedulerHealth; {
	case byLease(f, &p):
	case a != nil && a.OK:
		p.Health, p.Because = OK, a.Address+" answers: "+a.Text
	case a != nil:
		p.Health, p.Because = Down, a.Address+": "+a.Text
	case f.Pods.Err == nil && silent == "" && placed > 0:
		p.Health, p.Because = OK, fmt.Sprintf("it has judged every Pod, %d were placed", placed)
	}
	if silent != "" && p.Health != OK {
		p.Health, p.Because = Down, "it says nothing of Pod "+silent
	}
	return p
}

// schedulerWork counts Pods that wait and that were placed, and names one that nobody has tried to
// schedule.
func schedulerWork(f Facts) (waiting int, silent string, placed int) {
	for i := range f.Pods.Items {
		p := &f.Pods.Items[i]
		judged := slices.ContainsFunc(p.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		switch {
		case p.Spec.NodeName != "":
			placed++
		case p.DeletionTimestamp == nil:
			waiting++
			if !judged && p.Spec.SchedulerName == corev1.DefaultSchedulerName && f.Now.Sub(p.CreationTimestamp.Time) >
				workSilence {
				silent = p.Namespace + "/" + p.Name
			}
		}
	}
	return waiting, silent, placed
}

// controllers conclude from their lease, or from whether objects wait to be looked at.
func controllers(f Facts) Part {
	p := Part{Kind: Controllers, Health: Unknown, Because: "no lease, and no object that they work on"}
	if f.Err != nil {
		p.Because = "the API server does not answer"
		return p
	}
	behind := ""
	for _, w := range f.Workloads.Items {
		if w.Observed < w.Generation && f.Now.Sub(w.Changed) > workSilence {
			behind = w.Name
		}
	}
	p.Load = fmt.Sprintf("%d workloads", len(f.Workloads.Items))
	switch {
	case byLease(f, &p):
	case behind != "":
		p.Health, p.Because = Down, "nobody has looked at the last change of "+behind
	case f.Workloads.Err != nil:
		p.Because, p.Load = "no lease, and workloads cannot be read: "+f.Workloads.Err.Error(), ""
	case len(f.Workloads.Items) > 0:
		p.Health, p.Because = OK, fmt.Sprintf(
			"the last change of each of %d workloads was observed",
			len(f.Workloads.Items),
		)
	}
	return p
}

func kubelet(f Facts, n Node) Part {
	p := Part{Kind: Kubelet, Node: n.Node.Name, Version: n.Node.Status.NodeInfo.KubeletVersion, Health: Unknown,
		Because: "the node has reported nothing yet", Age: started(f, n.Metrics)}
	pods := 0
	for i := range f.Pods.Items {
		if q := &f.Pods.Items[i]; q.Spec.NodeName == n.Node.Name && !pod.IsTerminal(q) {
			pods++
		}
	}
	if f.Pods.Err == nil {
		p.Load = fmt.Sprintf("%d of %d Pods", pods, n.Node.Status.Allocatable.Pods().Value())
	}
	if c := nodeutil.ReadyCondition(&n.Node); c != nil {
		p.Health, p.Because = OK, "the node is Ready"
		if c.Status != corev1.ConditionTrue {
			p.Health, p.Because = Down, "the node's Ready is "+string(c.Status)+": "+c.Message
		}
	}
	for i := range f.Leases.Items {
		l := &f.Leases.Items[i]
		if l.Namespace != corev1.NamespaceNodeLease || l.Name != n.Node.Name || l.Spec.RenewTime == nil {
			continue
		}
		since := f.Now.Sub(l.Spec.RenewTime.Time)
		p.Because += fmt.Sprintf(", its lease was renewed %s ago", ago(since))
		if since > nodeSilence {
			p.Health = Down
		}
	}
	return p
}

// containerRuntime is as its kubelet says: a node whose runtime does not answer is not Ready.
func containerRuntime(f Facts, n Node) Part {
	k := kubelet(f, n)
	name, version, _ := strings.Cut(n.Node.Status.NodeInfo.ContainerRuntimeVersion, "://")
	p := Part{Kind: Runtime, Node: n.Node.Name, Health: k.Health, Because: "its kubelet reports it ready",
		Version: strings.TrimSpace(name + " " + version)}
	if k.Health != OK {
		p.Health, p.Because = Unknown, "its kubelet is "+string(k.Health)
	}
	if c := nodeutil.ReadyCondition(&n.Node); c != nil && c.Status == corev1.ConditionFalse && strings.Contains(
		strings.ToLower(c.Message), "runtime") {
		p.Health, p.Because = Down, c.Message
	}
	if running, ok := n.Metrics["kubelet_running_containers"]; ok {
		p.Load = fmt.Sprintf("%g containers", running)
	}
	return p
}

func proxy(n Node) Part {
	p := Part{Kind: Proxy, Node: n.Node.Name, Health: Unknown, Because: "its health port was not reached from here"}
	if a := n.Proxy; a != nil {
		p.Health, p.Because = Down, a.Address+": "+a.Text
		if a.OK {
			p.Health, p.Because = OK, a.Address+" answers: "+a.Text
		}
	}
	return p
}

func dns(f Facts) Part {
	p := Part{Kind: DNS, Health: Unknown, Because: "it was not reached from here", Version: f.DNSVersion}
	switch a := f.DNS; {
	case f.Err != nil:
		p.Because = "the API server does not answer"
	case a != nil && a.OK:
		p.Health, p.Because = OK, a.Address+" answers: "+a.Text
	case f.DNSEndpoints > 0:
		p.Health, p.Because = OK, fmt.Sprintf("%d ready endpoints of Service kube-dns", f.DNSEndpoints)
	case a != nil:
		p.Because = a.Address + ": " + a.Text
	}
	return p
}

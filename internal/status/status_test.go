package status

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func lease(namespace, name string, renewed time.Duration) coordinationv1.Lease {
	at := metav1.NewMicroTime(now.Add(-renewed))
	return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(name + "_1"), RenewTime: &at}}
}

func node(name string, ready corev1.ConditionStatus, message string) Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.ContainerRuntimeVersion = "v1.37.2", "containerd://2.4.2"
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: message}}
	return Node{Node: n, Metrics: map[string]float64{"kubelet_running_containers": 3,
		"process_start_time_seconds": float64(
			now.Add(-90 * time.Minute).Unix(),
		)}, Proxy: &Answer{"192.0.2.1:10256", true, "HTTP 200"}}
}

// healthy is a cluster in which all is well.
func healthy() Facts {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	}
	return Facts{Now: now, Server: "https://192.0.2.1:6443", Version: "v1.37.2",
		Checks: map[string]bool{"ping": true, "etcd": true},
		Metrics: map[string]float64{"apiserver_current_inflight_requests": 2, "apiserver_longrunning_requests": 40,
			"process_start_time_seconds": float64(now.Add(-50 * time.Hour).Unix()), "apiserver_resource_objects": 123},
		Leases: Read[coordinationv1.Lease]{Items: []coordinationv1.Lease{lease("kube-system", Scheduler, 2*time.Second),
			lease("kube-system", Controllers, 3*time.Second), lease("kube-node-lease", "n1", 4*time.Second)}},
		Nodes: Read[Node]{Items: []Node{node("n1", corev1.ConditionTrue, "")}},
		Pods:  Read[corev1.Pod]{Items: []corev1.Pod{pod}},
		DNS:   &Answer{"10.96.0.10:53", true, "kubernetes.default.svc.cluster.local. is 10.96.0.1"},
	}
}

// The map has the eight processes, each with its state, age, load and version, and who talks to
// whom.
//
// row: TOO-14
func TestTheMapOfEightProcesses(t *testing.T) {
	m := Draw(healthy())
	var got strings.Builder
	for _, p := range m.Parts {
		fmt.Fprintf(&got, "%s: %s %s %s, %s. %s\n", p.Name(), p.Health, p.Version, age(p.Age), p.Load, p.Because)
	}
	const want = `kube-apiserver: ok v1.37.2 2d2h, 2 requests in flight, 40 watches and other long ones. /readyz: 2 checks pass
etcd: ok  , 123 objects. the API server's check etcd passes
kube-scheduler: ok  , 0 Pods without a node. kube-scheduler_1 renewed its lease 2s ago
kube-controller-manager: ok  , 0 workloads. kube-controller-manager_1 renewed its lease 3s ago
kubelet on n1: ok v1.37.2 1h30m, 1 of 110 Pods. the node is Ready, its lease was renewed 4s ago
container runtime on n1: ok containerd 2.4.2 , 3 containers. its kubelet reports it ready
kube-proxy on n1: ok  , . 192.0.2.1:10256 answers: HTTP 200
DNS: ok  , . 10.96.0.10:53 answers: kubernetes.default.svc.cluster.local. is 10.96.0.1
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	var links []string
	for _, l := range m.Links {
		links = append(links, fmt.Sprintf("%s → %s %s", l.From, l.To, l.Health))
	}
	if fmt.Sprint(
		links,
	) != "[kube-apiserver → etcd ok kube-scheduler → kube-apiserver ok kube-controller-manager → kube-apiserver ok "+
		"kubelet on n1 → kube-apiserver ok kube-apiserver → kubelet on n1 ok kubelet on n1 → container runtime on "+
		"n1 ok kube-proxy on n1 → kube-apiserver ok DNS → kube-apiserver ok]" {
		t.Errorf("links %v", links)
	}
}

// What fails is down, with the reason; what could not be seen is unknown, never ok.
//
// row: TOO-14
func TestHealthOfParts(t *testing.T) {
	waiting := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late",
		CreationTimestamp: metav1.NewTime(
			now.Add(-16 * time.Second),
		)}, Spec: corev1.PodSpec{SchedulerName: "default-scheduler"}}
	noLeases := func(f *Facts) { f.Leases.Items = f.Leases.Items[2:] }
	for _, v := range []struct {
		name    string
		change  func(*Facts)
		part    string
		health  Health
		because string
	}{
		{"no API server", func(f *Facts) { f.Err = errors.New("connection refused") }, APIServer, Down,
			"connection refused"},
		{"store behind it", func(f *Facts) { f.Err = errors.New("connection refused") }, Etcd, Unknown,
			"does not answer"},
		{"a check fails", func(f *Facts) { f.Checks["etcd"] = false }, APIServer, Down, "/readyz fails: etcd"},
		{"etcd fails", func(f *Facts) { f.Checks["etcd"] = false }, Etcd, Down, "fails"},
		{"checks may not be read", func(f *Facts) { f.Checks = nil }, Etcd, Unknown, "cannot be read"},
		{"old lease", func(f *Facts) { f.Leases.Items[0] = lease("kube-system", Scheduler, 21*time.Second) },
			Scheduler, Down, "last 21s ago"},
		{"lease just in time", func(f *Facts) { f.Leases.Items[0] = lease("kube-system", Scheduler, 20*time.Second) },
			Scheduler, OK, "20s ago"},
		{"scheduler's port", func(f *Facts) {
			noLeases(f)
			f.SchedulerHealth = &Answer{"127.0.0.1:10259", true,
				"HTTP 200"}
		}, Scheduler, OK, "127.0.0.1:10259 answers"},
		{"scheduler's port refuses", func(f *Facts) {
			noLeases(f)
			f.SchedulerHealth = &Answer{"127.0.0.1:10259",
				false, "refused"}
		}, Scheduler, Down, "refused"},
		{"scheduler by its work", noLeases, Scheduler, OK, "it has judged every Pod, 1 were placed"},
		{"scheduler is silent", func(f *Facts) { noLeases(f); f.Pods.Items = append(f.Pods.Items, waiting) },
			Scheduler, Down, "nothing of Pod default/late"},
		{"scheduler of no Pods", func(f *Facts) { noLeases(f); f.Pods.Items = nil }, Scheduler, Unknown, "no lease"},
		{"Pods may not be read",
			func(f *Facts) { noLeases(f); f.Pods = Read[corev1.Pod]{Err: errors.New("forbidden")} },
			Scheduler, Unknown, "no lease"},
		{"controllers by their work", func(f *Facts) {
			noLeases(f)
			f.Workloads.Items = []Observed{{"deployment a/b",
				2, 2, now}}
		}, Controllers, OK, "each of 1 workloads"},
		{"controllers are silent", func(f *Facts) {
			noLeases(f)
			f.Workloads.Items = []Observed{{"deployment a/b", 2, 1, now.Add(-time.Minute)}}
		}, Controllers, Down, "last change of deployment a/b"},
		{"controllers are soon", func(f *Facts) {
			noLeases(f)
			f.Workloads.Items = []Observed{{"deployment a/b", 2, 1, now.Add(-time.Second)}}
		}, Controllers, OK, ""},
		{"controllers unseen", noLeases, Controllers, Unknown, "no lease"},
		{"node not ready", func(f *Facts) {
			f.Nodes.Items[0] = node("n1", corev1.ConditionUnknown, "Kubelet stopped "+
				"posting")
		}, "kubelet on n1", Down, "Kubelet stopped posting"},
		{"node lease is old", func(f *Facts) { f.Leases.Items[2] = lease("kube-node-lease", "n1", time.Minute) },
			"kubelet on n1", Down, "renewed 1m0s ago"},
		{"runtime of a silent kubelet", func(f *Facts) { f.Nodes.Items[0] = node("n1", corev1.ConditionUnknown, "") },
			"container runtime on n1", Unknown, "its kubelet is down"},
		{"runtime down", func(f *Facts) {
			f.Nodes.Items[0] = node("n1", corev1.ConditionFalse, "container runtime "+
				"is down")
		}, "container runtime on n1", Down, "container runtime is down"},
		{"proxy down", func(f *Facts) { f.Nodes.Items[0].Proxy = &Answer{"192.0.2.1:10256", false, "HTTP 503"} },
			"kube-proxy on n1", Down, "HTTP 503"},
		{"proxy unseen", func(f *Facts) { f.Nodes.Items[0].Proxy = nil }, "kube-proxy on n1", Unknown, "not reached"},
		{"nodes may not be read", func(f *Facts) { f.Nodes = Read[Node]{Err: errors.New("nodes is forbidden")} },
			Kubelet, Unknown, "nodes is forbidden"},
		{"no nodes", func(f *Facts) { f.Nodes.Items = nil }, Kubelet, Unknown, "no node"},
		{"names by endpoints", func(f *Facts) { f.DNS, f.DNSEndpoints = nil, 2 }, DNS, OK, "2 ready endpoints"},
		{"names unseen", func(f *Facts) { f.DNS = nil }, DNS, Unknown, "not reached"},
	} {
		f := healthy()
		v.change(&f)
		p, ok := Draw(f).Find(v.part)
		if !ok || p.Health != v.health || !strings.Contains(p.Because, v.because) {
			t.Errorf(
				"%s: %s is %s because %q, want %s because %q",
				v.name,
				v.part,
				p.Health,
				p.Because,
				v.health,
				v.because,
			)
		}
	}
}

// A link is down when an end is, and unknown when one is unknown; nodes are not joined crosswise.
//
// row: TOO-14
func TestLinks(t *testing.T) {
	f := healthy()
	f.Nodes.Items = append(f.Nodes.Items, node("n2", corev1.ConditionUnknown, "silent"))
	f.DNS = nil
	health := map[string]Health{}
	for _, l := range Draw(f).Links {
		health[l.From+" → "+l.To] = l.Health
	}
	for link, want := range map[string]Health{"kubelet on n1 → kube-apiserver": OK,
		"kubelet on n2 → kube-apiserver": Down,
		"DNS → kube-apiserver":           Unknown, "kubelet on n1 → container runtime on n2": ""} {
		if health[link] != want {
			t.Errorf("%s is %q, want %q", link, health[link], want)
		}
	}
}

// The drawing is well-formed XML whatever names and messages hold, and has every part.
//
// row: TOO-14
func TestTheDrawing(t *testing.T) {
	f := healthy()
	f.Nodes.Items = []Node{node("n1", corev1.ConditionFalse, `<script>&"'`), node("n2", corev1.ConditionTrue, "")}
	m := Draw(f)
	var b strings.Builder
	if err := m.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	texts := ""
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("got %v\n%s", err, b.String())
		}
		if text, ok := token.(xml.CharData); ok {
			texts += string(text) + "\n"
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "script" {
			t.Error("a message became an element")
		}
	}
	for _, p := range m.Parts {
		if !strings.Contains(texts, marks[p.Health]+" "+p.Name()) {
			t.Errorf("the drawing lacks %s", p.Name())
		}
	}
	at, width, height := m.place()
	for name, xy := range at {
		if xy[0] < 0 || xy[1] < 0 || xy[0]+boxWidth > width || xy[1]+boxHeight > height {
			t.Errorf("%s is drawn at %v, outside of %d × %d", name, xy, width, height)
		}
		for other, uv := range at {
			if name != other && abs(xy[0]-uv[0]) < boxWidth && abs(xy[1]-uv[1]) < boxHeight {
				t.Errorf("%s and %s lie upon each other", name, other)
			}
		}
	}
}

func abs(n int) int { return max(n, -n) }

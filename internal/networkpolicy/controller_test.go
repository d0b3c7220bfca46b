package networkpolicy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/expect"
)

// fixture is a controller with a fake API and a fake kernel.
type fixture struct {
	t          *testing.T
	client     *fake.Clientset
	nft        *knftables.Fake
	controller *Controller
	socket     string
	watches    chan string
	facts      recordingSink

	mu     sync.Mutex
	leases []Lease
}

// recordingSink records the journal's facts, a line each.
type recordingSink chan string

func (f recordingSink) Put(ref journal.Ref, fact journal.Fact) {
	c, ok := fact.(journal.PoliciesChanged)
	f <- fmt.Sprintf("%s %s %s: %v %v %v", ref.Namespace, ref.Name, ref.UID, ok, c.Ingress, c.Egress)
}

func newFixture(t *testing.T) *fixture {
	b := &fixture{t: t, client: fake.NewClientset(), nft: knftables.NewFake(knftables.InetFamily, "gantry_policy_test"),
		socket: filepath.Join(t.TempDir(), "gate"), watches: make(chan string, 16), facts: make(recordingSink, 16)}
	b.client.PrependWatchReactor("*", func(a k8stesting.Action) (bool, watch.Interface, error) {
		var from metav1.ListOptions // without it, what is made between the list and the watch is lost
		if asked, ok := a.(k8stesting.WatchActionImpl); ok {
			from = asked.ListOptions
		}
		w, err := b.client.Tracker().Watch(a.GetResource(), a.GetNamespace(), from)
		b.watches <- a.GetResource().Resource
		return true, w, err
	})
	gate, err := net.Listen("unix", b.socket)
	if err != nil {
		t.Fatal(err)
	}
	b.controller, err = New(Options{Client: b.client, Table: NewWithInterface(b.nft), PodListener: gate,
		Journal: b.facts, MinSyncPeriod: time.Millisecond, Leases: func() ([]Lease, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return append([]Lease(nil), b.leases...), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *fixture) run() {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() { _ = b.controller.Run(ctx); close(done) }()
	b.t.Cleanup(func() { cancel(); <-done })
	<-b.watches
	<-b.controller.Synced()
}

func (b *fixture) policy(name string) {
	b.t.Helper()
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	if _, err := b.client.NetworkingV1().NetworkPolicies("x").Create(b.t.Context(), p, metav1.CreateOptions{}); err !=
		nil {
		b.t.Fatal(err)
	}
}

func (b *fixture) pod(name, uid string, labels map[string]string) {
	b.t.Helper()
	if _, err := b.client.CoreV1().Pods("x").Create(b.t.Context(),
		&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: types.UID(uid), Labels: labels}},
		metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// start leases an address and asks for admission, as the CNI plugin does.
func (b *fixture) start(pod, uid, ip string) (answer chan string) {
	b.t.Helper()
	l := Lease{Pod: "x/" + pod, UID: uid, IPs: []netip.Addr{netip.MustParseAddr(ip)}}
	b.mu.Lock()
	b.leases = append(b.leases, l)
	b.mu.Unlock()
	answer = make(chan string, 1)
	go func() {
		c, err := net.Dial("unix", b.socket)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer c.Close()
		_ = json.NewEncoder(c).Encode(map[string]any{"pod": l.Pod, "uid": l.UID, "ips": l.IPs})
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			line = err.Error()
		}
		answer <- strings.TrimSpace(line)
	}()
	return answer
}

func (b *fixture) dump() string {
	return b.nft.Dump()
}

func (b *fixture) until(what, text string, there bool) {
	b.t.Helper()
	for end := time.Now().Add(expect.Patience(time.Minute)); ; time.Sleep(time.Millisecond) {
		if strings.Contains(b.dump(), text) == there {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("not in time: %s\n%s", what, b.dump())
		}
	}
}

func TestNothingIsWatchedOrMadeWithoutPolicies(t *testing.T) {
	b := newFixture(t)
	b.run()
	if got := <-b.start("web", "1", "10.0.0.2"); got != "ok" {
		t.Errorf("the gate says %q, want ok", got)
	}
	for _, a := range b.client.Actions() {
		if a.GetResource().Resource != "networkpolicies" {
			t.Errorf("asks for %s, want networkpolicies", a.GetResource().Resource)
		}
	}
	if d := b.dump(); strings.Contains(d, "chain") {
		t.Errorf("made\n%s", d)
	}
}

func TestPodIsAdmittedOnceItsRulesAreInForce(t *testing.T) {
	b := newFixture(t)
	b.policy("deny")
	b.pod("web", "1", map[string]string{"app": "web"})
	b.pod("other", "2", nil)
	b.run()
	if got := <-b.start("web", "1", "10.0.0.2"); got != "ok" {
		t.Errorf("the gate says %q, want ok", got)
	}
	if d := b.dump(); !strings.Contains(d, "10.0.0.2 : goto ingress-") {
		t.Errorf("web is let in without its rules:\n%s", d)
	}
	if got := <-b.start("other", "2", "10.0.0.3"); got != "ok" {
		t.Errorf("the gate says %q, want ok", got)
	}
	if d := b.dump(); strings.Contains(d, "10.0.0.3") {
		t.Errorf("no policy selects other:\n%s", d)
	}
}

// An earlier Pod of the same name had other labels: its successor waits until it is in the cache
// itself.
func TestRecreatedPodWaitsForItsOwnLabels(t *testing.T) {
	b := newFixture(t)
	b.policy("deny")
	b.pod("web", "old", nil)
	b.run()
	<-b.watches
	<-b.watches // of Pods and namespaces
	answer := b.start("web", "new", "10.0.0.2")
	b.until("until it is seen, nothing may reach it", "10.0.0.2 : goto egress-", true)
	select {
	case got := <-answer:
		t.Fatalf("let in as its predecessor: %s", got)
	default:
	}
	if err := b.client.CoreV1().Pods("x").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.pod("web", "new", map[string]string{"app": "web"})
	if got := <-answer; got != "ok" {
		t.Errorf("the gate says %q, want ok", got)
	}
	b.until("it may speak", "10.0.0.2 : goto egress-", false)
	b.until("nobody may ask it", "10.0.0.2 : goto ingress-", true)
}

func TestChangesAreFollowed(t *testing.T) {
	b := newFixture(t)
	b.pod("web", "1", map[string]string{"app": "web"})
	b.run()
	<-b.start("web", "1", "10.0.0.2")
	b.policy("deny")
	b.until("the policy is in force", "10.0.0.2 : goto ingress-", true)
	if got := <-b.facts; got != "x web 1: true [deny] []" {
		t.Errorf("the journal says %s, want \"x web 1: true [deny] []\"", got)
	}
	<-b.watches
	<-b.watches
	if _, err := b.client.CoreV1().Pods("x").Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app":"else"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.until("its label went", "10.0.0.2", false)
	if got := <-b.facts; got != "x web 1: true [] []" {
		t.Errorf("the journal says %s, want \"x web 1: true [] []\"", got)
	}
	if err := b.client.NetworkingV1().NetworkPolicies("x").Delete(t.Context(), "deny", metav1.DeleteOptions{}); err !=
		nil {
		t.Fatal(err)
	}
	b.until("no table without policies", "chain", false)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(b.controller.Collectors()...)
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, f := range all {
		if h := f.Metric[0].Histogram; h != nil {
			got[f.GetName()] = h.GetSampleCount()
		}
	}
	if got["gantry_network_policy_change_to_rule_seconds"] != 2 ||
		got["gantry_network_policy_gate_wait_seconds"] != 1 || got["gantry_network_policy_sync_duration_seconds"] < 3 {
		t.Errorf("figures: %v", got)
	}
}

func TestAdmissionWithoutAnAPIServer(t *testing.T) {
	b := newFixture(t)
	go b.controller.servePods(t.Context()) // policies have not been listed yet
	l, err := net.Dial("unix", b.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Write([]byte("rubbish\n")); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(l).ReadString('\n'); !strings.Contains(line,
		"what the CNI plugin says cannot be read") {
		t.Errorf("answer to rubbish: got %q, want it to contain %q", line, "what the CNI plugin says cannot be read")
	}
}

// A Pod deleted together with the last policy is not reported as unrestricted; one that stays is.
func TestAPodThatGoesWithTheLastPolicyIsNotFree(t *testing.T) {
	b := newFixture(t)
	k := b.controller
	b.policy("deny")
	for i, name := range []string{"goes", "stays"} {
		b.pod(name, name, map[string]string{"app": "web"})
		b.leases = append(b.leases,
			Lease{Pod: "x/" + name, UID: name, IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(2 + i)})}})
	}
	if err := k.watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.enforce(t.Context()); err != nil || len(k.podPolicies) != 2 {
		t.Fatalf("%v, over %v, want no error, 2 of them", err, k.podPolicies)
	}
	if err := b.client.CoreV1().Pods("x").Delete(t.Context(), "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := b.client.NetworkingV1().NetworkPolicies("x").Delete(t.Context(), "deny", metav1.DeleteOptions{}); err !=
		nil {
		t.Fatal(err)
	}
	b.leases = b.leases[1:]
	end := time.Now().Add(expect.Patience(time.Minute))
	for len(k.caches.allPolicies())+len(k.caches.pods.GetStore().List()) > 1 {
		if time.Now().After(end) {
			t.Fatal("the deletions are not seen")
		}
		time.Sleep(time.Millisecond)
	}
	if err := k.enforce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-b.facts; got != "x stays stays: true [] []" || len(b.facts) != 0 {
		t.Errorf("the journal says %s, and %d more, want \"x stays stays: true [] []\", 0", got, len(b.facts))
	}
}

package nodes

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/test/netns"
)

// client speaks to the API server from the node's network.
func (m *machine) client() kubernetes.Interface {
	m.lab.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(m.dir, "kubeconfig"))
	if err != nil {
		m.lab.t.Fatal(err)
	}
	config.Dial = func(_ context.Context, network, addr string) (c net.Conn, err error) {
		err = m.ns.Do(func(ns.NetNS) error { c, err = net.DialTimeout(network, addr, failoverTimeout); return err })
		return c, err
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		m.lab.t.Fatal(err)
	}
	return c
}

// failing: when a Pod's readiness fails, the rules of all nodes leave it, how soon is logged, and
// nothing is led there any more; it comes back.
//
// row: PRB-31
// row: PRB-15
func failing(t *testing.T, all []*machine, ips map[string]netip.AddrPort) {
	a, b := all[0], all[1]
	target := fmt.Sprintf("dnat to %s", ips["b"])
	ruled := func(m *machine) bool { return strings.Contains(m.sh("nft list ruleset"), target) }
	for _, m := range all {
		m.lab.eventually(failoverTimeout, "rules for "+target+" on "+m.name,
			func() (string, bool) { return "", ruled(m) })
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := a.client().CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=web-b"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	a.mustKubectl("", "exec", "web-b", "--", "mv", "/w/index.html", "/w/away")
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*v1.Pod); ok && !ready(p) {
			break
		}
	}
	began := time.Now()
	if ctx.Err() != nil {
		t.Fatal("web-b is ready though its page is away")
	}
	var wg sync.WaitGroup
	took := make([]time.Duration, len(all))
	for i, m := range all {
		wg.Go(func() {
			for ctx.Err() == nil {
				all, err := netns.Run(m.ns, "nft list ruleset")
				if err != nil {
					t.Error(err)
				}
				if err != nil || !strings.Contains(all, target) {
					break
				}
				time.Sleep(time.Millisecond)
			}
			took[i] = time.Since(began)
		})
	}
	wg.Wait()
	t.Logf("from the Pod's status saying that it is not ready to the rule gone from the kernel: a %s, b %s, c %s",
		took[0], took[1], took[2])
	if ctx.Err() != nil {
		t.Fatal("the rules still lead to web-b")
	}
	ip := netip.MustParseAddr(a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"))
	for _, m := range all {
		for range 10 {
			if got, err := m.fromPod("web-"+m.name, netip.AddrPortFrom(ip, 80), 2*time.Second); err != nil ||
				got == "web-b" {
				t.Errorf("from %s: got %q %v, want no error and another than %q", m.name, got, err, "web-b")
			}
		}
	}
	if got := a.mustKubectl("", "get", "pod", "web-b", "-o",
		"jsonpath={.status.containerStatuses[0].restartCount}"); got !=
		"0" {
		t.Errorf("it was restarted %s times, want 0", got)
	}
	a.mustKubectl("", "exec", "web-b", "--", "mv", "/w/away", "/w/index.html")
	b.lab.eventually(time.Minute, "traffic comes back to web-b",
		func() (string, bool) { return "", ruled(a) && ruled(b) })
}

func ready(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

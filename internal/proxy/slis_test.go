package proxy

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/proxy/nftables"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// The metrics port has kube-proxy's /healthz, which says that it serves, and /metrics/slis, which
// counts the answers.
func TestTheMetricsPortShowsItsChecks(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := rules.Settings{Family: rules.IPv4, MasqueradeBit: 14}
	table := Table{Settings: s, Kernel: nftables.NewWithInterface(knftables.NewFake(knftables.IPv4Family, "t"),
		rules.NewTableFrame(s))}
	p, err := New(Options{Client: fake.NewClientset(), Node: "n1", Tables: []Table{table}, Metrics: l})
	if err != nil {
		t.Fatal(err)
	}
	defer p.serveHTTP(t.Context())()
	for _, c := range []struct{ path, want string }{
		{"/healthz", "ok"}, {"/metrics/slis", `kubernetes_healthcheck{name="ping",type="healthz"} 1`},
	} {
		resp, err := http.Get("http://" + l.Addr().String() + c.path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %d %.300s, want 200 %s", c.path, resp.StatusCode, body, c.want)
		}
	}
}

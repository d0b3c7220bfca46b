package proxy

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/proxy"
	"github.com/gantry-project/gantry/test/expect"
)

// What somebody else does to the table is undone at once, without any change of a Service and
// without a look by the clock.
// row: NET-12
func TestOthersChangesAreUndone(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.service(func(s *v1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = v1.ServiceTypeNodePort, 30080 })
	w.endpoints(end{ip: "10.199.0.8", node: "n1"}, end{ip: "10.199.0.9", node: "n1"})
	defer w.run()()
	whole := w.list()
	chain := ""
	for line := range strings.Lines(whole) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "chain service-"); ok {
			chain, _, _ = strings.Cut("service-"+name, " ")
		}
	}
	for _, script := range []string{
		"nft delete table ip " + tableName,
		"nft flush table ip " + tableName,
		"nft flush chain ip " + tableName + " nat-prerouting",
		"nft flush chain ip " + tableName + " " + chain,
		"nft insert rule ip " + tableName + " " + chain + " counter drop",
		"nft flush map ip " + tableName + " service-ips",
		"nft delete element ip " + tableName + " cluster-ips '{ 10.96.0.10 }'",
		"nft add element ip " + tableName + " cluster-ips '{ 10.96.0.11 }'",
		"nft add chain ip " + tableName + " service-MADEBYHAND-default/web/tcp/t",
	} {
		w.sh(w.node, script)
		w.eventually("undone: "+script, func() bool { return sameLines(w.listing(), whole) })
	}
}

// listing is the table as nft prints it, empty where there is none.
func (w *fixture) listing() string {
	var out []byte
	expect.NoError(w.t, w.node.Do(func(ns.NetNS) error {
		out, _ = exec.Command("nft", "list", "table", string(w.settings.Family), tableName).Output()
		return nil
	}))
	return string(out)
}

// sameLines compares two listings whatever the order of their chains.
func sameLines(a, b string) bool {
	count := map[string]int{}
	for line := range strings.Lines(a) {
		count[line]++
	}
	for line := range strings.Lines(b) {
		count[line]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// What was done while no proxy ran is found at the start: chains with more or fewer rules than they
// should have.
func TestStartRepairsEditedRules(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.service(func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP })
	w.endpoints(end{ip: "10.199.0.8", node: "n1"}, end{ip: "10.199.0.9", node: "n1"})
	w.run()()
	whole := w.list()
	chains := 0
	for line := range strings.Lines(whole) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "chain endpoint-"); ok {
			name, _, _ = strings.Cut(name, " ")
			w.sh(w.node, fmt.Sprintf("nft flush chain ip %s endpoint-%s", tableName, name))
			chains++
		}
	}
	if chains == 0 || sameLines(w.list(), whole) {
		t.Fatalf("nothing was edited:\n%s", whole)
	}
	w.run()()
	if now := w.list(); !sameLines(now, whole) {
		t.Errorf("after a start:\n%s\nwant:\n%s", now, whole)
	}
}

// A proxy alone makes no alarm of what it does itself: after its first look it is at rest, and
// stays so after a change.
func TestOwnChangesTriggerNoRepair(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.service(nil)
	w.endpoints(end{ip: "10.199.0.8", node: "n1"})
	table := w.table()
	p, err := proxy.New(proxy.Options{Client: w.client, Node: "n1", Tables: []proxy.Table{table},
		MinSyncPeriod: time.Millisecond, Journal: w.facts})
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := w.start(ctx, p)
	<-p.Synced()
	w.endpoints(end{ip: "10.199.0.9", node: "n1"})
	for said := ""; !strings.Contains(said, "RulesChanged"); said = <-w.facts.said {
	}
	w.sh(w.node, "nft add table ip others; nft add chain ip others c; nft delete table ip others")
	w.endpoints(end{ip: "10.199.0.8", node: "n1"})
	for said := ""; !strings.Contains(said, "RulesChanged"); said = <-w.facts.said {
	}
	cancel()
	_ = <-stopped
	if ways := table.Kernel.TransactionCounts(); ways.Nft != 1 || ways.Netlink != 3 {
		t.Errorf("transactions: %+v, want the frame by nft, and the first rules and two changes by netlink", ways)
	}
}

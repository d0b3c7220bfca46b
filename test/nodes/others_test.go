package nodes

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/miekg/dns"
)

// theirs is a network of the standard CNI plugins, as a person writes it.
const theirs = `{"cniVersion": "1.0.0", "name": "theirs", "plugins": [
	{"type": "bridge", "bridge": "theirs0", "isGateway": true, "ipMasq": true, "ipMasqBackend": "nftables",
	"hairpinMode": true,
	 "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.88.0.0/24"}]],
	 "routes": [{"dst": "0.0.0.0/0"}]}},
	{"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": true}}]}`

// inPod does f in the network namespace of a Pod, found by a process in its control group.
func inPod(uid string, f func() error) error {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return err
	}
	for _, g := range groups {
		if raw, err := os.ReadFile(g); err == nil && strings.Contains(strings.ReplaceAll(string(raw), "_", "-"), uid) {
			return ns.WithNetNSPath(filepath.Join(filepath.Dir(g), "ns/net"), func(ns.NetNS) error { return f() })
		}
	}
	return fmt.Errorf("no process of Pod %s", uid)
}

// A network of somebody else's is taken as it is: Gantry makes no bridge, Services and names work
// on it, host ports are its plugin's, and it gets every address back.
func TestTheStandardPluginsNetwork(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, plugin := range []string{"bridge", "host-local", "portmap", "loopback"} {
		if _, err := os.Stat(filepath.Join(l.bin, "cni", plugin)); err != nil {
			t.Skipf("needs the standard plugins: %v", err)
		}
	}
	a := l.machine("a", 1, 1)
	conf, leases := filepath.Join(l.dir, "theirs"), filepath.Join(l.dir, "leases")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(conf, "10-theirs.conflist"), fmt.Appendf(nil, theirs, leases), 0o600); err !=
		nil {
		t.Fatal(err)
	}
	if !json.Valid(fmt.Appendf(nil, theirs, leases)) {
		t.Fatal("the configuration is no JSON")
	}
	a.up("--cni-conf-dir", conf)
	l.eventually(time.Minute, "the node is Ready", func() (string, bool) {
		out, _ := a.kubectl("", "get", "nodes", "-o",
			`jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
		return out + a.All[0].Output(), out == "True"
	})
	l.webs([]*machine{a}, service)
	a.mustKubectl(strings.NewReplacer("web-a", "door", "app: web", "app: door", "containerPort: 8080",
		"containerPort: 8080, hostPort: 8090").Replace(web("a")), "apply", "-f", "-")
	a.mustKubectl("", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
	ip := netip.MustParseAddr(a.mustKubectl("", "get", "pod", "web-a", "-o", "jsonpath={.status.podIP}"))
	if !netip.MustParsePrefix("10.88.0.0/24").Contains(ip) {
		t.Errorf("the Pod's address is %s", ip)
	}
	if out := a.sh("ip -o link show; nft list tables"); strings.Contains(out, "gxba") || !strings.Contains(out,
		"theirs0") {
		t.Errorf("links and tables beside a foreign network:\n%s", out)
	}
	l.eventually(time.Minute, "a Pod finds the Service by name and is answered", func() (string, bool) {
		server := a.mustKubectl("", "-n", "kube-system", "get", "service", "kube-dns", "-o",
			"jsonpath={.spec.clusterIP}")
		var ip, answer string
		err := inPod(a.mustKubectl("", "get", "pod", "door", "-o", "jsonpath={.metadata.uid}"), func() (err error) {
			if ip, err = resolve(server, "web.default.svc.cluster.local.", dns.TypeA); err != nil {
				return err
			}
			at, err := netip.ParseAddr(ip)
			if err != nil {
				return err
			}
			answer, err = ask(netip.AddrPortFrom(at, 80), 2*time.Second)
			return err
		})
		return fmt.Sprint(ip, answer, err), answer == "web-a"
	})
	l.eventually(failoverTimeout, "the host port answers from outside", func() (got string, ok bool) {
		err := l.router.Do(func(ns.NetNS) (err error) {
			got, err = ask(netip.MustParseAddrPort(a.ip+":8090"), 2*time.Second)
			return err
		})
		return fmt.Sprint(got, err), got == "door"
	})
	a.mustKubectl("", "delete", "pod", "--all", "--wait", "--timeout=60s")
	held := func() []string {
		files, _ := filepath.Glob(filepath.Join(leases, "theirs", "10.*"))
		return files
	}
	l.eventually(failoverTimeout, "every address is given back",
		func() (string, bool) { return fmt.Sprint(held()), len(held()) == 0 })
	end(a.All[0])
	// What the plugins made for all Pods is theirs, and stays.
	a.sh(`ip link del theirs0; nft list tables | grep cni | while read -r line; do nft delete $line; done`)
}

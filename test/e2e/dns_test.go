package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/process"
)

const namesYAML = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, clusterIP: None, ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-a, labels: {app: web}}
spec:
  hostname: one
  subdomain: web
  terminationGracePeriodSeconds: 0
  hostAliases: [{ip: 192.0.2.77, hostnames: [alias.example]}]
  containers: [{name: c, image: "docker.io/library/busybox:1.28", command: [sleep, "3600"]}]
---
apiVersion: v1
kind: Service
metadata: {name: outside}
spec: {type: ExternalName, externalName: kube-dns.kube-system.svc.cluster.local}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "docker.io/library/busybox:1.28", command: [sleep, "3600"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: onhost}
spec:
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "docker.io/library/busybox:1.28", command: [sleep, "3600"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: own}
spec:
  dnsPolicy: None
  dnsConfig: {nameservers: [10.93.0.10], searches: [kube-system.svc.cluster.local], options: [{name: ndots,
    value: "2"}, {name: edns0}]}
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "docker.io/library/busybox:1.28", command: [sleep, "3600"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: hosts}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "docker.io/library/busybox:1.28", command: [sleep, "3600"]}]
`

// Pods find Services, Pods and the API server by name and by variable, with the Service proxy and
// without, and with no upstream at all.
// row: NET-10
func TestNames(t *testing.T) {
	t.Parallel()
	for _, proxy := range []string{"true", "false"} {
		t.Run("proxy "+proxy, func(t *testing.T) {
			c := newCluster(t, "--proxy="+proxy, "--proxy-healthz-bind-address", "", "--proxy-metrics-bind-address", "",
				"--dns-metrics-bind-address", "",
				"--service-cluster-ip-range", "10.93.0.0/16", "--dns-upstream", "none")
			c.Start()
			c.importImages("docker.io/library/busybox:1.28")
			c.apply(namesYAML)
			for _, pod := range []string{"web-a", "client", "onhost", "own", "hosts"} {
				c.waitFor("pod/"+pod, "condition=Ready", time.Minute)
			}
			c.resolves(proxy == "true")
			c.appears()
		})
	}
}

func (c *cluster) runInPod(pod, script string) string {
	out, err := c.try("", "exec", pod, "--", "sh", "-c", script)
	return fmt.Sprint(out, err)
}

// resolves asks from Pods of every policy.
func (c *cluster) resolves(proxy bool) {
	c.t.Helper()
	web := c.field("pod/web-a", "{.status.podIP}")
	for _, q := range []struct{ pod, script, want string }{
		{"client", "cat /etc/resolv.conf", "search default.svc.cluster.local svc.cluster.local cluster.local"},
		{"client", "cat /etc/resolv.conf", "nameserver 10.93.0.10\noptions ndots:5\n"},
		{"client", "nslookup kubernetes.default.svc.cluster.local", "Address: 10.93.0.1\n"},
		{"client", "nslookup web.default.svc.cluster.local", "Address: " + web + "\n"},
		{"client", "nslookup one.web.default.svc.cluster.local", "Address: " + web + "\n"},
		{"client", "nslookup " + strings.ReplaceAll(web, ".", "-") + ".default.pod.cluster.local",
			"Address: " + web + "\n"},
		{"client", "nslookup -type=srv _http._tcp.web.default.svc.cluster.local",
			"8080 one.web.default.svc.cluster.local"},
		{"client", "nslookup " + web, "name = one.web.default.svc.cluster.local"},
		{"client", "nslookup outside.default.svc.cluster.local", "Address: 10.93.0.10\n"},
		{"client", "nslookup -type=cname outside.default.svc.cluster.local", "kube-dns.kube-system.svc.cluster.local"},
		{"client", "nslookup example.com", "NXDOMAIN"},
		{"client", "ping -c 1 -w 1 one.web 2>&1 | head -n 1", "PING one.web (" + web + ")"},
		{"web-a", "ping -c 1 -w 1 alias.example 2>&1 | head -n 1", "PING alias.example (192.0.2.77)"},
		{"web-a", "hostname", "one\n"},
		{"web-a", "cat /etc/hosts", web + "\tone.web.default.svc.cluster.local\tone\n"},
		{"own", "cat /etc/resolv.conf",
			"search kube-system.svc.cluster.local\nnameserver 10.93.0.10\noptions ndots:2 edns0\n"},
		{"own", "ping -c 1 -w 1 kube-dns 2>&1 | head -n 1", "PING kube-dns (10.93.0.10)"},
		{"onhost", "cat /etc/resolv.conf", "nameserver 10.93.0.10\n"},
	} {
		c.eventually(time.Minute, q.pod+": "+q.script,
			func() (string, bool) { out := c.runInPod(q.pod, q.script); return out, strings.Contains(out, q.want) })
	}
	if proxy { // the node itself asks by the Service's rules
		c.eventually(time.Minute, "a Pod on the host's network resolves", func() (string, bool) {
			out := c.runInPod("onhost", "nslookup kubernetes.default.svc.cluster.local")
			return out, strings.Contains(out, "Address: 10.93.0.1\n")
		})
	}
	node, err := os.ReadFile("/etc/resolv.conf")
	if got := c.runInPod("hosts", "cat /etc/resolv.conf"); err != nil || strings.Contains(got, "10.93.0.10") ||
		!strings.Contains(string(node), strings.SplitN(got, "\n", 2)[0]) {
		c.t.Errorf("dnsPolicy Default gives\n%swant the node's\n%s (%v)", got, node, err)
	}
}

// appears makes a Service and sees its name within a second, and takes it away again.
func (c *cluster) appears() {
	c.t.Helper()
	const ask = "nslookup late.default.svc.cluster.local >/dev/null && echo there || echo gone"
	if out := c.runInPod("client", ask); !strings.Contains(out, "gone") {
		c.t.Fatalf("before there is a Service: %s", out)
	}
	for _, step := range []struct{ args, want string }{{"create service clusterip late --tcp=80", "there"},
		{"delete service late", "gone"}} {
		c.kubectl(strings.Fields(step.args)...)
		began := time.Now()
		c.eventually(time.Minute, step.args,
			func() (string, bool) { out := c.runInPod("client", ask); return out, strings.Contains(out, step.want) })
		c.t.Logf("%s: seen after %s, with the start of a process in the Pod", step.args, time.Since(began))
	}
}

const inClusterYAML = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: view}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
---
apiVersion: v1
kind: Pod
metadata: {name: lister}
spec:
  restartPolicy: OnFailure
  containers: [{name: c, image: "docker.io/test/podtools:1", command: [list]}]
---
apiVersion: v1
kind: Service
metadata: {name: management}
spec: {selector: {app: management}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: management, labels: {app: management}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "docker.io/test/podtools:1", command: [register]}]
`

// The one-liners of the documents, unchanged.
const exampleE25 = `
apiVersion: v1
kind: Pod
metadata: {name: registers}
spec:
  terminationGracePeriodSeconds: 0
  initContainers:
  - name: wait
    image: docker.io/test/podtools:1
    command: [bash, -c, "for i in {1..100}; do sleep 1; if nslookup myservice; then exit 0; fi; done; exit 1"]
  - name: register
    image: docker.io/test/podtools:1
    command: [bash, -c, "curl -X POST http://$MANAGEMENT_SERVICE_HOST:$MANAGEMENT_SERVICE_PORT/register -d
      'instance=$(<POD_NAME>)&ip=$(<POD_IP>)'"]
  containers: [{name: c, image: "docker.io/test/podtools:1", command: [sleep, "3600"]}]
`

// A program with client-go's in-cluster configuration lists Pods from inside a Pod; the documents'
// one-liners wait by name and register by variables.
// row: NET-11
func TestInClusterClients(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--proxy-healthz-bind-address", "", "--proxy-metrics-bind-address", "",
		"--dns-metrics-bind-address", "", "--service-cluster-ip-range", "10.94.0.0/16")
	c.Start()
	c.podtools()
	c.apply(inClusterYAML)
	c.waitFor("pod/lister", "jsonpath={.status.phase}=Succeeded", time.Minute)
	if out := c.kubectl("logs", "lister"); !strings.Contains(out, "lister\n") || !strings.Contains(out,
		"server v1.37") {
		t.Errorf("client-go in a Pod says\n%s", out)
	}
	c.waitFor("pod/management", "condition=Ready", time.Minute)
	c.apply(exampleE25)
	c.eventually(time.Minute, "the first init container asks in vain while there is no Service myservice",
		func() (string, bool) {
			out, _ := c.try("", "logs", "registers", "-c", "wait")
			return out, strings.Contains(out, "lookup myservice on 10.94.0.10:53: no such host")
		})
	c.apply(exampleE22)
	c.waitFor("pod/registers", "condition=Ready", 2*time.Minute)
	if out := c.kubectl("logs", "management"); !strings.Contains(out,
		"POST /register instance=$(<POD_NAME>)&ip=$(<POD_IP>)") {
		t.Errorf("the registration is not there:\n%s", out)
	}
}

// podtools builds the programs of test/dns/podtools into an image and imports it.
func (c *cluster) podtools() {
	c.t.Helper()
	dir := c.t.TempDir()
	program := filepath.Join(dir, "podtools")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "../dns/podtools")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		c.t.Fatalf("build podtools: %v\n%s", err, out)
	}
	body, err := os.ReadFile(program)
	if err != nil {
		c.t.Fatal(err)
	}
	files := []images.File{{Path: "usr/local/bin/podtools", Mode: 0o755, Body: body}}
	for _, name := range []string{"list", "nslookup", "curl", "register"} {
		files = append(files, images.File{Path: "usr/local/bin/" + name, Mode: 0o777, Link: "podtools"})
	}
	files = append(files, c.bash()...)
	archive := filepath.Join(dir, "image.tar")
	if err := images.Archive(archive, map[string]images.Make{"docker.io/test/podtools:1": func() (ggcr.Image, error) {
		base, err := images.Busybox()
		if err != nil {
			return nil, err
		}
		return images.WithLayer(base, files)
	}}); err != nil {
		c.t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(c.Bin, "gantry"), "image", "import", "--data-dir", c.Dir,
		archive).CombinedOutput(); err != nil {
		c.t.Fatalf("gantry image import: %v\n%s", err, out)
	}
}

// bash is the host's shell with its libraries: the one-liners need more than busybox's, whose
// nslookup moreover fails when one search path has no answer.
func (c *cluster) bash() []images.File {
	c.t.Helper()
	at, err := exec.LookPath("bash")
	if err != nil {
		c.t.Skip("needs bash on this machine")
	}
	needs, err := exec.Command("ldd", at).Output()
	if err != nil {
		c.t.Skipf("libraries of %s: %v", at, err)
	}
	var out []images.File
	for _, path := range append(strings.Fields(string(needs)), at) {
		if !strings.HasPrefix(path, "/") {
			continue
		}
		body, err := os.ReadFile(path)
		if err != nil {
			c.t.Fatal(err)
		}
		if path == at {
			path = "/bin/bash"
		}
		out = append(out, images.File{Path: path[1:], Mode: 0o755, Body: body})
	}
	return out
}

const aloneYAML = `
apiVersion: v1
kind: Pod
metadata: {name: asks}
spec:
  dnsPolicy: None
  dnsConfig: {nameservers: [10.95.0.10], searches: [default.svc.cluster.local]}
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "docker.io/library/busybox:1.28", command: [sleep, "3600"]}]
`

// `gantry dns` works alone, by a kubeconfig: it gives the link its address, is published, and takes
// the address off at the end.
func TestDNSAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--dns=false", "--proxy=false", "--service-cluster-ip-range", "10.95.0.0/16")
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.apply(aloneYAML)
	c.waitFor("pod/asks", "condition=Ready", time.Minute)
	ask := func() string { return c.runInPod("asks", "nslookup kubernetes.default.svc.cluster.local") }
	if out := ask(); strings.Contains(out, "10.95.0.1\n") {
		t.Fatalf("answered without a DNS server:\n%s", out)
	}
	bridge := c.Flag("--bridge")
	gateway := strings.Replace(c.Flag("--pod-cidr"), ".0.0/16", ".0.1", 1)
	cmd := exec.Command(filepath.Join(c.Bin, "gantry"), "dns", "--kubeconfig", c.Kubeconfig, "--cluster-dns",
		"10.95.0.10",
		"--link", bridge, "--bind-address", gateway,
		"--hostname-override", "node-1", "--upstream", "none", "--metrics-bind-address", "")
	p, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	c.eventually(time.Minute, "the Pod resolves",
		func() (string, bool) { out := ask(); return out, strings.Contains(out, "Address: 10.95.0.1\n") })
	c.eventually(time.Minute, "it is published", func() (string, bool) {
		out, _ := c.try("", "-n", "kube-system", "get", "service/kube-dns", "endpointslice/kube-dns-node-1", "-o",
			"jsonpath={.items[*].spec.clusterIP} {.items[*].endpoints[0].addresses[0]} "+
				"{.items[*].metadata.ownerReferences[0].kind}")
		return out, out == "10.95.0.10 "+gateway+" Node"
	})
	if err := p.End(time.Minute); err != nil {
		t.Error(p.Explain(fmt.Errorf("gantry dns: %w", err)))
	}
	if out, err := exec.Command("ip", "addr", "show", bridge).CombinedOutput(); err != nil ||
		strings.Contains(string(out), "10.95.0.10") {
		t.Errorf("the address stays on the link: %v\n%s", err, out)
	}
}

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/up"
)

// A web server, a database and a static Go program as their users run them: probes, settings from a
// ConfigMap, logs, exec, port-forward, a rolling stop that loses no request. Then examples, the
// words of kubectl, and a static Pod, on the same cluster, side by side.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := kubeletFile(t, dir)
	c := newCluster(t, "--kubelet-config", config, "--node-name", "cp-1")
	c.Start()
	c.importImages("docker.io/library/busybox:1.28", "docker.io/library/nginx:latest", "docker.io/library/redis:latest",
		"registry.k8s.io/e2e-test-images/agnhost:2.63", "registry.k8s.io/etcd:3.5.13-0")
	// for alpine:latest, which is pulled each time; other content than busybox, which would have to
	// be vouched for too
	registry, err := images.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	if err := errors.Join(registry.Push("library/alpine:latest", images.NonRoot),
		registry.Mirror(filepath.Join(c.Dir, "containerd/certs.d"), "docker.io")); err != nil {
		t.Fatal(err)
	}
	c.importUnder("registry.k8s.io/e2e-test-images/agnhost:2.63", "ghcr.io/acme/app:1.4.2", "my-org/api:1.4.2")
	c.eventually(time.Minute, "service account", func() (string, bool) {
		out, err := c.try("", "get", "serviceaccount", "default")
		return out, err == nil
	})
	var together sync.WaitGroup
	for name, run := range map[string]func(*cluster){
		"nginx": nginx, "redis": redis, "rolling stop of a Go program": rollingStop,
		"E-08 and E-11 three probes": threeProbes, "E-10 static etcd": func(c *cluster) { staticEtcd(c, dir) },
		"E-23 Deployment with sidecar": sidecarDeployment, "E-24 Job with sidecar": sidecarJob,
		"words of kubectl get": checkMessages, "describe of init containers": describeInit,
		"a crash loop is looked into": crashLoop, "debug": debug, "one Pod, one network": oneNetwork,
	} {
		together.Go(func() { t.Run(name, func(t *testing.T) { run(c.forSubtest(t)) }) })
	}
	together.Wait()
}

// importUnder brings an image in under other names, with the test server's answer to everything as
// its command.
func (c *cluster) importUnder(from string, names ...string) {
	c.t.Helper()
	server := func() (ggcr.Image, error) {
		img, err := images.Standard()[from]()
		if err != nil {
			return nil, err
		}
		return images.WithConfig(img, ggcr.Config{Entrypoint: []string{"/agnhost", "netexec"}})
	}
	tags := map[string]images.Make{}
	for _, n := range names {
		tags[n] = server
	}
	archive := filepath.Join(c.t.TempDir(), "images.tar")
	if err := images.Archive(archive, tags); err != nil {
		c.t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(c.Bin, "gantry"), "image", "import", "--data-dir", c.Dir,
		archive).CombinedOutput(); err != nil {
		c.t.Fatalf("gantry image import: %v\n%s", err, out)
	}
}

func nginx(c *cluster) {
	c.kubectl("create", "configmap", "site", "--from-literal=index.html=<h1>Hello from a ConfigMap</h1>",
		"--from-literal=extra.conf=server { listen 8080; location = /up { return 204; } }")
	c.apply(nginxYAML)
	c.waitFor("pod/site", "condition=Ready", time.Minute)
	port := up.FreePort(c.t)
	forward := exec.Command("kubectl", "--kubeconfig", c.Kubeconfig, "port-forward", "pod/site",
		fmt.Sprintf("%d:80", port))
	if err := forward.Start(); err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = forward.Process.Kill(); _ = forward.Wait() }()
	c.eventually(time.Minute, "page through port-forward", func() (string, bool) {
		out, err := get(fmt.Sprintf("http://127.0.0.1:%d/", port))
		return fmt.Sprint(out, err), err == nil && out == "<h1>Hello from a ConfigMap</h1>"
	})
	c.eventually(time.Minute, "access log", func() (string, bool) {
		out := c.kubectl("logs", "site")
		return out, strings.Contains(out, `"GET / HTTP/1.1" 200`)
	})
	c.kubectl("exec", "site", "--", "nginx", "-s", "reload")
	c.kubectl("delete", "pod", "site") // QUIT is nginx's graceful stop; its grace of 30 s is not used up
}

func redis(c *cluster) {
	c.kubectl("create", "configmap", "redis",
		"--from-literal=redis.conf=appendonly yes\ndir /data\nprotected-mode no\nmaxmemory 32mb\n")
	c.apply(redisYAML)
	c.waitFor("pod/cache", "condition=Ready", time.Minute)
	cli := func(args ...string) string {
		return strings.TrimSpace(c.kubectl(append([]string{"exec", "cache", "--", "redis-cli"}, args...)...))
	}
	if out := cli("set", "colour", "blue"); out != "OK" {
		c.t.Errorf("set: got %q, want %q", out, "OK")
	}
	if out := cli("config", "get", "maxmemory"); !strings.Contains(out, "33554432") {
		c.t.Errorf("the ConfigMap's setting: got %q, want it to contain %q", out, "33554432")
	}
	_, _ = c.try("", "exec", "cache", "--", "redis-cli", "shutdown") // the connection ends with it
	c.eventually(time.Minute, "restart of redis", func() (string, bool) {
		out := c.field("pod/cache", "{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}")
		return out, out == "1 true"
	})
	if out := cli("get", "colour"); out != "blue" {
		c.t.Errorf("after a restart over the same volume: %q", out)
	}
	if out := c.kubectl("logs", "cache", "--previous"); !strings.Contains(out, "Redis is now ready to exit, bye bye") {
		c.t.Errorf("log of the previous run: got %q, want it to contain %q", out,
			"Redis is now ready to exit, bye bye")
	}
	c.kubectl("delete", "pod", "cache")
}

// rollingStop replaces a Go program's Pods one after another while somebody asks all the time
// whichever Pod is ready.
func rollingStop(c *cluster) {
	c.apply(rollingYAML)
	c.kubectl("rollout", "status", "deployment/go", "--timeout=90s")
	ready := func() []string {
		return strings.Fields(c.kubectl("get", "pods", "-l", "app=go", "-o",
			`jsonpath={range .items[?(@.metadata.deletionTimestamp=="")]}{.status.podIP} {end}`))
	}
	var asked, failed atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	addresses := func() []string {
		out := c.kubectl("get", "endpointslices", "-l", "kubernetes.io/service-name=go", "-o",
			`jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]} {end}`)
		return strings.Fields(out)
	}
	c.eventually(time.Minute, "two endpoints",
		func() (string, bool) { l := addresses(); return fmt.Sprint(l), len(l) == 2 })
	go func() {
		defer close(done)
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
		for {
			for _, ip := range addresses() {
				res, err := client.Get("http://" + ip + ":8080/hostname")
				asked.Add(1)
				if err != nil || res.StatusCode != http.StatusOK {
					failed.Add(1)
				}
				if err == nil {
					_ = res.Body.Close()
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	old := ready()
	c.kubectl("set", "env", "deployment/go", "A=b")
	c.kubectl("rollout", "status", "deployment/go", "--timeout=90s")
	close(stop)
	<-done
	if asked.Load() == 0 || failed.Load() > 0 {
		c.t.Errorf("%d of %d requests failed while Pods %v were replaced", failed.Load(), asked.Load(), old)
	}
	c.kubectl("delete", "deployment/go", "service/go")
}

// threeProbes: E-08 and E-11; the images' names are the examples', the paths are served by the test
// server, which answers everything.
func threeProbes(c *cluster) {
	for _, e := range []struct{ pod, yaml string }{{"app", exampleE08}, {"api", exampleE11}} {
		c.apply(e.yaml)
		c.waitFor("pod/"+e.pod, "condition=Ready", time.Minute)
		if out := c.field("pod/"+e.pod,
			"{.status.containerStatuses[0].started} {.status.containerStatuses[0].restartCount}"); out != "true 0" {
			c.t.Errorf("%s: started and restarts: got %q, want %q", e.pod, out, "true 0")
		}
	}
	describe := c.kubectl("describe", "pod", "app", "api")
	for _, want := range []string{
		"Startup:      http-get http://:8080/health/started delay=0s timeout=1s period=5s #success=1 #failure=18",
		"Liveness:     http-get http://:8080/health/live delay=0s timeout=2s period=10s #success=1 #failure=3",
		"Readiness:    http-get http://:8080/health/ready delay=0s timeout=1s period=3s #success=1 #failure=2",
		"Startup:      http-get http://:8080/healthz/startup delay=0s timeout=1s period=10s #success=1 #failure=30",
	} {
		if !strings.Contains(strings.Join(strings.Fields(describe), " "), strings.Join(strings.Fields(want), " ")) {
			c.t.Errorf("describe lacks %q:\n%s", want, describe)
		}
	}
	c.kubectl("delete", "pod", "app", "api", "--grace-period=1")
}

// row: STA-11
//
// staticEtcd is E-10 with addresses and directories of the test's own, and without certificates: a
// real etcd that the API server is not asked about.
func staticEtcd(c *cluster, dir string) {
	client := up.FreePort(c.t)
	peer := up.FreePort(c.t)
	manifest := strings.NewReplacer("DIR", c.Dir, "CLIENT", fmt.Sprint(client), "PEER", fmt.Sprint(peer)).Replace(
		exampleE10)
	file := filepath.Join(dir, "manifests", "etcd.yaml")
	write(c.t, file, manifest)
	c.eventually(time.Minute, "mirror of the static Pod", func() (string, bool) {
		out, err := c.try("", "-n", "kube-system", "get", "pod", "etcd-cp-1", "-o",
			"jsonpath={.status.phase} {.spec.priority} {.spec.hostNetwork}")
		return out, err == nil && out == "Running 2000001000 true"
	})
	c.eventually(time.Minute, "etcd answers", func() (string, bool) {
		out, err := get(fmt.Sprintf("http://127.0.0.1:%d/health", client))
		return fmt.Sprint(out, err), err == nil && strings.Contains(out, "true")
	})
	id := func() string {
		return c.kubectl("-n", "kube-system", "get", "pod", "etcd-cp-1", "-o",
			"jsonpath={.status.containerStatuses[0].containerID}")
	}
	before := id()
	write(c.t, file, manifest) // a new time stamp and nothing else
	c.kubectl("-n", "kube-system", "delete", "pod", "etcd-cp-1", "--grace-period=0", "--force")
	c.eventually(time.Minute, "the mirror comes back", func() (string, bool) {
		out, err := c.try("", "-n", "kube-system", "get", "pod", "etcd-cp-1", "-o", "jsonpath={.status.phase}")
		return out, err == nil && out == "Running"
	})
	if after := id(); after != before {
		c.t.Errorf("container %s became %s by a touch of the file and a deletion of the mirror", before, after)
	}
	remove(c.t, file)
	c.eventually(time.Minute, "the static Pod ends with its file", func() (string, bool) {
		out, err := c.try("", "-n", "kube-system", "get", "pod", "etcd-cp-1")
		return out, err != nil && strings.Contains(out, "NotFound")
	})
}

// row: ISE-26
// row: CSI-18
func sidecarDeployment(c *cluster) {
	c.apply(exampleE23)
	c.kubectl("rollout", "status", "deployment/myapp", "--timeout=60s")
	c.eventually(time.Minute, "the sidecar ships logs", func() (string, bool) {
		out, _ := c.try("", "logs", "deploy/myapp", "-c", "logshipper")
		return out, strings.Contains(out, "logging\n")
	})
	if out := c.kubectl("get", "pods", "-l", "app=myapp", "--no-headers"); !strings.Contains(out, "2/2") {
		c.t.Errorf("the sidecar counts as a container: got %q, want it to contain %q", out, "2/2")
	}
	c.kubectl("delete", "deployment", "myapp")
	c.kubectl("delete", "pods", "-l", "app=myapp", "--grace-period=1")
}

func sidecarJob(c *cluster) {
	c.apply(exampleE24)
	c.kubectl("wait", "job/myjob", "--for=condition=Complete", "--timeout=60s")
	out := c.kubectl("get", "pods", "-l", "job-name=myjob", "-o",
		"jsonpath={.items[0].status.phase} {.items[0].status.initContainerStatuses[0].state.terminated.exitCode}")
	if out != "Succeeded 143" && out != "Succeeded 137" {
		c.t.Errorf("phase of the Pod and how the sidecar ended: %q", out)
	}
	c.kubectl("delete", "job", "myjob")
}

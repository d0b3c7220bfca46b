package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/process"
	"github.com/gantry-project/gantry/test/up"
)

// importImages builds the named standard images and brings them into the cluster's containerd.
func (c *cluster) importImages(names ...string) {
	c.t.Helper()
	archive := filepath.Join(c.t.TempDir(), "images.tar")
	if err := images.Archive(archive, images.Select(images.Standard(), names...)); err != nil {
		c.t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(c.Bin, "gantry"), "image", "import", "--data-dir", c.Dir,
		archive).CombinedOutput()
	if err != nil {
		c.t.Fatalf("gantry image import: %v\n%s", err, out)
	}
}

// forSubtest returns the cluster for a subtest: failures are reported there.
func (c *cluster) forSubtest(t *testing.T) *cluster { return &cluster{c.Cluster.As(t), t} }

func (c *cluster) field(what, path string) string {
	c.t.Helper()
	return c.kubectl("get", what, "-o", "jsonpath="+path)
}

// The examples of the documents, unchanged but for what their text says, through stock kubectl with
// real containers.
func TestExamples(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--node-labels", "node.acme.io/pool=general,topology.kubernetes.io/zone=a")
	c.Start()
	c.importImages("docker.io/library/busybox:1.28", "docker.io/library/nginx:1.14.2")
	for _, example := range []struct {
		name string
		run  func(*cluster)
	}{
		{"E-02 affinity, toleration, spread", exampleAffinity},
		{"E-17 readiness gate", exampleReadinessGate},
		{"E-18 simple Pod", exampleSimplePod},
		{"E-19 Job", exampleJob},
		// row: ISE-17
		{"E-20 to E-22 init containers", exampleInitContainers},
		{"Deployment", exampleDeployment},
		{"exec, attach, port-forward", exampleStreams},
		{"Pod to Pod, to host, host port", exampleNetwork},
		{"volumes and environment", exampleVolumes},
		{"limits are enforced", exampleLimits},
		{"back-off and why", exampleCrash},
		{"namespace deletion", exampleNamespace},
	} {
		t.Run(example.name, func(t *testing.T) { example.run(c.forSubtest(t)) })
	}
}

func exampleAffinity(c *cluster) {
	c.kubectl("create", "namespace", "prod")
	c.eventually(time.Minute, "service account of namespace prod", func() (string, bool) {
		out, err := c.try("", "-n", "prod", "get", "serviceaccount", "default")
		return out, err == nil
	})
	c.importAs("docker.io/library/busybox:1.28", "ghcr.io/acme/web:1.4.2")
	c.apply(exampleE02)
	c.kubectl("-n", "prod", "wait", "pod/web-7d8", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
	if q := c.kubectl("-n", "prod", "get", "pod", "web-7d8", "-o", "jsonpath={.status.qosClass} {.spec.nodeName}"); q !=
		"Burstable node-1" {
		c.t.Errorf("QoS class and node: got %q, want %q", q, "Burstable node-1")
	}
	c.kubectl("-n", "prod", "delete", "pod", "web-7d8", "--grace-period=1")
}

// importAs brings an image in under another name.
func (c *cluster) importAs(from, to string) {
	c.t.Helper()
	archive := filepath.Join(c.t.TempDir(), "image.tar")
	withCommand := func() (ggcr.Image, error) {
		img, err := images.Standard()[from]()
		if err != nil {
			return nil, err
		}
		return images.WithConfig(img, ggcr.Config{Cmd: []string{"sleep", "3600"}})
	}
	if err := images.Archive(archive, map[string]images.Make{to: withCommand}); err != nil {
		c.t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(c.Bin, "gantry"), "image", "import", "--data-dir", c.Dir,
		archive).CombinedOutput(); err != nil {
		c.t.Fatalf("gantry image import: %v\n%s", err, out)
	}
}

func exampleReadinessGate(c *cluster) {
	c.apply(exampleE17)
	c.waitFor("pod/gated-ready", "condition=ContainersReady", time.Minute)
	if s := c.field("pod/gated-ready",
		`{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].reason}`); s !=
		"False ReadinessGatesNotReady" {
		c.t.Errorf("before the gate is True: %q", s)
	}
	if why := c.gantry("why", "pod/gated-ready"); !strings.Contains(why, "www.example.com/feature-1") {
		c.t.Errorf("why does not name the gate:\n%s", why)
	}
	c.kubectl("patch", "pod", "gated-ready", "--subresource=status", "-p",
		`{"status":{"conditions":[{"type":"www.example.com/feature-1","status":"True"}]}}`)
	c.waitFor("pod/gated-ready", "condition=Ready", time.Minute)
	c.kubectl("delete", "pod", "gated-ready", "--grace-period=1")
}

func exampleSimplePod(c *cluster) {
	if out := c.apply(exampleE18); out != "pod/nginx created\n" {
		c.t.Errorf("kubectl apply printed: got %q, want %q", out, "pod/nginx created\n")
	}
	c.waitFor("pod/nginx", "condition=Ready", time.Minute)
	if out := c.apply(exampleE18); out != "pod/nginx unchanged\n" {
		c.t.Errorf("second apply printed: got %q, want %q", out, "pod/nginx unchanged\n")
	}
	describe := c.kubectl("describe", "pod", "nginx")
	for _, want := range []string{"Scheduled", "Successfully assigned default/nginx to node-1", "Created", "Started",
		"QoS Class:                   BestEffort"} {
		if !strings.Contains(describe, want) {
			c.t.Errorf("describe lacks %q:\n%s", want, describe)
		}
	}
	trace := c.gantry("trace", "pod/nginx")
	for _, want := range []string{"create by", "queued: active", "node-1 chosen", "bound to node-1",
		"CRI RunPodSandbox", "CRI StartContainer nginx", "Ready=True", "created → bound"} {
		if !strings.Contains(trace, want) {
			c.t.Errorf("trace lacks %q:\n%s", want, trace)
		}
	}
	c.kubectl("delete", "pod", "nginx")
	if trace := c.gantry("trace", "pod/nginx"); !strings.Contains(trace, "removed from the store") {
		c.t.Errorf("the story does not go on to the end:\n%s", trace)
	}
	if why := c.gantry("why", "pod/nginx"); !strings.Contains(why, "deleted by") {
		c.t.Errorf("why does not say who deleted it:\n%s", why)
	}
}

func exampleJob(c *cluster) {
	c.apply(exampleE19)
	c.eventually(time.Minute, "the Job's greeting", func() (string, bool) {
		out, err := c.try("", "logs", "job/hello")
		return out, err == nil && strings.Contains(out, "Hello, Kubernetes!")
	})
	c.kubectl("delete", "job", "hello", "--cascade=foreground", "--wait=false")
	// the example ignores TERM and would take its 30 s
	c.kubectl("delete", "pods", "-l", "job-name=hello", "--grace-period=1")
	c.kubectl("wait", "job/hello", "--for=delete", "--timeout=20s")
	if left := c.kubectl("get", "pods", "-l", "job-name=hello", "-o", "name"); left != "" {
		c.t.Errorf("Pods outlive the Job deleted in the foreground: got %s, want it empty", left)
	}
}

func exampleInitContainers(c *cluster) {
	if out := c.apply(exampleE20); out != "pod/myapp-pod created\n" {
		c.t.Errorf("kubectl apply printed: got %q, want %q", out, "pod/myapp-pod created\n")
	}
	c.eventually(time.Minute, "Init:0/2", func() (string, bool) {
		out := c.kubectl("get", "pod", "myapp-pod")
		return out, regexp.MustCompile(`myapp-pod +0/1 +Init:0/2 +0`).MatchString(out)
	})
	c.eventually(time.Minute, "log of the first init container", func() (string, bool) {
		out, _ := c.try("", "logs", "myapp-pod", "-c", "init-myservice")
		return out, strings.Contains(out, "waiting for myservice")
	})
	out, err := c.try("", "logs", "myapp-pod", "-c", "init-mydb")
	if err == nil || !strings.Contains(out,
		`container "init-mydb" in pod "myapp-pod" is waiting to start: PodInitializing`) {
		c.t.Errorf("logs of a container that waits: %v %q", err, out)
	}
	describe := c.kubectl("describe", "-f", c.file("myapp.yaml", exampleE20))
	for _, want := range []string{"Status:           Pending", "Running", "PodInitializing", "Pulled", "Created",
		"Started"} {
		if !strings.Contains(describe, want) {
			c.t.Errorf("describe lacks %q:\n%s", want, describe)
		}
	}
	if out := c.apply(exampleE22); out != "service/myservice created\nservice/mydb created\n" {
		c.t.Errorf("kubectl apply printed: got %q, want %q", out, "service/myservice created\nservice/mydb created\n")
	}
	c.eventually(time.Minute, "both names are found, and the app runs", func() (string, bool) {
		out := c.kubectl("get", "pod", "myapp-pod")
		return out, regexp.MustCompile(`myapp-pod +1/1 +Running +0`).MatchString(out)
	})
	if out := c.kubectl("logs", "myapp-pod", "-c", "myapp-container"); out != "The app is running!\n" {
		c.t.Errorf("the app says %q", out)
	}
	c.kubectl("delete", "pod", "myapp-pod", "--grace-period=1")
	c.kubectl("delete", "service", "myservice", "mydb")
}

func (c *cluster) file(name, content string) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func exampleDeployment(c *cluster) {
	c.kubectl("create", "deployment", "web", "--image=nginx:1.14.2", "--replicas=2")
	c.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	c.kubectl("scale", "deployment/web", "--replicas=3")
	c.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	c.kubectl("set", "env", "deployment/web", "A=b")
	c.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	if out := c.kubectl("get", "deployment", "web"); !regexp.MustCompile(`web +3/3 +3 +3`).MatchString(out) {
		c.t.Errorf("kubectl get deployment:\n%s", out)
	}
	if n := strings.Count(c.kubectl("get", "replicasets", "-l", "app=web", "-o", "name"), "\n"); n != 2 {
		c.t.Errorf("%d ReplicaSets, want 2 revisions", n)
	}
	c.kubectl("rollout", "undo", "deployment/web")
	c.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	c.kubectl("delete", "deployment", "web")
	c.eventually(time.Minute, "everything of the Deployment is collected", func() (string, bool) {
		out := c.kubectl("get", "replicasets,pods", "-l", "app=web", "-o", "name")
		return out, out == ""
	})
}

func exampleStreams(c *cluster) {
	c.apply(podYAML("shell", `trap 'exit 0' TERM; httpd -p 8080 -h /etc; echo started; while true; do sleep 0.2; done`))
	c.waitFor("pod/shell", "condition=Ready", time.Minute)
	if out := c.kubectl("exec", "shell", "--", "sh", "-c", "echo out; echo err >&2"); !strings.Contains(out, "out") ||
		!strings.Contains(out, "err") {
		c.t.Errorf("exec: got %q, want it to contain %q and %q", out, "out", "err")
	}
	if out, err := c.try("", "exec", "shell", "--", "sh", "-c", "exit 7"); err == nil || !strings.Contains(out,
		"exit code 7") {
		c.t.Errorf("exit code of exec: got %v %q, want an error and it to contain %q", err, out, "exit code 7")
	}
	if out, err := c.try("cat me\n", "exec", "-i", "shell", "--", "cat"); err != nil || !strings.Contains(out,
		"cat me") {
		c.t.Errorf("exec with input: got %v %q, want no error and it to contain %q", err, out, "cat me")
	}
	port := up.FreePort(c.t)
	forward := exec.Command("kubectl", "--kubeconfig", c.Kubeconfig, "port-forward", "pod/shell",
		fmt.Sprintf("%d:8080", port))
	if err := forward.Start(); err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = forward.Process.Kill(); _ = forward.Wait() }()
	c.eventually(time.Minute, "page through port-forward", func() (string, bool) {
		out, err := get(fmt.Sprintf("http://127.0.0.1:%d/hostname", port))
		return fmt.Sprint(out, err), err == nil && strings.TrimSpace(out) == "shell"
	})
	if out := c.kubectl("logs", "shell", "--timestamps"); !regexp.MustCompile(
		`^\d{4}-\d\d-\d\dT.* started`).MatchString(out) {
		c.t.Errorf("logs with time stamps: %q", out)
	}
	c.kubectl("delete", "pod", "shell")
	c.apply(strings.Replace(podYAML("parrot", `while read line; do echo "got $line"; done`), "    image:",
		"    stdin: true\n    image:", 1))
	c.waitFor("pod/parrot", "condition=Ready", time.Minute)
	c.attach("parrot")
	c.kubectl("delete", "pod", "parrot", "--grace-period=1")
}

// attach speaks to a container's standard input until the answer comes: a runtime may drop what
// is sent while attaching.
func (c *cluster) attach(pod string) {
	c.t.Helper()
	cmd := exec.Command("kubectl", "--kubeconfig", c.Kubeconfig, "attach", "-i", pod)
	in, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	p, err := process.Start(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	defer p.Kill()
	c.eventually(time.Minute, "the attached container answers", func() (string, bool) {
		fmt.Fprintln(in, "hello")
		output := p.Output()
		return output, strings.Contains(output, "got hello")
	})
}

func exampleNetwork(c *cluster) {
	hostPort := up.FreePort(c.t)
	c.apply(strings.Replace(
		podYAML("serves", `trap 'exit 0' TERM; httpd -p 8080 -h /etc; while true; do sleep 0.2; done`),
		"    image:", fmt.Sprintf("    ports: [{containerPort: 8080, hostPort: %d}]\n    image:", hostPort), 1))
	c.apply(podYAML("asks", `trap 'exit 0' TERM; while true; do sleep 0.2; done`))
	c.waitFor("pod/serves", "condition=Ready", time.Minute)
	c.waitFor("pod/asks", "condition=Ready", time.Minute)
	ip := c.field("pod/serves", "{.status.podIP}")
	if out := c.kubectl("exec", "asks", "--", "wget", "-q", "-O", "-",
		"http://"+ip+":8080/hostname"); strings.TrimSpace(out) != "serves" {
		c.t.Errorf("Pod to Pod: %q", out)
	}
	if out, err := get("http://" + ip + ":8080/hostname"); err != nil || strings.TrimSpace(out) != "serves" {
		c.t.Errorf("host to Pod: %v %q", err, out)
	}
	if out, err := get(fmt.Sprintf("http://127.0.0.1:%d/hostname", hostPort)); err != nil ||
		strings.TrimSpace(out) != "serves" {
		c.t.Errorf("host port: %v %q", err, out)
	}
	gateway := ip[:strings.LastIndex(ip, ".")]
	gateway = gateway[:strings.LastIndex(gateway, ".")] + ".0.1"
	l, err := net.Listen("tcp", gateway+":0")
	if err != nil {
		c.t.Fatal(err)
	}
	defer l.Close()
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the host") }))
	}()
	if out := c.kubectl("exec", "asks", "--", "wget", "-q", "-O", "-", "http://"+l.Addr().String()+"/"); out !=
		"the host" {
		c.t.Errorf("Pod to host: got %q, want %q", out, "the host")
	}
	c.kubectl("delete", "pod", "serves", "asks", "--grace-period=1")
}

func exampleVolumes(c *cluster) {
	c.kubectl("create", "configmap", "settings", "--from-literal=color=blue")
	c.kubectl("create", "secret", "generic", "login", "--from-literal=password=hunter2")
	c.apply(exampleVolumeSources)
	c.waitFor("pod/furnished", "condition=Ready", time.Minute)
	for command, want := range map[string]string{
		"cat /settings/color":                                            "blue",
		"cat /login/password":                                            "hunter2",
		"echo $COLOR-$PASSWORD-$POD-$CPUS":                               "blue-hunter2-furnished-2",
		"grep app /about/labels":                                         `app="furnished"`,
		"stat -c %a /login/..data/password":                              "400",
		"df -T /fast | tail -1 | awk '{print $2}'":                       "tmpfs",
		"cut -d. -f1 /token/token | base64 -d 2>/dev/null | grep -c alg": "1",
		"cat /var/run/secrets/kubernetes.io/serviceaccount/namespace":    "default",
	} {
		if out := strings.TrimSpace(c.kubectl("exec", "furnished", "--", "sh", "-c", command)); out != want {
			c.t.Errorf("%s: %q, want %q", command, out, want)
		}
	}
	c.kubectl("patch", "configmap", "settings", "-p", `{"data":{"color":"green"}}`)
	c.eventually(90*time.Second, "changed ConfigMap in the volume", func() (string, bool) {
		out := strings.TrimSpace(c.kubectl("exec", "furnished", "--", "cat", "/settings/color"))
		return out, out == "green"
	})
	c.kubectl("delete", "pod", "furnished", "--grace-period=1")
	c.kubectl("delete", "configmap/settings", "secret/login")
}

func exampleLimits(c *cluster) {
	c.apply(exampleGreedy)
	c.eventually(time.Minute, "OOMKilled", func() (string, bool) {
		out := c.kubectl("get", "pod", "greedy", "-o",
			"jsonpath={.status.containerStatuses[0].state.terminated.reason}")
		return out, out == "OOMKilled"
	})
	if why := c.gantry("why", "pod/greedy"); !strings.Contains(why, "16Mi") {
		c.t.Errorf("why does not name the limit:\n%s", why)
	}
	c.kubectl("delete", "pod", "greedy", "--grace-period=1")
}

func exampleCrash(c *cluster) {
	c.apply(podYAML("crash", "echo last words; exit 3"))
	c.eventually(time.Minute, "CrashLoopBackOff", func() (string, bool) {
		out := c.kubectl("get", "pod", "crash")
		return out, strings.Contains(out, "CrashLoopBackOff")
	})
	why := c.gantry("why", "pod/crash")
	for _, want := range []string{"CrashLoopBackOff", "exit code 3", "--previous"} {
		if !strings.Contains(why, want) {
			c.t.Errorf("why lacks %q:\n%s", want, why)
		}
	}
	if out := c.kubectl("logs", "crash", "--previous"); out != "last words\n" {
		c.t.Errorf("logs --previous: got %q, want %q", out, "last words\n")
	}
	c.kubectl("delete", "pod", "crash")
}

func exampleNamespace(c *cluster) {
	c.kubectl("create", "namespace", "short")
	c.eventually(time.Minute, "service account", func() (string, bool) {
		out, err := c.try("", "-n", "short", "get", "serviceaccount", "default")
		return out, err == nil
	})
	c.kubectl("-n", "short", "create", "configmap", "a")
	c.kubectl("-n", "short", "create", "deployment", "web", "--image=nginx:1.14.2")
	c.kubectl("-n", "short", "rollout", "status", "deployment/web", "--timeout=60s")
	c.kubectl("delete", "namespace", "short", "--timeout=90s")
}

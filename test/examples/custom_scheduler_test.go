package examples

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// build makes a copy of an example module that requires what this module requires, and compiles it.
func build(t *testing.T, example string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", example))); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	goSum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	const self = "github.com/gantry-project/gantry"
	text := strings.Replace(string(mod), "module "+self, "module example.com/"+example, 1) + "\nrequire " + self +
		" v0.0.0-00010101000000-000000000000\n\nreplace " + self + " => " + root + "\n"
	for name, data := range map[string]string{"go.mod": text, "go.sum": string(goSum)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "program")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", out, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s does not compile: %v\n%s", example, err, said)
	}
	return out
}

// kubeconfig lets a program outside reach the cluster inside this test.
func kubeconfig(t *testing.T, c *testcluster.Cluster) string {
	t.Helper()
	transport, err := rest.TransportFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	door := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, FlushInterval: -1,
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }})
	t.Cleanup(door.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: "+
		"[{name: c, context: {cluster: c}}]\ncurrent-context: c\n", door.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// row: SCH-24, SCH-25
func TestCustomScheduler(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program")
	}
	program := build(t, "custom-scheduler")
	c := testcluster.Start(t, testcluster.WithNodes("loud", "soft", "hush"))
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for node, loud := range map[string]string{"loud": "90", "soft": "50", "hush": "5"} {
		patch := []byte(`{"metadata":{"labels":{"example.com/loudness":"` + loud + `"}}}`)
		if _, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch,
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	config, err := filepath.Abs("../../examples/custom-scheduler/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(run, program, "--kubeconfig", kubeconfig(t, c), "--config", config, "--secure-port", "0",
		"--v", "2")
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = cmd.Wait() // it was killed
	}()
	create := func(name, scheduler string, choose map[string]string) {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1.PodSpec{SchedulerName: scheduler, NodeSelector: choose,
				Containers: []v1.Container{{Name: "c", Image: "busybox"}}}}
		if _, err := client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("quiet", "quiet-scheduler", nil)
	create("must-be-loud", "quiet-scheduler", map[string]string{"example.com/loudness": "90"})
	create("plain", "default-scheduler", map[string]string{"example.com/loudness": "90"})
	await := func(name, what string, ok func(*v1.Pod) bool) {
		t.Helper()
		expect.EventuallyNoError(t, "Pod "+name+" is "+what, func() error {
			p, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil || ok(p) {
				return err
			}
			return expect.Lazy(func() string {
				stop()
				_ = cmd.Wait()
				return fmt.Sprintf("conditions %+v\n%s", p.Status.Conditions, said.String())
			})
		})
	}
	await("quiet", "on hush", func(p *v1.Pod) bool { return p.Spec.NodeName == "hush" })
	await("plain", "on loud, by the scheduler beside", func(p *v1.Pod) bool { return p.Spec.NodeName == "loud" })
	await("must-be-loud", "refused by Quiet", func(p *v1.Pod) bool {
		for _, cond := range p.Status.Conditions {
			if cond.Type == v1.PodScheduled && strings.Contains(cond.Message, "1 node(s) were louder than 60") {
				return true
			}
		}
		return false
	})
}

package probes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/kubeconfig"
	"github.com/gantry-project/gantry/testcluster"
)

// run calls gantry probes.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	io := cli.IO{Out: &out, Err: &out}
	root := cli.Root(io, New(io))
	root.SetArgs(append([]string{"probes"}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// The API takes the YAML as it is printed, for each sensitivity and with names of ports.
//
// row: TOO-07
func TestTheAPITakesTheProbes(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes())
	expect.Eventually(t, "the service account", func() bool {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	for i, args := range [][]string{
		{"--p99", "200ms", "--start-time", "60s"}, {"--p99", "200ms", "--restart", "high"},
		{"--p99", "4s", "--restart", "low", "--port", "http", "--start-time", "2s"},
	} {
		text, err := run(t, append(args, "-o", "yaml")...)
		if err != nil {
			t.Fatal(err)
		}
		var k corev1.Container
		if err := yaml.UnmarshalStrict([]byte(text), &k); err != nil {
			t.Fatalf("got %v: %v\n%s", args, err, text)
		}
		k.Name, k.Image, k.Ports = "app", "web", []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)},
			Spec: corev1.PodSpec{Containers: []corev1.Container{k}}}
		got, err := c.Client.CoreV1().
			Pods("default").
			Create(t.Context(), p, metav1.CreateOptions{FieldValidation: "Strict"})
		if err != nil {
			t.Fatalf("got %v: %v\n%s", args, err, text)
		}
		if got.Spec.Containers[0].LivenessProbe.HTTPGet == nil || got.Spec.Containers[0].ReadinessProbe.HTTPGet == nil {
			t.Errorf("%v: no probes were stored: %+v", args, got.Spec.Containers[0])
		}
	}
}

// row: TOO-08
func TestTextHasTheArithmetic(t *testing.T) {
	for _, form := range []string{"text", "yaml", "json"} {
		text, err := run(t, "--p99", "200ms", "--start-time", "60s", "-o", form)
		if err != nil || !strings.Contains(text, "18 × 5 s = 90 s") {
			t.Errorf("-o %s lacks the arithmetic of startup: %v\n%s", form, err, text)
		}
	}
}

// row: TOO-09
func TestJSONHasTwoEndpointsAndTheChoices(t *testing.T) {
	text, err := run(
		t,
		"--p99",
		"200ms",
		"--start-time",
		"60s",
		"-o",
		"json",
		"--readiness-path",
		"/r",
		"--liveness-path",
		"/l",
	)
	var got answer
	if err != nil || json.Unmarshal([]byte(text), &got) != nil {
		t.Fatalf("got %v\n%s", err, text)
	}
	for field, path := range map[string]string{"readinessProbe": "/r", "livenessProbe": "/l", "startupProbe": "/l"} {
		if p := got.Probes[field]; p == nil || p.HTTPGet.Path != path {
			t.Errorf("%s is %+v, want path %s", field, p, path)
		}
	}
	if len(got.Combinations) != 6 || len(got.Hang) != 3 || got.Findings == nil || len(got.Findings) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestBadInput(t *testing.T) {
	for _, v := range []struct{ args, says string }{
		{"", "how fast does it answer"},
		{"--p99 0s", "how fast does it answer"},
		{"--p99 -1s", "must be over 0"},
		{"--p99 200ms --p95 1s", "the P95 must not be longer"},
		{"--p99 200ms --restart often", `--restart "often": must be high`},
		{"--p99 200ms --restart 90s..30s", "the first must be shorter"},
		{"--p99 200ms --objective 100", "the objective is 100 %"},
		{"--p99 200ms --objective NaN", "the objective is NaN %"},
		{"--p99 200ms --port 0", `--port "0": must be a number`},
		{"--p99 200ms --port 70000", "--port"},
		{"--p99 200ms --readiness-path ready", `--readiness-path "ready": must begin with /`},
		{"--p99 200ms --readiness-path /a --liveness-path /a", "endpoints of their own"},
		{"--p99 200ms -o table", `output "table": must be text, yaml, json or svg`},
		{"--p99 30s --restart high", "no liveness probe gives a hung container up"},
		{"--from service/web", "is not a Pod"},
		{"--p99 200ms extra", "unknown command"},
	} {
		text, err := run(t, strings.Fields(v.args)...)
		if err == nil || !strings.Contains(err.Error(), v.says) {
			t.Errorf("probes %s: got %v, want %q\n%s", v.args, err, v.says, text)
		}
	}
}

// Of a Pod that runs, start time and endpoints are its own; without measured answers the error says
// what to give.
func TestFromAPod(t *testing.T) {
	c := testcluster.Start(t)
	c.On(testcluster.Match{Image: "web"}, testcluster.Script{Sh: "sleep 3600"})
	file := kubeconfig.Of(t, c.Config)
	if _, err := run(t, "--from", "pod/none", "--kubeconfig", file); err == nil ||
		!strings.Contains(err.Error(), "there is no pod none") {
		t.Errorf("a Pod that is not there got %v", err)
	}
	expect.Eventually(t, "the service account", func() bool {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "app", Image: "web"}}}}
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "a node", func() bool {
		p, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning
	})
	if _, err := run(t, "--from", "pod/web", "-c", "other", "--kubeconfig", file); err == nil ||
		!strings.Contains(err.Error(), `--container "other": pod web has none of that name`) {
		t.Errorf("a container that is not there got %v", err)
	}
	if _, err := run(t, "--from", "pod/web", "--kubeconfig", file); err == nil ||
		!strings.Contains(err.Error(), "probe") {
		t.Errorf("a Pod whose answers nobody measured got %v", err)
	}
}

// The picture has the time line of a hang and what was asked for, with the arithmetic.
func TestThePictureShowsTheHang(t *testing.T) {
	out, err := run(t, "--p99", "200ms", "--start-time", "60s", "-o", "svg")
	if err != nil || !strings.HasPrefix(out, "<svg ") {
		t.Fatalf("got %v %s, want a picture", err, out)
	}
	for _, want := range []string{"readiness: leaves the traffic", "asked for: restarted within", "30 s to 90 s",
		"startup: a start that takes longer is ended", " × "} {
		if !strings.Contains(out, want) {
			t.Errorf("the picture lacks %q, want it:\n%s", want, out)
		}
	}
}

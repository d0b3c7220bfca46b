package status

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/status"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/kubeconfig"
	"github.com/gantry-project/gantry/test/wrappers"
	"github.com/gantry-project/gantry/testcluster"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	io := cli.IO{Out: &out, Err: &out}
	root := cli.Root(io, New(io))
	root.SetArgs(append([]string{"status"}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// Against a cluster the command lists all eight processes, each with its state.
//
// row: TOO-14
func TestStatusOfACluster(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes("n1", "n2"))
	file := kubeconfig.Of(t, c.Config)
	text, err := run(t, "--kubeconfig", file, "-o", "json")
	var m status.Map
	if err != nil || json.Unmarshal([]byte(text), &m) != nil {
		t.Fatalf("got %v\n%s", err, text)
	}
	for name, want := range map[string]status.Health{"kube-apiserver": status.OK, "etcd": status.OK,
		"kubelet on n1":           status.OK,
		"container runtime on n2": status.OK, "kube-scheduler": "", "kube-controller-manager": "",
		"kube-proxy on n1": "", "DNS": ""} {
		p, ok := m.Find(name)
		if !ok || p.Health == "" || p.Because == "" || want != "" && p.Health != want {
			t.Errorf("%s: got %+v, want %q", name, p, want)
		}
	}
	if p, _ := m.Find("kube-apiserver"); p.Version == "" || p.Load == "" {
		t.Errorf("the API server has no version or load: %+v", p)
	}
	for form, want := range map[string]string{"text": "Who talks to whom:", "svg": "</svg>"} {
		if text, err := run(t, "--kubeconfig", file, "-o", form); err != nil || !strings.Contains(text, want) {
			t.Errorf("-o %s got %v\n%s", form, err, text)
		}
	}
	if text, err := run(t, "-o", "table"); err == nil || !strings.Contains(err.Error(), "must be text, json or svg") {
		t.Errorf("an unknown form got %v\n%s", err, text)
	}
}

// An API server that does not answer is down, and the exit code says so.
//
// row: TOO-14
func TestNoAPIServer(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes())
	cfg := *c.Config
	cfg.Host, cfg.Transport = "https://127.0.0.1:1", nil
	text, err := run(t, "--kubeconfig", kubeconfig.Of(t, &cfg))
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver is down") || !strings.Contains(text, "✗") {
		t.Errorf("got %v\n%s", err, text)
	}
}

// With --pods the command draws what the dashboard's view Now does: every node with its figures,
// and each of its Pods as a block of the colour of its state, also one that has no node yet.
//
// row: TOO-14
func TestPodsAsAPicture(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes("n1", "n2"))
	c.On(testcluster.Match{Image: "web"}, testcluster.Script{Sh: "sleep 3600"})
	expect.Eventually(t, "the service account", func() bool {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	for name, cpu := range map[string]string{"web-1": "100m", "web-2": "100m", "huge": "900"} {
		p := wrappers.MakePod().Name(name).Containers(corev1.Container{Name: "app", Image: "web",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu)}}}).Obj()
		if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	file := kubeconfig.Of(t, c.Config)
	var text string
	var titles []string
	expect.Eventually(t, "two ready Pods and one without a node in the picture", func() bool {
		var err error
		if text, err = run(t, "--kubeconfig", file, "--pods", "-o", "svg"); err != nil {
			t.Fatalf("got %v\n%s, want a picture", err, text)
		}
		titles = nil
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("got a picture that is no XML: %v\n%s", err, text)
			}
			if data, ok := token.(xml.CharData); ok && strings.TrimSpace(string(data)) != "" {
				titles = append(titles, string(data))
			}
		}
		said := strings.Join(titles, "\n")
		return strings.Count(said, ": ready") == 2 && strings.Contains(said, "default/huge: unscheduled")
	})
	for _, want := range []string{"n1", "n2"} {
		if !slices.Contains(titles, want) {
			t.Errorf("got %q, want node %s in it", titles, want)
		}
	}
	for _, form := range []string{"text", "json"} {
		if _, err := run(t, "--kubeconfig", file, "--pods", "-o", form); err == nil ||
			!strings.Contains(err.Error(), "wants -o svg") {
			t.Errorf("--pods -o %s: got error %v, want one that says -o svg", form, err)
		}
	}
}

package forecast_test

import (
	"bytes"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cmd/simulate"
	"github.com/gantry-project/gantry/testcluster"
)

// kubeconfigFor writes a kubeconfig that reaches a cluster in memory.
func kubeconfigFor(t *testing.T, c *testcluster.Cluster) string {
	t.Helper()
	transport, err := rest.TransportFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
	t.Cleanup(proxy.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: " +
		"[{name: c, context: {cluster: c, user: u}}]\n" +
		"users: [{name: u, user: {}}]\nclusters: [{name: c, cluster: {server: \"" + proxy.URL + "\"}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func gantrySimulate(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	c := simulate.New(cli.IO{Out: &out, Err: &out})
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("gantry simulate %v: %v, want no error", args, err)
	}
	return out.String()
}

// A drain is foretold, then done by kubectl's own drain: the score says that all that was foretold
// came about, and before it was done, that it was not.
func TestADrainIsScored(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes("n1", "n2"))
	l := &lab{t: t, cluster: c, client: c.Client, ns: "shop"}
	_, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: l.ns}}, metav1.CreateOptions{})
	l.must(err)
	l.wait("the service account", func() bool {
		_, err := c.Client.CoreV1().ServiceAccounts(l.ns).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	four := int32(4)
	d := l.deploymentOf("web", four, template("web", 100, 100))
	_, err = c.Client.AppsV1().Deployments(l.ns).Create(t.Context(), d, metav1.CreateOptions{})
	l.must(err)
	l.wait("the workload", l.ready)
	node, store := l.pods()[0].Spec.NodeName, t.TempDir()
	on := 0
	for _, p := range l.pods() {
		if p.Spec.NodeName == node {
			on++
		}
	}
	as := []string{"--kubeconfig", kubeconfigFor(t, c), "--store", store}
	foretold := gantrySimulate(t, append([]string{"drain", "node/" + node, "--horizon", "10m"}, as...)...)
	if !strings.Contains(foretold, "drain node/"+node+": done after") {
		t.Fatalf("foretold:\n%s", foretold)
	}
	if got := gantrySimulate(t, append([]string{"score"}, as...)...); !strings.Contains(got, "0 of 1 came about") {
		t.Errorf("before the drain the score is\n%s", got)
	}
	time.Sleep(1100 * time.Millisecond) // Pods tell whole seconds
	l.drain(t.Context(), node)
	l.wait("the new Pods", l.ready)
	got := gantrySimulate(t, append([]string{"score"}, as...)...)
	n := string(rune('0' + on))
	for _, want := range []string{n + " of " + n + " Pods left", n + " of " + n + " came to where they were foretold",
		"in the order foretold", "within the spread", "1 of 1 came about; of " + n + " Pods " + n + " went where"} {
		if !strings.Contains(got, want) {
			t.Errorf("the score lacks %q:\n%s", want, got)
		}
	}
	t.Log(foretold + got)
}

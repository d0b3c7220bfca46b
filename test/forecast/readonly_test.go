package forecast_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cmd/simulate"
	"github.com/gantry-project/gantry/internal/cmd/status"
	"github.com/gantry-project/gantry/internal/cmd/trace"
	"github.com/gantry-project/gantry/internal/cmd/why"
	"github.com/gantry-project/gantry/testcluster"
)

// recorder is a way to an API server that keeps what was asked. Safe for concurrent use.
type recorder struct {
	mu   sync.Mutex
	asks []string // METHOD path?query
}

// take returns what was asked since it was last called.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.asks
	r.asks = nil
	return out
}

// acts are GETs that do something in a container.
var acts = regexp.MustCompile(`/(exec|attach|portforward|run)(/|\?|$)`)

// reads tells whether a request changes nothing.
func reads(ask string) bool {
	return strings.HasPrefix(ask, "GET ") && !acts.MatchString(ask)
}

// recordedKubeconfig writes a kubeconfig that reaches a cluster in memory through a recorder.
func recordedKubeconfig(t *testing.T, c *testcluster.Cluster) (string, *recorder) {
	t.Helper()
	transport, err := rest.TransportFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	forward := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.asks = append(r.asks, req.Method+" "+req.URL.RequestURI())
		r.mu.Unlock()
		forward.ServeHTTP(w, req)
	}))
	t.Cleanup(proxy.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: " +
		"[{name: c, context: {cluster: c, user: u}}]\n" +
		"users: [{name: u, user: {}}]\nclusters: [{name: c, cluster: {server: \"" + proxy.URL + "\"}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, r
}

// written are manifests of a Pod and of a Deployment that the cluster has not.
const written = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: more, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: more}}
  template:
    metadata: {labels: {app: more}}
    spec: {containers: [{name: app, image: app, resources: {requests: {cpu: 100m}}}]}
`

// row: TOO-06
// What foretells and what explains writes nothing to the cluster: every verb of gantry simulate,
// gantry why, gantry trace of Pods, revisions and packets, and gantry status send nothing but GETs,
// of which none acts in a container.
func TestForesightAndAnswersOnlyRead(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes("n1", "n2"))
	l := &lab{t: t, cluster: c, client: c.Client, ns: "shop"}
	_, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: l.ns}}, metav1.CreateOptions{})
	l.must(err)
	l.wait("the service account", func() bool {
		_, err := c.Client.CoreV1().ServiceAccounts(l.ns).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	_, err = c.Client.AppsV1().Deployments(l.ns).Create(t.Context(), l.deploymentOf("web", 2,
		template("web", 100, 100)), metav1.CreateOptions{})
	l.must(err)
	l.wait("the workload", l.ready)
	huge := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "huge"}, Spec: template("huge", 900_000, 100).Spec}
	_, err = c.Client.CoreV1().Pods(l.ns).Create(t.Context(), huge, metav1.CreateOptions{})
	l.must(err)
	l.wait("its refusal", func() bool {
		p, err := c.Client.CoreV1().Pods(l.ns).Get(t.Context(), "huge", metav1.GetOptions{})
		l.must(err)
		return len(p.Status.Conditions) > 0
	})
	web := l.pods()[0].Name
	for _, p := range l.pods() {
		if p.Name != "huge" {
			web = p.Name
		}
	}
	manifest, store := filepath.Join(t.TempDir(), "more.yaml"), t.TempDir()
	l.must(os.WriteFile(manifest, []byte(written), 0o600))
	file, asked := recordedKubeconfig(t, c)
	simulated := " --store " + store
	for _, line := range []string{
		"simulate drain node/n1 --force" + simulated, "simulate lose node/n1 --horizon 20m" + simulated,
		"simulate rollout deployment/web -n shop" + simulated,
		"simulate scale deployment/web --replicas 4 -n shop" + simulated,
		"simulate set image deployment/web c=app:2 -n shop" + simulated,
		"simulate delete deployment/web -n shop" + simulated,
		"simulate apply -f " + manifest + simulated, "simulate load deployment/web=+50% -n shop" + simulated,
		"simulate capacity -f " + manifest + simulated, "simulate score --store " + store,
		"simulate snapshot", "simulate eviction --node n1",
		"why", "why -A", "why pod/huge -n shop", "why pod/" + web + " -n shop", "why deployment/web -n shop -o json",
		"why node/n1 -o yaml", "why namespace/shop",
		"trace pod/" + web + " -n shop", "trace pod/" + web + " -n shop --all -o svg",
		"trace deployment/web -n shop --revisions",
		"trace packet --from pod/" + web + " --to pod/huge:80 -n shop",
		"status", "status --pods -o svg",
	} {
		t.Run(line, func(t *testing.T) {
			var out bytes.Buffer
			streams := cli.IO{Out: &out, Err: &out}
			root := cli.Root(streams, simulate.New(streams), why.New(streams), trace.New(streams), status.New(streams))
			root.SetOut(&out)
			root.SetErr(&out)
			root.SetArgs(append(strings.Fields(line), "--kubeconfig", file))
			asked.take()
			err := root.ExecuteContext(t.Context())
			asks := asked.take()
			if len(asks) == 0 {
				t.Errorf("got no request of gantry %s (error %v), want some:\n%s", line, err, out.String())
			}
			t.Log(fmt.Sprint(len(asks), " requests; error ", err))
			for _, ask := range asks {
				if !reads(ask) {
					t.Errorf("gantry %s sent %s, want GETs alone", line, ask)
				}
			}
		})
	}
}

package forecast_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/testcluster"
)

// metricsServer is an aggregated metrics.k8s.io: the Pods of a namespace share a load of cores.
type metricsServer struct {
	l    *lab
	load atomic.Int64 // thousandths of a core
}

func (m *metricsServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	version := map[string]any{"groupVersion": "metrics.k8s.io/v1beta1", "version": "v1beta1"}
	var out any
	switch {
	case req.URL.Path == "/apis":
		out = map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{map[string]any{
			"kind": "APIGroup", "apiVersion": "v1", "name": "metrics.k8s.io", "versions": []any{version},
			"preferredVersion": version}}}
	case req.URL.Path == "/apis/metrics.k8s.io/v1beta1":
		out = map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1",
			"resources": []any{}}
	case strings.HasSuffix(req.URL.Path, "/pods"):
		out = m.list(req)
	default:
		http.NotFound(w, req)
		return
	}
	_ = json.NewEncoder(w).Encode(out) // the caller sees a short answer
}

func (m *metricsServer) list(req *http.Request) any {
	pods, err := m.l.client.CoreV1().Pods(m.l.ns).List(req.Context(), metav1.ListOptions{})
	if err != nil {
		return map[string]any{}
	}
	items := []any{}
	for _, p := range pods.Items {
		items = append(items, map[string]any{"metadata": map[string]any{"name": p.Name, "namespace": p.Namespace},
			"timestamp": time.Now().UTC().Format(time.RFC3339), "window": "10s", "containers": []any{map[string]any{
				"name": p.Spec.Containers[0].Name, "usage": map[string]any{"memory": "1Mi",
					"cpu": fmt.Sprintf("%dm", m.load.Load()/int64(len(pods.Items)))}}}})
	}
	return map[string]any{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
		"metadata": map[string]any{}, "items": items}
}

// serveMetrics registers a metrics API, and waits until it answers.
func serveMetrics(l *lab) *metricsServer {
	m := &metricsServer{l: l}
	s := httptest.NewTLSServer(m)
	l.t.Cleanup(s.Close)
	ctx, port := l.t.Context(), int32(s.Listener.Addr().(*net.TCPAddr).Port)
	_, err := l.client.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}},
		metav1.CreateOptions{})
	l.must(err)
	_, err = l.client.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-here",
			Labels: map[string]string{discoveryv1.LabelServiceName: "metrics"}},
		AddressType: discoveryv1.AddressTypeFQDN, // others take no loopback
		Ports:       []discoveryv1.EndpointPort{{Name: new("https"), Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}}}, metav1.CreateOptions{})
	l.must(err)
	_, err = aggregatorclient.NewForConfigOrDie(l.cluster.Config).ApiregistrationV1().APIServices().Create(ctx,
		&apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1beta1.metrics.k8s.io"},
			Spec: apiregistrationv1.APIServiceSpec{Group: "metrics.k8s.io", Version: "v1beta1",
				GroupPriorityMinimum: 100, VersionPriority: 100, InsecureSkipTLSVerify: true,
				Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "metrics"}}},
		metav1.CreateOptions{})
	l.must(err)
	l.wait("the metrics API", func() bool {
		err := l.client.Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/pods").Do(ctx).Error()
		return err == nil
	})
	return m
}

// row: TOO-06
// A load is foretold, then it comes: the autoscaler makes the Pods that were foretold, where they
// were foretold, and the score says so; before it came, that it did not.
func TestALoadIsScored(t *testing.T) {
	t.Parallel()
	o := controllerruntime.DefaultHorizontalPodAutoscaling()
	o.SyncPeriod, o.CPUInitializationPeriod, o.InitialReadinessDelay = 200*time.Millisecond, 0, 0
	c := testcluster.Start(t, testcluster.WithNodes("n1", "n2"), testcluster.WithHorizontalPodAutoscaling(o))
	l := &lab{t: t, cluster: c, client: c.Client, ns: "shop"}
	_, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: l.ns}}, metav1.CreateOptions{})
	l.must(err)
	l.wait("the service account", func() bool {
		_, err := c.Client.CoreV1().ServiceAccounts(l.ns).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	metrics := serveMetrics(l)
	metrics.load.Store(300)
	_, err = c.Client.AppsV1().Deployments(l.ns).Create(t.Context(), l.deploymentOf("web", 4,
		template("web", 100, 100)), metav1.CreateOptions{})
	l.must(err)
	_, err = c.Client.AutoscalingV2().HorizontalPodAutoscalers(l.ns).Create(t.Context(),
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(4)), MaxReplicas: 10,
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
					Name: "web"},
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU,
						Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType,
							AverageUtilization: new(int32(75))}}}}}}, metav1.CreateOptions{})
	l.must(err)
	l.wait("four ready Pods", l.ready)
	as := []string{"--kubeconfig", kubeconfigFor(t, c), "--store", t.TempDir()}
	foretold := gantrySimulate(t, append([]string{"load", "deployment/web=2x", "-n", l.ns}, as...)...)
	if !strings.Contains(foretold, "600m of cores and 8Mi in 8 (8 ready) at the end") {
		t.Fatalf("foretold:\n%s, want 8 ready Pods", foretold)
	}
	if got := gantrySimulate(t, append([]string{"score"}, as...)...); !strings.Contains(got, "0 of 1 came about") {
		t.Errorf("before the load comes the score is\n%s", got)
	}
	time.Sleep(1100 * time.Millisecond) // Pods tell whole seconds
	metrics.load.Store(600)
	l.wait("eight Pods", func() bool { return len(l.pods()) == 8 && l.ready() })
	got := gantrySimulate(t, append([]string{"score"}, as...)...)
	for _, want := range []string{"deployment/web has 8 Pods (8 ready), foretold 8 (8 ready)",
		"they take 600m of cores",
		"4 of 4 came to where they were foretold", "within the spread",
		"1 of 1 came about; of 4 Pods 4 went where it was foretold"} {
		if !strings.Contains(got, want) {
			t.Errorf("got the score\n%s, want it to have %q", got, want)
		}
	}
	t.Log(foretold + got)
}

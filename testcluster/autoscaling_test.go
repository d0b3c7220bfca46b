package testcluster_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/testcluster"
)

// figures serves metrics.k8s.io and external.metrics.k8s.io: the Pods that do not end share a load
// of cpu, the metric queue has that length.
type figures struct {
	c           *testcluster.Cluster
	load, queue atomic.Int64 // in thousandths
}

func (f *figures) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	now := time.Now().UTC().Format(time.RFC3339)
	path := req.URL.Path
	group := func(name string) map[string]any {
		v := map[string]any{"groupVersion": name + "/v1beta1", "version": "v1beta1"}
		return map[string]any{"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": []any{v},
			"preferredVersion": v}
	}
	var out any
	switch {
	case path == "/apis":
		out = map[string]any{"kind": "APIGroupList", "apiVersion": "v1",
			"groups": []any{group("metrics.k8s.io"), group("external.metrics.k8s.io")}}
	case path == "/apis/metrics.k8s.io/v1beta1", path == "/apis/external.metrics.k8s.io/v1beta1":
		out = map[string]any{"kind": "APIResourceList", "apiVersion": "v1",
			"groupVersion": strings.TrimPrefix(path, "/apis/"), "resources": []any{}}
	case path == "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods":
		items := []any{}
		pods, err := f.c.Client.CoreV1().Pods("default").List(req.Context(),
			metav1.ListOptions{LabelSelector: req.URL.Query().Get("labelSelector")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
		for _, p := range pods.Items {
			items = append(items, map[string]any{"metadata": map[string]any{"name": p.Name, "namespace": p.Namespace},
				"timestamp": now, "window": "10s", "containers": []any{map[string]any{"name": p.Spec.Containers[0].Name,
					"usage": map[string]any{"cpu": fmt.Sprintf("%dm", f.load.Load()/int64(len(pods.Items))),
						"memory": "1Mi"}}}})
		}
		out = map[string]any{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
			"metadata": map[string]any{}, "items": items}
	case path == "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue":
		out = map[string]any{"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1",
			"metadata": map[string]any{}, "items": []any{map[string]any{"metricName": "queue", "metricLabels": nil,
				"timestamp": now, "value": fmt.Sprintf("%dm", f.queue.Load())}}}
	default:
		http.NotFound(w, req)
		return
	}
	_ = json.NewEncoder(w).Encode(out)
}

// publishFigures serves them and registers their groups.
func publishFigures(w *atWork) *figures {
	w.Helper()
	f := &figures{c: w.c}
	s := httptest.NewTLSServer(f)
	w.Cleanup(s.Close)
	port := int32(s.Listener.Addr().(*net.TCPAddr).Port)
	core := w.c.Client.CoreV1()
	_, err := core.Services("default").Create(w.ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "figures"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.c.Client.DiscoveryV1().EndpointSlices("default").Create(w.ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "figures-here",
			Labels: map[string]string{discoveryv1.LabelServiceName: "figures"}},
		AddressType: discoveryv1.AddressTypeFQDN, // others take no loopback
		Ports:       []discoveryv1.EndpointPort{{Name: new("https"), Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}}}, metav1.CreateOptions{})
	w.must(err)
	services := aggregatorclient.NewForConfigOrDie(w.c.Config).ApiregistrationV1().APIServices()
	for _, group := range []string{"metrics.k8s.io", "external.metrics.k8s.io"} {
		name := "v1beta1." + group
		_, err := services.Create(w.ctx, &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: apiregistrationv1.APIServiceSpec{Group: group, Version: "v1beta1", GroupPriorityMinimum: 100,
				VersionPriority: 100, InsecureSkipTLSVerify: true,
				Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "figures"}}},
			metav1.CreateOptions{})
		w.must(err)
		w.until("APIService "+name+" is available", func() bool {
			s, err := services.Get(w.ctx, name, metav1.GetOptions{})
			w.must(err)
			for _, c := range s.Status.Conditions {
				if c.Type == apiregistrationv1.Available {
					return c.Status == apiregistrationv1.ConditionTrue
				}
			}
			return false
		})
	}
	return f
}

// Autoscalers at work through the API, with metrics of an aggregated server.
func TestAutoscalersAtWork(t *testing.T) {
	t.Parallel()
	o := controllerruntime.DefaultHorizontalPodAutoscaling()
	o.SyncPeriod, o.DownscaleStabilization = 100*time.Millisecond, time.Second
	o.CPUInitializationPeriod, o.InitialReadinessDelay = 0, 0
	c := testcluster.Start(t, testcluster.WithHorizontalPodAutoscaling(o))
	w := &atWork{t, c, within(t, 5*time.Minute)}
	f := publishFigures(w)
	t.Run("a Deployment follows its load, also when the controllers are killed", func(t *testing.T) {
		deploymentFollowsLoad(&atWork{t, c, w.ctx}, f)
	})
	t.Run("a custom resource is scaled to zero and back", func(t *testing.T) {
		customResourceFollowsQueue(&atWork{t, c, w.ctx}, f)
	})
}

func (w *atWork) autoscaler(name string) *autoscalingv2.HorizontalPodAutoscaler {
	w.Helper()
	h, err := w.c.Client.AutoscalingV2().HorizontalPodAutoscalers("default").Get(w.ctx, name, metav1.GetOptions{})
	w.must(err)
	return h
}

func scalingCondition(h *autoscalingv2.HorizontalPodAutoscaler,
	kind autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	for _, c := range h.Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

func deploymentFollowsLoad(w *atWork, f *figures) {
	api := w.c.Client
	spec := template("web")
	spec.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("100m")}
	_, err := api.AppsV1().Deployments("default").Create(w.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: selector("web"), Template: spec}},
		metav1.CreateOptions{})
	w.must(err)
	f.load.Store(40) // one Pod is to have 50
	replicas := func(n int32) func() bool {
		return func() bool {
			d, err := api.AppsV1().Deployments("default").Get(w.ctx, "web", metav1.GetOptions{})
			w.must(err)
			return *d.Spec.Replicas == n && d.Status.ReadyReplicas == n
		}
	}
	w.until("a Pod, without which each period would have its event", replicas(1))
	hpas := api.AutoscalingV2().HorizontalPodAutoscalers("default")
	_, err = hpas.Create(w.ctx, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 5,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
				Name: "web"},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType,
						AverageUtilization: new(int32(50))}}}}}}, metav1.CreateOptions{})
	w.must(err)
	w.until("the use is known", func() bool {
		h := w.autoscaler("web")
		return scalingCondition(h, autoscalingv2.ScalingActive) == "True ValidMetricFound" &&
			len(h.Status.CurrentMetrics) == 1 && *h.Status.CurrentMetrics[0].Resource.Current.AverageUtilization == 40
	})
	f.load.Store(600) // 12 Pods
	w.until("as many as there may be", replicas(5))
	w.until("the limit is said", func() bool {
		h := w.autoscaler("web")
		return scalingCondition(h, autoscalingv2.ScalingLimited) == "True TooManyReplicas" &&
			h.Status.DesiredReplicas == 5 && h.Status.LastScaleTime != nil
	})
	var seen []string
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("events: %q", seen)
		}
	})
	w.until("an event", func() bool {
		seen = nil
		list, err := api.CoreV1().Events("default").List(w.ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.kind=HorizontalPodAutoscaler"})
		w.must(err)
		for _, e := range list.Items {
			seen = append(seen, e.Source.Component+" "+e.Reason+" "+e.Message)
			if e.Source.Component == "horizontal-pod-autoscaler" &&
				e.Message == "New size: 4; reason: cpu resource utilization (percentage of request) above target" {
				return true
			}
		}
		return false
	})

	w.c.KillControllers()
	f.load.Store(90)
	w.c.StartControllers() // they have forgotten what was recommended, and begin with what is
	w.until("fewer once the load was low for the window", replicas(2))
	f.load.Store(10)
	w.until("no fewer than one", replicas(1))

	// The object changes: its new bound counts at once, whatever the load.
	_, err = hpas.Patch(w.ctx, "web", types.MergePatchType, []byte(`{"spec":{"minReplicas":3}}`), metav1.PatchOptions{})
	w.must(err)
	w.until("the new minimum", replicas(3))
	h := w.autoscaler("web")
	w.until("its generation is observed", func() bool {
		h = w.autoscaler("web")
		return h.Status.ObservedGeneration != nil && *h.Status.ObservedGeneration == h.Generation && h.Generation == 2
	})
	w.must(hpas.Delete(w.ctx, "web", metav1.DeleteOptions{}))
}

// customResourceFollowsQueue: a kind that Gantry does not know is scaled by its scale subresource.
func customResourceFollowsQueue(w *atWork, f *figures) {
	path := ".status.selector"
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "fleets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "fleets", Singular: "fleet", Kind: "Fleet",
				ListKind: "FleetList"},
			Scope: apiextensionsv1.NamespaceScoped, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true)}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas",
						StatusReplicasPath: ".status.replicas", LabelSelectorPath: &path}}}}}}
	_, err := apiextensions.NewForConfigOrDie(w.c.Config).ApiextensionsV1().CustomResourceDefinitions().Create(w.ctx,
		crd,
		metav1.CreateOptions{})
	w.must(err)
	client := w.c.Client.Discovery().RESTClient()
	const fleets = "/apis/example.com/v1/namespaces/default/fleets"
	w.until("the kind is served", func() bool {
		return client.Post().AbsPath(fleets).Body([]byte(`{"apiVersion":"example.com/v1","kind":"Fleet",
			"metadata":{"name":"ships"},"spec":{"replicas":2},"status":{"replicas":2,"selector":"fleet=ships"}}`)).
			SetHeader("Content-Type", "application/json").Do(w.ctx).Error() == nil
	})
	f.queue.Store(0)
	_, err = w.c.Client.AutoscalingV2().HorizontalPodAutoscalers("default").Create(w.ctx,
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "ships"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(0)), MaxReplicas: 9,
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1", Kind: "Fleet",
					Name: "ships"},
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType,
					External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
						Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
							AverageValue: resource.NewQuantity(10, resource.DecimalSI)}}}}}}, metav1.CreateOptions{})
	w.must(err)
	size := func(n float64) func() bool {
		return func() bool { return fleetSize(w, client, fleets+"/ships") == n }
	}
	w.until("none for an empty queue", size(0))
	w.until("it is said who scaled to zero", func() bool {
		return scalingCondition(w.autoscaler("ships"), autoscalingv2.ScaledToZero) == "True ScaledToZero"
	})
	f.queue.Store(35_000)
	w.until("as many as the queue asks for", size(4))
}

func fleetSize(w *atWork, client rest.Interface, path string) float64 {
	w.Helper()
	raw, err := client.Get().AbsPath(path).DoRaw(w.ctx)
	w.must(err)
	var fleet struct {
		Spec struct{ Replicas float64 }
	}
	w.must(json.Unmarshal(raw, &fleet))
	return fleet.Spec.Replicas
}

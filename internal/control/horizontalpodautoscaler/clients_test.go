package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// preferredVersion is the preferred version of custom.metrics.k8s.io.
type preferredVersion struct {
	version string
	err     error
}

func (p preferredVersion) PreferredVersion() (schema.GroupVersion, error) {
	return schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: p.version}, p.err
}

func (preferredVersion) Invalidate() {}

const (
	at     = `"timestamp":"2026-01-02T03:04:05Z"`
	custom = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/"
)

// answers are those of the metrics APIs by path and query.
var answers = map[string]string{
	"/apis/metrics.k8s.io/v1beta1/namespaces/n/pods?labelSelector=app%3Dweb": `{"kind":"PodMetricsList",
		"apiVersion":"metrics.k8s.io/v1beta1","items":[
		{"metadata":{"name":"a"},` + at + `,"window":"20s","containers":[
			{"name":"app","usage":{"cpu":"250m","memory":"1Mi"}},{"name":"side","usage":{"cpu":"50m"}}]},
		{"metadata":{"name":"b"},` + at + `,"window":"20s","containers":[]}]}`,
	custom + "pods/%2A/hits?labelSelector=app%3Dweb&metricLabelSelector=a%3Db": `
		{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","items":[
		{"describedObject":{"kind":"Pod","name":"a"},"metric":{"name":"hits"},` + at + `,"value":"1500m"},
		{"describedObject":{"kind":"Pod","name":"b"},"metric":{"name":"hits"},` + at +
		`,"windowSeconds":30,"value":"2"}]}`,
	custom + "services/front/hits?metricLabelSelector=a%3Db": `
		{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","items":[
		{"describedObject":{"kind":"Service","name":"front"},"metric":{"name":"hits"},` + at + `,"value":"7"}]}`,
	custom + "metrics/hits?metricLabelSelector=a%3Db": `
		{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","items":[
		{"describedObject":{"kind":"Namespace","name":"n"},"metric":{"name":"hits"},` + at + `,"value":"8"}]}`,
	"/apis/external.metrics.k8s.io/v1beta1/namespaces/n/hits?labelSelector=a%3Db": `
		{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[
		{"metricName":"hits",` + at + `,"value":"3"},{"metricName":"hits",` + at + `,"value":"500m"}]}`,
}

// Each kind of metric is asked for at its API, and answers become figures in thousandths.
func TestFiguresOfTheMetricsAPIs(t *testing.T) {
	empty := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[req.URL.EscapedPath()+"?"+req.URL.RawQuery]
		if !ok {
			t.Errorf("got a request of %s", req.URL)
			http.NotFound(w, req)
			return
		}
		if empty {
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"none today","code":503}`
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprint(w, answer)
	}))
	defer s.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Service"), meta.RESTScopeNamespace)
	clients, err := newClients(client.Discovery(), mapper, preferredVersion{version: "v1beta2"})
	if err != nil {
		t.Fatal(err)
	}
	id := autoscalingv2.MetricIdentifier{Name: "hits",
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
	stamp := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sample := func(v int64, seconds int) Sample { return Sample{v, stamp, time.Duration(seconds) * time.Second} }
	object := func(kind, name string) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType,
			Object: &autoscalingv2.ObjectMetricSource{Metric: id,
				DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: kind, Name: name}}}
	}
	use := func(name corev1.ResourceName, container string) autoscalingv2.MetricSpec {
		if container == "" {
			return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: name}}
		}
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType,
			ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: name, Container: container}}
	}
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}
	var wants []MetricValue
	for _, c := range []struct {
		spec autoscalingv2.MetricSpec
		want MetricValue
	}{
		{use("cpu", ""), MetricValue{Pods: map[string]Sample{"a": sample(300, 20)}}},
		{use("memory", ""), MetricValue{Pods: map[string]Sample{}}}, // not known of every container
		{use("memory", "app"), MetricValue{Pods: map[string]Sample{"a": sample(1<<20*1000, 20)}}},
		{autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType,
			Pods: &autoscalingv2.PodsMetricSource{Metric: id}},
			MetricValue{Pods: map[string]Sample{"a": sample(1500, 60), "b": sample(2000, 30)}}},
		{object("Service", "front"), MetricValue{Value: 7000}},
		{object("Namespace", "another"), MetricValue{Value: 8000}},
		{autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType,
			External: &autoscalingv2.ExternalMetricSource{Metric: id}}, MetricValue{Values: []int64{3000, 500}}},
	} {
		h.Spec.Metrics = append(h.Spec.Metrics, c.spec)
		wants = append(wants, c.want)
	}
	selector, _ := labels.Parse("app=web")
	timed := 0
	got := clients.MetricValues(t.Context(), h, selector, func(int, time.Duration) { timed++ })
	for i, want := range wants {
		for name, s := range got[i].Pods { // in the zone of the machine
			s.Timestamp = s.Timestamp.UTC()
			got[i].Pods[name] = s
		}
		if !reflect.DeepEqual(got[i], want) {
			t.Errorf("metric %d: got %+v, want %+v", i, got[i], want)
		}
	}
	if timed != len(wants) {
		t.Errorf("got %d times, want %d", timed, len(wants))
	}
	empty = true
	for i, f := range clients.MetricValues(t.Context(), h, selector, func(int, time.Duration) {}) {
		if f.Err == nil {
			t.Errorf("metric %d: got no error of an API that answers 503", i)
		}
	}
}

// Without an API of custom metrics, and without a connection to ask at all, there are errors.
func TestMetricsAPIsThatAreNotThere(t *testing.T) {
	missing := errors.New("no custom metrics API (custom.metrics.k8s.io) registered")
	c := &customClient{available: preferredVersion{err: missing}}
	if _, err := c.RootScopedMetrics().GetForObject(schema.GroupKind{}, "", "", nil); !errors.Is(err, missing) {
		t.Errorf("got %v, want %v", err, missing)
	}
	if _, err := c.NamespacedMetrics("n").GetForObjects(schema.GroupKind{}, nil, "", nil); !errors.Is(err, missing) {
		t.Errorf("got %v, want %v", err, missing)
	}
	if _, err := newClients(fake.NewClientset().Discovery(), nil, nil); err == nil {
		t.Error("got no error for a client without a connection")
	}
}

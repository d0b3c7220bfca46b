package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fakescale "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// bench is a controller whose caches, scale and events a test holds.
type bench struct {
	*controller
	client   *fake.Clientset
	scales   *fakescale.FakeScaleClient
	recorder *record.FakeRecorder
	hpas     cache.Indexer
	scale    *autoscalingv1.Scale
}

// staticMapper knows the kinds it was given; nothing is there to be asked again.
type staticMapper struct{ *meta.DefaultRESTMapper }

func (staticMapper) Reset() {}

func newBench(t *testing.T, hpas ...*autoscalingv2.HorizontalPodAutoscaler) *bench {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion})
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	client := fake.NewClientset()
	shared := informers.NewSharedInformerFactory(client, 0)
	b := &bench{client: client, scales: &fakescale.FakeScaleClient{}, recorder: record.NewFakeRecorder(100),
		hpas: shared.Autoscaling().V2().HorizontalPodAutoscalers().Informer().GetIndexer(),
		scale: &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web", ResourceVersion: "1"},
			Spec:   autoscalingv1.ScaleSpec{Replicas: 2},
			Status: autoscalingv1.ScaleStatus{Replicas: 2, Selector: "app=web"}}}
	b.controller = &controller{
		controllerContext: controllerruntime.ControllerContext{Client: client, Informers: shared, Recorder: b.recorder},
		options:           controllerruntime.DefaultHorizontalPodAutoscaling(), mapper: staticMapper{mapper},
		autoscalers: shared.Autoscaling().V2().HorizontalPodAutoscalers().Lister(),
		pods:        shared.Core().V1().Pods().Lister(), histories: newHistoryStore(), scales: b.scales,
		clientsErr: errors.New("no metrics API"),
	}
	pods := shared.Core().V1().Pods().Informer().GetIndexer()
	for i := range 2 {
		_ = pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprint("web-", i),
			Labels: map[string]string{"app": "web"}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}})
	}
	for _, h := range hpas {
		_ = b.hpas.Add(h)
		if _, err := client.AutoscalingV2().HorizontalPodAutoscalers("n").Create(t.Context(), h,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.scales.AddReactor("get", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, b.scale.DeepCopy(), nil
	})
	b.scales.AddReactor("update", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
		b.scale = a.(clienttesting.UpdateAction).GetObject().(*autoscalingv1.Scale)
		return true, b.scale, nil
	})
	return b
}

func autoscaler(name string, least, most int32) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u", Generation: 1, ResourceVersion: "10"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: &least, MaxReplicas: most,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
				Name: "web"},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType,
						AverageUtilization: new(int32(80))}}}}}}
}

// sync syncs an autoscaler once and returns its events; the cache then has the status.
func (b *bench) sync(t *testing.T, name string) []string {
	t.Helper()
	again, err := b.syncAutoscaler(t.Context(), "n/"+name)
	if err != nil || again != 15*time.Second {
		t.Errorf("got another sync after %s and error %v, want 15s and none", again, err)
	}
	if h, err := b.client.AutoscalingV2().HorizontalPodAutoscalers("n").Get(t.Context(), name,
		metav1.GetOptions{}); err == nil {
		_ = b.hpas.Update(h)
	}
	var events []string
	for len(b.recorder.Events) > 0 {
		events = append(events, <-b.recorder.Events)
	}
	return events
}

func (b *bench) condition(t *testing.T, name string,
	kind autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	t.Helper()
	h, err := b.autoscalers.HorizontalPodAutoscalers("n").Get(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range h.Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

func wantEvents(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got events %q, want %q", got, want)
	}
}

// The scale is written and said; the status carries it.
func TestAScaleIsWritten(t *testing.T) {
	b := newBench(t, autoscaler("hpa", 3, 9))
	wantEvents(t, b.sync(t, "hpa"),
		"Normal SuccessfulRescale New size: 3; reason: Current number of replicas below Spec.MinReplicas")
	if b.scale.Spec.Replicas != 3 {
		t.Errorf("got a scale of %d, want 3", b.scale.Spec.Replicas)
	}
	h, _ := b.autoscalers.HorizontalPodAutoscalers("n").Get("hpa")
	if s := h.Status; s.DesiredReplicas != 3 || s.CurrentReplicas != 2 || s.LastScaleTime == nil ||
		*s.ObservedGeneration != 1 {
		t.Errorf("got status %+v, want 3 desired of 2 at a time, of generation 1", s)
	}
}

// A conflict is tried again with what the scale is then; any other refusal is said, leaves the
// scale, and the next period tries again.
func TestARefusedWriteOfTheScale(t *testing.T) {
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for _, c := range []struct {
		name    string
		refusal error
		times   int
		events  []string
		able    string
		writes  int
	}{
		{"a conflict", apierrors.NewConflict(resource, "web", errors.New("changed")), 1,
			[]string{"Normal SuccessfulRescale New size: 3; reason: Current number of replicas below Spec.MinReplicas"},
			"True SucceededRescale: the HPA controller was able to update the target scale to 3", 2},
		{"conflicts without end", apierrors.NewConflict(resource, "web", errors.New("changed")), 99, []string{
			"Warning FailedRescale New size: 3; reason: Current number of replicas below Spec.MinReplicas; error: " +
				`Operation cannot be fulfilled on deployments.apps "web": changed`},
			"False FailedUpdateScale: the HPA controller was unable to update the target scale: " +
				`Operation cannot be fulfilled on deployments.apps "web": changed`, 5},
		{"a quota", apierrors.NewForbidden(resource, "web", errors.New("exceeded quota: q")), 1, []string{
			"Warning FailedRescale New size: 3; reason: Current number of replicas below Spec.MinReplicas; error: " +
				`deployments.apps "web" is forbidden: exceeded quota: q`},
			"False FailedUpdateScale: the HPA controller was unable to update the target scale: " +
				`deployments.apps "web" is forbidden: exceeded quota: q`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, autoscaler("hpa", 3, 9))
			var versions []string
			b.scales.PrependReactor("update",
				"deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
					sent := a.(clienttesting.UpdateAction).GetObject().(*autoscalingv1.Scale)
					if sent.Spec.Replicas != 3 {
						t.Errorf("got a write of %d replicas, want 3", sent.Spec.Replicas)
					}
					versions = append(versions, sent.ResourceVersion)
					if len(versions) <= c.times {
						b.scale.ResourceVersion = "2" // somebody else wrote it
						return true, nil, c.refusal
					}
					return false, nil, nil
				})
			wantEvents(t, b.sync(t, "hpa"), c.events...)
			if got := b.condition(t, "hpa", autoscalingv2.AbleToScale); got != c.able {
				t.Errorf("got AbleToScale %s\nwant %s", got, c.able)
			}
			if len(versions) != c.writes || len(versions) > 1 && versions[1] != "2" {
				t.Errorf("got writes of versions %q, want %d, the second of version 2", versions, c.writes)
			}
			if c.times == 99 {
				return
			}
			b.sync(t, "hpa")
			if b.scale.Spec.Replicas != 3 {
				t.Errorf("got a scale of %d after another period, want 3", b.scale.Spec.Replicas)
			}
		})
	}
}

// A status that cannot be written is said; what was decided stands, and the next period writes it.
func TestARefusedWriteOfTheStatus(t *testing.T) {
	b := newBench(t, autoscaler("hpa", 3, 9))
	refuse := true
	b.client.PrependReactor("update", "horizontalpodautoscalers",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			return refuse, nil, errors.New("not now")
		})
	wantEvents(t, b.sync(t, "hpa"),
		"Normal SuccessfulRescale New size: 3; reason: Current number of replicas below Spec.MinReplicas",
		"Warning FailedUpdateStatus not now")
	refuse = false
	b.sync(t, "hpa")
	if got := b.condition(t, "hpa", autoscalingv2.AbleToScale); !strings.HasPrefix(got, "True SucceededGetScale") {
		t.Errorf("got AbleToScale %q, want True SucceededGetScale", got)
	}
}

// What cannot be scaled is said: a kind nobody serves, a group that is none, an object that is
// gone.
func TestATargetThatIsNotThere(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web")
	for _, c := range []struct {
		name, apiVersion, kind, want string
		answer                       error
	}{
		{"a kind nobody serves", "apps/v1", "Fleet", "no matches for apps/, Resource=Fleet", nil},
		{"no group", "a/b/c", "Deployment", "unexpected GroupVersion string: a/b/c", nil},
		{"an object that is gone", "apps/v1", "Deployment", `deployments.apps "web" not found`, gone},
	} {
		h := autoscaler("hpa", 1, 9)
		h.Spec.ScaleTargetRef.APIVersion, h.Spec.ScaleTargetRef.Kind = c.apiVersion, c.kind
		b := newBench(t, h)
		if c.answer != nil {
			b.scales.PrependReactor("get", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, c.answer
			})
		}
		wantEvents(t, b.sync(t, "hpa"), "Warning FailedGetScale "+c.want)
		want := "False FailedGetScale: the HPA controller was unable to get the target's current scale: " + c.want
		if got := b.condition(t, "hpa", autoscalingv2.AbleToScale); got != want {
			t.Errorf("%s: got AbleToScale %q, want %q", c.name, got, want)
		}
	}
}

// Two autoscalers of the same Pods leave each other alone until one of them is gone.
func TestTwoAutoscalersOfTheSamePods(t *testing.T) {
	b := newBench(t, autoscaler("one", 1, 9), autoscaler("two", 1, 9))
	b.sync(t, "one")
	const text = "pods by selector app=web are controlled by more than one HPA (e.g. [n/one n/two])"
	wantEvents(t, b.sync(t, "two"), "Warning AmbiguousSelector "+text, "Warning FailedComputeMetricsReplicas "+text)
	if got := b.condition(t, "two", autoscalingv2.ScalingActive); got != "False AmbiguousSelector: "+text {
		t.Errorf("got ScalingActive %q, want %v", got, "False AmbiguousSelector: "+text)
	}
	h, _ := b.autoscalers.HorizontalPodAutoscalers("n").Get("one")
	_ = b.hpas.Delete(h)
	if again, err := b.syncAutoscaler(t.Context(), "n/one"); again != 0 || err != nil {
		t.Errorf("got another sync of one that is gone after %s, error %v, want 0, no error", again, err)
	}
	wantEvents(t, b.sync(t, "two"),
		"Warning FailedGetResourceMetric failed to get cpu utilization: unable to get metrics for resource cpu: no "+
			"metrics API",
		"Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed to get "+
			"cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: no "+
			"metrics API")
}

// A cache that lacks the controller's own last write is not decided by.
func TestAStaleCacheIsWaitedFor(t *testing.T) {
	b := newBench(t, autoscaler("hpa", 3, 9))
	newer := autoscaler("hpa", 3, 9)
	newer.ResourceVersion = "11"
	b.histories.recordStatus("n/hpa", newer)
	if _, err := b.syncAutoscaler(t.Context(), "n/hpa"); !errors.Is(err, errStale) {
		t.Errorf("got %v, want %v", err, errStale)
	}
	if b.scale.Spec.Replicas != 2 {
		t.Errorf("got a scale of %d by a stale cache, want 2", b.scale.Spec.Replicas)
	}
	newer.UID = "other" // of the same name
	b.histories.recordStatus("n/hpa", newer)
	b.sync(t, "hpa")
	if b.scale.Spec.Replicas != 3 {
		t.Errorf("got a scale of %d, want 3: another object of the name was written", b.scale.Spec.Replicas)
	}
}

// New, changed and deleted ones are synced at once, and not at a write of the status.
func TestUpdatesThatCauseASync(t *testing.T) {
	a, status, spec := autoscaler("hpa", 1, 2), autoscaler("hpa", 1, 2), autoscaler("hpa", 1, 3)
	status.Status.CurrentReplicas = 1
	spec.Generation = 2
	uncounted, changed := autoscaler("hpa", 1, 2), autoscaler("hpa", 1, 3) // a server that counts no generations
	uncounted.Generation, changed.Generation = 0, 0
	for _, c := range []struct {
		name     string
		old, cur runtime.Object
		want     int
	}{
		{"new", nil, a, 1}, {"status", a, status, 0}, {"spec", a, spec, 1}, {"deleted", a, nil, 1},
		{"spec, uncounted", uncounted, changed, 1}, {"status, uncounted", uncounted, uncounted, 0},
	} {
		if got := changedSpecs(c.old, c.cur); len(got) != c.want || c.want == 1 && got[0] != "n/hpa" {
			t.Errorf("%s: got %q, want %d", c.name, got, c.want)
		}
	}
}

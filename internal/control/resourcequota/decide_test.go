package resourcequota

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/quota/v1/generic"

	ownquota "github.com/gantry-project/gantry/internal/quota"
	"github.com/gantry-project/gantry/test/wrappers"
)

var amounts = wrappers.ResourceList

func pod(phase corev1.PodPhase, cpu string) *corev1.Pod {
	return wrappers.MakePod().Namespace("ns").Phase(phase).Req(map[corev1.ResourceName]string{"cpu": cpu}).Obj()
}

func stored(objects map[string][]runtime.Object) func(schema.GroupResource) generic.ListFuncByNamespace {
	return func(gr schema.GroupResource) generic.ListFuncByNamespace {
		return func(string) ([]runtime.Object, error) {
			list, ok := objects[gr.String()]
			if !ok {
				return nil, errors.New("no such resource " + gr.String())
			}
			return list, nil
		}
	}
}

func TestCountsWhatIsThere(t *testing.T) {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: amounts("pods", "5", "requests.cpu", "4", "count/deployments.apps", "3",
			"configmaps", "9")}}
	in := In{Quota: q, Now: time.Now(), List: stored(map[string][]runtime.Object{
		"pods": {pod(corev1.PodRunning, "1200m"), pod(corev1.PodPending, "1"),
			pod(corev1.PodSucceeded, "8")},
		"deployments.apps": {&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}},
		"configmaps":       {&metav1.PartialObjectMetadata{}},
	})}
	got, err := Count(in)
	if err != nil {
		t.Fatal(err)
	}
	want := corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: amounts("pods", "2", "requests.cpu", "2200m",
		"count/deployments.apps", "2", "configmaps", "1")}
	if !Equal(got, want) {
		t.Errorf("got %v, want %v", got.Used, want.Used)
	}
	if !Uncounted(q) {
		t.Error("a new quota counts as counted")
	}
	if q.Status = got; Uncounted(q) {
		t.Error("a counted quota counts as not counted")
	}
}

func TestUncountableResourcesKeepTheirUsage(t *testing.T) {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"},
		Spec:   corev1.ResourceQuotaSpec{Hard: amounts("pods", "5", "count/things.x", "3")},
		Status: corev1.ResourceQuotaStatus{Used: amounts("count/things.x", "2", "left.over", "1")}}
	got, err := Count(In{Quota: q, Now: time.Now(),
		List: stored(map[string][]runtime.Object{"pods": {pod(corev1.PodRunning, "1")}})})
	if err == nil {
		t.Fatal("the unknown kind is no error")
	}
	if !Equal(got, corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: amounts("pods", "1", "count/things.x", "2")}) {
		t.Errorf("used %v", got.Used)
	}
}

func TestScopesAreCountedApart(t *testing.T) {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"},
		Spec: corev1.ResourceQuotaSpec{Hard: amounts("pods", "5"),
			Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}}}
	best := pod(corev1.PodRunning, "1")
	best.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	got, err := Count(In{Quota: q, Now: time.Now(),
		List: stored(map[string][]runtime.Object{"pods": {pod(corev1.PodRunning, "1"), best}})})
	if n := got.Used["pods"]; err != nil || n.Value() != 1 {
		t.Errorf("used %v (%v), want the one best-effort Pod", got.Used, err)
	}
}

func TestOnlyWhatUsesOtherAmountsCountsAnew(t *testing.T) {
	e := ownquota.Evaluators(stored(nil), time.Now)[0]
	running := pod(corev1.PodRunning, "1")
	if Changed(e, pod(corev1.PodPending, "1"), running) {
		t.Error("a start changes the amounts")
	}
	if got, want := []bool{
		Changed(e, running, pod(corev1.PodFailed, "1")), Changed(e, running, pod(corev1.PodRunning, "2")),
	}, []bool{true, true}; !slices.Equal(got, want) {
		t.Errorf("an end or a resize changes nothing: got %v, want %v", got, want)
	}
	late := pod(corev1.PodRunning, "1")
	late.Spec.ActiveDeadlineSeconds = new(int64(5))
	if !Changed(e, running, late) {
		t.Error("a deadline moves the Pod to another scope")
	}
}

func TestUsageThatSank(t *testing.T) {
	of := func(pods string) corev1.ResourceQuotaStatus {
		return corev1.ResourceQuotaStatus{Used: corev1.ResourceList{"pods": resource.MustParse(pods),
			"services": resource.MustParse("1")}}
	}
	for _, c := range []struct {
		written, counted string
		lower            bool
	}{{"2", "1", true}, {"2", "2", false}, {"2", "3", false}} {
		if got := IsLower(of(c.written), of(c.counted)); got != c.lower {
			t.Errorf("%s written, %s counted: %v, want %v", c.written, c.counted, got, c.lower)
		}
	}
	if IsLower(corev1.ResourceQuotaStatus{}, of("1")) {
		t.Error("nothing was written, and yet less is counted")
	}
}

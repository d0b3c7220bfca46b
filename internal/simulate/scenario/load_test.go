package scenario

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

// autoscaler scales the Deployment of its name to a utilization of cores.
func autoscaler(name string, most, utilization int32) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: most,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
				Name: name},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization}}}}}}
}

func load(t *testing.T, args ...string) func() Change {
	t.Helper()
	return func() Change {
		var l Load
		for _, a := range args {
			x, err := ParseLoad(a, "default")
			if err != nil {
				t.Fatal(err)
			}
			l.Targets = append(l.Targets, x)
		}
		return &l
	}
}

// pending is what is told of an object that reached a bound.
func pending(f *forecast.Forecast, object string) string {
	for _, p := range f.Pending {
		if strings.HasPrefix(p.Object, object) {
			return p.Cause + " → " + strings.Join(p.Fixes, "; ")
		}
	}
	return ""
}

// row: TOO-06
// The autoscaler makes as many Pods as bring the use of each to its target: three that take what
// they request, half as much again, are 450 % of a Pod's request, five of 90 %.
func TestLoadIsScaled(t *testing.T) {
	in := input(append(nodes("8", "8"), deployment("web", 3, "500m"), autoscaler("web", 10, 90))...)
	f := simulate(t, in, load(t, "deployment/web=+50%"))
	l := f.Loads[0]
	if !f.Outcome.Done || l.Pods != 5 || l.Ready != 5 || l.CPUBefore != 1500 || l.CPU != 2250 ||
		l.Autoscaler != "web" || l.Measured {
		t.Errorf("outcome %+v, load %+v, want 5 ready Pods", f.Outcome, l)
	}
	if f.Outcome.Took <= 0 || f.Outcome.Took > 5*time.Minute {
		t.Errorf("took %v, want the time of the last Pod that became ready", f.Outcome.Took)
	}
	if len(f.Notes) == 0 || !strings.Contains(f.Notes[len(f.Notes)-1], "requests are taken") {
		t.Errorf("notes %q, want one that nothing was measured", f.Notes)
	}
	f = simulate(t, in, load(t, "deployment/web=-70%"))
	if l := f.Loads[0]; !f.Outcome.Done || l.Pods != 1 || f.Outcome.Took < 4*time.Minute {
		t.Errorf("outcome %+v, load %+v, want 1 Pod after the autoscaler's five minutes", f.Outcome, l)
	}
}

// Who needs more Pods than may be says so, with what to do: the autoscaler's most, a quota, room.
func TestLoadMeetsBounds(t *testing.T) {
	objects := func(most int32, more ...runtime.Object) []runtime.Object {
		return append(append(nodes("4"), deployment("web", 2, "500m"), autoscaler("web", most, 50)), more...)
	}
	f := simulate(t, input(objects(3)...), load(t, "deployment/web=2x"))
	if got := pending(f, "horizontalpodautoscaler/web"); !f.Outcome.Done || f.Loads[0].Pods != 3 ||
		!strings.Contains(got, "maximum replica count") || !strings.Contains(got, `"maxReplicas":8`) {
		t.Errorf("outcome %+v, load %+v, told %q, want 3 Pods and 8 wanted", f.Outcome, f.Loads[0], got)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "small"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("4")}}}
	f = simulate(t, input(objects(9, quota)...), load(t, "deployment/web=2x"))
	if got := pending(f, "replicaset/web-"); f.Outcome.Done || f.Loads[0].Pods != 4 ||
		!strings.Contains(got, "exceeded quota: small") || !strings.Contains(got, "edit resourcequota small") {
		t.Errorf("outcome %+v, load %+v, told %q, want a quota of 4", f.Outcome, f.Loads[0], got)
	}
	f = simulate(t, input(objects(20)...), load(t, "deployment/web=4x"))
	if l := f.Loads[0]; f.Outcome.Done || l.Ready != 8 || l.Pods != 16 ||
		!strings.Contains(f.Outcome.Why, "8 of 16") {
		t.Errorf("outcome %+v, load %+v, want 8 that find room", f.Outcome, l)
	}
}

// row: TOO-01
// Pods that take more memory than the node has are evicted, those first that exceed what they
// request; a container that exceeds its limit is killed.
func TestLoadOfMemory(t *testing.T) {
	memory := func(d *appsv1.Deployment, request, limit string) *appsv1.Deployment {
		r := &d.Spec.Template.Spec.Containers[0].Resources
		r.Requests[corev1.ResourceMemory] = resource.MustParse(request)
		if limit != "" {
			r.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
		}
		return d
	}
	in := input(append(nodes("8", "8"), memory(deployment("web", 2, "100m"), "20Gi", ""),
		memory(deployment("other", 2, "100m"), "20Gi", ""))...)
	f := simulate(t, in, load(t, "deployment/web=50Gi"))
	evicted := count(f, func(p forecast.Pod) bool { return p.Cause == nodePressure && p.Owner == "deployment/web" })
	others := count(f, func(p forecast.Pod) bool { return p.Cause == nodePressure && p.Owner != "deployment/web" })
	if evicted == 0 || others != 0 {
		t.Errorf("%d of web evicted, %d of others, want those that exceed their requests alone", evicted, others)
	}
	in = input(append(nodes("8"), memory(deployment("web", 2, "100m"), "1Gi", "2Gi"))...)
	f = simulate(t, in, load(t, "deployment/web=3x"))
	if got := pending(f, "deployment/web, container c"); f.Outcome.Done || !strings.Contains(got, "OOMKilled") ||
		!strings.Contains(got, "above 3Gi") {
		t.Errorf("outcome %+v, told %q, want kills", f.Outcome, got)
	}
}

// row: TOO-06
// Where neither a metrics API nor a kubelet tells what Pods take, the most memory that Pods of the
// workload took which have ended counts, not what they request; figures of running Pods go before
// it.
func TestMemoryIsLearntFromLives(t *testing.T) {
	d := deployment("web", 2, "100m")
	d.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Gi")
	in := input(append(nodes("8"), d)...)
	in.Model.ByOwner = map[string]behavior.Times{"default/Deployment/web": behavior.Assumed()}
	lived := behavior.Script{Memory: new(resource.MustParse("300Mi"))}
	in.Model = in.Model.Play(map[string]behavior.Script{"default/Deployment/web": lived})
	f := simulate(t, in, load(t, "deployment/web=2x"))
	if l := f.Loads[0]; l.MemoryBefore != 600<<20 || l.Memory != 1200<<20 || l.CPUBefore != 200 || l.Measured {
		t.Errorf("got %+v, want 600Mi before and 1200Mi after, of CPU the requests of 200m, and not measured", l)
	}
	if !strings.Contains(strings.Join(f.Notes, "\n"), "of memory the most that Pods took") {
		t.Errorf("got notes %q, want one that memory is what the journal tells", f.Notes)
	}
	in.Model.ByOwner = nil
	if l := simulate(t, in, load(t, "deployment/web=2x")).Loads[0]; l.MemoryBefore != 2<<30 {
		t.Errorf("got %+v without lives, want the requests of 2Gi before", l)
	}
}

// A workload has one change: of two the first would be told and not be true.
func TestALoadNamesAWorkloadOnce(t *testing.T) {
	web, err := ParseLoad("deployment/web=2x", "default")
	if err != nil {
		t.Fatal(err)
	}
	l := Load{Targets: []LoadTarget{web, web}}
	if err := l.check(); err == nil || !strings.Contains(err.Error(), "deployment/web is named twice") {
		t.Errorf("got %v, want an error that names the workload", err)
	}
}

// What is no change of a load is refused.
func TestWrongLoads(t *testing.T) {
	for _, arg := range []string{"deployment/web", "deployment/web=", "deployment/web=-100%", "deployment/web=0x",
		"deployment/web=+NaN%", "deployment/web=-5m", "web=2x", "deployment/web=1e99x", "deployment/web=50%"} {
		if _, err := ParseLoad(arg, "default"); err == nil {
			t.Errorf("%s was taken", arg)
		}
	}
}

// What ready Pods take of a load is bounded by their limits.
func TestTakenLoadIsWithinLimits(t *testing.T) {
	d := deployment("web", 3, "500m")
	d.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("700m")}
	f := simulate(t, input(append(nodes("8", "8"), d)...), load(t, "deployment/web=2x"))
	if l := f.Loads[0]; l.CPU != 3000 || l.CPUTaken != 2100 || l.Namespace != "default" {
		t.Errorf("got %+v, want 3000m of load and 2100m taken in namespace default", l)
	}
}

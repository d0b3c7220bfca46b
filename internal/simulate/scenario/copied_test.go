package scenario

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

// copyWithoutUnread returns the objects of a cluster at rest as somebody reads them who may not
// list some kinds.
func copyWithoutUnread(t *testing.T, in Input, unread func(runtime.Object) bool) Input {
	t.Helper()
	all, err := AtRest(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	in.Objects, in.Start = slices.DeleteFunc(all, unread), in.Start.Add(time.Hour)
	return in
}

// Pods that fail are not healed by being copied: a budget has no more room than in the cluster, and
// a note names them.
func TestFailingPodsStayAsTheyAre(t *testing.T) {
	in := copyWithoutUnread(t, input(append(nodes("4", "4"), deployment("web", 2, "500m"), budget("web", 1))...),
		func(runtime.Object) bool { return false })
	broken := ""
	for _, o := range in.Objects {
		p, ok := o.(*corev1.Pod)
		if !ok || broken != "" {
			continue
		}
		broken = p.Name
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				c.Status = corev1.ConditionFalse
			}
		}
		p.Status.ContainerStatuses[0].Ready, p.Status.ContainerStatuses[0].Started = false, new(false)
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	}
	f := simulate(t, in, func() Change { return &Scale{Object: Object{"Deployment", "default", "web"}, Replicas: 3} })
	if !slices.ContainsFunc(f.Notes, func(n string) bool {
		return strings.Contains(n, "default/"+broken+" (CrashLoopBackOff)")
	}) {
		t.Errorf("notes %q, want one that names %s", f.Notes, broken)
	}
	if f.Outcome.Done {
		t.Errorf("outcome %+v, want one that is not done: one of three Pods fails", f.Outcome)
	}
	if f.Outcome.Took != DefaultHorizon {
		t.Errorf("given up after %v, want the horizon", f.Outcome.Took)
	}
	f = simulate(t, in, func() Change { return &Delete{Object{"Deployment", "default", "web"}} })
	if !f.Outcome.Done || f.Outcome.Took > time.Minute {
		t.Errorf("outcome %+v, want one that is soon done: what fails is stopped as all Pods are", f.Outcome)
	}
}

// What a copy lacks because it could not be read does not keep Pods from being made again.
func TestDrainWithoutRightToReadAccountsAndClasses(t *testing.T) {
	web := deployment("web", 2, "500m")
	web.Spec.Template.Spec.ServiceAccountName, web.Spec.Template.Spec.PriorityClassName = "robot", "high"
	web.Spec.Template.Spec.RuntimeClassName = new("safe")
	in := copyWithoutUnread(t, input(append(nodes("4", "4"), web,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot"}},
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "safe"}, Handler: "safe", Overhead: &nodev1.Overhead{
			PodFixed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})...),
		func(o runtime.Object) bool {
			switch o.(type) {
			case *corev1.ServiceAccount, *schedulingv1.PriorityClass, *nodev1.RuntimeClass:
				return true
			}
			return false
		})
	f := simulate(t, in, func() Change { return &Drain{Nodes: []string{"n0"}} })
	came := count(f, func(p forecast.Pod) bool { return p.Created != nil && p.Ready != nil })
	if !f.Outcome.Done || came != 1 || len(f.Pending) > 0 {
		t.Errorf("outcome %+v, %d came, pending %+v, want one that came", f.Outcome, came, f.Pending)
	}
}

// A change after which Pods are refused is not done, and says whose and why.
func TestRefusedPodsAreReported(t *testing.T) {
	in := input(append(nodes("4", "4"), deployment("web", 2, "500m"))...)
	in.Horizon = time.Minute
	f := simulate(t, in, func() Change { return &refuseAndDrain{Drain{Nodes: []string{"n0"}}} })
	if f.Outcome.Done || len(f.Pending) != 1 || !strings.HasPrefix(f.Pending[0].Object, "replicaset/web-") ||
		!strings.Contains(f.Pending[0].Cause, "quota") {
		t.Errorf("outcome %+v, pending %+v, want a replicaset whose Pods are refused", f.Outcome, f.Pending)
	}
}

// refuseAndDrain has a quota refuse every new Pod before the drain.
type refuseAndDrain struct{ Drain }

// Begin implements Change.
func (d *refuseAndDrain) Begin(ctx context.Context, r *Run) error {
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "few"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/pods": {}}}}
	if err := r.Cluster.Create(ctx, quota); err != nil {
		return err
	}
	if err := r.Cluster.Settle(ctx); err != nil {
		return err
	}
	return d.Drain.Begin(ctx, r)
}

// Scaling a workload whose Pods are replaced only by hand is done when it has its Pods.
func TestScaleOfOnDelete(t *testing.T) {
	two := int32(2)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
		Spec: appsv1.StatefulSetSpec{Replicas: &two, Selector: selector("db"), Template: template("db", "100m"),
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}}}
	f := simulate(t, input(append(nodes("4"), set)...), func() Change {
		return &Scale{Object: Object{"StatefulSet", "default", "db"}, Replicas: 4}
	})
	if came := count(f, func(p forecast.Pod) bool { return p.Ready != nil }); !f.Outcome.Done || came != 2 {
		t.Errorf("outcome %+v, %d came, want 2", f.Outcome, came)
	}
	if !f.At.Equal(start) {
		t.Errorf("at %v, want the asker's time %v", f.At, start)
	}
}

// Objects of one file see each other, and a Pod that ends by itself is no longer waited for.
func TestApplyOfObjectsThatNeedEachOther(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "once"},
		Spec: template("once", "100m").Spec}
	pod.Spec.PriorityClassName, pod.Spec.RestartPolicy = "high", corev1.RestartPolicyNever
	in := input(nodes("4")...)
	in.Model.Default.Ready.P50, in.Model.Default.Ready.P99 = time.Minute, time.Minute // ends before that
	f := simulate(t, in, func() Change {
		return &Apply{Objects: []runtime.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}, pod}}
	})
	if !f.Outcome.Done || len(f.Pods) != 1 || f.Pods[0].Ready != nil || f.Outcome.Took > 10*time.Minute {
		t.Errorf("outcome %+v, Pods %+v, want one that ended", f.Outcome, f.Pods)
	}
}

// The images of init containers can be changed too.
func TestImagesOfInitContainers(t *testing.T) {
	web := deployment("web", 1, "100m")
	web.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1"}}
	got, err := imagesPatch(web, map[string]string{"init": "init:2"})
	if err != nil || len(got["initContainers"].([]any)) != 1 || got["containers"] != nil {
		t.Errorf("patch %v, error %v", got, err)
	}
}

// A blocked Pod that goes by itself is not blocked to the end.
func TestBlockedPodThatGoesByItself(t *testing.T) {
	in := input(append(nodes("4", "1"), deployment("web", 2, "500m"), budget("web", 2))...)
	f := simulate(t, in, func() Change { return &drainAndScale{Drain{Nodes: []string{"n0"}}} })
	for _, b := range f.Blocked {
		if b.Until == nil {
			t.Errorf("blocked to the end: got %+v, want Until set", b)
		}
	}
	if len(f.Blocked) == 0 {
		t.Error("nothing was blocked")
	}
}

// drainAndScale takes the workload away soon after the drain began.
type drainAndScale struct{ Drain }

// Begin implements Change.
func (d *drainAndScale) Begin(ctx context.Context, r *Run) error {
	r.Cluster.At(r.Cluster.Now().Add(2*time.Second), func(ctx context.Context) {
		_, _ = r.Cluster.Client().AppsV1().Deployments("default").Patch(ctx, "web", types.MergePatchType,
			[]byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}) // without it the test fails
	})
	return d.Drain.Begin(ctx, r)
}

// Bounds of a rollout are refused by the API where the workload's strategy has none.
func TestBoundsOfRecreateAreRefused(t *testing.T) {
	web := deployment("web", 1, "100m")
	web.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	one := intstr.FromInt(1)
	_, err := Simulate(t.Context(), input(append(nodes("4"), web)...), func() Change {
		return &Rollout{Object: Object{"Deployment", "default", "web"}, MaxSurge: &one}
	}, nil)
	if err == nil || !strings.Contains(err.Error(), "spec.strategy.rollingUpdate") {
		t.Errorf("error %v, want one about spec.strategy.rollingUpdate", err)
	}
}

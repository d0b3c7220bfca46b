package deployment

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
}

func deploy(n int32, surge, unavailable string) *appsv1.Deployment {
	s, u := intstr.Parse(surge), intstr.Parse(unavailable)
	deadline := int32(600)
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 1}, Spec: appsv1.DeploymentSpec{
		Replicas: &n, Template: template("new"), ProgressDeadlineSeconds: &deadline,
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}},
	}}
}

// rs makes a set of the given revision with a size of which so many are available.
func rs(d *appsv1.Deployment, image string, revision int, replicas, avail int32) *appsv1.ReplicaSet {
	surge, _ := Limits(d)
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", revision),
			CreationTimestamp: metav1.NewTime(t0.Add(time.Duration(revision) * time.Minute)),
			Annotations: map[string]string{revisionKey: strconv.Itoa(revision),
				desiredKey: strconv.Itoa(int(replicasOf(d))), maxKey: strconv.Itoa(int(replicasOf(d) + surge))}},
		Spec:   appsv1.ReplicaSetSpec{Replicas: &replicas, Template: template(image)},
		Status: appsv1.ReplicaSetStatus{Replicas: replicas, ReadyReplicas: avail, AvailableReplicas: avail},
	}
}

// row: CTL-03, CTL-05
func TestRollingUpdateGoesStepByStep(t *testing.T) {
	d := deploy(10, "25%", "25%") // 3 more, 2 fewer
	for _, c := range []struct {
		name string
		sets []*appsv1.ReplicaSet
		want string
	}{
		{"first rollout", nil, "create 10"},
		{"new template", []*appsv1.ReplicaSet{rs(d, "old", 1, 10, 10)}, "create 3"},
		{"old ones go as far as availability allows", []*appsv1.ReplicaSet{rs(d, "old", 1, 10, 10),
			rs(d, "new", 2, 3, 0)}, "web-1=8"},
		{"new ones come as room is made", []*appsv1.ReplicaSet{rs(d, "old", 1, 8, 8), rs(d, "new", 2, 3, 0)},
			"web-2=5"},
		{"nothing moves while too few are available",
			[]*appsv1.ReplicaSet{rs(d, "old", 1, 8, 8), rs(d, "new", 2, 5, 0)}, ""},
		{"old ones that are not available go first", []*appsv1.ReplicaSet{rs(d, "old", 1, 8, 6), rs(d, "new", 2, 5, 5)},
			"web-1=3"},
		{"the last old ones go", []*appsv1.ReplicaSet{rs(d, "old", 1, 2, 2), rs(d, "new", 2, 10, 10)}, "web-1=0"},
		{"done", []*appsv1.ReplicaSet{rs(d, "old", 1, 0, 0), rs(d, "new", 2, 10, 10)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := show(Next(In{Deployment: d, Sets: c.sets, Now: t0})); got != c.want {
				t.Fatalf("want %q, have %q", c.want, got)
			}
		})
	}
}

func show(p Plan) string {
	if p.Create {
		return fmt.Sprintf("create %d", p.Size)
	}
	s := ""
	for _, x := range p.Scale {
		s += fmt.Sprintf("%s=%d ", x.Set.Name, x.To)
	}
	for _, x := range p.Delete {
		s += "delete " + x.Name + " "
	}
	if s != "" {
		s = s[:len(s)-1]
	}
	return s
}

// row: CTL-03
func TestRecreateWaitsForTheOldPods(t *testing.T) {
	d := deploy(3, "0", "0")
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	old := rs(d, "old", 1, 3, 3)
	if got := show(Next(In{Deployment: d, Sets: []*appsv1.ReplicaSet{old}})); got != "web-1=0" {
		t.Fatalf(`show = %q, want "web-1=0"`, got)
	}
	old = rs(d, "old", 1, 0, 0)
	if got := show(Next(In{Deployment: d, Sets: []*appsv1.ReplicaSet{old}, OldPods: true})); got != "" {
		t.Fatalf("show = %q, want nothing", got)
	}
	if got := show(Next(In{Deployment: d, Sets: []*appsv1.ReplicaSet{old}})); got != "create 3" {
		t.Fatalf(`show = %q, want "create 3"`, got)
	}
}

// row: CTL-05
func TestScalingInMidRolloutIsProportional(t *testing.T) {
	d := deploy(10, "3", "2")
	sets := []*appsv1.ReplicaSet{rs(d, "old", 1, 8, 8), rs(d, "new", 2, 5, 2)}
	n := int32(20)
	d.Spec.Replicas = &n
	got := map[string]int32{}
	for _, s := range Next(In{Deployment: d, Sets: sets, Now: t0}).Scale {
		got[s.Set.Name] = s.To
	}
	if got["web-1"]+got["web-2"] != 23 || got["web-1"] < 13 || got["web-2"] < 8 {
		t.Fatalf("23 Pods in the proportion 8:5 wanted, have %v", got)
	}
}

func TestPausedScalesButDoesNotRoll(t *testing.T) {
	d := deploy(3, "1", "0")
	d.Spec.Paused = true
	if got := show(Next(In{Deployment: d, Sets: []*appsv1.ReplicaSet{rs(d, "old", 1, 5, 5)}})); got != "web-1=3" {
		t.Fatalf(`show = %q, want "web-1=3"`, got)
	}
}

func TestHistoryLimit(t *testing.T) {
	d := deploy(1, "1", "0")
	limit := int32(1)
	d.Spec.RevisionHistoryLimit = &limit
	sets := []*appsv1.ReplicaSet{rs(d, "a", 1, 0, 0), rs(d, "b", 2, 0, 0), rs(d, "new", 3, 1, 1)}
	if got := show(Next(In{Deployment: d, Sets: sets})); got != "delete web-1" {
		t.Fatalf(`show = %q, want "delete web-1"`, got)
	}
}

// row: CTL-03
func TestGoingBackIsANewRevision(t *testing.T) {
	d := deploy(1, "1", "0")
	back := rs(d, "new", 1, 0, 0)
	if n := NextRevision(back, []*appsv1.ReplicaSet{rs(d, "other", 2, 1, 1)}); n != 3 {
		t.Fatalf("revision %d, want 3", n)
	}
}

func TestProgressConditions(t *testing.T) {
	d := deploy(2, "1", "0")
	reason := func(s appsv1.DeploymentStatus) string { return getCondition(&s, appsv1.DeploymentProgressing).Reason }
	s, _ := Status(In{Deployment: d, Sets: []*appsv1.ReplicaSet{rs(d, "new", 1, 2, 0)}, Now: t0}, "web-1", nil)
	if reason(s) != "NewReplicaSetCreated" {
		t.Fatalf("got %v, want reason(s) NewReplicaSetCreated", s.Conditions)
	}
	d.Status = s
	s, again := Status(In{Deployment: d, Sets: []*appsv1.ReplicaSet{rs(d, "new", 1, 2, 1)}, Now: t0.Add(time.Second)},
		"", nil)
	if reason(s) != "ReplicaSetUpdated" || again != 600*time.Second {
		t.Fatalf("got %v, %v, want reason(s) ReplicaSetUpdated and again %v", again, s.Conditions, 600*time.Second)
	}
	d.Status = s
	late, _ := Status(In{Deployment: d, Sets: []*appsv1.ReplicaSet{rs(d, "new", 1, 2, 1)},
		Now: t0.Add(700 * time.Second)}, "", nil)
	if reason(late) != "ProgressDeadlineExceeded" ||
		getCondition(&late, appsv1.DeploymentProgressing).Message != `ReplicaSet "web-1" has timed out progressing.` {
		t.Fatalf(`got %v, want reason(late) "ProgressDeadlineExceeded" and Message 'ReplicaSet "web-1" has timed out `+
			`progressing.'`, late.Conditions)
	}
	done, _ := Status(In{Deployment: d, Sets: []*appsv1.ReplicaSet{rs(d, "new", 1, 2, 2)},
		Now: t0.Add(2 * time.Second)}, "", nil)
	if reason(done) != "NewReplicaSetAvailable" ||
		getCondition(&done, appsv1.DeploymentAvailable).Status != corev1.ConditionTrue {
		t.Fatalf("got %v, want reason(done) NewReplicaSetAvailable and Status ConditionTrue", done.Conditions)
	}
}

func TestPodsThatComeAndGoAfterARolloutAreNoProgress(t *testing.T) {
	d := deploy(2, "1", "0")
	d.Status, _ = Status(In{Deployment: d, Sets: []*appsv1.ReplicaSet{rs(d, "new", 1, 2, 2)}, Now: t0}, "", nil)
	for _, available := range []int32{1, 0, 1} {
		s, again := Status(In{Deployment: d, Sets: []*appsv1.ReplicaSet{rs(d, "new", 1, 2, available)},
			Now: t0.Add(time.Hour)}, "", nil)
		if reason := getCondition(&s, appsv1.DeploymentProgressing).Reason; reason != "NewReplicaSetAvailable" ||
			again != 0 {
			t.Fatalf("%d available: %s, looks again in %s, want NewReplicaSetAvailable, 0", available, reason, again)
		}
		d.Status = s
	}
}

// A rollout whose Pods become available at random never has more than wanted plus surge Pods nor
// takes availability below the floor by its own steps, and comes to its end.
//
// row: CTL-05
func TestRolloutKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 20).Draw(t, "replicas")
		surge := rapid.IntRange(0, 5).Draw(t, "surge")
		down := rapid.IntRange(0, 5).Draw(t, "unavailable")
		d := deploy(n, strconv.Itoa(surge), strconv.Itoa(down))
		maxSurge, maxDown := Limits(d)
		old, cur := rs(d, "old", 1, n, n), (*appsv1.ReplicaSet)(nil)
		for step := 0; ; step++ {
			if step > 300 {
				t.Fatalf("no end: old %d, new %v", size(old), cur)
			}
			sets := []*appsv1.ReplicaSet{old}
			if cur != nil {
				sets = append(sets, cur)
			}
			p := Next(In{Deployment: d, Sets: sets, Now: t0})
			if p.Create {
				cur = rs(d, "new", 2, p.Size, 0)
			}
			for _, s := range p.Scale {
				s.Set.Spec.Replicas = &s.To
				s.Set.Status.AvailableReplicas = min(s.Set.Status.AvailableReplicas, s.To)
			}
			total, avail := size(old)+size(cur), old.Status.AvailableReplicas
			if cur != nil {
				avail += cur.Status.AvailableReplicas
			}
			if total > n+maxSurge || avail < n-maxDown {
				t.Fatalf("bounds broken: %d Pods, %d available, wanted %d +%d -%d", total, avail, n, maxSurge, maxDown)
			}
			if cur != nil && size(cur) == n && size(old) == 0 && cur.Status.AvailableReplicas == n {
				return
			}
			if cur != nil && cur.Status.AvailableReplicas < size(cur) && rapid.Bool().Draw(t, "becomes available") {
				cur.Status.AvailableReplicas++
			}
		}
	})
}

package statefulset

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/test/wrappers"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func set(n int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "ns", UID: "set", Generation: 2},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &n, ServiceName: "db",
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
		}}
	for _, c := range change {
		c(s)
	}
	return s
}

func parallel(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func pod(ordinal int, revision string, change ...func(*corev1.Pod)) *corev1.Pod {
	name := fmt.Sprintf("db-%d", ordinal)
	p := wrappers.MakePod().Name(name).UID(name+"u").
		Label(appsv1.StatefulSetRevisionLabel, revision).Phase(corev1.PodRunning).Obj()
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(t0.Add(-time.Hour))}}
	for _, c := range change {
		c(p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions = nil }
func ending(p *corev1.Pod)  { p.DeletionTimestamp = &metav1.Time{Time: t0} }
func failed(p *corev1.Pod)  { p.Status.Phase = corev1.PodFailed }

func names(pods []*corev1.Pod) string {
	out := ""
	for _, p := range pods {
		out += p.Name + " "
	}
	return out
}

func planText(p Plan) string {
	out := ""
	for _, s := range p.Create {
		out += fmt.Sprintf("create %d@%s ", s.Ordinal, s.Revision)
	}
	for what, pods := range map[string][]*corev1.Pod{"recreate": p.Recreate} {
		if len(pods) > 0 {
			out += what + " " + names(pods)
		}
	}
	if len(p.ReleaseClaims) > 0 {
		out += "leave " + names(p.ReleaseClaims)
	}
	if len(p.Replace) > 0 {
		out += "replace " + names(p.Replace)
	}
	return out
}

// row: CTL-06
// row: CTL-07
func TestOneStepAtATime(t *testing.T) {
	partition := func(n int32) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n}
		}
	}
	most := func(v string) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) {
			n := intstr.Parse(v)
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &n}
		}
	}
	onDelete := func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }
	from := func(n int32) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
	}
	minReady := func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 7200 }
	for _, c := range []struct {
		name string
		set  *appsv1.StatefulSet
		pods []*corev1.Pod
		want string
	}{
		{"the first", set(3), nil, "create 0@new "},
		{"the next when the first is ready", set(3), []*corev1.Pod{pod(0, "new")}, "create 1@new "},
		{"not before it is ready", set(3), []*corev1.Pod{pod(0, "new", unready)}, ""},
		{"not before it is available", set(3, minReady), []*corev1.Pod{pod(0, "new")}, ""},
		{"not while it ends", set(3), []*corev1.Pod{pod(0, "new", ending)}, ""},
		{"a gap first", set(3), []*corev1.Pod{pod(0, "new"), pod(2, "new")}, "create 1@new "},
		{"all at once in parallel", set(3, parallel), []*corev1.Pod{pod(1, "new", unready)},
			"create 0@new create 2@new "},
		{"an ended one makes room", set(2), []*corev1.Pod{pod(0, "new", failed), pod(1, "new")}, "recreate db-0 "},
		{"an ended one that goes is waited for", set(2), []*corev1.Pod{pod(0, "new", failed, ending), pod(1, "new")},
			""},
		{"the highest leaves", set(1), []*corev1.Pod{pod(0, "new"), pod(1, "new"), pod(2, "new")}, "leave db-2 "},
		{"one after the other", set(1), []*corev1.Pod{pod(0, "new"), pod(1, "new"), pod(2, "new", ending)}, ""},
		{"the sick one may leave", set(1), []*corev1.Pod{pod(0, "new"), pod(1, "new", unready)}, "leave db-1 "},
		{"not while a lower one is sick", set(1), []*corev1.Pod{pod(0, "new", unready), pod(1, "new")}, ""},
		{"all leave in parallel", set(0, parallel), []*corev1.Pod{pod(0, "new"), pod(1, "new")}, "leave db-1 db-0 "},
		{"update from the top", set(3), []*corev1.Pod{pod(0, "old"), pod(1, "old"), pod(2, "old")}, "replace db-2 "},
		{"update waits for the new one", set(2, parallel), []*corev1.Pod{pod(0, "old"), pod(1, "new", unready)}, ""},
		{"update waits until the old one has gone", set(3, parallel), []*corev1.Pod{pod(0, "old"), pod(1, "old"),
			pod(2, "old", ending)}, ""},
		{"update waits until the new one is available", set(2, parallel, minReady), []*corev1.Pod{pod(0, "old"),
			pod(1, "new")}, ""},
		{"then the next", set(2), []*corev1.Pod{pod(0, "old"), pod(1, "new")}, "replace db-0 "},
		{"not below the partition", set(3, partition(2)), []*corev1.Pod{pod(0, "old"), pod(1, "old"), pod(2, "new")},
			""},
		{"below the partition comes back as it was", set(3, partition(2)), []*corev1.Pod{pod(1, "old"), pod(2, "new")},
			"create 0@old "},
		{"never on delete", set(2, onDelete), []*corev1.Pod{pod(0, "old"), pod(1, "old")}, ""},
		{"two may be unavailable", set(4, most("2")), []*corev1.Pod{pod(0, "old"), pod(1, "old"), pod(2, "old"),
			pod(3, "old")}, "replace db-3 db-2 "},
		{"one is already", set(4, most("50%"), parallel), []*corev1.Pod{pod(0, "old"), pod(1, "old"), pod(2, "old"),
			pod(3, "new", unready)}, "replace db-2 "},
		{"ordinals may start higher", set(2, from(5)), []*corev1.Pod{pod(5, "new")}, "create 6@new "},
		{"below the start is too many", set(1, from(5)), []*corev1.Pod{pod(4, "new"), pod(5, "new")}, "leave db-4 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := planText(Next(In{Set: c.set, Pods: c.pods, Current: "old", Update: "new", Now: t0})); got !=
				c.want {
				t.Errorf("plan %q, want %q", got, c.want)
			}
		})
	}
}

// row: CTL-06, CTL-07
func TestAnOrderedSetMovesOnePodAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := set(rapid.Int32Range(0, 5).Draw(t, "replicas"))
		var pods []*corev1.Pod
		for i := range 7 {
			switch rapid.IntRange(0, 5).Draw(t, "pod") {
			case 1:
				pods = append(pods, pod(i, "new"))
			case 2:
				pods = append(pods, pod(i, "old"))
			case 3:
				pods = append(pods, pod(i, "new", unready))
			case 4:
				pods = append(pods, pod(i, "old", ending))
			case 5:
				pods = append(pods, pod(i, "new", failed))
			}
		}
		plan := Next(In{Set: s, Pods: pods, Current: "old", Update: "new", Now: t0})
		if n := len(plan.Create) + len(plan.Recreate) + len(plan.ReleaseClaims) + len(plan.Replace); n > 1 {
			t.Fatalf("%d moves at once: %s", n, planText(plan))
		}
		for _, slot := range plan.Create {
			for _, p := range pods {
				if Ordinal(s, p) == slot.Ordinal {
					t.Fatalf("a second Pod of the name %s", p.Name)
				}
			}
		}
	})
}

// row: CTL-06
func TestStatusCountsAndFinishesAnUpdate(t *testing.T) {
	in := In{Set: set(2), Pods: []*corev1.Pod{pod(0, "old"), pod(1, "new", unready)}, Current: "old", Update: "new",
		Now: t0}
	s, _ := Status(in, 0)
	if s.Replicas != 2 || s.ReadyReplicas != 1 || s.CurrentReplicas != 1 || s.UpdatedReplicas != 1 ||
		s.CurrentRevision != "old" || s.ObservedGeneration != 2 || *s.CollisionCount != 0 {
		t.Errorf("got %+v, want Replicas 2, ReadyReplicas 1, CurrentReplicas 1, UpdatedReplicas 1, CurrentRevision "+
			"old, ObservedGeneration 2 and CollisionCount 0", s)
	}
	in.Pods = []*corev1.Pod{pod(0, "new"), pod(1, "new")}
	if s, _ = Status(in, 0); s.CurrentRevision != "new" || s.CurrentReplicas != 2 {
		t.Errorf("the update is not finished: %+v", s)
	}
	in.Set.Spec.MinReadySeconds = 3660
	if s, again := Status(in, 0); s.AvailableReplicas != 0 || again != time.Minute {
		t.Errorf("available %d, again in %s", s.AvailableReplicas, again)
	}
}

// row: CTL-06
func TestIdentity(t *testing.T) {
	s := set(1)
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data"}, {Name: "tmp"}}}}
	p := Pod(s, template, Replica{3, "rev"})
	if p.Name != "db-3" || p.Spec.Hostname != "db-3" || p.Spec.Subdomain != "db" ||
		p.Labels["apps.kubernetes.io/pod-index"] != "3" || !IdentityMatches(s, p) || Revision(p) != "rev" {
		t.Errorf("got %+v, want Name db-3, Hostname db-3, Subdomain db, Labels[apps.kubernetes.io/pod-index] 3, "+
			"IdentityMatches(s, p) true and Revision(p) rev", p)
	}
	if len(p.Spec.Volumes) != 2 || p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-db-3" ||
		p.Spec.Volumes[1].Name != "tmp" {
		t.Errorf("volumes %+v", p.Spec.Volumes)
	}
	if c := Claims(s, 3); len(c) != 1 || c[0].Name != "data-db-3" || c[0].Labels["app"] != "a" {
		t.Errorf("claims %+v", c)
	}
}

func TestRetention(t *testing.T) {
	deletes, retains := appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	p := pod(0, "new")
	for _, c := range []struct {
		deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType
		leaves          bool
		want            string
	}{
		{retains, retains, true, ""}, {deletes, retains, true, "set"}, {deletes, retains, false, "set"},
		{retains, deletes, false, ""}, {retains, deletes, true, "db-0u"}, {deletes, deletes, true, "db-0u"},
		{deletes, deletes, false, "set"},
	} {
		s := set(1)
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: c.deleted, WhenScaled: c.scaled}
		other := metav1.OwnerReference{Kind: "Other", UID: "other"}
		got, _ := ClaimOwnerRefs(s, p, c.leaves, []metav1.OwnerReference{other})
		uid := ""
		if len(got) == 2 {
			uid = string(got[1].UID)
		}
		if uid != c.want || got[0].UID != "other" {
			t.Errorf("deleted %s scaled %s leaves %v: owners %+v, want %q", c.deleted, c.scaled, c.leaves, got, c.want)
		}
		if _, changed := ClaimOwnerRefs(s, p, c.leaves, got); changed {
			t.Error("what is right is changed again")
		}
	}
}

// A Ready condition without lastTransitionTime does not show since when: with minReadySeconds the
// Pod is not available, as upstream.
func TestPodReadyWithoutTransitionTimeIsNotAvailable(t *testing.T) {
	for _, seconds := range []int32{0, 10} {
		in := In{Set: set(1), Now: t0}
		in.Set.Spec.MinReadySeconds = seconds
		p := pod(0, "r")
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		if available := in.available(p); available != (seconds == 0) {
			t.Errorf("minReadySeconds %d: available: got %v, want %v", seconds, available, (seconds == 0))
		}
	}
}

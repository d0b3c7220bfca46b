package deployment

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// sized is rs as it was sized for another number of Pods in all.
func sized(s *appsv1.ReplicaSet, desired, most string) *appsv1.ReplicaSet {
	s.Annotations[desiredKey], s.Annotations[maxKey] = desired, most
	return s
}

// row: CTL-05
func TestChangedSizeIsGivenToTheSets(t *testing.T) {
	d := deploy(10, "3", "2")
	recreating := deploy(10, "0", "0")
	recreating.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	paused, stopped := deploy(10, "3", "2"), deploy(0, "3", "2")
	paused.Spec.Paused = true
	for _, c := range []struct {
		name string
		d    *appsv1.Deployment
		sets []*appsv1.ReplicaSet
		want string
	}{
		{"the only set gets all", d, []*appsv1.ReplicaSet{sized(rs(d, "new", 1, 5, 5), "5", "8")}, "web-1=10"},
		{"an old one too", d, []*appsv1.ReplicaSet{sized(rs(d, "old", 1, 5, 5), "5", "8"), rs(d, "new", 2, 0, 0)},
			"web-1=10"},
		{"a full new set empties the old ones", d, []*appsv1.ReplicaSet{sized(rs(d, "old", 1, 3, 3), "5", "8"),
			rs(d, "old", 2, 1, 1), rs(d, "new", 3, 10, 10)}, "web-1=0 web-2=0"},
		{"a new set that is not yet available does not", d, []*appsv1.ReplicaSet{
			sized(rs(d, "old", 1, 3, 3), "5", "8"), rs(d, "new", 2, 10, 9)}, ""},
		{"an available one of another size does not", d, []*appsv1.ReplicaSet{
			sized(rs(d, "old", 1, 3, 3), "12", "15"), sized(rs(d, "new", 2, 12, 10), "12", "15")}, "web-2=10"},
		{"in proportion up: the larger first, and newer of equals", d, []*appsv1.ReplicaSet{
			sized(rs(d, "old", 1, 3, 3), "5", "8"), sized(rs(d, "new", 2, 5, 5), "5", "8")}, "web-2=8 web-1=5"},
		{"up with equals: what is left over goes to the newer", d, []*appsv1.ReplicaSet{
			sized(rs(d, "old", 1, 2, 2), "2", "4"), sized(rs(d, "new", 2, 2, 2), "2", "4")}, "web-2=7 web-1=6"},
		{"down with equals: what is too much goes from the older", d, []*appsv1.ReplicaSet{
			sized(rs(d, "old", 1, 8, 8), "14", "17"), sized(rs(d, "new", 2, 8, 8), "14", "17")}, "web-1=6 web-2=7"},
		{"to none", stopped, []*appsv1.ReplicaSet{sized(rs(d, "old", 1, 3, 3), "5", "8"),
			sized(rs(d, "new", 2, 5, 5), "5", "8")}, "web-2=0 web-1=0"},
		{"without the largest size noted: of the wanted one", d, []*appsv1.ReplicaSet{
			sized(rs(d, "old", 1, 3, 3), "5", "0"), sized(rs(d, "new", 2, 5, 5), "5", "")}, "web-2=9 web-1=4"},
		{"Recreate does not with two", recreating, []*appsv1.ReplicaSet{sized(rs(d, "old", 1, 3, 3), "5", "8"),
			sized(rs(d, "new", 2, 5, 5), "5", "8")}, ""},
		{"paused and empty: the new one", paused, []*appsv1.ReplicaSet{rs(d, "old", 1, 0, 0), rs(d, "new", 2, 0, 0)},
			"web-2=10"},
		{"paused, empty and none new: the latest", paused, []*appsv1.ReplicaSet{rs(d, "old", 1, 0, 0),
			rs(d, "old", 2, 0, 0)}, "web-2=10"},
		{"paused without sets", paused, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := show(Next(In{Deployment: c.d, Sets: c.sets, Now: t0})); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestSetsOfUnchangedSizeGetTheirNotes(t *testing.T) {
	d := deploy(10, "3", "2")
	old, cur := sized(rs(d, "old", 1, 3, 3), "5", "8"), sized(rs(d, "new", 2, 10, 9), "5", "8")
	fresh, empty := rs(d, "old", 3, 1, 1), sized(rs(d, "old", 4, 0, 0), "5", "8")
	unnoted := rs(d, "old", 5, 1, 1)
	delete(unnoted.Annotations, desiredKey)
	got := ""
	for _, s := range Next(In{Deployment: d, Sets: []*appsv1.ReplicaSet{old, cur, fresh, empty, unnoted}}).Annotate {
		got += s.Name + " "
	}
	if got != "web-2 web-1 " {
		t.Errorf("got %q, want web-2 and web-1", got)
	}
}

func TestDeploymentBeingDeletedDoesNothing(t *testing.T) {
	d := deploy(3, "1", "0")
	d.DeletionTimestamp = &metav1.Time{Time: t0}
	for _, sets := range [][]*appsv1.ReplicaSet{nil, {rs(d, "old", 1, 5, 5)}} {
		if got := Next(In{Deployment: d, Sets: sets}); show(got) != "" || len(got.Annotate) != 0 {
			t.Errorf("got %q with %d sets, want nothing", show(got), len(sets))
		}
	}
}

// row: CTL-05
func TestMaxSurgeAndMaxUnavailable(t *testing.T) {
	at := func(n int32, surge, unavailable *intstr.IntOrString) *appsv1.Deployment {
		d := deploy(n, "0", "0")
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: surge, MaxUnavailable: unavailable}
		return d
	}
	of := func(s string) *intstr.IntOrString { return ptr.To(intstr.Parse(s)) }
	noUpdate := at(10, nil, nil)
	noUpdate.Spec.Strategy.RollingUpdate = nil
	recreating := at(10, of("3"), of("3"))
	recreating.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	for _, c := range []struct {
		name           string
		d              *appsv1.Deployment
		surge, missing int32
	}{
		{"shares: up and down", at(10, of("25%"), of("25%")), 3, 2},
		{"numbers", at(10, of("4"), of("3")), 4, 3},
		{"never both none", at(10, of("0"), of("0")), 0, 1},
		{"not said", at(10, nil, nil), 0, 1},
		{"surge alone", at(10, of("1"), nil), 1, 0},
		{"no more than there are", at(2, of("1"), of("5")), 1, 2},
		{"no Pods", at(0, of("3"), of("3")), 0, 0},
		{"no update", noUpdate, 0, 0},
		{"Recreate", recreating, 0, 0},
	} {
		if surge, missing := Limits(c.d); surge != c.surge || missing != c.missing {
			t.Errorf("%s: got %d and %d, want %d and %d", c.name, surge, missing, c.surge, c.missing)
		}
	}
}

// row: CTL-03
func TestFindReplicaSets(t *testing.T) {
	d := deploy(1, "1", "0")
	labelled := rs(d, "new", 4, 0, 0)
	labelled.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "x"
	twin, b, a := rs(d, "new", 5, 0, 0), rs(d, "old", 2, 0, 0), rs(d, "other", 3, 0, 0)
	a.Name, b.Name = "a", "b"
	a.CreationTimestamp = b.CreationTimestamp
	cur, old := FindReplicaSets(In{Deployment: d, Sets: []*appsv1.ReplicaSet{twin, b, labelled, a,
		rs(d, "first", 1, 0, 0)}})
	got := ""
	for _, s := range old {
		got += s.Name + " "
	}
	if cur != labelled || got != "web-1 a b web-5 " {
		t.Errorf("got %v and %q, want web-4, the older of two, and web-1 a b web-5", cur, got)
	}
}

// Whatever changes in the template, another ReplicaSet is wanted for it; the label of its hash
// alone is none of it.
//
// row: CTL-03
func TestAnyChangeOfTheTemplateWantsAnotherSet(t *testing.T) {
	d := deploy(1, "1", "0")
	for name, change := range map[string]func(*corev1.PodTemplateSpec){
		"an annotation": func(p *corev1.PodTemplateSpec) {
			p.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-02T03:00:00Z"}
		},
		"a label":          func(p *corev1.PodTemplateSpec) { p.Labels["tier"] = "front" },
		"an image":         func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "next" },
		"a variable":       func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A"}} },
		"a container":      func(p *corev1.PodTemplateSpec) { p.Spec.InitContainers = p.Spec.Containers },
		"the grace period": func(p *corev1.PodTemplateSpec) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5) },
		"a toleration":     func(p *corev1.PodTemplateSpec) { p.Spec.Tolerations = []corev1.Toleration{{Key: "k"}} },
		"a node selector":  func(p *corev1.PodTemplateSpec) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} },
	} {
		set := rs(d, "new", 1, 1, 1)
		set.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "x"
		if got, _ := FindReplicaSets(In{Deployment: d, Sets: []*appsv1.ReplicaSet{set}}); got != set {
			t.Errorf("before %s changes: got the set %v, want %s", name, got, set.Name)
		}
		changed := d.DeepCopy()
		change(&changed.Spec.Template)
		got, old := FindReplicaSets(In{Deployment: changed, Sets: []*appsv1.ReplicaSet{set}})
		if got != nil || len(old) != 1 {
			t.Errorf("%s changes: got the set %v and %d old ones, want none and one", name, got, len(old))
		}
		if was, is := PodTemplateHash(&d.Spec.Template, nil), PodTemplateHash(&changed.Spec.Template, nil); was == is {
			t.Errorf("%s changes: got the hash %s for both, want another", name, is)
		}
	}
}

func TestHistoryGoesByRevision(t *testing.T) {
	d := deploy(1, "1", "0")
	with := func(revision int, change func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
		s := rs(d, "old", revision, 0, 0)
		change(s)
		return s
	}
	rolledBack := with(1, func(s *appsv1.ReplicaSet) { s.Annotations[revisionKey] = "9" })
	later := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		limit *int32
		sets  []*appsv1.ReplicaSet
		want  string
	}{
		{"no limit", nil, []*appsv1.ReplicaSet{rs(d, "old", 2, 0, 0)}, ""},
		{"none", ptr.To[int32](0), []*appsv1.ReplicaSet{rolledBack, rs(d, "old", 2, 0, 0)},
			"delete web-2 delete web-1"},
		{"one", ptr.To[int32](1), []*appsv1.ReplicaSet{rolledBack, rs(d, "old", 2, 0, 0)}, "delete web-2"},
		{"as many as there are", ptr.To[int32](2), []*appsv1.ReplicaSet{rolledBack, rs(d, "old", 2, 0, 0)}, ""},
		{"not those with Pods, on their way or not seen", ptr.To[int32](0), []*appsv1.ReplicaSet{
			with(2, func(s *appsv1.ReplicaSet) { s.Status.Replicas = 1 }),
			with(3, func(s *appsv1.ReplicaSet) { s.DeletionTimestamp = &metav1.Time{Time: later} }),
			with(4, func(s *appsv1.ReplicaSet) { s.Generation = 2; s.Status.ObservedGeneration = 1 }),
			with(5, func(s *appsv1.ReplicaSet) { s.Generation = 2; s.Status.ObservedGeneration = 2 }),
		}, "delete web-5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.Spec.RevisionHistoryLimit = c.limit
			sets := append([]*appsv1.ReplicaSet{rs(d, "new", 8, 1, 1)}, c.sets...)
			if got := show(Next(In{Deployment: d, Sets: sets})); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := show(Next(In{Deployment: d, Sets: append(sets[1:], rs(d, "new", 8, 1, 0))})); got != "" {
				t.Errorf("got %q while the new Pod is not available, want nothing", got)
			}
		})
	}
}

func TestNextRevision(t *testing.T) {
	d := deploy(1, "1", "0")
	for _, c := range []struct {
		name string
		cur  *appsv1.ReplicaSet
		old  []*appsv1.ReplicaSet
		want int64
	}{
		{"the first", nil, nil, 1},
		{"one more", nil, []*appsv1.ReplicaSet{rs(d, "a", 4, 0, 0), rs(d, "b", 2, 0, 0)}, 5},
		{"the highest stays", rs(d, "new", 5, 1, 1), []*appsv1.ReplicaSet{rs(d, "a", 4, 0, 0)}, 5},
		{"two with one number", rs(d, "new", 4, 1, 1), []*appsv1.ReplicaSet{rs(d, "a", 4, 0, 0)}, 5},
	} {
		if got := NextRevision(c.cur, c.old); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// row: CTL-03
func TestPodTemplateHash(t *testing.T) {
	a, b := template("a"), template("b")
	seen := map[string]string{}
	for name, hash := range map[string]string{"a": PodTemplateHash(&a, nil), "b": PodTemplateHash(&b, nil),
		"a after a collision": PodTemplateHash(&a, ptr.To[int32](1)),
		"a after two":         PodTemplateHash(&a, ptr.To[int32](2))} {
		if other, ok := seen[hash]; ok {
			t.Errorf("got %s for %s and %s, want different hashes", hash, name, other)
		}
		seen[hash] = name
	}
}

func TestDeploymentComplete(t *testing.T) {
	d := deploy(3, "1", "0")
	d.Generation = 2
	done := appsv1.DeploymentStatus{UpdatedReplicas: 3, Replicas: 3, AvailableReplicas: 3, ObservedGeneration: 2}
	for _, c := range []struct {
		name   string
		change func(*appsv1.DeploymentStatus)
		want   bool
	}{
		{"all", func(*appsv1.DeploymentStatus) {}, true},
		{"not updated", func(s *appsv1.DeploymentStatus) { s.UpdatedReplicas = 2 }, false},
		{"an old one left", func(s *appsv1.DeploymentStatus) { s.Replicas = 4 }, false},
		{"not available", func(s *appsv1.DeploymentStatus) { s.AvailableReplicas = 2 }, false},
		{"not seen", func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 }, false},
		{"seen later", func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 3 }, true},
	} {
		s := done
		c.change(&s)
		if got := Complete(d, s); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

package controllerrevision

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func owner(image string) Owner {
	return Owner{
		Object: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "ns", UID: "u"}},
		Kind:   appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}},
	}
}

func find(t *testing.T, o Owner, have ...*appsv1.ControllerRevision) Match {
	t.Helper()
	f, err := Find(o, have)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// row: CTL-06
func TestATemplateIsKeptOnceAndFoundAgain(t *testing.T) {
	one := find(t, owner("a:1"))
	if !one.Create || one.Revision.Revision != 1 || one.Revision.Labels["app"] != "a" ||
		one.Revision.Labels[HashLabel] == "" {
		t.Fatalf("got %+v, want Create true, Revision 1, Labels[app] a and Labels[HashLabel] other than empty", one)
	}
	two := find(t, owner("a:2"), one.Revision)
	if !two.Create || two.Revision.Revision != 2 || two.Revision.Name == one.Revision.Name {
		t.Fatalf("got %+v, want Create true, Revision 2 and Name other than %v", two, one.Revision.Name)
	}
	if again := find(t, owner("a:2"), two.Revision, one.Revision); again.Create || again.Renumber ||
		again.Revision != two.Revision {
		t.Errorf("the newest is not found again: %+v", again)
	}
	back := find(t, owner("a:1"), one.Revision, two.Revision)
	if !back.Renumber || back.Revision.Name != one.Revision.Name || back.Revision.Revision != 3 ||
		one.Revision.Revision != 1 {
		t.Errorf("going back does not raise the old one's number: %+v", back)
	}
	restarted := owner("a:2")
	restarted.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-02T03:00:00Z"}
	if next := find(t, restarted, one.Revision, two.Revision); !next.Create || next.Revision.Name == two.Revision.Name {
		t.Errorf("an annotation changes: got revision %s, create %t, want a new one", next.Revision.Name, next.Create)
	}
	template, err := Template(one.Revision)
	if err != nil || template.Spec.Containers[0].Image != "a:1" {
		t.Errorf("got %+v %v, want no error and Image a:1", template, err)
	}
	collided := owner("a:1")
	collided.Collisions = 1
	if f := find(t, collided); f.Revision.Name == one.Revision.Name {
		t.Error("a collision does not change the name")
	}
}

func TestOnlyIdleRevisionsGoAndTheOldestFirst(t *testing.T) {
	var all []*appsv1.ControllerRevision
	for i, n := range []string{"a", "b", "c", "d"} {
		all = append(all, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: n}, Revision: int64(i)})
	}
	deleted := ToDelete(all, map[string]bool{"a": true, "d": true}, 1)
	if len(deleted) != 1 || deleted[0].Name != "b" {
		t.Errorf("got %v, want 1 in deleted and Name b", deleted)
	}
	if deleted = ToDelete(all, nil, 10); len(deleted) != 0 {
		t.Errorf("got %v, want no deleted", deleted)
	}
}

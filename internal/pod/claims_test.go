package pod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClaimKeys(t *testing.T) {
	named := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "data", VolumeSource: named("data-db-0")},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "work", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		{Name: "log", VolumeSource: named("logs")},
	}
	for _, c := range []struct {
		name   string
		object any
		want   []string
	}{
		{"claims of others and its own", p, []string{"shop/data-db-0", "shop/db-0-work", "shop/logs"}},
		{"no volumes", &corev1.Pod{}, nil},
		{"no Pod", &corev1.Node{}, nil},
	} {
		if got := ClaimKeys(c.object); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestHasClaims(t *testing.T) {
	for name, c := range map[string]struct {
		source corev1.VolumeSource
		want   bool
	}{
		"a claim": {corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}, true},
		"an ephemeral volume": {corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, true},
		"an emptyDir":         {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, false},
	} {
		p := &corev1.Pod{}
		p.Spec.Volumes = []corev1.Volume{{Name: "own"}, {Name: "v", VolumeSource: c.source}}
		if got := HasClaims(p); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
		if got := IsClaim(&p.Spec.Volumes[1]); got != c.want {
			t.Errorf("%s: got a claim %t, want %t", name, got, c.want)
		}
	}
}

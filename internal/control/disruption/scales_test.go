package disruption

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// indexerOf is a cache with the objects.
func indexerOf(t *testing.T, objects ...any) cache.Indexer {
	t.Helper()
	out := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, o := range objects {
		if err := out.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// How many Pods a Pod's owner wants: the ReplicaSet's Deployment where it has one, or else itself,
// a StatefulSet, a ReplicationController; one where it does not say.
//
// row: API-42
// row: PDB-09
func TestTheScaleOfEachKindOfOwner(t *testing.T) {
	named := func(name string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), OwnerReferences: owners}
	}
	ownedBy := func(version, kind, name, uid string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: types.UID(uid),
			Controller: new(true)}
	}
	by := func(version, kind, name, uid string) []metav1.OwnerReference {
		return []metav1.OwnerReference{ownedBy(version, kind, name, uid)}
	}
	s := &scaleFinder{
		sets: appslisters.NewReplicaSetLister(indexerOf(t,
			&appsv1.ReplicaSet{ObjectMeta: named("alone"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3))}},
			&appsv1.ReplicaSet{ObjectMeta: named("silent")},
			&appsv1.ReplicaSet{ObjectMeta: named("web-1", ownedBy("apps/v1", "Deployment", "web", "uid-web")),
				Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(4))}},
			&appsv1.ReplicaSet{ObjectMeta: named("web-2", ownedBy("apps/v1", "Deployment", "web", "uid-web")),
				Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2))}})),
		deployments: appslisters.NewDeploymentLister(indexerOf(t,
			&appsv1.Deployment{ObjectMeta: named("web"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(5))}})),
		statefulSets: appslisters.NewStatefulSetLister(indexerOf(t,
			&appsv1.StatefulSet{ObjectMeta: named("db"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(7))}})),
		controllers: corelisters.NewReplicationControllerLister(indexerOf(t, &corev1.ReplicationController{
			ObjectMeta: named("old"), Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(9))}})),
	}
	for name, c := range map[string]struct {
		owners []metav1.OwnerReference
		want   string
	}{
		"a ReplicaSet":            {by("apps/v1", "ReplicaSet", "alone", "uid-alone"), "{uid-alone 3}"},
		"one that says no number": {by("apps/v1", "ReplicaSet", "silent", "uid-silent"), "{uid-silent 1}"},
		"a Deployment's":          {by("apps/v1", "ReplicaSet", "web-1", "uid-web-1"), "{uid-web 5}"},
		"its other ReplicaSet":    {by("apps/v1", "ReplicaSet", "web-2", "uid-web-2"), "{uid-web 5}"},
		"a StatefulSet":           {by("apps/v1", "StatefulSet", "db", "uid-db"), "{uid-db 7}"},
		"a ReplicationController": {by("v1", "ReplicationController", "old", "uid-old"), "{uid-old 9}"},
		"another of the same name": {by("apps/v1", "StatefulSet", "db", "uid-new"),
			`found no controllers for pod "p"`},
		"one that is gone": {by("apps/v1", "StatefulSet", "no", "uid-no"), `found no controllers for pod "p"`},
		"nobody":           {nil, ""},
		"an owner, not a controller": {[]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db",
			UID: "uid-db"}}, ""},
	} {
		scales, err := s.expectedScales(t.Context(), []*corev1.Pod{{ObjectMeta: named("p", c.owners...)}})
		got := ""
		if scale, ok := scales["p"]; ok {
			got = fmt.Sprint(scale)
		}
		if err != nil {
			got = err.Error()
		}
		if strings.TrimSpace(got) != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

package resourceclaim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func user(name string) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: "uid-" + "x"}
}

func TestDecide(t *testing.T) {
	now := metav1.Now()
	held := func(c *resourceapi.ResourceClaim) {
		c.Finalizers = []string{resourceapi.Finalizer}
		c.Status.Allocation = &resourceapi.AllocationResult{}
	}
	for name, c := range map[string]struct {
		claim func(*resourceapi.ResourceClaim)
		want  Update
		users int
	}{
		"all users live": {func(c *resourceapi.ResourceClaim) {
			held(c)
			c.Status.ReservedFor = append(c.Status.ReservedFor, user("lives"))
		}, Update{}, 1},
		"one of two is gone": {func(c *resourceapi.ResourceClaim) {
			held(c)
			c.Status.ReservedFor = append(c.Status.ReservedFor, user("lives"), user("gone"))
		}, Update{Status: true}, 1},
		"the last is gone": {func(c *resourceapi.ResourceClaim) {
			held(c)
			c.Status.ReservedFor = append(c.Status.ReservedFor, user("gone"))
		}, Update{Status: true, Deallocate: true, RemoveFinalizer: true}, 0},
		"allocated, nobody's": {held, Update{}, 0},
		"deleted while allocated": {func(c *resourceapi.ResourceClaim) { held(c); c.DeletionTimestamp = &now },
			Update{Status: true, Deallocate: true, RemoveFinalizer: true}, 0},
		"deleted while in use": {func(c *resourceapi.ResourceClaim) {
			held(c)
			c.DeletionTimestamp = &now
			c.Status.ReservedFor = append(c.Status.ReservedFor, user("lives"))
		}, Update{}, 1},
		"made for a Pod that is gone": {func(c *resourceapi.ResourceClaim) { c.OwnerReferences = owner("gone") },
			Update{Delete: true}, 0},
		"made for a Pod that lives": {func(c *resourceapi.ResourceClaim) { c.OwnerReferences = owner("lives") },
			Update{}, 0},
		"another kind of user is kept": {func(c *resourceapi.ResourceClaim) {
			held(c)
			c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{
				{APIGroup: "example.com", Resource: "things", Name: "gone"}}
		}, Update{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &resourceapi.ResourceClaim{}
			c.claim(claim)
			got := Decide(claim, func(name, _ string) bool { return name == "lives" })
			if len(got.ReservedFor) != c.users {
				t.Errorf("users %v, want %d", got.ReservedFor, c.users)
			}
			got.ReservedFor = nil
			if got.Status != c.want.Status || got.Deallocate != c.want.Deallocate ||
				got.RemoveFinalizer != c.want.RemoveFinalizer || got.Delete != c.want.Delete {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func owner(name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: "uid-x", Controller: new(true)}}
}

func TestGeneratedClaimIsFoundAgain(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
	template := &resourceapi.ResourceClaimTemplate{
		Spec: resourceapi.ResourceClaimTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"c": "d"}}}}
	c := NewClaim(p, "gpu", template)
	if c.GenerateName != "p-gpu-" || c.Labels["a"] != "b" || c.Annotations["c"] != "d" || !metav1.IsControlledBy(c, p) {
		t.Errorf("got %+v, want GenerateName p-gpu-, Labels[a] b, Annotations[c] d and metav1.IsControlledBy(c, p) "+
			"true", c.ObjectMeta)
	}
	for entry, want := range map[string]*resourceapi.ResourceClaim{"gpu": c, "other": nil} {
		if got := FindClaim(p, entry, []*resourceapi.ResourceClaim{c}); got != want {
			t.Errorf("the claim is not found by its entry %s: got %v, want %v", entry, got, want)
		}
	}
	p.UID = "another"
	if FindClaim(p, "gpu", []*resourceapi.ResourceClaim{c}) != nil {
		t.Error("a Pod of the same name took the claim of the one before")
	}
}

func TestClaimLifecycle(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"runs":      {corev1.Pod{}, true},
		"succeeded": {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, false},
		"stops": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now},
			Spec: corev1.PodSpec{NodeName: "n"}}, true},
		"deleted before its node": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, false},
	} {
		if NeedsClaims(&c.pod) != c.want {
			t.Errorf("%s: want %v", name, c.want)
		}
	}
}

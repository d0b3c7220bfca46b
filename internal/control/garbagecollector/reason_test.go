package garbagecollector

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Why an object is deleted names each owner that it has lost: one that is not there, one whose name
// another object has, one that waits for it.
func TestReason(t *testing.T) {
	ref := metav1.OwnerReference{Kind: "Deployment", Name: "app", UID: "1"}
	for want, w := range map[string]Owner{
		"Deployment app of uid 1 is not there":                                            {Ref: ref},
		"Deployment app of uid 1 is not there: the Deployment of that name has the uid 2": {Ref: ref, Other: "2"},
		"Deployment app of uid 1 is being deleted and waits for it": {Ref: ref, Exists: true,
			WaitsForDependents: true},
	} {
		if got := Reason([]Owner{w}); !strings.HasSuffix(got, "its owner "+want) ||
			!strings.Contains(got, "metadata.ownerReferences") {
			t.Errorf("got %s, want it to end with %s", got, want)
		}
	}
}

package volumeprotection

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// boundClaim is a bound claim with the condition Unused of that status; none when it is empty.
func boundClaim(unused v1.ConditionStatus) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", Finalizers: []string{ClaimFinalizer}},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound,
			Conditions: []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimResizing}}}}
	if unused != "" {
		c.Status.Conditions = append(c.Status.Conditions, v1.PersistentVolumeClaimCondition{
			Type: v1.PersistentVolumeClaimUnused, Status: unused, LastTransitionTime: metav1.Unix(1, 0)})
	}
	return c
}

// A bound claim says whether a Pod names it, and since when that is so.
func TestUnusedConditionOfClaims(t *testing.T) {
	const inUse = "False PodUsingPVC A pod is currently referencing this PVC"
	const unused = "True NoPodsUsingPVC No pods are currently referencing this PVC"
	now := metav1.Unix(60, 0)
	pending, leaves := boundClaim(""), boundClaim("")
	pending.Status.Phase, leaves.DeletionTimestamp = v1.ClaimPending, &now
	for name, c := range map[string]struct {
		claim *v1.PersistentVolumeClaim
		used  bool
		want  string
	}{
		"never told, no Pod":      {boundClaim(""), false, unused},
		"never told, a Pod":       {boundClaim(""), true, inUse},
		"was in use":              {boundClaim(v1.ConditionFalse), false, unused},
		"is in use still":         {boundClaim(v1.ConditionFalse), true, ""},
		"was unused":              {boundClaim(v1.ConditionTrue), true, inUse},
		"is unused still":         {boundClaim(v1.ConditionTrue), false, ""},
		"was unknown, is not":     {boundClaim(v1.ConditionUnknown), false, unused},
		"was unknown, is in use":  {boundClaim(v1.ConditionUnknown), true, ""},
		"is not bound":            {pending, false, ""},
		"is being deleted, bound": {leaves, false, ""},
	} {
		got := ""
		if next := NextUnused(c.claim, c.used, now); next != nil {
			got = string(next.Status) + " " + next.Reason + " " + next.Message
			if next.Type != v1.PersistentVolumeClaimUnused || next.LastTransitionTime != now {
				t.Errorf("%s: got %s since %s, want Unused since %s", name, next.Type, next.LastTransitionTime, now)
			}
		}
		if got != c.want {
			t.Errorf("%s: got condition %q, want %q", name, got, c.want)
		}
	}
}

// Pods count from their creation until they have ended; claims made for another Pod's volume are
// not theirs.
func TestUnusedIsWritten(t *testing.T) {
	waiting, ended, made := user(""), user("n"), user("n")
	ended.Status.Phase = v1.PodFailed
	made.Name, made.UID = "da", "u1"
	made.Spec.Volumes = []v1.Volume{{Name: "ta", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
	yes := true
	own := boundClaim("")
	own.Name = "da-ta"
	own.OwnerReferences = []metav1.OwnerReference{{UID: "u1", Controller: &yes}}
	foreign := own.DeepCopy()
	foreign.OwnerReferences[0].UID = "u2"
	for name, c := range map[string]struct {
		claim *v1.PersistentVolumeClaim
		pods  []runtime.Object
		off   bool
		want  v1.ConditionStatus
	}{
		"no Pod":                  {boundClaim(""), nil, false, v1.ConditionTrue},
		"a Pod without node":      {boundClaim(v1.ConditionTrue), []runtime.Object{waiting}, false, v1.ConditionFalse},
		"a Pod that failed":       {boundClaim(v1.ConditionFalse), []runtime.Object{ended}, false, v1.ConditionTrue},
		"made for the Pod":        {own, []runtime.Object{made}, false, v1.ConditionFalse},
		"made for another Pod":    {foreign, []runtime.Object{made}, false, v1.ConditionTrue},
		"the gate is off":         {boundClaim(""), nil, true, ""},
		"nothing changes, no Pod": {boundClaim(v1.ConditionTrue), nil, false, ""},
	} {
		client := fake.NewClientset(append(c.pods, c.claim)...)
		d := controllerruntime.ControllerContext{Client: client,
			Volumes:   controllerruntime.Volumes{NoUnusedClaims: c.off},
			Now:       func() time.Time { return time.Unix(60, 0) },
			Informers: informers.NewSharedInformerFactory(client, 0)}
		p := newPVCProtection(d)
		d.Informers.Start(t.Context().Done())
		d.Informers.WaitForCacheSync(t.Context().Done())
		if _, err := p.processPVC(t.Context(), "ns/"+c.claim.Name); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
		got := v1.ConditionStatus("")
		for _, a := range client.Actions() {
			if a.GetVerb() == "update" && a.GetSubresource() == "status" {
				claim, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), c.claim.Name,
					metav1.GetOptions{})
				if err != nil || len(claim.Status.Conditions) != 2 {
					t.Fatalf("%s: got %+v, %v, want Resizing and Unused", name, claim.Status.Conditions, err)
				}
				got = claim.Status.Conditions[1].Status
			}
		}
		if got != c.want {
			t.Errorf("%s: got Unused written as %q, want %q", name, got, c.want)
		}
		lists := 0 // beside that of the informer
		for _, a := range client.Actions() {
			if a.Matches("list", "pods") {
				lists++
			}
		}
		if c.want == "" && lists != 1 {
			t.Errorf("%s: got %d lists of Pods, want the informer's alone: nothing is to be written", name, lists)
		}
	}
}

// Each change of a Pod that may change a condition has the claim looked at.
func TestPodsThatBeginAndEndToNameClaims(t *testing.T) {
	ended := user("n")
	ended.Status.Phase = v1.PodSucceeded
	for name, c := range map[string]struct {
		old, cur runtime.Object
		want     string
	}{
		"comes unplaced": {nil, user(""), "ns/data"},
		"is placed":      {user(""), user("n"), ""},
		"ends":           {user("n"), ended, "ns/data"},
		"goes":           {user("n"), nil, "ns/data"},
		"goes unplaced":  {user(""), nil, "ns/data"},
	} {
		got := podEvent(c.old, c.cur)
		slices.Sort(got)
		if got := strings.Join(slices.Compact(got), " "); got != c.want {
			t.Errorf("%s: got a look at %q, want %q", name, got, c.want)
		}
	}
}

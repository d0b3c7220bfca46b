package devicetainteviction

import (
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fixture is a Pod on a node with one claim that has the device gpu-0 of pool node-1.
type fixture struct {
	pod    *corev1.Pod
	claim  *resourceapi.ResourceClaim
	slices []*resourceapi.ResourceSlice
	rules  []*resourceapi.DeviceTaintRule
}

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newFixture() *fixture {
	return &fixture{
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"},
			Spec: corev1.PodSpec{NodeName: "node-1",
				ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("c")}}}},
		claim: &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"},
			Status: resourceapi.ResourceClaimStatus{
				Allocation: &resourceapi.AllocationResult{
					Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
						{Request: "r", Driver: "d", Pool: "node-1", Device: "gpu-0"}}}},
				ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}}},
		slices: []*resourceapi.ResourceSlice{slice("s", 1)},
	}
}

func slice(name string, generation int64, taints ...resourceapi.DeviceTaint) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{Driver: "d", Pool: resourceapi.ResourcePool{Name: "node-1",
			Generation: generation},
			Devices: []resourceapi.Device{{Name: "gpu-1"}, {Name: "gpu-0", Taints: taints}}}}
}

func taint(effect resourceapi.DeviceTaintEffect) resourceapi.DeviceTaint {
	at := metav1.NewTime(t0)
	return resourceapi.DeviceTaint{Key: "bad", Value: "yes", Effect: effect, TimeAdded: &at}
}

func rule(name string, effect resourceapi.DeviceTaintEffect,
	s *resourceapi.DeviceTaintSelector) *resourceapi.DeviceTaintRule {
	return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: s, Taint: taint(effect)}}
}

// madeFor makes the claim one that was made from a template, for the Pod p with that UID.
func madeFor(w *fixture, uid types.UID) {
	w.pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: new("t")}
	w.pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("c")}}
	w.claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: uid,
		Controller: new(true)}}
}

func (w *fixture) tolerate(t ...resourceapi.DeviceToleration) {
	w.claim.Status.Allocation.Devices.Results[0].Tolerations = t
}

func (w *fixture) decide() Decision {
	return Decide(w.pod, State{Rules: w.rules,
		Slices: func(p Pool) []*resourceapi.ResourceSlice {
			if p != (Pool{"d", "node-1"}) {
				return nil
			}
			return w.slices
		},
		Claim: func(ns, name string) *resourceapi.ResourceClaim {
			if ns+"/"+name != "default/c" {
				return nil
			}
			return w.claim
		}})
}

func TestDecide(t *testing.T) {
	const execute = resourceapi.DeviceTaintEffectNoExecute
	exists := func(seconds *int64) resourceapi.DeviceToleration {
		return resourceapi.DeviceToleration{Key: "bad", Operator: resourceapi.DeviceTolerationOpExists, Effect: execute,
			TolerationSeconds: seconds}
	}
	bySlice := func(w *fixture) { w.slices = []*resourceapi.ResourceSlice{slice("s", 1, taint(execute))} }
	for name, c := range map[string]struct {
		set     func(*fixture)
		leave   bool
		at      time.Time
		because string
	}{
		"nothing is tainted":     {set: func(*fixture) {}},
		"by the driver, at once": {bySlice, true, t0, "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"no Pod starts there any more, but those that run stay": {set: func(w *fixture) {
			w.slices = []*resourceapi.ResourceSlice{slice("s", 1, taint(resourceapi.DeviceTaintEffectNoSchedule))}
		}},
		"by a rule for all devices": {func(w *fixture) {
			w.rules = append(w.rules, rule("all", execute, &resourceapi.DeviceTaintSelector{}))
		}, true, t0, "DeviceTaintRule all"},
		"by a rule for this device": {func(w *fixture) {
			w.rules = append(w.rules,
				rule("one", execute, &resourceapi.DeviceTaintSelector{Driver: new("d"), Pool: new("node-1"),
					Device: new("gpu-0")}))
		}, true, t0, "DeviceTaintRule one"},
		"by a rule for another": {set: func(w *fixture) {
			w.rules = append(w.rules, rule("other", execute, &resourceapi.DeviceTaintSelector{Device: new("gpu-1")}))
		}},
		"a rule without a selector is for none": {
			set: func(w *fixture) { w.rules = append(w.rules, rule("none", execute, nil)) }},
		"a rule without effect": {set: func(w *fixture) {
			w.rules = append(w.rules, rule("dry", resourceapi.DeviceTaintEffectNone,
				&resourceapi.DeviceTaintSelector{}))
		}},
		"a device nobody publishes any more can be tainted by a rule": {func(w *fixture) {
			w.slices, w.rules = nil, append(w.rules, rule("all", execute, &resourceapi.DeviceTaintSelector{}))
		}, true, t0, "DeviceTaintRule all"},
		"tolerated for ever": {set: func(w *fixture) { bySlice(w); w.tolerate(exists(nil)) }},
		"tolerated for a time": {func(w *fixture) { bySlice(w); w.tolerate(exists(new(int64(300)))) }, true,
			t0.Add(300 * time.Second), "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"the shortest time counts": {
			func(w *fixture) { bySlice(w); w.tolerate(exists(new(int64(300))), exists(new(int64(5)))) }, true,
			t0.Add(5 * time.Second), "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"longer than a duration": {func(w *fixture) { bySlice(w); w.tolerate(exists(new(int64(math.MaxInt64)))) }, true,
			t0.Add(math.MaxInt64 / time.Second * time.Second), "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"tolerated for a time, without timeAdded": {func(w *fixture) {
			undated := taint(execute)
			undated.TimeAdded = nil
			w.slices = []*resourceapi.ResourceSlice{slice("s", 1, undated)}
			w.slices[0].CreationTimestamp = metav1.NewTime(t0.Add(7 * time.Second))
			w.tolerate(exists(new(int64(5))))
		}, true, t0.Add(12 * time.Second), "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"by a rule without timeAdded": {func(w *fixture) {
			r := rule("all", execute, &resourceapi.DeviceTaintSelector{})
			r.CreationTimestamp, r.Spec.Taint.TimeAdded = metav1.NewTime(t0.Add(7*time.Second)), nil
			w.rules = append(w.rules, r)
			w.tolerate(exists(new(int64(5))))
		}, true, t0.Add(12 * time.Second), "DeviceTaintRule all"},
		"less than no time": {func(w *fixture) { bySlice(w); w.tolerate(exists(new(int64(-5)))) }, true, t0,
			"ResourceSlice s d/node-1/gpu-0 taint #0"},
		"a toleration of every effect": {set: func(w *fixture) {
			bySlice(w)
			w.tolerate(resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists})
		}},
		"a toleration of another value": {func(w *fixture) {
			bySlice(w)
			w.tolerate(resourceapi.DeviceToleration{Key: "bad", Value: "no",
				Operator: resourceapi.DeviceTolerationOpEqual, Effect: execute})
		}, true, t0, "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"a newer generation ends the taint": {set: func(w *fixture) {
			w.slices = []*resourceapi.ResourceSlice{slice("old", 1, taint(execute)), slice("new", 2)}
		}},
		"without a node": {set: func(w *fixture) { bySlice(w); w.pod.Spec.NodeName = "" }},
		"it has ended":   {set: func(w *fixture) { bySlice(w); w.pod.Status.Phase = corev1.PodSucceeded }},
		"reserved for another of that name": {set: func(w *fixture) {
			bySlice(w)
			w.claim.Status.ReservedFor[0].UID = "before"
		}},
		"no longer allocated": {set: func(w *fixture) { bySlice(w); w.claim.Status.Allocation = nil }},
		"the shortest time comes first": {
			func(w *fixture) { bySlice(w); w.tolerate(exists(new(int64(5))), exists(new(int64(300)))) }, true,
			t0.Add(5 * time.Second), "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"no time among others": {
			func(w *fixture) { bySlice(w); w.tolerate(exists(new(int64(0))), exists(new(int64(300)))) }, true,
			t0, "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"for ever after a time": {
			set: func(w *fixture) { bySlice(w); w.tolerate(exists(new(int64(5))), exists(nil)) }},
		"a time for another taint": {func(w *fixture) {
			bySlice(w)
			w.tolerate(resourceapi.DeviceToleration{Key: "other", Operator: resourceapi.DeviceTolerationOpExists})
		}, true, t0, "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"the earliest of two taints": {func(w *fixture) {
			early := taint(execute)
			early.TimeAdded = new(metav1.NewTime(t0.Add(-time.Minute)))
			w.slices = []*resourceapi.ResourceSlice{slice("s", 1, taint(execute), early)}
		}, true, t0.Add(-time.Minute),
			"ResourceSlice s d/node-1/gpu-0 taint #0, ResourceSlice s d/node-1/gpu-0 taint #1"},
		"the earliest comes first": {func(w *fixture) {
			late := taint(execute)
			late.TimeAdded = new(metav1.NewTime(t0.Add(time.Minute)))
			w.slices = []*resourceapi.ResourceSlice{slice("s", 1, taint(execute), late)}
		}, true, t0, "ResourceSlice s d/node-1/gpu-0 taint #0, ResourceSlice s d/node-1/gpu-0 taint #1"},
		"in another slice of the generation": {func(w *fixture) {
			first := slice("first", 2)
			first.Spec.Devices = first.Spec.Devices[:1]
			w.slices = []*resourceapi.ResourceSlice{slice("old", 1), first, slice("s", 2, taint(execute))}
		}, true, t0, "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"in the first slice of the generation": {func(w *fixture) {
			second := slice("second", 2)
			second.Spec.Devices = second.Spec.Devices[:1]
			w.slices = []*resourceapi.ResourceSlice{slice("s", 2, taint(execute)), second}
		}, true, t0, "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"of an older generation, which comes last": {set: func(w *fixture) {
			w.slices = []*resourceapi.ResourceSlice{slice("new", 2), slice("old", 1, taint(execute))}
		}},
		"by a rule for another driver": {set: func(w *fixture) {
			w.rules = append(w.rules, rule("other", execute, &resourceapi.DeviceTaintSelector{Driver: new("e")}))
		}},
		"by a rule for another pool": {set: func(w *fixture) {
			w.rules = append(w.rules, rule("other", execute, &resourceapi.DeviceTaintSelector{Driver: new("d"),
				Pool: new("node-2")}))
		}},
		"it has failed": {set: func(w *fixture) { bySlice(w); w.pod.Status.Phase = corev1.PodFailed }},
		"no claim": {
			set: func(w *fixture) { bySlice(w); w.pod.Spec.ResourceClaims[0].ResourceClaimName = new("d") }},
		"a claim made for it": {func(w *fixture) {
			bySlice(w)
			madeFor(w, "u")
		}, true, t0, "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"a claim made for its predecessor": {set: func(w *fixture) { bySlice(w); madeFor(w, "before") }},
		"a second device": {func(w *fixture) {
			r := &w.claim.Status.Allocation.Devices.Results
			*r = append([]resourceapi.DeviceRequestAllocationResult{{Driver: "d", Pool: "node-1", Device: "gpu-1"}},
				*r...)
			bySlice(w)
		}, true, t0, "ResourceSlice s d/node-1/gpu-0 taint #0"},
		"a rule for both devices counts once": {func(w *fixture) {
			r := &w.claim.Status.Allocation.Devices.Results
			*r = append(*r, resourceapi.DeviceRequestAllocationResult{Driver: "d", Pool: "node-1", Device: "gpu-1"})
			w.rules = append(w.rules, rule("all", execute, &resourceapi.DeviceTaintSelector{}))
		}, true, t0, "DeviceTaintRule all"},
		"two reasons, rules first": {func(w *fixture) {
			bySlice(w)
			w.rules = append(w.rules, rule("b", execute, &resourceapi.DeviceTaintSelector{}),
				rule("a", execute, &resourceapi.DeviceTaintSelector{}))
		}, true, t0, "DeviceTaintRule a, DeviceTaintRule b, ResourceSlice s d/node-1/gpu-0 taint #0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture()
			c.set(w)
			v := w.decide()
			got := ""
			for i, b := range v.Causes {
				if i > 0 {
					got += ", "
				}
				if name, ok := strings.CutPrefix(b.Device,
					"DeviceTaintRule "); ok && b.Rule != types.UID("uid-"+name) ||
					!ok && b.Rule != "" {
					t.Errorf("%s: got the rule %q, want that of the name, or none", b.Device, b.Rule)
				}
				got += b.Device
			}
			if v.Evict != c.leave || !v.At.Equal(c.at) || got != c.because {
				t.Errorf("leaves %v at %v because of %q, want %v at %v because of %q", v.Evict, v.At, got, c.leave,
					c.at, c.because)
			}
		})
	}
}

func TestCondition(t *testing.T) {
	execute, none := rule("r", resourceapi.DeviceTaintEffectNoExecute, nil),
		rule("r", resourceapi.DeviceTaintEffectNone, nil)
	for _, c := range []struct {
		rule                    *resourceapi.DeviceTaintRule
		n                       Count
		status, reason, message string
	}{
		{execute, Count{}, "False", "NotStarted", ""},
		{execute, Count{Pods: 1, Namespaces: 1}, "True", "PodsPendingEviction",
			"1 pod needs to be evicted in 1 namespace."},
		{execute, Count{Pods: 3, Namespaces: 2, Evicted: 1}, "True", "PodsPendingEviction",
			"3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller."},
		{execute, Count{Evicted: 4}, "False", "Completed", "4 pods evicted since starting the controller."},
		{none, Count{Published: 1, Allocated: 2, Pods: 1, Namespaces: 1}, "False", "NoEffect",
			"1 published device selected. 2 allocated devices selected. 1 pod would be evicted in 1 namespace if the " +
				"effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to " +
				"trigger an update."},
		{rule("r", resourceapi.DeviceTaintEffectNoSchedule, nil), Count{}, "False", "OtherEffect",
			"Eviction only happens for the NoExecute effect."},
	} {
		if got := Condition(c.rule, c.n); string(got.Status) != c.status || got.Reason != c.reason ||
			got.Message != c.message || got.Type != "EvictionInProgress" {
			t.Errorf("%+v: %+v, want %s %s %q", c.n, got, c.status, c.reason, c.message)
		}
	}
}

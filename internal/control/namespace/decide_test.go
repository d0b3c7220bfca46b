package namespace

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

// The content left in a namespace, its finalizers and failures are in upstream's five conditions
// and texts.
func TestConditions(t *testing.T) {
	for name, c := range map[string]struct {
		found RemainingContent
		left  bool
		want  map[corev1.NamespaceConditionType]string
	}{
		"empty": {want: map[corev1.NamespaceConditionType]string{
			corev1.NamespaceDeletionDiscoveryFailure: "False ResourcesDiscovered All resources successfully discovered",
			corev1.NamespaceDeletionGVParsingFailure: "False ParsedGroupVersions All legacy kube types successfully " +
				"parsed",
			corev1.NamespaceDeletionContentFailure: "False ContentDeleted All content successfully deleted, may be " +
				"waiting on finalization",
			corev1.NamespaceContentRemaining: "False ContentRemoved All content successfully removed",
			corev1.NamespaceFinalizersRemaining: "False ContentHasNoFinalizers All content-preserving finalizers " +
				"finished",
		}},
		"held": {left: true, found: RemainingContent{Contents: []Content{
			{Resource: core("pods")},
			{Resource: core("secrets"), Remaining: 2, Finalizers: map[string]int{"b/c": 1, "a/b": 2}},
			{Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Remaining: 1,
				Finalizers: map[string]int{"b/c": 1}},
		}}, want: map[corev1.NamespaceConditionType]string{
			corev1.NamespaceContentRemaining: "True SomeResourcesRemain Some resources are remaining: " +
				"deployments.apps has 1 resource instances, secrets. has 2 resource instances",
			corev1.NamespaceFinalizersRemaining: "True SomeFinalizersRemain Some content in the namespace has " +
				"finalizers remaining: a/b in 2 resource instances, b/c in 2 resource instances",
		}},
		"unknown groups": {left: true, found: RemainingContent{Discovery: errors.New("a.b/v1: away")},
			want: map[corev1.NamespaceConditionType]string{
				corev1.NamespaceDeletionDiscoveryFailure: "True DiscoveryFailed Discovery failed for some groups: " +
					"a.b/v1: away",
			}},
		"failed": {left: true,
			found: RemainingContent{Contents: []Content{{Resource: core("secrets"), Err: errors.New("no rights")}}},
			want: map[corev1.NamespaceConditionType]string{
				corev1.NamespaceDeletionContentFailure: "True ContentDeletionFailed Failed to delete all resource " +
					"types, 1 remaining: no rights",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.found.Remains() != c.left {
				t.Errorf("left: %t, want %v", c.found.Remains(), c.left)
			}
			all := Conditions(c.found)
			if len(all) != 5 {
				t.Fatalf("%d conditions, want 5", len(all))
			}
			for _, d := range all {
				want, ok := c.want[d.Type]
				if got := fmt.Sprintf("%s %s %s", d.Status, d.Reason, d.Message); ok && got != want ||
					!ok && !strings.HasPrefix(got, "False") {
					t.Errorf("%s: %s\nwant %s", d.Type, got, want)
				}
			}
		})
	}
}

// Pods go first: while one is left, or cannot be counted, the rest stays.
func TestPodsGoFirst(t *testing.T) {
	for name, c := range map[string]struct {
		found RemainingContent
		want  bool
	}{
		"none": {
			RemainingContent{Contents: []Content{{Resource: core("pods")}, {Resource: core("secrets"), Remaining: 3}}},
			false},
		"one": {RemainingContent{Contents: []Content{{Resource: core("pods"), Remaining: 1}}},
			true},
		"uncounted": {RemainingContent{Contents: []Content{{Resource: core("pods"), Err: errors.New("away")}}},
			true},
		"of metrics": {
			RemainingContent{
				Contents: []Content{{Resource: schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1",
					Resource: "nodes"}, Remaining: 1}}}, false},
		"nothing seen": {RemainingContent{}, false},
	} {
		if got := c.found.PodsRemain(); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}

// A condition that stays keeps its time, one that turns takes the new one, and a foreign one is
// left alone.
func TestMerge(t *testing.T) {
	then, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	have, changed := Merge([]corev1.NamespaceCondition{{Type: "example.com/own", Status: corev1.ConditionTrue}},
		Conditions(RemainingContent{Contents: []Content{{Resource: core("pods"), Remaining: 2}}}), then)
	if !changed || len(have) != 6 {
		t.Fatalf("%t, %d conditions", changed, len(have))
	}
	if _, changed := Merge(have,
		Conditions(RemainingContent{Contents: []Content{{Resource: core("pods"), Remaining: 2}}}), now); changed {
		t.Error("the same finding changes something")
	}
	fewer, changed := Merge(have,
		Conditions(RemainingContent{Contents: []Content{{Resource: core("pods"), Remaining: 1}}}), now)
	none, _ := Merge(fewer, Conditions(RemainingContent{}), now)
	for _, d := range fewer {
		if d.Type == corev1.NamespaceContentRemaining && (!changed || d.LastTransitionTime != then ||
			!strings.Contains(d.Message, "has 1 resource")) {
			t.Errorf("one Pod less: %+v", d)
		}
	}
	for _, d := range none {
		if d.Type == corev1.NamespaceContentRemaining &&
			(d.LastTransitionTime != now || d.Status != corev1.ConditionFalse) {
			t.Errorf("no Pod: %+v", d)
		}
	}
}

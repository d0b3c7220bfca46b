package namespace

import (
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Content is what is left of one resource in a terminating namespace.
type Content struct {
	Resource   schema.GroupVersionResource
	Remaining  int
	Finalizers map[string]int // number of objects with each
	Err        error
}

// RemainingContent is what is left in a terminating namespace.
type RemainingContent struct {
	Discovery error
	Contents  []Content
}

// Remains reports whether anything is left or unknown.
func (f RemainingContent) Remains() bool {
	if f.Discovery != nil {
		return true
	}
	for _, c := range f.Contents {
		if c.Remaining > 0 || c.Err != nil {
			return true
		}
	}
	return false
}

// PodsRemain reports whether Pods are left: other content is kept until they are gone, so that they
// have their Secrets and policies to the end (KEP-5080).
func (f RemainingContent) PodsRemain() bool {
	for _, c := range f.Contents {
		if c.Resource.Resource == "pods" && (c.Remaining > 0 || c.Err != nil) {
			return true
		}
	}
	return false
}

// Conditions returns upstream's five conditions.
func Conditions(f RemainingContent) []corev1.NamespaceCondition {
	var failed, left, held []string
	holders := map[string]int{}
	for _, c := range f.Contents {
		if c.Err != nil {
			failed = append(failed, c.Err.Error())
		}
		if c.Remaining > 0 {
			left = append(left, fmt.Sprintf("%s.%s has %d resource instances", c.Resource.Resource, c.Resource.Group,
				c.Remaining))
		}
		for name, n := range c.Finalizers {
			holders[name] += n
		}
	}
	for name, n := range holders {
		held = append(held, fmt.Sprintf("%s in %d resource instances", name, n))
	}
	sort.Strings(failed)
	sort.Strings(left)
	sort.Strings(held)
	discovery := condition(corev1.NamespaceDeletionDiscoveryFailure, "", "ResourcesDiscovered",
		"All resources successfully discovered")
	if f.Discovery != nil {
		discovery = condition(corev1.NamespaceDeletionDiscoveryFailure, "DiscoveryFailed", "",
			"Discovery failed for some groups: "+f.Discovery.Error())
	}
	return []corev1.NamespaceCondition{
		discovery,
		condition(corev1.NamespaceDeletionGVParsingFailure, "", "ParsedGroupVersions",
			"All legacy kube types successfully parsed"),
		listCondition(corev1.NamespaceDeletionContentFailure, failed,
			conditionTexts{"ContentDeletionFailed", fmt.Sprintf("Failed to delete all resource types, %d remaining: ",
				len(failed)),
				"ContentDeleted", "All content successfully deleted, may be waiting on finalization"}),
		listCondition(corev1.NamespaceContentRemaining, left,
			conditionTexts{"SomeResourcesRemain", "Some resources are remaining: ", "ContentRemoved",
				"All content successfully removed"}),
		listCondition(corev1.NamespaceFinalizersRemaining, held,
			conditionTexts{"SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: ",
				"ContentHasNoFinalizers", "All content-preserving finalizers finished"}),
	}
}

type conditionTexts struct{ badReason, badPrefix, goodReason, good string }

func listCondition(typ corev1.NamespaceConditionType, items []string, t conditionTexts) corev1.NamespaceCondition {
	if len(items) == 0 {
		return condition(typ, "", t.goodReason, t.good)
	}
	return condition(typ, t.badReason, "", t.badPrefix+strings.Join(items, ", "))
}

func condition(typ corev1.NamespaceConditionType, bad, good, message string) corev1.NamespaceCondition {
	c := corev1.NamespaceCondition{Type: typ, Status: corev1.ConditionFalse, Reason: good, Message: message}
	if bad != "" {
		c.Status, c.Reason = corev1.ConditionTrue, bad
	}
	return c
}

// Merge merges conditions into have, keeping the transition time of unchanged ones. It reports
// whether anything changed.
func Merge(have, want []corev1.NamespaceCondition, now metav1.Time) ([]corev1.NamespaceCondition, bool) {
	out := append([]corev1.NamespaceCondition(nil), have...)
	changed := false
	for _, w := range want {
		i := 0
		for i < len(out) && out[i].Type != w.Type {
			i++
		}
		w.LastTransitionTime = now
		switch {
		case i == len(out):
			out, changed = append(out, w), true
		case out[i].Status != w.Status || out[i].Reason != w.Reason || out[i].Message != w.Message:
			if out[i].Status == w.Status {
				w.LastTransitionTime = out[i].LastTransitionTime
			}
			out[i], changed = w, true
		}
	}
	return out, changed
}

package podgroupprotection

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/test/wrappers"
)

func member(uid, group string, phase v1.PodPhase) *v1.Pod {
	p := wrappers.MakePod().Namespace("ns").Name("p").UID(uid).Phase(phase).Obj()
	if group != "" {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}
	return p
}

// A group is looked at when a member ends or goes, whatever took its place.
func TestLeftGroups(t *testing.T) {
	for name, c := range map[string]struct {
		old, cur runtime.Object
		want     []string
	}{
		"comes":               {nil, member("1", "g", v1.PodRunning), nil},
		"changes":             {member("1", "g", v1.PodPending), member("1", "g", v1.PodRunning), nil},
		"succeeds":            {member("1", "g", v1.PodRunning), member("1", "g", v1.PodSucceeded), []string{"ns/g"}},
		"fails":               {member("1", "g", v1.PodRunning), member("1", "g", v1.PodFailed), []string{"ns/g"}},
		"goes":                {member("1", "g", v1.PodRunning), nil, []string{"ns/g"}},
		"goes, had ended":     {member("1", "g", v1.PodFailed), nil, nil},
		"another of its name": {member("1", "g", v1.PodRunning), member("2", "g", v1.PodRunning), []string{"ns/g"}},
		"is in no group":      {member("1", "", v1.PodRunning), nil, nil},
	} {
		if got := LeftGroups(c.old, c.cur); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestWithoutFinalizer(t *testing.T) {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"a/b", Finalizer, "c/d"}}}
	if got := WithoutFinalizer(g); got != nil {
		t.Errorf("got %v for a group that stays, want nil", got)
	}
	g.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if got := WithoutFinalizer(g); got == nil || !slices.Equal(got.Finalizers, []string{"a/b", "c/d"}) ||
		len(g.Finalizers) != 3 {
		t.Errorf("got %v, want the other two", got)
	}
	g.Finalizers = []string{"a/b"}
	if got := WithoutFinalizer(g); got != nil {
		t.Errorf("got %v for a group without the finalizer, want nil", got)
	}
}

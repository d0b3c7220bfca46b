package podgc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/wrappers"
)

// writesOf runs the controller over the objects for one period and returns what it wrote to Pods,
// in order of the names: deletions with their grace period, patches with their status.
func writesOf(t *testing.T, objects ...runtime.Object) []string {
	t.Helper()
	return writesUnless(t, "", objects...)
}

// writesUnless is writesOf with an API that refuses to delete one Pod.
func writesUnless(t *testing.T, refused string, objects ...runtime.Object) []string {
	t.Helper()
	return writesWithin(t, time.Second, refused, objects...)
}

// writesWithin is writesUnless over a time.
func writesWithin(t *testing.T, within time.Duration, refused string, objects ...runtime.Object) []string {
	t.Helper()
	var out []string
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewSimpleClientset(objects...)
		client.PrependReactor("delete", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
			name := a.(ktesting.DeleteAction).GetName()
			return name == refused, nil, apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New("refused"))
		})
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared,
			Recorder: record.NewFakeRecorder(99), Journal: journal.Discard{}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		time.Sleep(within)
		synctest.Wait()
		cancel()
		<-done
		shared.Shutdown()
		for _, a := range client.Actions() {
			switch a := a.(type) {
			case ktesting.DeleteActionImpl:
				out = append(out, fmt.Sprintf("%s deleted with grace %d", a.Name, *a.DeleteOptions.GracePeriodSeconds))
			case ktesting.PatchActionImpl:
				text := a.Name + " patched"
				for _, word := range []string{`"Failed"`, "DeletionByPodGC"} {
					if strings.Contains(string(a.Patch), word) {
						text += " " + word
					}
				}
				if !strings.Contains(string(a.Patch), `"type":"DisruptionTarget","status":"True"`) {
					text += " without DisruptionTarget"
				}
				out = append(out, text)
			}
		}
	})
	slices.SortStableFunc(out, func(a, b string) int {
		return strings.Compare(strings.Fields(a)[0], strings.Fields(b)[0])
	})
	return out
}

func named(name string, change func(*corev1.Pod)) *corev1.Pod {
	return wrappers.MakePod().Namespace("ns").Name(name).UID("u").Obj(change)
}

func ending(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: t0} }

// A Pod that is terminating without having been scheduled is deleted with grace period 0; one that
// is not terminating stays, and so does one that a node still has.
//
// row: CTL-20
func TestUnscheduledTerminatingPodsAreDeleted(t *testing.T) {
	got := writesOf(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		named("unscheduled", ending),
		named("pending", func(*corev1.Pod) {}),
		named("on-a-node", func(p *corev1.Pod) { ending(p); p.Spec.NodeName = "n" }))
	if want := []string{"unscheduled deleted with grace 0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A Pod whose removal is refused keeps no other from being removed, whichever comes first: the
// cache lists them in no order.
//
// row: CTL-20
func TestARefusedRemovalKeepsNoOther(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	var pods []runtime.Object
	for _, name := range names {
		pods = append(pods, named(name, ending))
	}
	for _, refused := range names {
		got := writesWithin(t, 102*time.Millisecond, refused, pods...) // caches take 100, a retry comes at 105
		for _, name := range names {
			if want := name + " deleted with grace 0"; !slices.Contains(got, want) {
				t.Errorf("%s is refused: got %q, want %q among them", refused, got, want)
			}
		}
	}
}

// 12,500 terminated Pods are kept; of two more the two oldest are deleted, succeeded or failed.
// Pods that run do not count.
//
// row: CTL-18
func TestTerminatedPodsAboveTheThresholdAreDeleted(t *testing.T) {
	var objects []runtime.Object
	for i := range 12502 {
		objects = append(objects, named(fmt.Sprintf("p-%05d", i), func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.NewTime(t0.Add(time.Duration(i*7919%12502) * time.Second))
			p.Status.Phase = []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}[i%2]
		}))
	}
	for i := range 3 {
		objects = append(objects, named(fmt.Sprint("runs-", i), func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.NewTime(t0.Add(-time.Hour))
			p.Status.Phase = corev1.PodRunning
		}))
	}
	oldest := func(rank int) string {
		for i := range 12502 {
			if i*7919%12502 == rank {
				return fmt.Sprintf("p-%05d deleted with grace 0", i)
			}
		}
		return ""
	}
	want := []string{oldest(0), oldest(1)}
	slices.Sort(want)
	if got := writesOf(t, objects...); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A terminating Pod on a node that is not ready and has the out-of-service taint is marked Failed
// with the reason and deleted.
//
// row: CTL-21
func TestPodsOfANodeOutOfServiceAreFailedAndDeleted(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "node.kubernetes.io/out-of-service", Effect: corev1.TaintEffectNoExecute}}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	on := func(name, node string) *corev1.Pod {
		return named(name, func(p *corev1.Pod) {
			ending(p)
			p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
		})
	}
	got := writesOf(t, node("lost", corev1.ConditionUnknown), node("ready", corev1.ConditionTrue), on("a", "lost"),
		on("b", "ready"))
	want := []string{`a patched "Failed" DeletionByPodGC`, "a deleted with grace 0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Pods of a node that is not there any more, started or not, are marked Failed with the reason and
// deleted when it has been missing for a while, and not before; Pods that ended keep their phase.
//
// row: PST-09
// row: PST-10
// row: CTL-19
func TestPodsOfAMissingNodeAreFailedAndDeleted(t *testing.T) {
	on := func(name string, phase corev1.PodPhase) *corev1.Pod {
		return named(name, func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "gone", phase })
	}
	objects := []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "there"}},
		on("done", corev1.PodSucceeded), on("new", corev1.PodPending), on("runs", corev1.PodRunning),
		named("other", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "there", corev1.PodRunning })}
	if got := writesWithin(t, QuarantineTime-time.Second, "", objects...); len(got) != 0 {
		t.Errorf("before the node has been missing for a while: got %q, want nothing", got)
	}
	got := writesWithin(t, QuarantineTime+2*gcCheckPeriod, "", objects...)
	want := []string{"done deleted with grace 0", `new patched "Failed" DeletionByPodGC`, "new deleted with grace 0",
		`runs patched "Failed" DeletionByPodGC`, "runs deleted with grace 0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

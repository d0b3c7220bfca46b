package bind

import (
	"context"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func statusUpdate(p *v1.Pod, message string) StatusUpdate {
	return StatusUpdate{Pod: p, Condition: v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse,
		Message: message}}
}

// Nothing said of an earlier attempt may arrive after Settle has returned: the Pod is being bound.
func TestSettleWaitsForAWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
		client := fake.NewClientset(p)
		started, goOn := make(chan string, 2), make(chan struct{})
		client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			started <- string(a.(clienttesting.PatchAction).GetPatch())
			<-goOn
			return true, p, nil
		})
		s := NewPodStatusWriter(client, func(*v1.Pod) *v1.Pod { return p })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Run(ctx)
		s.Put(statusUpdate(p, "first"))
		<-started
		s.Put(statusUpdate(p, "second")) // never to be written
		settled := make(chan struct{})
		go func() {
			s.WaitForWrite(ctx, p.UID)
			close(settled)
		}()
		synctest.Wait()
		select {
		case <-settled:
			t.Fatal("settled while a write is under way")
		default:
		}
		close(goOn)
		<-settled
		synctest.Wait()
		if len(started) != 0 {
			t.Errorf("written after all: %s", <-started)
		}
		s.WaitForWrite(ctx, p.UID) // nothing under way: returns at once
	})
}

func TestNewestStatusUpdateIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
		client := fake.NewClientset(p)
		s := NewPodStatusWriter(client, func(*v1.Pod) *v1.Pod { return p })
		node := "n1"
		s.Put(StatusUpdate{Pod: p, Nominated: &node})
		s.Put(statusUpdate(p, "old"))
		s.Put(statusUpdate(p, "new"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Run(ctx)
		synctest.Wait()
		got, err := client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Message != "new" ||
			got.Status.NominatedNodeName != "n1" {
			t.Errorf("status %+v", got.Status)
		}
		patches := 0
		for _, a := range client.Actions() {
			if a.GetVerb() == "patch" {
				patches++
			}
		}
		if patches != 1 {
			t.Errorf("%d writes, want one", patches)
		}
	})
}

func TestSetConditionKeepsTheTimeOfTheLastTransition(t *testing.T) {
	then := metav1.Unix(1, 0)
	status := &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse,
		LastTransitionTime: then, Message: "old"}}}
	SetCondition(status, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "new"})
	if c := status.Conditions[0]; !c.LastTransitionTime.Equal(&then) || c.Message != "new" {
		t.Errorf("got %+v, want LastTransitionTime %v and Message new", c, &then)
	}
	SetCondition(status, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
	if c := status.Conditions[0]; c.LastTransitionTime.Equal(&then) || len(status.Conditions) != 1 {
		t.Errorf("got %+v, want LastTransitionTime other than %v and 1 in Conditions", c, &then)
	}
}

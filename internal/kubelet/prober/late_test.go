package prober

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

type healthyProber struct{ facts []journal.Probed }

func (*healthyProber) Probe(context.Context, probe.Target) probe.Outcome {
	return probe.Outcome{Result: probe.Success}
}
func (*healthyProber) Event(runtime.Object, string, string, string) {}
func (f *healthyProber) Put(_ journal.Ref, fact journal.Fact) {
	f.facts = append(f.facts, fact.(journal.Probed))
}

// A busy node probes late: that is measured and reported once, and counts as no failure.
//
// row: PRB-26
func TestLateProbesAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, answers := &healthyProber{}, []Measurement{}
		a := New(Deps{Probers: Probers{Exec: w}, Recorder: w, Journal: w, Changed: func(types.UID) {},
			Probed: func(_ *v1.Pod, a Measurement) { answers = append(answers, a) }})
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "c", LivenessProbe: &v1.Probe{PeriodSeconds: 2,
				ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}},
		}}}}
		a.SyncPod(p, "", []Running{{Name: "c", ID: "1", StartedAt: time.Now()}}, NotEnding)
		key := probe.Key{UID: "u", Container: "c", Kind: probe.Liveness}
		busy := func(by time.Duration) { // the question that is due now is put so much later
			time.Sleep(1900 * time.Millisecond)
			a.mu.Lock()
			a.pods["u"][key].dueAt = time.Now().Add(100*time.Millisecond - by)
			a.mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		for _, by := range []time.Duration{0, 900 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 0,
			time.Second} {
			busy(by)
		}
		a.Forget("u")
		var late []time.Duration
		for _, x := range answers {
			late = append(late, x.Late)
			if x.Result != "success" || x.Key != key {
				t.Errorf("got %+v, want Result success and Key %v", x, key)
			}
		}
		if len(late) != 6 || late[0] != 0 || late[1] != 900*time.Millisecond || late[3] != 3*time.Second {
			t.Errorf("late by %v", late)
		}
		var reported []string
		for _, f := range w.facts {
			if f.Late > 0 {
				reported = append(reported, f.Line())
			}
		}
		if len(reported) != 2 || reported[0] != "liveness probe of c: success 3/1 (asked 1.5s late: the node is busy)" {
			t.Errorf("got %q, want one word for the two late ones and one for the last", reported)
		}
	})
}

package events_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/kubelet/events"
)

type written struct{ n int }

func (w *written) Create(e *v1.Event) (*v1.Event, error)          { w.n++; return e, nil }
func (w *written) Update(e *v1.Event) (*v1.Event, error)          { w.n++; return e, nil }
func (w *written) Patch(e *v1.Event, _ []byte) (*v1.Event, error) { w.n++; return e, nil }

func TestEventsComeNoFasterThanConfigured(t *testing.T) {
	for _, tc := range []struct {
		name  string
		qps   *int32
		burst int32
		want  time.Duration // for 30 events
	}{
		{"five a second, ten at once", ptr.To[int32](5), 10, 4 * time.Second},
		{"the defaults hold nobody up", nil, 0, 0},
		{"zero is no limit", ptr.To[int32](0), 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, startedAt := &written{}, time.Now()
				sink := events.Limit(w, &kubeletconfig.KubeletConfiguration{EventRecordQPS: tc.qps,
					EventBurst: tc.burst})
				for range 10 {
					_, _ = sink.Create(&v1.Event{})
					_, _ = sink.Update(&v1.Event{})
					_, _ = sink.Patch(&v1.Event{}, nil)
				}
				if took := time.Since(startedAt).Round(100 * time.Millisecond); took != tc.want || w.n != 30 {
					t.Errorf("%d events in %v, want 30 in %v", w.n, took, tc.want)
				}
			})
		})
	}
}

// An event is written when the status that goes with it has had its time; one that waited elsewhere
// waits no more, so that many cost no more than one.
func TestEventsLetStatusesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, startedAt := &written{}, time.Now()
		sink := events.Limit(w, &kubeletconfig.KubeletConfiguration{})
		e := &v1.Event{LastTimestamp: metav1.NewTime(startedAt)}
		for i, write := range []func(){
			func() { _, _ = sink.Create(e) }, func() { _, _ = sink.Update(e) }, func() { _, _ = sink.Patch(e, nil) },
		} {
			write()
			if took := time.Since(startedAt); took != 20*time.Millisecond || w.n != i+1 {
				t.Errorf("%d events written after %s, want %d after 20ms", w.n, took, i+1)
			}
		}
		// of a clock that was set back since
		ahead := &v1.Event{LastTimestamp: metav1.NewTime(startedAt.Add(time.Hour))}
		if _, err := sink.Create(ahead); err != nil || time.Since(startedAt) != 40*time.Millisecond {
			t.Errorf("an event of the future was written after %s (%v), want 20ms more", time.Since(startedAt), err)
		}
	})
}

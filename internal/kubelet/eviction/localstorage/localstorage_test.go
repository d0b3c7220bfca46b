package localstorage

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/stats"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

func TestAPodOverItsLimitEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := resource.MustParse("2Mi")
		full := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "full"}}
		full.Spec.Volumes = []v1.Volume{
			{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size}}}}
		pods, measured, bytes := []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "free"}}}, 0, uint64(1<<20)
		var ended []string
		var reported facts
		events := record.NewFakeRecorder(9)
		c := New(Deps{
			Pods: func() []*v1.Pod { return pods },
			Measure: func(context.Context) (*stats.Snapshot, error) {
				measured++
				return &stats.Snapshot{Pods: []stats.Pod{
					{UID: "free", Volumes: []stats.Volume{{Name: "v", Disk: usage.Disk{Used: 1 << 40}}}},
					{UID: "full", Volumes: []stats.Volume{{Name: "v", Disk: usage.Disk{Used: bytes}}}},
				}}, nil
			},
			KillPod: func(uid types.UID, e podplan.Termination) bool {
				ended = append(ended, string(uid)+" "+e.Message)
				return true
			},
			Events: events, Journal: &reported,
		})
		ctx := t.Context()
		if c.Check(ctx); measured != 0 {
			t.Errorf("measured %d times though no Pod has a limit, want 0", measured)
		}
		startedAt := metav1.Now()
		full.Status.StartTime = &startedAt
		pods = append(pods, full)
		time.Sleep(9 * time.Second)
		if c.Check(ctx); measured != 0 {
			t.Errorf("measured %d times a Pod that has just begun, want 0", measured)
		}
		time.Sleep(time.Second)
		if c.Check(ctx) || measured != 1 || len(ended) != 0 {
			t.Errorf("measured %d times, ended %v", measured, ended)
		}
		bytes = 3 << 20
		if first, again := c.Check(ctx), c.Check(ctx); !first || again {
			t.Errorf("some Pods had to go: got %t, then %t, want true, then false", first, again)
		}
		const text = `Usage of EmptyDir volume "v" exceeds the limit "2Mi". `
		if len(ended) != 1 || ended[0] != "full "+text || len(events.Events) != 1 ||
			<-events.Events != "Warning Evicted "+text {
			t.Errorf("ended %v", ended)
		}
		if want := (journal.StorageExceeded{Of: journal.OfVolume, Name: "v", Used: 3 << 20, Limit: 2 << 20}); len(
			reported) != 1 || !reflect.DeepEqual(reported[0], journal.Fact(want)) {
			t.Errorf("facts: got %v", reported)
		}
	})
}

// facts records what is put into the journal.
type facts []journal.Fact

func (f *facts) Put(_ journal.Ref, x journal.Fact) { *f = append(*f, x) }

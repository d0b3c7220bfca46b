package scheduler

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/replay"
)

// recordedOf waits for the decision about a Pod, as it would be read from a file.
func recordedOf(t *testing.T, from <-chan *replay.Decision, name string) *replay.Decision {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case d := <-from:
			if d.Pod.Name != name {
				continue
			}
			line, err := d.Line()
			if err != nil {
				t.Fatal(err)
			}
			if d, err = replay.Read(line); err != nil {
				t.Fatal(err)
			}
			return d
		case <-late:
			t.Fatalf("no decision about %s was recorded", name)
		}
	}
}

// What the running scheduler records, of Pods that fit, that fit nowhere, and that mount a claim,
// is decided again alike.
func TestTheSchedulerRecordsWhatCanBeReplayed(t *testing.T) {
	t.Parallel()
	recorded := make(chan *replay.Decision, 1000)
	c := start(t, func(o *Options) { o.Record = func(d *replay.Decision) { recorded <- d } }, aNode("n1", "4"),
		aNode("n2", "4"), aNode("n3", "1"))
	mounts := aPod("mounts", "1")
	mounts.Spec.Volumes = []v1.Volume{
		{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
			ClaimName: "absent"}}}}
	for _, p := range []*v1.Pod{aPod("first", "2"), aPod("second", "2"), aPod("huge", "64"), mounts} {
		c.create(p)
		again, err := replay.Open(recordedOf(t, recorded, p.Name))
		if err != nil {
			t.Fatal(err)
		}
		v, err := again.Replay(t.Context())
		if err != nil || !v.Equal() || v.Skipped != "" {
			t.Errorf("got %s, %v, want no error, v.Equal() true and Skipped empty", v.Line(), err)
		}
		if fits := p.Name == "first" || p.Name == "second"; fits != (v.Replayed.Winner != "") {
			t.Errorf("%s: winner %q", p.Name, v.Replayed.Winner)
		}
	}
}

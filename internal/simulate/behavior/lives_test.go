package behavior

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// life is a Pod's journal: its facts, each that many milliseconds after the first.
func life(owner string, facts ...any) Life {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	out := Life{Owner: owner}
	for i := 0; i < len(facts); i += 2 {
		out.Entries = append(out.Entries, journal.Entry{Fact: facts[i+1].(journal.Fact),
			At: begin.Add(time.Duration(facts[i].(int)) * time.Millisecond)})
	}
	return out
}

// row: TOO-06
// A journal tells to the millisecond how long Pods took to start, to become ready and to stop, and
// how long containers ran that ended by themselves, with which code.
func TestLearnLives(t *testing.T) {
	ready := journal.ConditionChanged{Type: "Ready", Status: "True"}
	const web, job = "d/Deployment/web", "d/Job/load"
	got := LearnLives([]Life{
		life(web, 0, journal.Bound{Node: "a"}, 300, journal.ContainerStarted{Container: "init", Init: true},
			500, journal.ContainerExited{Container: "init"},
			1200, journal.ContainerStarted{Container: "c"}, 1950, ready,
			60_000, journal.Deleting{Grace: 30}, 60_010, journal.Killing{Cause: "deleted"},
			62_400, journal.ContainerExited{Container: "c", Signal: 15, ExitCode: 143,
				Memory: journal.Memory{Peak: 300 << 20}}),
		life(web, 0, journal.Bound{Node: "a"}, // at its limit, so that it tells nothing
			62_400, journal.ContainerExited{Container: "c", Signal: 9, ExitCode: 137,
				Memory: journal.Memory{Peak: 900 << 20, LimitHits: 7}}),
		life(web, 0, journal.Bound{Node: "a"}, 1000, journal.ContainerStarted{Container: "c"}, // it crashed first
			1100, journal.ContainerExited{Container: "c", Signal: 11},
			5000, journal.ContainerStarted{Container: "c", Restart: 1}, 9000, ready),
		life(web, 0, journal.Bound{Node: "b"}, 100, journal.ContainerStarted{Container: "c"}), // not ready yet
		life(job, 0, journal.Bound{Node: "a"}, 10, journal.ContainerStarted{Container: "c"},
			4009, journal.Killing{Cause: podplan.Finished, Grace: 1},
			4010, journal.ContainerExited{Container: "c", ExitCode: 3}),
	})
	w, j := got[web], got[job]
	if w.Start == nil || w.Stop == nil || *w.Start != Fixed(1200*time.Millisecond) ||
		*w.Ready != Fixed(750*time.Millisecond) || *w.Stop != Fixed(2400*time.Millisecond) || w.Run != nil ||
		w.ExitCode != nil {
		t.Errorf("web: got %+v, want a start of 1.2 s, 750 ms to be ready, 2.4 s to stop", w)
	}
	if w.Memory == nil || w.Memory.String() != "300Mi" || j.Memory != nil {
		t.Errorf("memory: got %v and %v, want 300Mi of web and none of the job", w.Memory, j.Memory)
	}
	if j.Start != nil || j.Run == nil || *j.Run != Fixed(4*time.Second) || j.ExitCode == nil || *j.ExitCode != 3 {
		t.Errorf("job: got %+v, want 4 s and code 3", j)
	}
}

// Scripts say how workloads behave; what they leave out stays as it was measured.
func TestScripts(t *testing.T) {
	scripts, err := ReadScripts([]byte("deployment/web: {ready: {p50: 5s, p99: 20s}, run: 30s, exitCode: 1, "+
		"ends: true, memory: 1Gi}\nprod/StatefulSet/db: {start: 7s}\n'*': {stop: 3s}\n"), "shop")
	if err != nil {
		t.Fatal(err)
	}
	m := Model{Default: Assumed(), ByOwner: map[string]Times{"shop/Deployment/web": {Start: Fixed(time.Second)}}}
	m = m.Play(scripts)
	web, db := m.ByOwner["shop/Deployment/web"], m.ByOwner["prod/StatefulSet/db"]
	if web.Start != Fixed(time.Second) || web.Ready.P99 != 20*time.Second || web.ExitCode != 1 || !web.Ends ||
		web.Stop != Fixed(3*time.Second) || web.Memory != 1<<30 {
		t.Errorf("web: got %+v, want the measured start and what the script says", web)
	}
	if db.Start != Fixed(7*time.Second) || db.Ready != Assumed().Ready || db.Ends {
		t.Errorf("db: got %+v, want a start of 7 s and the rest assumed", db)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "alone"}}
	if d := m.Of(pod); d.Stop != 3*time.Second || d.Start != 2*time.Second {
		t.Errorf("another Pod: got %+v, want 3 s to stop and the rest assumed", d)
	}
	for _, wrong := range []string{"web: {start: 1s}", "pod/web: {start: 1s}", "deployment/web: {start: soon}",
		"deployment/web: {begin: 1s}", "deployment/web: {start: {p50: 2s, p99: 1s}}", "deployment/web: {start: -1s}",
		"deployment/web: {start: {p50: 2s, p100: 3s}}"} {
		if got, err := ReadScripts([]byte(wrong), "shop"); err == nil {
			t.Errorf("%s: got %+v, want an error", wrong, got)
		}
	}
}

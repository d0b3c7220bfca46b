package planrunner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podworker/planrunner"
)

// scripted does actions as the test says: by the action's line, an error.
type scripted map[string]error

func (s scripted) Do(_ context.Context, _ podactions.Job, a podplan.Action) error { return s[a.Line()] }

func lines(actions []podplan.Action) (out []string) {
	for _, a := range actions {
		out = append(out, a.Line())
	}
	return out
}

// Actions are done in their order up to the first that fails.
//
// row: PWK-15
func TestAPlanEndsAtTheFirstFailure(t *testing.T) {
	no := errors.New("no")
	start := func(name string) podplan.Action { return podplan.Start{Name: name} }
	for name, c := range map[string]struct {
		do        []podplan.Action
		fails     scripted
		done      []string
		failed    string // line of the action; empty for none
		untouched bool   // the runtime was asked for nothing
	}{
		"all are done": {[]podplan.Action{start("a"), start("b")}, nil, []string{"start a", "start b"}, "",
			false},
		"the second fails": {[]podplan.Action{start("a"), start("b"), start("c")}, scripted{"start b": no},
			[]string{"start a"}, "start b", false},
		"volumes alone": {[]podplan.Action{podplan.PrepareVolumes{}}, nil, []string{"furnish"}, "", true},
		"beside each other": {[]podplan.Action{podplan.PrepareVolumes{}, podplan.CreateSandbox{Parallel: true}}, nil,
			[]string{"furnish", "create sandbox"}, "", false},
		"the sandbox fails": {[]podplan.Action{podplan.PrepareVolumes{}, podplan.CreateSandbox{Parallel: true}},
			scripted{"create sandbox": no}, []string{"furnish"}, "create sandbox", false},
		"the volumes do not": {[]podplan.Action{podplan.PrepareVolumes{}, podplan.CreateSandbox{Parallel: true}},
			scripted{"furnish": no}, nil, "furnish", false},
	} {
		run := planrunner.Start(context.Background(), planrunner.Plan{Do: c.do, Job: podactions.Job{Pod: &v1.Pod{}},
			Actions: c.fails, Begin: func(string, time.Duration) func() { return func() {} },
			Resized: func(time.Duration, error) {}})
		r := <-run.Result()
		failed := ""
		if r.Failed != nil {
			failed = r.Failed.Line()
		}
		if !slices.Equal(lines(r.Done), c.done) || failed != c.failed || r.RuntimeUntouched() != c.untouched ||
			(r.Err != nil) != (c.failed != "") {
			t.Errorf("%s: got %q done, %q failed (%v), untouched %t; want %q, %q, %t", name, lines(r.Done), failed,
				r.Err,
				r.RuntimeUntouched(), c.done, c.failed, c.untouched)
		}
	}
}

// slowVolumes makes the cgroup in a second and the volumes in another, and notes what is over when.
type slowVolumes struct {
	mu    sync.Mutex
	steps []string
}

func (s *slowVolumes) note(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step)
}

func (s *slowVolumes) Do(_ context.Context, j podactions.Job, a podplan.Action) error {
	if _, ok := a.(podplan.PrepareVolumes); !ok {
		s.note("sandbox")
		return nil
	}
	time.Sleep(time.Second)
	s.note("cgroup")
	j.CgroupReady()
	time.Sleep(time.Second)
	s.note("volumes")
	return nil
}

// A sandbox that is made beside the volumes waits for the Pod's cgroup, and for no more.
//
// row: PWK-11
// row: QOS-08
func TestTheCgroupComesBeforeTheSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		actions := &slowVolumes{}
		run := planrunner.Start(t.Context(), planrunner.Plan{
			Do:  []podplan.Action{podplan.PrepareVolumes{}, podplan.CreateSandbox{Parallel: true}},
			Job: podactions.Job{Pod: &v1.Pod{}}, Actions: actions,
			Begin: func(string, time.Duration) func() { return func() {} }, Resized: func(time.Duration, error) {}})
		if r := <-run.Result(); r.Err != nil {
			t.Fatal(r.Err)
		}
		if got, want := strings.Join(actions.steps, " "), "cgroup sandbox volumes"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

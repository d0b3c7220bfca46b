package podview_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/kubelet/podview"
	"github.com/gantry-project/gantry/internal/reason"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected transcripts in testdata")

// Each transcript is a script of what a worker does, and below it the view and the facts after each
// step.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d stories (%v), want some", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script, want, _ := strings.Cut(string(raw), "----\n")
			got := play(t, script)
			if *rewrite {
				if err := os.WriteFile(file, []byte(script+"----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s\ngo test -rewrite writes it anew", got, want)
			}
		})
	}
}

// start is the time at which every scenario begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// scenario is a worker without goroutine and runtime.
type scenario struct {
	in    podplan.In
	api   v1.PodStatus
	view  podview.View
	under []podplan.Action // the plan that is carried out
	lines []string
}

func play(t *testing.T, script string) string {
	s := &scenario{in: podplan.In{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d", UID: "u"}},
		Now: start, Facts: podplan.Facts{Accepted: start, VolumesReady: start}, Tries: map[string]podplan.Try{},
		Health: map[string]podplan.Health{}}}
	s.in.Observed.Sandboxes = []podplan.Sandbox{{ID: "s", Ready: true, Created: start, IPs: []string{"10.0.0.1"}}}
	for line := range strings.Lines(script) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			if err := s.command(words); err != nil {
				t.Fatalf("%q: got %v, want no error", line, err)
			}
		}
	}
	return strings.Join(s.lines, "\n") + "\n"
}

func (s *scenario) command(w []string) error {
	switch w[0] {
	case "pod": // RESTARTPOLICY CONTAINER…; a name that begins with + is a sidecar's
		s.in.Pod.Spec.RestartPolicy = v1.RestartPolicy(w[1])
		for _, name := range w[2:] {
			c := v1.Container{Name: strings.TrimPrefix(name, "+"), Image: "img"}
			if c.Name != name {
				always := v1.ContainerRestartPolicyAlways
				c.RestartPolicy = &always
				s.in.Pod.Spec.InitContainers = append(s.in.Pod.Spec.InitContainers, c)
				continue
			}
			s.in.Pod.Spec.Containers = append(s.in.Pod.Spec.Containers, c)
		}
	case "wait": // DURATION
		d, err := time.ParseDuration(w[1])
		s.in.Now = s.in.Now.Add(d)
		return err
	case "run": // NAME: the runtime starts a container
		s.run(w[1])
	case "exit": // NAME CODE
		return s.exit(w[1], w[2])
	case "sandbox-stops":
		s.in.Observed.Sandboxes[0].Ready = false
	case "fail": // NAME REASON MESSAGE: its start fails
		s.in.Tries[w[1]] = podplan.Try{Count: s.in.Tries[w[1]].Count + 1, FailedAt: s.in.Now,
			Refusal: &reason.Refusal{Code: reason.Code(w[2]), Detail: strings.Join(w[3:], " ")}}
	case "delete", "evict":
		s.in.End = &podplan.Termination{Cause: w[0] + "d", RequestedAt: s.in.Now, Grace: time.Minute}
		if w[0] == "evict" {
			s.in.End.Cause, s.in.End.Reason = "evicted", "Evicted"
			break
		}
		s.in.Pod.DeletionTimestamp = &metav1.Time{Time: s.in.Now}
	case "decide":
		s.decide()
	case "begin": // restart|back-off|last NAME: a plan that stops it
		s.begin(w[1], w[2])
	case "progress":
		s.next("progress", podview.Progressed{Look: s.look()})
	case "end": // done|failed: the plan has been carried out, or its first action failed
		done := s.under
		if w[1] == "failed" {
			done = nil
		}
		s.next("end "+w[1], podview.PlanEnded{Done: done})
	case "waits": // WHAT: it is not admitted yet
		s.next("waits", podview.Waits{For: strings.Join(w[1:], " "), Now: s.in.Now})
	default:
		return fmt.Errorf("unknown command %s", w[0])
	}
	return nil
}

func (s *scenario) run(name string) {
	c := podplan.Container{ID: name + "0", Name: name, Sandbox: "s", State: podplan.Running, Created: s.in.Now,
		Started: s.in.Now, Annotations: podplan.Annotations{CrashDelay: -1}} // the back-off goes by the restart count
	if last := s.in.Observed.Latest(name); last != nil {
		c.Attempt = last.Attempt + 1
		c.ID = name + strconv.Itoa(c.Attempt)
	}
	s.in.Observed.Containers = append(slices.Clone(s.in.Observed.Containers), c)
	s.in.Observed.Sort()
	s.in.Health[name] = podplan.Health{Started: true, Ready: true}
	delete(s.in.Tries, name)
}

func (s *scenario) exit(name, code string) error {
	n, err := strconv.Atoi(code)
	s.in.Observed.Containers = slices.Clone(s.in.Observed.Containers)
	c := s.in.Observed.Latest(name)
	c.State, c.Finished, c.Exit = podplan.Exited, s.in.Now, podplan.Exit{Code: int32(n), Reason: "Error"}
	if n == 0 {
		c.Exit.Reason = "Completed"
	}
	s.in.Health = map[string]podplan.Health{}
	for _, c := range s.in.Observed.Containers {
		if c.State == podplan.Running {
			s.in.Health[c.Name] = podplan.Health{Started: true, Ready: true}
		}
	}
	return err
}

// decide learns facts as a worker does, and plans.
func (s *scenario) decide() {
	l := s.look()
	f := &s.in.Facts
	if podplan.EffectiveTermination(l.In) != nil && f.StopRequested.IsZero() {
		f.StopRequested = s.in.Now
	}
	if !f.StopRequested.IsZero() && f.ContainersStopped.IsZero() && !s.in.Observed.Alive() {
		f.ContainersStopped = s.in.Now
	}
	l.In.Facts = *f
	s.next("decide", podview.Decided{Look: l, Plan: podplan.Next(l.In)})
}

func (s *scenario) begin(how, name string) {
	c := s.in.Observed.Latest(name)
	s.under = []podplan.Action{podplan.Stop{Kills: []podplan.Kill{{ID: c.ID, Name: name, Restart: how == "restart",
		BackOff: how == "back-off", LastContainer: how == "last"}}}}
	s.next("begin "+how, podview.PlanStarted{Do: s.under, Observed: s.in.Observed})
}

func (s *scenario) look() podview.Look {
	in := s.in
	pod := *in.Pod
	pod.Status = s.api
	in.Pod = s.view.Overlay(&pod)
	in.Observed = podstatus.MergeKnown(s.view.MarkRestarting(in.Observed), in.Pod.Status)
	return podview.Look{In: in, API: &s.api, Node: podstatus.Node{Runtime: "fake"}}
}

// next takes a step, and writes down the view after it, and the facts.
func (s *scenario) next(what string, step podview.Step) {
	before := s.view
	var facts []podview.Fact
	s.view, facts = podview.Next(s.view, step)
	if again, emitted := podview.Next(before, step); !reflect.DeepEqual(again, s.view) || !reflect.DeepEqual(emitted,
		facts) {
		s.lines = append(s.lines, "! the same step on the same view shows something else")
	}
	s.lines = append(s.lines, fmt.Sprintf("%-5s %-14s %s", s.in.Now.Sub(start), what, statusText(s.view.Status())))
	for _, f := range facts {
		text := ""
		switch f := f.(type) {
		case podview.Journal:
			text = journal.Kind(f.Fact) + ": " + f.Line()
		case podview.BackOff:
			text = "event BackOff of " + f.Container
		case podview.WriteStatus:
			s.api = f.PodStatus
			text = "write the status"
		}
		s.lines = append(s.lines, "        "+text)
	}
}

func statusText(s *v1.PodStatus) string {
	if s == nil {
		return "nothing"
	}
	out := []string{string(s.Phase)}
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, c := range list {
			text := c.Name
			switch {
			case c.State.Running != nil:
				text += " running"
			case c.State.Terminated != nil:
				text += fmt.Sprintf(" exited %d", c.State.Terminated.ExitCode)
			case c.State.Waiting != nil:
				text += " waiting " + c.State.Waiting.Reason
				if m := c.State.Waiting.Message; m != "" {
					text += " (" + m + ")"
				}
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}

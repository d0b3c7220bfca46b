package probeplan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/probelint"
	"github.com/gantry-project/gantry/internal/probeplan"
)

// ask is what most tests begin with.
func ask() probeplan.Ask {
	return probeplan.Ask{P95: 80 * time.Millisecond, P99: 200 * time.Millisecond, Start: time.Minute, Objective: 99.9,
		Restart: probeplan.Window{Min: 30 * time.Second, Max: 90 * time.Second}, Port: intstr.FromInt32(8080),
		ReadyPath: "/readyz", LivePath: "/livez", Container: "app"}
}

func mustMake(t *testing.T, a probeplan.Ask) probeplan.Plan {
	t.Helper()
	p, err := probeplan.Make(a)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// givenUp is when the kubelet's own counting gives a container up that hangs at a time after a
// question was answered, from the hang.
func givenUp(p *v1.Probe, hang time.Duration) time.Duration {
	spec, streak := probe.SpecOf(p), probe.Streak{}
	for at := spec.Period; ; at += spec.Period { // questions since the last one that was answered
		if at < hang {
			continue
		}
		var verdict probe.Health
		streak, verdict = streak.Add(probe.Outcome{Result: probe.Failure}, spec)
		if verdict == probe.Unhealthy {
			return at + spec.Timeout - hang
		}
	}
}

// For every mixture of latency, objective, start time and window: either the timeout is over the
// P99, a hung container is given up within the window and out of the traffic before, false alarms
// keep the objective and lint finds nothing; or the error says why not.
//
// row: TOO-07
func TestPlansKeepWhatWasAsked(t *testing.T) {
	windows := []probeplan.Window{{Min: 50 * time.Second, Max: time.Minute}} // a narrow one beside those with names
	for _, s := range probeplan.Sensitivities {
		windows = append(windows, s.Window)
	}
	made, refused := 0, 0
	for _, p99 := range []time.Duration{time.Millisecond, 200 * time.Millisecond, 700 * time.Millisecond,
		3 * time.Second,
		9 * time.Second} {
		for _, objective := range []float64{95, 99.9, 99.99, 99.999} {
			for _, start := range []time.Duration{0, 2 * time.Second, 20 * time.Second, 3 * time.Minute} {
				for _, w := range windows {
					a := ask()
					a.P95, a.P99, a.Objective, a.Start, a.Restart = 0, p99, objective, start, w
					p, err := probeplan.Make(a)
					if err != nil {
						refused++
						if !strings.Contains(err.Error(), "no liveness probe gives a hung container up within") {
							t.Errorf("got %+v: %v", a, err)
						}
						continue
					}
					made++
					checkPlan(t, p)
				}
			}
		}
	}
	if made < 150 || refused == 0 {
		t.Errorf("%d plans and %d refusals: too few of one to show anything", made, refused)
	}
}

func checkPlan(t *testing.T, p probeplan.Plan) {
	t.Helper()
	a, all := p.Ask, p.Probes()
	for kind, one := range all {
		spec := probe.SpecOf(one)
		if spec.Timeout < 2*a.P99 || spec.Timeout >= spec.Period {
			t.Errorf("%+v: %s has timeout %s and period %s", a, kind, spec.Timeout, spec.Period)
		}
	}
	live, ready := all[probe.Liveness], all[probe.Readiness]
	period := time.Duration(live.PeriodSeconds) * time.Second
	for _, hang := range []time.Duration{1, period / 2, period} {
		gone := givenUp(live, hang)
		if gone < a.Restart.Min || gone > a.Restart.Max {
			t.Errorf("%+v: a container that hangs %s after an answer is given up after %s", a, hang, gone)
		}
		if w := p.Liveness.GivesUp(); gone < w.Min || gone > w.Max {
			t.Errorf("%+v: given up after %s, said was %+v", a, gone, w)
		}
	}
	if out := givenUp(ready, 1); out > p.Liveness.GivesUp().Min {
		t.Errorf("%+v: it leaves the traffic after %s, and may be given up after %s", a, out, p.Liveness.GivesUp().Min)
	}
	if s := all[probe.Startup]; s != nil { // the first question comes at the begin
		if gone := givenUp(s, probe.SpecOf(s).Period); gone < a.Start || gone != p.Startup.GivesUp().Min {
			t.Errorf("%+v: a start is given up after %s, said is %s", a, gone, p.Startup.GivesUp().Min)
		}
	}
	// each restart by false alarm costs the time until it is given up and a start
	month := 30 * 24 * time.Hour
	allowed := month.Seconds() * (100 - a.Objective) / 100
	cost := p.Liveness.FalseAlarms(0.01) * (p.Liveness.GivesUp().Max + a.Start).Seconds()
	if cost > allowed/10 || p.Readiness.FalseAlarms(0.01)*p.Readiness.Period.Seconds() > allowed/10 {
		t.Errorf("%+v: false alarms cost %g s by restarts, the objective allows %g s", a, cost, allowed)
	}
	if len(p.Findings) > 0 {
		t.Errorf("%+v: lint finds: got %+v, want none", a, p.Findings)
	}
}

// row: TOO-08
func TestTheArithmeticIsPrinted(t *testing.T) {
	var b strings.Builder
	if err := mustMake(t, ask()).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"timeoutSeconds: twice the P99 of 200ms, in whole seconds: 1 s (the P95 is 80ms)\n",
		"readiness: 3 × 10 s = 30 s; a hung container leaves the traffic 21 s to 31 s after it hangs\n",
		"liveness: 3 × 20 s = 60 s; a hung container is given up 41 s to 61 s after it hangs, asked for were 30 s " +
			"to 90 s\n",
		"startup: 18 × 5 s = 90 s, one and a half times the start of 60 s or more, so that none is killed before " +
			"86 s; the others wait until it succeeds\n",
		"objective: 99.9 % of 30 days allow 43m12s; ",
		"259200 questions a month × 0.01^3 = 0.26",
		"gantry lint finds nothing wrong with them.\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, b.String())
		}
	}
}

// row: TOO-09
func TestEndpointsAndStartup(t *testing.T) {
	slow := mustMake(t, ask()).Probes()
	if r, l, s := slow[probe.Readiness], slow[probe.Liveness], slow[probe.Startup]; r.HTTPGet.Path != "/readyz" ||
		l.HTTPGet.Path != "/livez" || s == nil || s.HTTPGet.Path != "/livez" {
		t.Errorf("a slow start got %+v", slow)
	}
	a := ask()
	a.Start = 5 * time.Second
	if fast := mustMake(t, a).Probes(); fast[probe.Startup] != nil {
		t.Errorf("a start of 5 s got a startup probe: %+v", fast[probe.Startup])
	}
	a.Start += time.Millisecond
	if fast := mustMake(t, a).Probes(); fast[probe.Startup] == nil {
		t.Error("a start over 5 s got no startup probe")
	}
	a.LivePath = a.ReadyPath
	if _, err := probeplan.Make(a); err == nil || !strings.Contains(err.Error(), "endpoints of their own") {
		t.Errorf("one endpoint for both got %v", err)
	}
}

// The walk through the choices names what each costs, and marks the plan's.
//
// row: TOO-09
func TestCombinations(t *testing.T) {
	a := ask()
	for _, v := range []struct {
		start  time.Duration
		chosen string
	}{{time.Minute, "and startup"}, {time.Second, "readiness and liveness on two endpoints"}} {
		a.Start = v.start
		var names []string
		for _, c := range mustMake(t, a).Combinations() {
			names = append(names, c.Probes)
			if c.Chosen != (c.Probes == v.chosen) {
				t.Errorf("with a start of %s: %s is chosen: got %v, want %v", v.start, c.Probes, c.Chosen,
					(c.Probes == v.chosen))
			}
		}
		want := "[none readiness liveness readiness and liveness on one endpoint readiness and liveness on two " +
			"endpoints and startup]"
		if fmt.Sprint(names) != want {
			t.Errorf("got %v, want %s", names, want)
		}
	}
}

// What lint warns of in a plan that was changed by hand it finds in the plan's own workload too.
func TestLintChecksThePlan(t *testing.T) {
	p := mustMake(t, ask())
	c := v1.Container{
		Name:           "app",
		LivenessProbe:  p.Probes()[probe.Liveness],
		ReadinessProbe: p.Probes()[probe.Readiness],
	}
	found := probelint.Check(probelint.In{Workload: probelint.Workload{Path: "spec",
		Spec: v1.PodSpec{Containers: []v1.Container{c}}}, Measured: probelint.Measured{Start: time.Minute}})
	if len(found) != 1 || found[0].Rule != "needs-startup-probe" {
		t.Errorf("without the startup probe lint finds %+v", found)
	}
}

func TestBadAsks(t *testing.T) {
	for _, v := range []struct {
		name   string
		change func(*probeplan.Ask)
		says   string
	}{
		{"no P99", func(a *probeplan.Ask) { a.P99, a.P95 = 0, 0 }, "the P99 of an answer is 0s"},
		{"negative P99", func(a *probeplan.Ask) { a.P99 = -1 }, "must be over 0"},
		{"endless P99", func(a *probeplan.Ask) { a.P99 = 1 << 62 }, "must be over 0 and at most 1h0m0s"},
		{"P95 over P99", func(a *probeplan.Ask) { a.P95 = time.Second }, "the P95 must not be longer"},
		{"negative start", func(a *probeplan.Ask) { a.Start = -1 }, "the start time is -1ns"},
		{"objective 100", func(a *probeplan.Ask) { a.Objective = 100 }, "the objective is 100 %"},
		{"objective NaN", func(a *probeplan.Ask) { a.Objective -= a.Objective; a.Objective /= a.Objective },
			"the objective is NaN"},
		{"window upside down", func(a *probeplan.Ask) { a.Restart = probeplan.Window{Min: 2, Max: 1} }, "the first " +
			"must be shorter"},
		{"window too narrow for the answers", func(a *probeplan.Ask) { a.P99 = 20 * time.Second },
			"takes a timeout of 40 s (twice the P99), which with three failures"},
	} {
		a := ask()
		v.change(&a)
		if _, err := probeplan.Make(a); err == nil || !strings.Contains(err.Error(), v.says) {
			t.Errorf("%s: got %v, want %q", v.name, err, v.says)
		}
	}
}

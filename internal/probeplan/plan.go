package probeplan

import (
	"errors"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/probelint"
)

// Ask is what probes are computed from.
type Ask struct {
	P95, P99  time.Duration // of a healthy answer; P95 may be zero
	Start     time.Duration // from the container's start until it can serve, the slowest seen
	Objective float64       // share of time in which the service shall answer, percent: 99.9
	Restart   Window        // when a hung container shall be given up, from the hang
	Port      intstr.IntOrString
	ReadyPath string
	LivePath  string
	Container string
}

// Window is the earliest and latest time.
type Window struct{ Min, Max time.Duration }

// Sensitivities are windows with names, the most sensitive first.
var Sensitivities = []struct {
	Name string
	Window
}{
	{"high", Window{15 * time.Second, 45 * time.Second}},
	{"medium", Window{30 * time.Second, 90 * time.Second}},
	{"low", Window{90 * time.Second, 5 * time.Minute}},
}

// Timing is one probe's numbers, in whole seconds, and the arithmetic behind them.
type Timing struct {
	Period, Timeout  time.Duration
	FailureThreshold int
}

// Product is periodSeconds × failureThreshold.
func (t Timing) Product() time.Duration { return time.Duration(t.FailureThreshold) * t.Period }

// Arithmetic is the product as a sum: "18 × 5 s = 90 s".
func (t Timing) Arithmetic() string {
	return fmt.Sprintf("%d × %s = %s", t.FailureThreshold, seconds(t.Period), seconds(t.Product()))
}

// GivesUp is when a container that hangs is given up, from the hang: at the earliest when it hangs
// just before a question, at the latest just after one was answered.
func (t Timing) GivesUp() Window {
	return Window{t.Product() - t.Period + t.Timeout, t.Product() + t.Timeout}
}

// FalseAlarms is how often in a month a healthy container is given up, when each of its answers is
// over the timeout with probability p.
func (t Timing) FalseAlarms(p float64) float64 {
	return month.Seconds() / t.Period.Seconds() * math.Pow(p, float64(t.FailureThreshold))
}

const month = 30 * 24 * time.Hour

// Plan is the probes of one container.
type Plan struct {
	Readiness, Liveness Timing
	Startup             *Timing // nil: the container starts fast enough without
	Ask                 Ask
	Lines               []string // the arithmetic
	Findings            []probelint.Finding
}

// slowStart is the start time from which a container gets a startup probe; probelint's.
const slowStart = 5 * time.Second

// overTimeout is taken as the probability that a healthy answer is over the timeout: that of being
// over the P99, half of the timeout.
const overTimeout = 0.01

// alarmShare is the part of the objective's allowance that false alarms may cost.
const alarmShare = 0.1

// Make computes the probes.
func Make(a Ask) (Plan, error) {
	if err := a.check(); err != nil {
		return Plan{}, err
	}
	p := Plan{Ask: a}
	timeout := time.Duration(math.Ceil((2 * a.P99).Seconds())) * time.Second
	var err error
	if p.Liveness, err = a.liveness(timeout); err != nil {
		return Plan{}, err
	}
	if p.Readiness, err = a.readiness(timeout, p.Liveness); err != nil {
		return Plan{}, err
	}
	if a.Start > slowStart {
		s := a.startup(timeout)
		p.Startup = &s
	}
	p.Lines = p.arithmetic()
	p.Findings = probelint.Check(probelint.In{Workload: p.workload(),
		Measured: probelint.Measured{Start: a.Start, P99: a.P99}})
	return p, nil
}

// maxProbe bounds what may be asked for: probes of longer times check nothing.
const maxProbe = time.Hour

func (a Ask) check() error {
	switch {
	case a.P99 <= 0 || a.P99 > maxProbe:
		return fmt.Errorf("the P99 of an answer is %s: must be over 0 and at most %s", a.P99, maxProbe)
	case a.P95 < 0 || a.P95 > a.P99:
		return fmt.Errorf("the P95 is %s and the P99 %s: the P95 must not be longer", a.P95, a.P99)
	case a.Start < 0 || a.Start > maxProbe:
		return fmt.Errorf("the start time is %s: must be between 0 and %s", a.Start, maxProbe)
	case !(a.Objective > 0 && a.Objective < 100):
		return fmt.Errorf("the objective is %g %%: must be over 0 and below 100", a.Objective)
	case a.Restart.Min < 0 || a.Restart.Max <= a.Restart.Min || a.Restart.Max > maxProbe:
		return fmt.Errorf("the window for a restart is %s to %s: the first must be shorter, the second at most %s",
			a.Restart.Min, a.Restart.Max, maxProbe)
	case a.ReadyPath == a.LivePath:
		return fmt.Errorf("readiness and liveness both ask %s: give them endpoints of their own", a.LivePath)
	}
	return nil
}

// allowed is what the objective allows in a month.
func (a Ask) allowed() time.Duration {
	return time.Duration(float64(month) * (100 - a.Objective) / 100)
}

// quiet tells whether false alarms of a probe cost little enough, each of them cost.
func (a Ask) quiet(t Timing, cost time.Duration) bool {
	return t.FalseAlarms(overTimeout)*cost.Seconds() <= alarmShare*a.allowed().Seconds()
}

// minThreshold is below which one or two lost answers would restart a container.
const minThreshold = 3

// periods are the periods up to most and over the timeout: round ones first, the longest, which
// ask least often, before the others.
func periods(most, timeout time.Duration) []time.Duration {
	var round, others []time.Duration
	for p := most; p > timeout; p -= time.Second {
		if p%(10*time.Second) == 0 || p == 5*time.Second {
			round = append(round, p)
		} else {
			others = append(others, p)
		}
	}
	return append(round, others...)
}

// maxPeriod is the longest period of a liveness probe.
const maxPeriod = time.Minute

// liveness finds the period and threshold that give a hung container up within the window, with at
// least three failures.
func (a Ask) liveness(timeout time.Duration) (Timing, error) {
	for _, period := range periods(maxPeriod, timeout) {
		for n := minThreshold; ; n++ {
			t := Timing{Period: period, Timeout: timeout, FailureThreshold: n}
			w := t.GivesUp()
			if w.Max > a.Restart.Max {
				break
			}
			if w.Min >= a.Restart.Min && a.quiet(t, w.Max+a.Start) && a.roomForReadiness(t) {
				return t, nil
			}
		}
	}
	shortest := Timing{Period: timeout + time.Second, Timeout: timeout, FailureThreshold: minThreshold}
	return Timing{}, fmt.Errorf("no liveness probe gives a hung container up within %s to %s: the P99 of %s takes a "+
		"timeout of %s (twice the P99), which with three failures and an objective of %g %% is %s or more; allow more "+
		"time, or make the endpoint answer faster", a.Restart.Min, a.Restart.Max, a.P99, seconds(timeout), a.Objective,
		seconds(shortest.GivesUp().Max))
}

// roomForReadiness tells whether some readiness probe takes the container out before liveness gives
// it up.
func (a Ask) roomForReadiness(live Timing) bool {
	_, err := a.readiness(live.Timeout, live)
	return err == nil
}

// readiness asks more often than liveness, so that a hung container leaves the traffic first; as
// seldom as that allows, 10 s at most.
func (a Ask) readiness(timeout time.Duration, live Timing) (Timing, error) {
	for _, period := range periods(min(10*time.Second, live.Period), timeout) {
		for n := 1; n <= live.FailureThreshold; n++ {
			t := Timing{Period: period, Timeout: timeout, FailureThreshold: n}
			if t.GivesUp().Max > live.GivesUp().Min {
				break
			}
			if n >= 2 && a.quiet(t, t.Period) {
				return t, nil
			}
		}
	}
	return Timing{}, errors.New("no readiness probe takes a hung container out of the traffic before it is restarted")
}

// startup allows one and a half times the slowest start. The first question comes at once, so that
// the last of n comes n−1 periods later: with three or more that is still no less than the start.
func (a Ask) startup(timeout time.Duration) Timing {
	t := Timing{Period: max(5*time.Second, timeout+time.Second), Timeout: timeout}
	t.FailureThreshold = max(minThreshold, int(math.Ceil(1.5*a.Start.Seconds()/t.Period.Seconds())))
	return t
}

// seconds prints a duration as whole or broken seconds: 90 s.
func seconds(d time.Duration) string { return fmt.Sprintf("%g s", math.Round(1000*d.Seconds())/1000) }

// Probe makes the API's probe.
func (t Timing) probe(path string, port intstr.IntOrString) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: port}},
		PeriodSeconds: int32(t.Period / time.Second), TimeoutSeconds: int32(t.Timeout / time.Second),
		FailureThreshold: int32(t.FailureThreshold),
	}
}

// Probes are the container's probes; startup is nil where there is none.
func (p Plan) Probes() map[probe.Kind]*v1.Probe {
	out := map[probe.Kind]*v1.Probe{
		probe.Readiness: p.Readiness.probe(p.Ask.ReadyPath, p.Ask.Port),
		probe.Liveness:  p.Liveness.probe(p.Ask.LivePath, p.Ask.Port),
	}
	if p.Startup != nil {
		out[probe.Startup] = p.Startup.probe(p.Ask.LivePath, p.Ask.Port)
	}
	return out
}

// workload is a Pod with these probes, as lint reads one.
func (p Plan) workload() probelint.Workload {
	c := v1.Container{Name: p.Ask.Container}
	if p.Ask.Port.Type == intstr.String {
		c.Ports = []v1.ContainerPort{{Name: p.Ask.Port.StrVal, ContainerPort: 8080}}
	}
	all := p.Probes()
	c.ReadinessProbe, c.LivenessProbe, c.StartupProbe = all[probe.Readiness], all[probe.Liveness], all[probe.Startup]
	return probelint.Workload{Source: "plan", Kind: "Pod", Name: p.Ask.Container, Path: "spec",
		Spec: v1.PodSpec{Containers: []v1.Container{c}}}
}

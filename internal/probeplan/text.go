package probeplan

import (
	"fmt"
	"io"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

// arithmetic says how each number came about.
func (p Plan) arithmetic() []string {
	a, live, ready := p.Ask, p.Liveness, p.Readiness
	out := []string{
		fmt.Sprintf("timeoutSeconds: twice the P99 of %s, in whole seconds: %s", a.P99, seconds(live.Timeout)),
	}
	if a.P95 > 0 {
		out[0] += fmt.Sprintf(" (the P95 is %s)", a.P95)
	}
	out = append(out,
		fmt.Sprintf("readiness: %s; a hung container leaves the traffic %s to %s after it hangs", ready.Arithmetic(),
			seconds(ready.GivesUp().Min), seconds(ready.GivesUp().Max)),
		fmt.Sprintf("liveness: %s; a hung container is given up %s to %s after it hangs, asked for were %s to %s",
			live.Arithmetic(), seconds(live.GivesUp().Min), seconds(live.GivesUp().Max), seconds(a.Restart.Min),
			seconds(a.Restart.Max)))
	switch {
	case p.Startup != nil:
		out = append(
			out,
			fmt.Sprintf("startup: %s, one and a half times the start of %s or more, so that none is killed before "+
				"%s; the others wait until it succeeds", p.Startup.Arithmetic(), seconds(a.Start),
				seconds(p.Startup.GivesUp().Min)),
		)
	case a.Start > 0:
		out = append(
			out,
			fmt.Sprintf("startup: none; a start of %s is not over %s, and liveness allows %s", seconds(a.Start),
				seconds(slowStart), seconds(live.GivesUp().Min)),
		)
	default:
		out = append(out, "startup: none; the start time was not given (--start-time)")
	}
	return append(
		out,
		fmt.Sprintf("objective: %g %% of 30 days allow %s; healthy answers over the timeout cost %s of it "+
			"by restarts (%s) and %s out of the traffic (%s)", a.Objective, round(a.allowed()),
			round(alarmCost(live, live.GivesUp().Max+a.Start)), oddsText(live), round(alarmCost(ready, ready.Period)),
			oddsText(ready)),
	)
}

func alarmCost(t Timing, each time.Duration) time.Duration {
	return time.Duration(t.FalseAlarms(overTimeout) * float64(each))
}

// oddsText is the arithmetic of false alarms.
func oddsText(t Timing) string {
	return fmt.Sprintf("%d questions a month × 0.01^%d = %.2g", int(month/t.Period), t.FailureThreshold,
		t.FalseAlarms(overTimeout))
}

func round(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return fmt.Sprintf("%.2g s", d.Seconds())
}

// YAML is the probes as a container's manifest has them.
func (p Plan) YAML() (string, error) {
	all := p.Probes()
	raw, err := yaml.Marshal(struct {
		ReadinessProbe *v1.Probe `json:"readinessProbe"`
		LivenessProbe  *v1.Probe `json:"livenessProbe"`
		StartupProbe   *v1.Probe `json:"startupProbe,omitempty"`
	}{all[probe.Readiness], all[probe.Liveness], all[probe.Startup]})
	return string(raw), err
}

// Step is one thing that becomes of a container, at a time from its beginning.
type Step struct {
	From time.Duration `json:"from"` // nanoseconds
	To   time.Duration `json:"to"`   // the latest; the same where it is certain
	Text string        `json:"text"`
}

// Hang is what becomes of a container that hangs at time zero.
func (p Plan) Hang() []Step {
	out := p.Readiness.GivesUp()
	gone := p.Liveness.GivesUp()
	return []Step{
		{0, 0, "the container hangs"},
		{out.Min, out.Max, "readiness takes it out of the traffic"},
		{gone.Min, gone.Max, "liveness gives it up: it is stopped and started again"},
	}
}

// Combination is one choice of probes and what follows from it.
type Combination struct {
	Probes    string `json:"probes"`
	SlowStart string `json:"slowStart"`
	Hang      string `json:"hang"`
	Overload  string `json:"overload"`
	Chosen    bool   `json:"chosen,omitempty"`
}

// Combinations walks through the choices of probes with this plan's numbers.
func (p Plan) Combinations() []Combination {
	live, ready := p.Liveness, p.Readiness
	leaves := fmt.Sprintf("out of the traffic within %s", seconds(ready.GivesUp().Max))
	restarts := fmt.Sprintf("restarted within %s", seconds(live.GivesUp().Max))
	held := "no traffic until it can serve"
	killed := fmt.Sprintf("killed after %s when it takes longer", seconds(live.GivesUp().Min))
	shed := "out of the traffic until it answers again"
	harm := "restarted under load, which adds load to the others"
	out := []Combination{
		{Probes: "none", SlowStart: "gets traffic before it can serve", Hang: "keeps its traffic and never restarts",
			Overload: "keeps its traffic"},
		{Probes: "readiness", SlowStart: held, Hang: leaves + ", never restarted", Overload: shed},
		{
			Probes:    "liveness",
			SlowStart: killed + "; traffic before it can serve",
			Hang:      restarts + ", with traffic until then",
			Overload:  harm,
		},
		{
			Probes:    "readiness and liveness on one endpoint",
			SlowStart: held + "; " + killed,
			Hang:      leaves + ", " + restarts,
			Overload:  harm,
		},
		{
			Probes:    "readiness and liveness on two endpoints",
			SlowStart: held + "; " + killed,
			Hang:      leaves + ", " + restarts,
			Overload:  shed + "; liveness asks the process alone",
			Chosen:    p.Startup == nil,
		},
	}
	allowed := "no more than a fast start needs"
	if p.Startup != nil {
		allowed = fmt.Sprintf("may take %s (%s)", seconds(p.Startup.GivesUp().Min), p.Startup.Arithmetic())
	}
	return append(out, Combination{Probes: "and startup", SlowStart: allowed + "; no traffic until it can serve",
		Hang: leaves + ", " + restarts, Overload: shed + "; liveness asks the process alone", Chosen: p.Startup != nil})
}

// WriteText prints the plan for a person: arithmetic, what becomes of a hang, combinations, YAML.
func (p Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, l := range p.Lines {
		fmt.Fprintf(&b, "%s\n", l)
	}
	b.WriteString("\nWhen the container hangs:\n")
	for _, s := range p.Hang() {
		at := seconds(s.From)
		if s.To > s.From {
			at += " to " + seconds(s.To)
		}
		fmt.Fprintf(&b, "  %-14s %s\n", at, s.Text)
	}
	b.WriteString("\nThe choices of probes:\n")
	for _, c := range p.Combinations() {
		mark := " "
		if c.Chosen {
			mark = "→"
		}
		fmt.Fprintf(
			&b,
			"%s %s\n    slow start: %s\n    hang:       %s\n    overload:   %s\n",
			mark,
			c.Probes,
			c.SlowStart,
			c.Hang,
			c.Overload,
		)
	}
	for _, f := range p.Findings {
		fmt.Fprintf(&b, "\ngantry lint: %s %s: %s\n  → %s\n", f.Severity, f.Rule, f.Message, f.Fix)
	}
	if len(p.Findings) == 0 {
		b.WriteString("\ngantry lint finds nothing wrong with them.\n")
	}
	text, err := p.YAML()
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%s", text)
	_, err = io.WriteString(w, b.String())
	return err
}

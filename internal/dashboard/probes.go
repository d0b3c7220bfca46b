package dashboard

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/probeplan"
)

// probesCalculator is gantry probes.
func probesCalculator() Calculator {
	return Calculator{Name: "probes", Title: "Probes",
		About: "Readiness, liveness and startup probes from how fast a container answers and starts (gantry probes).",
		Fields: []Field{
			{
				Name:    "p99",
				Label:   "P99 of an answer",
				Unit:    "ms",
				Kind:    kindRange,
				Min:     10,
				Max:     5000,
				Step:    10,
				Default: "200",
			},
			{Name: "start", Label: "Start time", Unit: "s", Kind: kindRange, Min: 0, Max: 300, Step: 1, Default: "60"},
			{Name: "objective", Label: "Objective", Unit: "%", Kind: kindChoice,
				Options: []string{"99", "99.5", "99.9", "99.95", "99.99"}, Default: "99.9"},
			{Name: "from", Label: "Restart a hung container after at least", Unit: "s", Kind: kindRange,
				Max: 300, Step: 5, Default: "30"},
			{Name: "to", Label: "and at most", Unit: "s", Kind: kindRange, Min: 10, Max: 600, Step: 5, Default: "90"},
			{Name: "port", Label: "Port", Kind: kindText, Default: "8080"},
			{Name: "ready", Label: "Readiness asks", Kind: kindText, Default: "/readyz"},
			{Name: "live", Label: "Liveness asks", Kind: kindText, Default: "/livez"},
		},
		answer: func(_ context.Context, _ question, values map[string]string) (Forecast, error) {
			return forecastProbes(values)
		}}
}

func forecastProbes(values map[string]string) (Forecast, error) {
	numbers := map[string]float64{}
	for _, name := range []string{"p99", "start", "objective", "from", "to"} {
		n, err := number(values, name, 0, 1e6)
		if err != nil {
			return Forecast{}, err
		}
		numbers[name] = n
	}
	second := func(name string) time.Duration { return time.Duration(numbers[name] * float64(time.Second)) }
	p, err := probeplan.Make(probeplan.Ask{P99: second("p99") / 1000, Start: second("start"),
		Objective: numbers["objective"], Restart: probeplan.Window{Min: second("from"), Max: second("to")},
		Port: intstr.Parse(values["port"]), ReadyPath: values["ready"], LivePath: values["live"], Container: "app"})
	if err != nil {
		return Forecast{}, cli.UsageError(err)
	}
	out := Forecast{Lines: p.Lines, Timeline: probeTimeline(p)}
	t := Table{
		Caption: "The choices of probes",
		Head:    []string{"Probes", "A slow start", "A hang", "Overload"},
		Marked:  -1,
	}
	for i, c := range p.Combinations() {
		t.Rows = append(t.Rows, []string{c.Probes, c.SlowStart, c.Hang, c.Overload})
		if c.Chosen {
			t.Marked = i
		}
	}
	out.Tables = []Table{t}
	for _, f := range p.Findings {
		out.Troubles = append(out.Troubles, fmt.Sprintf("gantry lint: %s (%s). %s", f.Message, f.Rule, f.Fix))
	}
	out.Copy, err = p.YAML()
	return out, err
}

// probeTimeline draws a hang and, with a startup probe, a start.
func probeTimeline(p probeplan.Plan) []Lane {
	var out []Lane
	ready, live := p.Readiness.GivesUp(), p.Liveness.GivesUp()
	out = append(out,
		Lane{"traffic after a hang", []Bar{
			{0, ready.Min.Seconds(), "bad", "gets traffic and does not answer"},
			{ready.Min.Seconds(), ready.Max.Seconds(), "maybe", "leaves the traffic"},
			{ready.Max.Seconds(), live.Max.Seconds(), "idle", "gets no traffic"}}},
		Lane{"container after a hang", []Bar{
			{0, live.Min.Seconds(), "bad", "hangs"},
			{live.Min.Seconds(), live.Max.Seconds(), "maybe", "is given up and started again"}}})
	if p.Startup != nil {
		start, most := p.Ask.Start.Seconds(), p.Startup.GivesUp().Min.Seconds()
		out = append(out, Lane{"start", []Bar{
			{0, start, "idle", "starts, " + p.Startup.Arithmetic() + " allowed"},
			{start, most, "good", "still allowed"}}})
	}
	return out
}

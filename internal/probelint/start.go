package probelint

import (
	"fmt"
	"math"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

// slowStart is the start time from which a container should have a startup probe.
const slowStart = 5 * time.Second

// needsStartup compares the start time with the time that the liveness probe allows.
func needsStartup(l ruleInput) []Finding {
	var out []Finding
	for _, b := range l.containers() {
		live, ok := b.probeOf(probe.Liveness)
		if _, has := b.probeOf(probe.Startup); !ok || has || !b.isLongRunning() {
			continue
		}
		took, how := l.startTime(b)
		switch {
		case took == 0:
		case took > live.budget():
			out = append(out, live.finding(Error,
				fmt.Sprintf("%s, but liveness gives up after %s: the container is killed before it has started, "+
					"again and again", how, live.budgetText()), addStartup(live, took)))
		case took > slowStart:
			out = append(out, live.finding(Warning,
				fmt.Sprintf("%s, over 5 s, and only liveness's own allowance (%s) protects the start; the same "+
					"allowance delays the restart of a hung container", how, live.budgetText()),
				addStartup(live, took)))
		}
	}
	return out
}

// addStartup describes a startup probe that allows twice the time.
func addStartup(a probeInput, took time.Duration) string {
	period := 10 * time.Second
	if took < time.Minute {
		period = 5 * time.Second
	}
	n := max(3, int(math.Ceil(2*took.Seconds()/period.Seconds())))
	return fmt.Sprintf("add a startupProbe that asks the same (%s) with periodSeconds %d and failureThreshold %d "+
		"(%s), and drop initialDelaySeconds of the others",
		a.target(), int(period.Seconds()), n, seconds(time.Duration(n)*period))
}

func startupShort(l ruleInput) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		took, how := l.startTime(a.containerInput)
		if a.kind != probe.Startup || took <= a.budget() {
			continue
		}
		n := int(math.Ceil(2 * took.Seconds() / a.spec.Period.Seconds()))
		out = append(out,
			a.finding(Error, fmt.Sprintf("%s, but the startup probe gives up after %s: the container never starts", how,
				a.budgetText()),
				fmt.Sprintf("set failureThreshold to %d (%s)", n, seconds(time.Duration(n)*a.spec.Period))))
	}
	return out
}

func startupLong(l ruleInput) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		if d := l.Workload.Deadline; a.kind == probe.Startup && d > 0 && a.budget() > d {
			out = append(out,
				a.finding(Info,
					fmt.Sprintf("a container may take %s to start, but the rollout counts as failed after "+
						"progressDeadlineSeconds %d", a.budgetText(), int(d.Seconds())),
					fmt.Sprintf("raise spec.progressDeadlineSeconds above %d, or lower failureThreshold",
						int(a.budget().Seconds()))))
		}
	}
	return out
}

// lateReadiness: a delay holds a container back that is ready before; a startup probe does not.
func lateReadiness(l ruleInput) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		if d := a.spec.InitialDelay; a.kind == probe.Readiness && d >= 30*time.Second {
			out = append(out,
				a.finding(Info,
					fmt.Sprintf("no traffic comes in the first %s of every container, also when it is ready before",
						seconds(d)),
					"drop initialDelaySeconds: a failed readiness probe restarts nothing, so it may be asked from "+
						"the start"))
		}
	}
	return out
}

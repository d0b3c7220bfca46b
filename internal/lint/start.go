package lint

import (
	"fmt"
	"math"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

// slowStart is from when on a container should have a startup probe.
const slowStart = 5 * time.Second

// needsStartup compares the time a start takes with the time liveness gives.
func needsStartup(l look) []Finding {
	var out []Finding
	for _, b := range l.boxes() {
		live, ok := b.of(probe.Liveness)
		if _, has := b.of(probe.Startup); !ok || has || !b.runs() {
			continue
		}
		took, how := l.start(b)
		switch {
		case took == 0:
		case took > live.budget():
			out = append(out, live.found(Error,
				fmt.Sprintf("%s, but liveness gives up after %s: the container is killed before it has started, again and again", how, live.sum()), addStartup(live, took)))
		case took > slowStart:
			out = append(out, live.found(Warning,
				fmt.Sprintf("%s, over 5 s, and only liveness's own allowance (%s) protects the start; the same allowance delays the restart of a hung container", how, live.sum()), addStartup(live, took)))
		}
	}
	return out
}

// addStartup words a startup probe that allows twice the time.
func addStartup(a asked, took time.Duration) string {
	period := 10 * time.Second
	if took < time.Minute {
		period = 5 * time.Second
	}
	n := max(3, int(math.Ceil(2*took.Seconds()/period.Seconds())))
	return fmt.Sprintf("add a startupProbe that asks the same (%s) with periodSeconds %d and failureThreshold %d (%s), and drop initialDelaySeconds of the others",
		a.question(), int(period.Seconds()), n, seconds(time.Duration(n)*period))
}

func startupShort(l look) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		took, how := l.start(a.box)
		if a.kind != probe.Startup || took <= a.budget() {
			continue
		}
		n := int(math.Ceil(2 * took.Seconds() / a.spec.Period.Seconds()))
		out = append(out, a.found(Error, fmt.Sprintf("%s, but the startup probe gives up after %s: the container never starts", how, a.sum()),
			fmt.Sprintf("set failureThreshold to %d (%s)", n, seconds(time.Duration(n)*a.spec.Period))))
	}
	return out
}

func startupLong(l look) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		if d := l.Workload.Deadline; a.kind == probe.Startup && d > 0 && a.budget() > d {
			out = append(out, a.found(Info, fmt.Sprintf("a container may take %s to start, but the rollout counts as failed after progressDeadlineSeconds %d", a.sum(), int(d.Seconds())),
				fmt.Sprintf("raise spec.progressDeadlineSeconds above %d, or lower failureThreshold", int(a.budget().Seconds()))))
		}
	}
	return out
}

// lateReadiness: a delay holds a container back that is ready before; a startup probe does not.
func lateReadiness(l look) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		if d := a.spec.InitialDelay; a.kind == probe.Readiness && d >= 30*time.Second {
			out = append(out, a.found(Info, fmt.Sprintf("no traffic comes in the first %s of every container, also when it is ready before", seconds(d)),
				"drop initialDelaySeconds: a failed readiness probe restarts nothing, so it may be asked from the start"))
		}
	}
	return out
}

package probelint

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/pod"
)

func sharedEndpoint(l ruleInput) []Finding {
	var out []Finding
	for _, b := range l.containers() {
		live, ok := b.probeOf(probe.Liveness)
		ready, too := b.probeOf(probe.Readiness)
		if ok && too && b.isLongRunning() && sameTarget(live, ready) {
			out = append(out,
				live.finding(Warning,
					fmt.Sprintf("liveness and readiness both ask %s: whatever makes the container unready (a slow "+
						"database, load) also restarts it, after %s", live.target(), live.budgetText()),
					"let liveness ask only whether the process itself works (no dependencies), readiness whether it "+
						"can serve; or drop the liveness probe"))
		}
	}
	return out
}

// livenessFirst: a container should leave the traffic before it is restarted.
func livenessFirst(l ruleInput) []Finding {
	var out []Finding
	for _, b := range l.containers() {
		live, ok := b.probeOf(probe.Liveness)
		ready, too := b.probeOf(probe.Readiness)
		if !ok || !too || !b.isLongRunning() {
			continue
		}
		kill, leave := time.Duration(live.spec.FailureThreshold)*live.spec.Period,
			time.Duration(ready.spec.FailureThreshold)*ready.spec.Period
		if kill < leave {
			out = append(out,
				live.finding(Warning,
					fmt.Sprintf("a hung container is restarted after failureThreshold %d × periodSeconds %d = %s, "+
						"but taken out of traffic only after %d × %d = %s",
						live.spec.FailureThreshold, int(live.spec.Period.Seconds()), seconds(kill),
						ready.spec.FailureThreshold, int(ready.spec.Period.Seconds()), seconds(leave)),
					fmt.Sprintf("give liveness a failureThreshold of at least %d, or readiness a shorter periodSeconds",
						1+int(leave/live.spec.Period))))
		}
	}
	return out
}

func lowFailureThreshold(l ruleInput) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		if a.kind == probe.Liveness && a.spec.FailureThreshold == 1 {
			out = append(out,
				a.finding(Warning,
					fmt.Sprintf("failureThreshold 1: one answer that takes longer than timeoutSeconds %d, or one "+
						"lost packet, restarts the container", int(a.spec.Timeout.Seconds())),
					"set failureThreshold to 3 or more"))
		}
	}
	return out
}

func endsPod(l ruleInput) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		policy := pod.RestartPolicy(&l.Workload.Spec, a.Container)
		if a.kind != probe.Readiness && policy == v1.RestartPolicyNever {
			out = append(out,
				a.finding(Info,
					fmt.Sprintf("restartPolicy is Never: when the %s probe gives up after %s the container ends for "+
						"good, and its Pod fails", a.kind, a.budgetText()),
					"use activeDeadlineSeconds to end work that hangs, or restartPolicy OnFailure"))
		}
	}
	return out
}

// nearP99: of every hundred healthy answers one takes P99 or longer.
func nearP99(l ruleInput) []Finding {
	var out []Finding
	p99 := l.Measured.P99
	for _, a := range l.probes() {
		if p99 <= 0 || a.spec.Timeout >= 2*p99 {
			continue
		}
		s, says := Warning, "close to"
		if a.spec.Timeout <= p99 {
			s, says = Error, "not above"
		}
		if a.kind != probe.Liveness && s == Warning {
			s = Info
		}
		want := max(1, int((2*p99+time.Second-1)/time.Second))
		out = append(out,
			a.finding(s,
				fmt.Sprintf("timeoutSeconds %d (%s) is %s the P99 of a healthy answer, %d ms: about one answer in a "+
					"hundred is near or over it, and every %s one is asked",
					int(a.spec.Timeout.Seconds()), seconds(a.spec.Timeout), says, p99.Milliseconds(),
					seconds(a.spec.Period)),
				fmt.Sprintf("set timeoutSeconds to %d (twice the P99), or make the endpoint answer faster", want)))
	}
	return out
}

// overPeriod: questions of one probe never overlap, so a slow answer stretches the period.
func overPeriod(l ruleInput) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		if a.spec.Timeout < a.spec.Period || a.spec.Timeout <= time.Second && a.spec.Period <= time.Second {
			continue
		}
		s := Info
		if a.kind == probe.Liveness {
			s = Warning
		}
		out = append(out,
			a.finding(s,
				fmt.Sprintf("timeoutSeconds %d is not below periodSeconds %d: the next question waits for the "+
					"answer, so a hung container is given up after %d × %s = %s instead of %s",
					int(a.spec.Timeout.Seconds()), int(a.spec.Period.Seconds()), a.spec.FailureThreshold,
					seconds(a.spec.Timeout),
					seconds(time.Duration(a.spec.FailureThreshold)*a.spec.Timeout),
					seconds(time.Duration(a.spec.FailureThreshold)*a.spec.Period)),
				"make timeoutSeconds smaller than periodSeconds"))
	}
	return out
}

// costlyExecPeriod is from which period on, in seconds, processes of exec probes are counted as
// costly.
const costlyExecPeriod = 5

func execCost(l ruleInput) []Finding {
	var out []Finding
	for _, a := range l.probes() {
		if a.probe.Exec == nil {
			continue
		}
		per := 1 / a.spec.Period.Seconds()
		s := Info
		if a.spec.Period <= costlyExecPeriod*time.Second {
			s = Warning
		}
		many := fmt.Sprintf("100 such Pods on a node are %s processes a second", number(100*per))
		if n := l.Workload.Replicas; n > 1 {
			many = fmt.Sprintf("the %d Pods here are %s processes a second, 100 on a node %s", n,
				number(float64(n)*per), number(100*per))
		}
		out = append(out,
			a.finding(s, fmt.Sprintf("an exec probe starts a process in the container every %s (%s a second): %s",
				seconds(a.spec.Period), number(per), many),
				"ask over httpGet, tcpSocket or grpc, or raise periodSeconds"))
	}
	return out
}

func number(f float64) string { return fmt.Sprintf("%.3g", f) }

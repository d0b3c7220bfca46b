package probelint

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Severity is how much a finding matters.
type Severity string

// Severities: an Error will not work as written, a Warning is likely to hurt, Info is worth
// knowing.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Rank orders severities: 3 for Error, 1 for Info, 0 for one that does not exist.
func (s Severity) Rank() int {
	return map[Severity]int{Error: 3, Warning: 2, Info: 1}[s]
}

// Finding is one thing that is wrong or doubtful.
type Finding struct {
	Severity  Severity `json:"severity"`
	Rule      string   `json:"rule"`
	Container string   `json:"container,omitempty"`
	Field     string   `json:"field"`   // path in the object, like spec.template.spec.containers[0].livenessProbe
	Message   string   `json:"message"` // what happens, with numbers
	Fix       string   `json:"fix"`
}

// Measured is measured times of a workload; zero is unknown.
type Measured struct {
	Start time.Duration // from the start of a container until it can serve
	P99   time.Duration // 99th percentile of an answer to a probe
}

// Workload is one Pod or Pod template.
type Workload struct {
	Source    string // file or "cluster"
	Kind      string
	Namespace string
	Name      string

	Path          string            // of the Pod's spec in the object: "spec", "spec.template.spec"
	Labels        map[string]string // of the Pods
	Spec          v1.PodSpec
	Replicas      int           // Pods of this text; 0: unknown
	Deadline      time.Duration // progressDeadlineSeconds of a Deployment; 0: none
	Started       map[string]time.Duration
	ParseFindings []Finding // found while it was read: fields that do not exist
}

// In is the input of Check.
type In struct {
	Workload Workload
	Services []v1.Service // of every namespace that was read
	Measured Measured
}

// Rule is one row of Rules.
type Rule struct {
	ID, About string
	find      func(ruleInput) []Finding
}

// Rules returns all rules, in the order of the help text.
func Rules() []Rule {
	return []Rule{
		{"invalid-probe",
			"the API refuses the probe: no handler or several, thresholds, grace or a container that may not have it",
			invalidProbe},
		{"unknown-port", "the probe names a port that the container does not have", unknownPort},
		{"needs-startup-probe", "liveness gives the container up before it has started", needsStartup},
		{"startup-too-short", "the startup probe gives the container up before it has started", startupShort},
		{"startup-outlasts-rollout", "the startup probe allows more than the rollout's progressDeadlineSeconds",
			startupLong},
		{"shared-endpoint", "liveness and readiness ask the same question", sharedEndpoint},
		{"liveness-before-readiness", "liveness restarts the container before readiness takes it out of traffic",
			livenessFirst},
		{"liveness-hair-trigger", "one lost answer restarts the container", lowFailureThreshold},
		{"liveness-ends-pod", "the Pod is not restarted: a failed liveness probe is its end", endsPod},
		{"timeout-near-p99", "the timeout is close to what a healthy answer takes", nearP99},
		{"timeout-over-period", "a slow answer takes longer than the period", overPeriod},
		{"exec-cost", "every question of an exec probe is a process", execCost},
		{"late-readiness", "readiness is not asked for long, whether or not the container is ready", lateReadiness},
		{"no-readiness", "a Service sends traffic to a container that is never asked whether it can serve",
			noReadiness},
		{"foreign-host", "the probe asks somebody else than its Pod", foreignHost},
		{"long-probe-grace", "the probe's grace is longer than the Pod's", longGrace},
		{"prestop-eats-grace", "preStop sleeps through the time for stopping", preStopGrace},
	}
}

// Check returns the rules' findings, worst first, then by field.
func Check(in In) []Finding {
	out := slices.Clone(in.Workload.ParseFindings)
	for _, r := range Rules() {
		for _, f := range r.find(ruleInput{in}) {
			f.Rule = r.ID
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), cmp.Compare(a.Field, b.Field))
	})
	return out
}

// seconds formats a duration for people: 1.5 s, 90 s.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%g s", float64(d.Milliseconds())/1000)
}

package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// SpecOf reads a probe, with the API's defaults for what is left out.
func SpecOf(p *v1.Probe) Spec {
	seconds := func(n, otherwise int32) time.Duration {
		if n <= 0 {
			n = otherwise
		}
		return time.Duration(n) * time.Second
	}
	count := func(n, otherwise int32) int {
		if n <= 0 {
			n = otherwise
		}
		return int(n)
	}
	return Spec{
		InitialDelay:     seconds(p.InitialDelaySeconds, 0),
		Period:           seconds(p.PeriodSeconds, 10),
		Timeout:          seconds(p.TimeoutSeconds, 1),
		SuccessThreshold: count(p.SuccessThreshold, 1),
		FailureThreshold: count(p.FailureThreshold, 3),
	}
}

// Of is the container's probe for the purpose, nil when it has none.
func Of(c *v1.Container, k Kind) *v1.Probe {
	switch k {
	case Liveness:
		return c.LivenessProbe
	case Readiness:
		return c.ReadinessProbe
	case Startup:
		return c.StartupProbe
	}
	return nil
}

// Initial is the verdict before the first answer: alive, not ready, not started.
func Initial(k Kind) Verdict {
	switch k {
	case Liveness:
		return Good
	case Readiness:
		return Bad
	}
	return Pending
}

// Count is how many answers of one kind came in a row. The zero value has none.
type Count struct {
	Last Result
	Run  int
}

// Add counts an answer. The verdict is Good or Bad once enough equal answers came in a row, Pending when it stays what it was. Unknown counts as Failure; an outcome with Err
// changes nothing.
func (c Count) Add(o Outcome, s Spec) (Count, Verdict) {
	if o.Err != nil {
		return c, Pending
	}
	r := Failure
	if o.Result == Success || o.Result == Warning {
		r = Success
	}
	if r == c.Last {
		c.Run++
	} else {
		c = Count{Last: r, Run: 1}
	}
	switch {
	case r == Success && c.Run >= s.SuccessThreshold:
		return c, Good
	case r == Failure && c.Run >= s.FailureThreshold:
		return c, Bad
	}
	return c, Pending
}

// Need is how many answers of the kind counted last make a verdict.
func (c Count) Need(s Spec) int {
	if c.Last == Success {
		return s.SuccessThreshold
	}
	return s.FailureThreshold
}

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

// ProbeOf is the container's probe for the purpose, nil when it has none.
func ProbeOf(c *v1.Container, k Kind) *v1.Probe {
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

// InitialHealth is the result before the first answer: alive, not ready, not started.
func InitialHealth(k Kind) Health {
	switch k {
	case Liveness:
		return Healthy
	case Readiness:
		return Unhealthy
	}
	return Pending
}

// Streak is how many answers of one kind came in a row. The zero value has none.
type Streak struct {
	Last   Result
	Length int
}

// Add counts an answer. The result is Healthy or Unhealthy once enough equal answers came in a
// row, Pending when it stays what it was. Unknown counts as Failure; an outcome with Err changes
// nothing.
func (c Streak) Add(o Outcome, s Spec) (Streak, Health) {
	if o.Err != nil {
		return c, Pending
	}
	r := Failure
	if o.Result == Success || o.Result == Warning {
		r = Success
	}
	if r == c.Last {
		c.Length++
	} else {
		c = Streak{Last: r, Length: 1}
	}
	switch {
	case r == Success && c.Length >= s.SuccessThreshold:
		return c, Healthy
	case r == Failure && c.Length >= s.FailureThreshold:
		return c, Unhealthy
	}
	return c, Pending
}

// Threshold is how many answers of the kind counted last make a result.
func (c Streak) Threshold(s Spec) int {
	if c.Last == Success {
		return s.SuccessThreshold
	}
	return s.FailureThreshold
}

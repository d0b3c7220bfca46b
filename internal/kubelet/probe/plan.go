package probe

import "time"

// State is what the time of the next question depends on.
type State struct {
	Kind          Kind
	StartedAt     time.Time // of the container
	Released      time.Time // when the startup probe let this one go; zero when there is none or it was over before
	LastProbed    time.Time // last question; zero before the first
	AwaitsStartup bool      // a startup probe has not succeeded yet
	Finished      bool      // nothing more to learn: startup succeeded, or the container is to be restarted
	Adopted       time.Time // when this kubelet found the container running; zero when it started it itself
	Jitter        time.Duration
}

// Next is when to ask. A zero time means not at all, until something else changes.
//
// The first question comes initialDelaySeconds after the container's start. Without a delay
// readiness is asked at once, so that a Pod can be used as soon as it can serve, and liveness and
// startup after one period: a container gets periodSeconds × failureThreshold before it is given
// up, as upstream's ticks give it.
func Next(st State, s Spec) time.Time {
	switch {
	case st.Finished, st.AwaitsStartup:
		return time.Time{}
	case !st.LastProbed.IsZero():
		return st.LastProbed.Add(s.Period)
	}
	first := st.StartedAt.Add(s.InitialDelay)
	if s.InitialDelay == 0 && st.Kind != Readiness {
		first = st.StartedAt.Add(s.Period)
	}
	// Let go by the startup probe: readiness at once, liveness one period later.
	if from := st.Released; !from.IsZero() {
		if st.Kind == Liveness {
			from = from.Add(s.Period)
		}
		first = latest(first, from)
	}
	// Probes of containers found at a restart are spread over a period, so that they do not all ask
	// at once.
	if !st.Adopted.IsZero() {
		first = latest(first, st.Adopted).Add(st.Jitter)
	}
	return first
}

// IsLate tells whether a question that was put late is worth a word: by half its period and by more
// than a quarter of a second, which no threshold notices.
func IsLate(late time.Duration, s Spec) bool {
	return late > 250*time.Millisecond && late >= s.Period/2
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

package metrics

import "github.com/prometheus/client_golang/prometheus"

// hookWork counts what happens to lifecycle hooks.
type hookWork struct{ fallbacks, sleepsEnded prometheus.Counter }

func newHookWork(k factory) hookWork {
	return hookWork{
		fallbacks: k.counter("kubelet_lifecycle_handler_http_fallbacks_total",
			"[ALPHA] The number of times lifecycle handlers successfully fell back to http from https.").
			WithLabelValues(),
		sleepsEnded: k.counter("kubelet_sleep_action_terminated_early_total",
			"[ALPHA] The number of times lifecycle sleep handler got terminated before it finishes").
			WithLabelValues(),
	}
}

func (w hookWork) hookFellBack() { w.fallbacks.Inc() }
func (w hookWork) sleepEnded()   { w.sleepsEnded.Inc() }

// HookFellBackToHTTP counts a hook that a server answered by HTTP only.
func (m *Metrics) HookFellBackToHTTP() {
	if m != nil {
		m.pods.hookFellBack()
	}
}

// SleepEndedEarly counts a sleep that was not slept to its end.
func (m *Metrics) SleepEndedEarly() {
	if m != nil {
		m.pods.sleepEnded()
	}
}

// Package metrics counts what the kubelet does, under the names users' dashboards and alerts know:
// /metrics and /metrics/probes.
//
// In: calls from the shells that do the work, facts on their way to the journal (Sink), and at
// scrape time the Pods as they are (Sources). Out: Prometheus families; the process's own (go_*,
// process_*, rest_client_*, workqueue_*) are added from the common registry.
//
// To add a metric: a field of its group in fsgroup.go with upstream's name and text, and a line
// where the fact is met.
package metrics

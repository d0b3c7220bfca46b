// Package metrics counts what the scheduler does under kube-scheduler's metric names.
//
// Each part is a subject with a constructor that registers its metrics, and each part of the
// scheduler holds the subjects it counts. New makes them all. Without a registry they are
// counted and not served.
//
// In: a registry, then calls of Observe and Set methods. Out: metrics. To add a metric: a field,
// its registration and its method in the part of its subject, and a line of docs/user/metrics.md.
package metrics

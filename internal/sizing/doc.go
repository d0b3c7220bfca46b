// Package sizing calculates what containers should request and what a node should keep from Pods.
//
// In: usage series of containers (ReadCSV, ReadPrometheusJSON, ReadPrometheusText), and the size of
// a node. Out: Advice for each container: requests from the 95th percentile, limits, ratios,
// warnings; and NodeAdvice: kubeReserved, systemReserved, eviction thresholds, what is left for
// Pods, warnings about settings that keep too little or too much (Check).
//
// Requests are percentiles, never averages: half of the time a container takes more than its
// average. Reservations grow more slowly than nodes do, as the tables in node.go say.
package sizing

// Package forecast compares what simulations foretell with what a testcluster's controllers,
// scheduler and kubelets then do.
package forecast

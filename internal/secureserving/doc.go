// Package secureserving serves health and metrics of a standalone component over HTTPS, as
// kube-scheduler and kube-controller-manager do on --secure-port; the API server authenticates and
// authorizes callers.
package secureserving

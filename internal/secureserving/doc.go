// Package secureserving serves health and metrics of a component that runs alone over HTTPS, as
// kube-scheduler and kube-controller-manager do on --secure-port: the API server says who a caller
// is and what he may get.
package secureserving

// Package server is the node's own HTTPS server (:10250): health, Pods, logs, exec, attach,
// port-forward, stats, metrics.
//
// The API server and metrics collectors come in here; nobody is let in without a certificate of the
// cluster's CA or a token the API server vouches for, and nothing is done that the authorizer does
// not allow on nodes/{proxy,stats,log,metrics,pods,healthz,configz}.
//
// In: requests; the kubelet's Pods through the Pods interface; containers through CRI. Out: answers
// with upstream's texts. Streams (exec, attach, port-forward) are handed to the runtime's own
// streaming server: this package only proxies the upgraded connection.
//
// To add a path: one row in routes (routes.go) and its handler in the file of its area.
package server

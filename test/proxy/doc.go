// Package proxy proves the Service proxy in the kernel: a node, its Pods and a neighbour as network
// namespaces, connections through real rules; and with real containers under `gantry up`.
//
// In: Services and EndpointSlices. Out: who answers, and whom the answerer saw asking.
// Figures: `go test ./test/proxy -run '^$' -bench .` as root on a quiet machine.
package proxy

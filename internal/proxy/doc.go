// Package proxy sends the traffic of Services to their endpoints: it keeps the node's nftables
// tables equal to what Services and EndpointSlices ask for.
//
// One goroutine takes the names of changed Services (changeTracker merges changes that come close
// together), has package rules compute the difference and applies it through package nftables in
// one transaction. The first sync, a refusal by the kernel and FullSyncPeriod compare with what the
// kernel lists. So a restart adopts existing tables and changes only what differs; connections are
// not interrupted.
//
// In: Options (client, node, tables, configuration). Out: the tables; /healthz, /livez, /metrics
// and health-check node ports; journal facts. Decisions are in rules (pure): rules.ServicePorts
// says which endpoints get a Service port's traffic; `gantry why service/x` and `gantry trace
// packet` call it too. NetworkPolicy has tables of its own in the forward hook, which sees Pod
// addresses, because only hairpin traffic and traffic from outside to cluster IPs is masqueraded.
// To support another configuration field: config/load.go.
package proxy

// Package proxy leads what is sent to a Service to one of its endpoints: it keeps the node's
// nftables equal to Services and EndpointSlices.
//
// A Pod that turns unready stops getting traffic here. One goroutine takes what changed (names,
// many tells are one look), asks rules for the difference and gives it to kernel in one
// transaction. The first look, a refusal and the period compare with what the kernel lists; a
// restart thus adopts the tables, touches what differs, and no connection notices.
//
// In: Options (client, node, tables, configuration). Out: tables, answers of /healthz, /livez,
// /metrics and health-check node ports, facts. Decisions are in rules (pure): rules.Ports says who
// gets a Service port's traffic and is what explainers (`gantry why service/x`, `gantry trace
// packet`) should call. DNS needs nothing here but its Service. NetworkPolicy belongs in tables of
// its own, in forward hooks: there Pods are seen by their own addresses, as only hairpins and
// strangers to cluster IPs are masqueraded. Routes between nodes need none. To take another field
// of the configuration: config/fields.go.
package proxy

// Package packet computes what would happen to a packet, step by step, without sending one.
//
// The steps: resolve a name, find the Service port with the address, its rule and endpoints, and
// for each endpoint policies, route and the listening socket. The first step that fails gives the
// Outcome, with Reason and remedy. The endpoints come from rules.ServicePorts and
// ServicePort.Lookup, from which the kernel's rules are made, too.
//
// In: ClusterState, as much of it as the user may read, and Request. Out: Result, which prints
// itself as text and JSON. request.go parses what users write; resolve.go resolves names; trace.go
// and service.go go from the sender to the rule; endpoint.go goes from the rule to the socket. To
// add a step: a method of tracer or endpointTracer and its call in Trace or traceEndpoint.
// NetworkPolicies are evaluated by ClusterState.Policy.
package packet

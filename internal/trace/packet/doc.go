// Package packet says what would become of a packet, step by step, without sending it.
//
// From a name to an address, the Service port that has it, the rule, the endpoints it leads to, and
// for each of them policy, route and the socket at its end; the first step that fails is the
// verdict, with its reason and a remedy. Nothing is modelled twice: who gets a Service port's
// traffic is rules.Ports and rules.Port.Look, which the kernel's rules are made from.
//
// In: ClusterState, what the asker may see of the cluster, and Request. Out: Result, which prints
// itself as text and JSON. prober.go reads what people write; name.go resolves; walk.go goes;
// arrive.go is the way from the rule to the socket. To add a step: a function on walker and its
// place in walk. NetworkPolicy comes in through Policies.
package packet

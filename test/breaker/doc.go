// Package breaker breaks things in a testcluster at random, by seed, asks `gantry why` and scores
// its data: the truth is known because the breaker made the break.
//
// A row of kinds is a manifest with placeholders, the question, and the truth: the object and field
// to blame, numbers that must be told, and a value that mends it. Rows without truth are healthy or
// merely slow things, of which nothing may be called broken. New rows are written from the API's
// documentation, not from the rules of internal/explain.
//
// The files heldout*.go hold a second part, written without knowledge of the rules and not to be
// read by whoever improves them. Its texts have marks <<broken||well>>, so that it is also shown
// that each break is one and that nothing else is wrong. `make breaker` plays both parts.
//
// The files real*.go do the same with real containers, probes, volumes, registries and networks, in
// a `gantry up` of their own (docs/contributing/testing.md).
//
// With GANTRY_FOREIGN why asks through a client that serves no more than any Kubernetes does:
// Gantry's API groups and the paths of its kubelet are not found, nor are they in discovery.
package breaker

// Package rollout proves with real containers that who asks a Service is never turned away while
// its Pods change: a rolling update under constant load, the same with Gantry killed in the middle,
// a Pod that turns unready; and that the explanations say what the packets do.
//
// In: build/bin (or $GANTRY_BIN). Out: failed requests, of which there must be none. `gantry up`
// runs once for all of it.
package rollout

// Package features is what is switched on, read once at start.
//
// Vocabulary. A gate is here when it switches something of the API server or the scheduler; the
// kubelet's gates are in its own configuration. In: --feature-gates, --runtime-config and
// --emulated-version as upstream's components take them. Out: a plain struct. To add a gate: a
// field, and a line in gates.
package features

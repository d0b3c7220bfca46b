// Package scheme makes the type registry of a server: every k8s.io/api type is its own hub, so
// there are no internal types.
//
// Each type is known twice, under its version and under the internal version of its group;
// conversion between the two only sets TypeMeta. Types of a second version (events.k8s.io) have
// another type as hub and real conversions. In: rows of kinds. Out: scheme, codecs and parameter
// codec. To serve another group: a line in groups.
package scheme

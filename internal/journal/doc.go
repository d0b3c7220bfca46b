// Package journal holds what happened: typed facts about one Pod, and the Sink they are put into.
//
// A component states a fact once, when it becomes true; events, logs, spans, metrics, the time line
// of `gantry trace` and the answers of `gantry why` are renderings of these facts (DESIGN D7).
//
// In: values of the types in this package. Out: Entry values with time, Pod and component attached.
// Pure: the ring that stores entries is journal/ring, the API that serves them is
// apiserver/registry/journal.
//
// To add a fact: a struct with Line, one row in Facts, and a rendering in trace if the line is not
// enough.
package journal

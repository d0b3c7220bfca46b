// Package trace renders a Pod's journal: a time line, a tree of spans, a breakdown of where the
// time went. It recomputes no decision.
//
// In: journal entries, oldest first. Out: PodTrace, which prints itself as text and JSON;
// trace/otlp sends its spans to a collector. A new fact is shown by its Line; one with a duration
// becomes a span by a case in spans.go.
package trace

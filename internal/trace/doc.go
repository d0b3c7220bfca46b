// Package trace reads a Pod's journal and tells it: a time line, a tree of spans, the shares of
// where the time went. It never recomputes.
//
// In: journal entries, oldest first. Out: PodTrace, which prints
// itself as text and JSON; trace/otlp sends its spans to a collector. To show a new fact: its Line
// suffices; a fact with a duration becomes a span by one case in spans.go.
package trace

// Package reason is the catalogue of refusals, each with a stable code, the text an operator reads
// and a remedy.
//
// A refusal's code becomes condition reason, event reason, metric label and documentation anchor.
// In: nothing. Out: *Refusal values. To add one: a constant and a row in the file of its area.
package reason

import "strings"

// Code is the stable name of a refusal.
type Code string

// Refusal is why something did not happen. It is an error and keeps its cause.
type Refusal struct {
	Code   Code   // stable, CamelCase
	By     string // who refused: plugin/NodeResourcesFit, kubelet/admit, …
	Detail string // with quantities
	Fix    string // remedy; empty if there is none
	Err    error  // underlying error, if any
}

// Error returns code, By, Detail, and the cause.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString(string(r.Code))
	if r.Detail != "" {
		b.WriteString(": " + r.Detail)
	}
	if r.Err != nil {
		b.WriteString(": " + r.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

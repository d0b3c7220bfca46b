// Package reason is the catalogue of refusals: each has a stable code, the text an operator reads
// and a remedy.
//
// A refusal's code becomes condition reason, event reason, metric label and documentation anchor.
// In: nothing. Out: *Refusal values. To add one: a constant and a row in the file of its area.
package reason

import "strings"

// Code is the stable name of a refusal.
type Code string

// renamedCodes maps codes that stored journals may hold to what they are called now.
var renamedCodes = map[string]Code{
	"PodMinded":    AntiAffinity,
	"PodUnwelcome": ExistingAntiAffinity,
	"PodWanted":    Affinity,
}

// UnmarshalText reads a code as JSON documents hold it, codes of older journals by their new names.
// It takes any text, for a newer Gantry may have written the document, and never fails.
func (c *Code) UnmarshalText(text []byte) error {
	if renamed, ok := renamedCodes[string(text)]; ok {
		*c = renamed
		return nil
	}
	*c = Code(text)
	return nil
}

// Refusal is why something did not happen. It is an error that wraps its cause.
type Refusal struct {
	Code   Code   // stable, CamelCase
	By     string // who refused: plugin/NodeResourcesFit, kubelet/admit, …
	Detail string // with quantities
	Fix    string // what a person can do, empty when nothing
	Err    error  // underlying error, if any
}

// Error prints the code, the detail and the cause.
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

package typed

import (
	"fmt"
	"strconv"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Errors collects the field errors of one validation in the order in which the checks run, which is
// the order in which clients read them. The zero value is empty and ready; not for concurrent use.
//
// Each method that checks takes the path of the checked field and appends nothing when the value is
// valid.
type Errors struct{ list field.ErrorList }

// List returns the collected errors; nil if there are none.
func (f *Errors) List() field.ErrorList { return f.list }

// Len returns the number of collected errors.
func (f *Errors) Len() int { return len(f.list) }

// Add appends errors that another validation returned.
func (f *Errors) Add(errs ...*field.Error) { f.list = append(f.list, errs...) }

// Invalid appends an "Invalid value" error that prints value; see GoFields for structs.
func (f *Errors) Invalid(p *field.Path, value any, detail string) {
	f.Add(field.Invalid(p, value, detail))
}

// Required appends a "Required value" error.
func (f *Errors) Required(p *field.Path, detail string) { f.Add(field.Required(p, detail)) }

// Forbidden appends a "Forbidden" error: the field may not be set at all.
func (f *Errors) Forbidden(p *field.Path, detail string) { f.Add(field.Forbidden(p, detail)) }

// InvalidEach appends one "Invalid value" error for each of the messages about value, as the
// functions of k8s.io/apimachinery/pkg/util/validation return them.
func (f *Errors) InvalidEach(p *field.Path, value any, messages []string) {
	for _, m := range messages {
		f.Invalid(p, value, m)
	}
}

// AtLeast checks n >= least.
func (f *Errors) AtLeast(p *field.Path, n, least int64) {
	if n < least {
		f.Invalid(p, n, fmt.Sprintf("must be greater than or equal to %d", least))
	}
}

// NotNegative checks n >= 0.
func (f *Errors) NotNegative(p *field.Path, n int64) { f.AtLeast(p, n, 0) }

// NotNegativeIf checks *n >= 0; nil is valid.
func (f *Errors) NotNegativeIf(p *field.Path, n *int32) {
	if n != nil {
		f.NotNegative(p, int64(*n))
	}
}

// Immutable checks that an update leaves a field as it was (semantic equality).
func (f *Errors) Immutable(p *field.Path, value, previous any) {
	f.Add(apivalidation.ValidateImmutableField(value, previous, p)...)
}

// ImmutableWithoutValue is Immutable for a field whose rule upstream declares at the type
// (declarative validation): such an error prints null in place of the value.
func (f *Errors) ImmutableWithoutValue(p *field.Path, value, previous any) {
	if !apiequality.Semantic.DeepEqual(value, previous) {
		f.Invalid(p, nil, apivalidation.FieldImmutableErrorMsg)
	}
}

// ImmutableGoFields is Immutable for a struct, which upstream prints by the Go field names of its
// internal type; see GoFields.
func (f *Errors) ImmutableGoFields(p *field.Path, value, previous any) {
	for _, e := range apivalidation.ValidateImmutableField(value, previous, p) {
		e.BadValue = GoFields(value)
		f.Add(e)
	}
}

// NotDecremented checks that an update does not lower a counter; an unset previous value is lower
// than any.
func (f *Errors) NotDecremented(p *field.Path, n, previous *int32) {
	if previous != nil && (n == nil || *n < *previous) {
		f.Invalid(p, Deref(n), "cannot be decremented")
	}
}

// NotGreater checks n <= most and gives detail as the text if it is not.
func (f *Errors) NotGreater(p *field.Path, n, most int32, detail string) {
	if n > most {
		f.Invalid(p, n, detail)
	}
}

// DNSLabel checks for a DNS label (RFC 1123).
func (f *Errors) DNSLabel(p *field.Path, s string) { f.InvalidEach(p, s, validation.IsDNS1123Label(s)) }

// DNSSubdomain checks for a DNS subdomain (RFC 1123).
func (f *Errors) DNSSubdomain(p *field.Path, s string) {
	f.InvalidEach(p, s, validation.IsDNS1123Subdomain(s))
}

// QualifiedName checks for a key that a label may have: [DNS subdomain/]name.
func (f *Errors) QualifiedName(p *field.Path, s string) { f.InvalidEach(p, s, content.IsLabelKey(s)) }

// Supported checks that v is one of the known values, which an error lists.
func Supported[T ~string](f *Errors, p *field.Path, v T, known ...T) {
	for _, k := range known {
		if v == k {
			return
		}
	}
	f.Add(field.NotSupported(p, v, known))
}

// RequiredOneOf is Supported for a field that must be set: the empty value is a "Required value"
// error.
func RequiredOneOf[T ~string](f *Errors, p *field.Path, v T, known ...T) {
	if v == "" {
		f.Required(p, "")
		return
	}
	Supported(f, p, v, known...)
}

// LabelSelector validates a label selector by upstream's strict rules, which also check values;
// nil is valid.
func (f *Errors) LabelSelector(p *field.Path, s *metav1.LabelSelector) {
	f.Add(metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, p)...)
}

// IntOrPercent checks for an integer >= 0 or a percentage such as "25%".
func (f *Errors) IntOrPercent(p *field.Path, v intstr.IntOrString) {
	switch v.Type {
	case intstr.String:
		f.InvalidEach(p, v, validation.IsValidPercent(v.StrVal))
	default:
		f.NotNegative(p, int64(v.IntValue()))
	}
}

// NotMoreThan100Percent checks that a percentage is at most 100; integers are valid.
func (f *Errors) NotMoreThan100Percent(p *field.Path, v intstr.IntOrString) {
	const all = 100
	if n, ok := percent(v); ok && n > all {
		f.Invalid(p, v, "must not be greater than 100%")
	}
}

// IntOrPercentValue returns the number in an integer or percentage, to be compared with 0; nil and
// other texts are 0.
func IntOrPercentValue(v *intstr.IntOrString) int {
	if v == nil {
		return 0
	}
	if n, ok := percent(*v); ok {
		return n
	}
	return v.IntValue()
}

// percent returns the number in a percentage; false if v is none.
func percent(v intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(validation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	n, err := strconv.Atoi(v.StrVal[:len(v.StrVal)-1])
	return n, err == nil
}

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

// Errors gathers what is wrong, in the order it is found.
type Errors struct{ list field.ErrorList }

// List is what was found; nil when all is well.
func (f *Errors) List() field.ErrorList { return f.list }

// Add appends findings made elsewhere.
func (f *Errors) Add(errs ...*field.Error) { f.list = append(f.list, errs...) }

// Invalid refuses a value.
func (f *Errors) Invalid(p *field.Path, value any, detail string) {
	f.Add(field.Invalid(p, value, detail))
}

// Required misses a value.
func (f *Errors) Required(p *field.Path, detail string) { f.Add(field.Required(p, detail)) }

// Forbidden refuses that a field is set at all.
func (f *Errors) Forbidden(p *field.Path, detail string) { f.Add(field.Forbidden(p, detail)) }

// InvalidEach adds one finding per message about value.
func (f *Errors) InvalidEach(p *field.Path, value any, messages []string) {
	for _, m := range messages {
		f.Invalid(p, value, m)
	}
}

// AtLeast wants n of least or more.
func (f *Errors) AtLeast(p *field.Path, n, least int64) {
	if n < least {
		f.Invalid(p, n, fmt.Sprintf("must be greater than or equal to %d", least))
	}
}

// NotNegative wants n of 0 or more.
func (f *Errors) NotNegative(p *field.Path, n int64) { f.AtLeast(p, n, 0) }

// NotNegativeIf wants a number of 0 or more, or none.
func (f *Errors) NotNegativeIf(p *field.Path, n *int32) {
	if n != nil {
		f.NotNegative(p, int64(*n))
	}
}

// Immutable wants a field to stay what it was.
func (f *Errors) Immutable(p *field.Path, value, previous any) {
	f.Add(apivalidation.ValidateImmutableField(value, previous, p)...)
}

// ImmutableWithoutValue is Same for a field whose rule upstream declares at the type: such refusals
// show null in place of the value.
func (f *Errors) ImmutableWithoutValue(p *field.Path, value, previous any) {
	if !apiequality.Semantic.DeepEqual(value, previous) {
		f.Invalid(p, nil, apivalidation.FieldImmutableErrorMsg)
	}
}

// ImmutableGoFields is Same for a value that upstream prints by the field names of an internal
// type.
func (f *Errors) ImmutableGoFields(p *field.Path, value, previous any) {
	for _, e := range apivalidation.ValidateImmutableField(value, previous, p) {
		e.BadValue = GoFields(value)
		f.Add(e)
	}
}

// NotDecremented wants a counter to stay or grow.
func (f *Errors) NotDecremented(p *field.Path, n, previous *int32) {
	if previous != nil && (n == nil || *n < *previous) {
		f.Invalid(p, Deref(n), "cannot be decremented")
	}
}

// NotGreater wants n of at most most.
func (f *Errors) NotGreater(p *field.Path, n, most int32, detail string) {
	if n > most {
		f.Invalid(p, n, detail)
	}
}

// DNSLabel wants a DNS label, Subdomain a DNS subdomain, QualifiedName a qualified name.
func (f *Errors) DNSLabel(p *field.Path, s string) { f.InvalidEach(p, s, validation.IsDNS1123Label(s)) }

// DNSSubdomain wants a DNS subdomain.
func (f *Errors) DNSSubdomain(p *field.Path, s string) {
	f.InvalidEach(p, s, validation.IsDNS1123Subdomain(s))
}

// QualifiedName wants a key that labels may have.
func (f *Errors) QualifiedName(p *field.Path, s string) { f.InvalidEach(p, s, content.IsLabelKey(s)) }

// Supported wants one of the known values.
func Supported[T ~string](f *Errors, p *field.Path, v T, known ...T) {
	for _, k := range known {
		if v == k {
			return
		}
	}
	f.Add(field.NotSupported(p, v, known))
}

// LabelSelector judges a label selector by upstream's strict rules; nil is fine.
func (f *Errors) LabelSelector(p *field.Path, s *metav1.LabelSelector) {
	f.Add(metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, p)...)
}

// IntOrPercent wants a whole number of 0 or more, or a percentage.
func (f *Errors) IntOrPercent(p *field.Path, v intstr.IntOrString) {
	switch v.Type {
	case intstr.String:
		f.InvalidEach(p, v, validation.IsValidPercent(v.StrVal))
	default:
		f.NotNegative(p, int64(v.IntValue()))
	}
}

// NotMoreThan100Percent refuses percentages above 100.
func (f *Errors) NotMoreThan100Percent(p *field.Path, v intstr.IntOrString) {
	const all = 100
	if n, ok := percent(v); ok && n > all {
		f.Invalid(p, v, "must not be greater than 100%")
	}
}

// IntOrPercentValue is the number in a number or percentage, for comparing with 0.
func IntOrPercentValue(v *intstr.IntOrString) int {
	if v == nil {
		return 0
	}
	if n, ok := percent(*v); ok {
		return n
	}
	return v.IntValue()
}

func percent(v intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(validation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	n, err := strconv.Atoi(v.StrVal[:len(v.StrVal)-1])
	return n, err == nil
}

package row

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

// Findings gathers what is wrong, in the order it is found.
type Findings struct{ list field.ErrorList }

// List is what was found; nil when all is well.
func (f *Findings) List() field.ErrorList { return f.list }

// Add appends findings made elsewhere.
func (f *Findings) Add(errs ...*field.Error) { f.list = append(f.list, errs...) }

// Invalid refuses a value.
func (f *Findings) Invalid(p *field.Path, value any, detail string) {
	f.Add(field.Invalid(p, value, detail))
}

// Required misses a value.
func (f *Findings) Required(p *field.Path, detail string) { f.Add(field.Required(p, detail)) }

// Forbidden refuses that a field is set at all.
func (f *Findings) Forbidden(p *field.Path, detail string) { f.Add(field.Forbidden(p, detail)) }

// Each adds one finding per message about value.
func (f *Findings) Each(p *field.Path, value any, messages []string) {
	for _, m := range messages {
		f.Invalid(p, value, m)
	}
}

// AtLeast wants n of least or more.
func (f *Findings) AtLeast(p *field.Path, n, least int64) {
	if n < least {
		f.Invalid(p, n, fmt.Sprintf("must be greater than or equal to %d", least))
	}
}

// NotNegative wants n of 0 or more.
func (f *Findings) NotNegative(p *field.Path, n int64) { f.AtLeast(p, n, 0) }

// NotNegativeIf wants a number of 0 or more, or none.
func (f *Findings) NotNegativeIf(p *field.Path, n *int32) {
	if n != nil {
		f.NotNegative(p, int64(*n))
	}
}

// Same wants a field to stay what it was.
func (f *Findings) Same(p *field.Path, value, was any) {
	f.Add(apivalidation.ValidateImmutableField(value, was, p)...)
}

// SameUnshown is Same for a field whose rule upstream declares at the type: such refusals show null in place of the value.
func (f *Findings) SameUnshown(p *field.Path, value, was any) {
	if !apiequality.Semantic.DeepEqual(value, was) {
		f.Invalid(p, nil, apivalidation.FieldImmutableErrorMsg)
	}
}

// SameBare is Same for a value that upstream prints by the field names of an internal type.
func (f *Findings) SameBare(p *field.Path, value, was any) {
	for _, e := range apivalidation.ValidateImmutableField(value, was, p) {
		e.BadValue = Bare(value)
		f.Add(e)
	}
}

// NotDecremented wants a counter to stay or grow.
func (f *Findings) NotDecremented(p *field.Path, n, was *int32) {
	if was != nil && (n == nil || *n < *was) {
		f.Invalid(p, Value(n), "cannot be decremented")
	}
}

// NotGreater wants n of at most most.
func (f *Findings) NotGreater(p *field.Path, n, most int32, detail string) {
	if n > most {
		f.Invalid(p, n, detail)
	}
}

// Label wants a DNS label, Subdomain a DNS subdomain, LabelKey a qualified name.
func (f *Findings) Label(p *field.Path, s string) { f.Each(p, s, validation.IsDNS1123Label(s)) }

// Subdomain wants a DNS subdomain.
func (f *Findings) Subdomain(p *field.Path, s string) { f.Each(p, s, validation.IsDNS1123Subdomain(s)) }

// LabelKey wants a key that labels may have.
func (f *Findings) LabelKey(p *field.Path, s string) { f.Each(p, s, content.IsLabelKey(s)) }

// OneOf wants one of the known values.
func OneOf[T ~string](f *Findings, p *field.Path, v T, known ...T) {
	for _, k := range known {
		if v == k {
			return
		}
	}
	f.Add(field.NotSupported(p, v, known))
}

// Selector judges a label selector by upstream's strict rules; nil is fine.
func (f *Findings) Selector(p *field.Path, s *metav1.LabelSelector) {
	f.Add(metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, p)...)
}

// IntOrPercent wants a whole number of 0 or more, or a percentage.
func (f *Findings) IntOrPercent(p *field.Path, v intstr.IntOrString) {
	switch v.Type {
	case intstr.String:
		f.Each(p, v, validation.IsValidPercent(v.StrVal))
	default:
		f.NotNegative(p, int64(v.IntValue()))
	}
}

// AtMostAll refuses percentages above 100.
func (f *Findings) AtMostAll(p *field.Path, v intstr.IntOrString) {
	const all = 100
	if n, ok := percent(v); ok && n > all {
		f.Invalid(p, v, "must not be greater than 100%")
	}
}

// Amount is the number in a number or percentage, for comparing with 0.
func Amount(v *intstr.IntOrString) int {
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

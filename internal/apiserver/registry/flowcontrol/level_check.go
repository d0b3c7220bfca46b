package flowcontrol

import (
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/shufflesharding"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const maxQueues = 10 * 1000 * 1000

func checkLevel(l, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	var f typed.Errors
	s := &l.Spec
	if (l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) !=
		(s.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		f.Invalid(spec().Child("type"), s.Type, "must be 'Exempt' if and only if `name` is 'exempt'")
	}
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if s.Exempt != nil {
			checkShares(&f, s.Exempt.NominalConcurrencyShares, s.Exempt.LendablePercent, spec().Child("exempt"))
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if s.Limited != nil {
			checkLimited(&f, s.Limited, spec().Child("limited"))
		}
	case "":
	default:
		typed.Supported(&f, spec().Child("type"), s.Type, flowcontrolv1.PriorityLevelEnablementExempt,
			flowcontrolv1.PriorityLevelEnablementLimited)
	}
	checkMandatory(&f, l)
	checkParts(&f, s)
	return f.List()
}

// checkParts wants the parts that go with the types, and no others.
func checkParts(f *typed.Errors, s *flowcontrolv1.PriorityLevelConfigurationSpec) {
	part := func(at *field.Path, there, needed, allowed bool) {
		switch {
		case there && !allowed:
			f.Forbidden(at, "")
		case needed && !there:
			f.Required(at, "")
		}
	}
	limited := s.Type == flowcontrolv1.PriorityLevelEnablementLimited
	part(spec().Child("exempt"), s.Exempt != nil, false, s.Type == flowcontrolv1.PriorityLevelEnablementExempt)
	part(spec().Child("limited"), s.Limited != nil, limited, limited)
	part(spec().Child("type"), s.Type != "", true, true)
	if s.Limited == nil {
		return
	}
	r, at := &s.Limited.LimitResponse, spec().Child("limited", "limitResponse")
	queue := r.Type == flowcontrolv1.LimitResponseTypeQueue
	part(at.Child("queuing"), r.Queuing != nil, queue, queue)
	part(at.Child("type"), r.Type != "", true, true)
}

// checkMandatory keeps the two levels that requests fall back on as they are; how much the exempt
// one lends may change.
func checkMandatory(f *typed.Errors, l *flowcontrolv1.PriorityLevelConfiguration) {
	for _, m := range bootstrap.MandatoryPriorityLevelConfigurations {
		if m.Name != l.Name {
			continue
		}
		want, text := m.Spec.DeepCopy(), "spec of '%s' must equal the fixed value"
		if l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			want.Exempt, text = l.Spec.Exempt,
				"spec of '%s' except the 'spec.exempt' field must equal the fixed value"
		}
		if !apiequality.Semantic.DeepEqual(*want, l.Spec) {
			f.Invalid(spec(), typed.GoFields(l.Spec), fmt.Sprintf(text, l.Name))
		}
	}
}

func checkShares(f *typed.Errors, shares, lend *int32, p *field.Path) {
	const all = 100
	if shares != nil && *shares < 0 {
		f.Invalid(p.Child("nominalConcurrencyShares"), *shares, "must be a non-negative integer")
	}
	if lend != nil && (*lend < 0 || *lend > all) {
		f.Invalid(p.Child("lendablePercent"), *lend, "must be between 0 and 100, inclusive")
	}
}

func checkLimited(f *typed.Errors, l *flowcontrolv1.LimitedPriorityLevelConfiguration, p *field.Path) {
	checkShares(f, l.NominalConcurrencyShares, nil, p)
	switch r, at := &l.LimitResponse, p.Child("limitResponse"); {
	case r.Type == flowcontrolv1.LimitResponseTypeQueue && r.Queuing != nil:
		checkQueuing(f, r.Queuing, at.Child("queuing"))
	case r.Type != "":
		typed.Supported(f, at.Child("type"), r.Type, flowcontrolv1.LimitResponseTypeQueue,
			flowcontrolv1.LimitResponseTypeReject)
	}
	checkShares(f, nil, l.LendablePercent, p)
	if b := l.BorrowingLimitPercent; b != nil && *b < 0 {
		f.Invalid(p.Child("borrowingLimitPercent"), *b, "if specified, must be a non-negative integer")
	}
}

func checkQueuing(f *typed.Errors, q *flowcontrolv1.QueuingConfiguration, p *field.Path) {
	for _, x := range []struct {
		child string
		n     int32
	}{{"queueLengthLimit", q.QueueLengthLimit}, {"queues", q.Queues}, {"handSize", q.HandSize}} {
		if x.n <= 0 {
			f.Invalid(p.Child(x.child), x.n, "must be positive")
		}
	}
	f.NotGreater(p.Child("queues"), q.Queues, maxQueues, fmt.Sprintf("must not be greater than %d", maxQueues))
	if q.HandSize > q.Queues {
		f.Invalid(p.Child("handSize"), q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues))
	} else if q.HandSize > 0 {
		if bits := shufflesharding.RequiredEntropyBits(int(q.Queues), int(q.HandSize)); bits >
			shufflesharding.MaxHashBits {
			f.Invalid(p.Child("handSize"), q.HandSize,
				fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d",
					q.Queues, q.HandSize, shufflesharding.MaxHashBits))
		}
	}
}

func checkLevelStatus(l, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	return checkConditionTypes(l.Status.Conditions,
		func(c flowcontrolv1.PriorityLevelConfigurationCondition) string { return string(c.Type) })
}

// checkConditionTypes wants each condition to have a type, and each type once.
func checkConditionTypes[T any](conditions []T, typeOf func(T) string) field.ErrorList {
	var f typed.Errors
	seen := map[string]bool{}
	for i, c := range conditions {
		at := field.NewPath("status", "conditions").Index(i).Child("type")
		kind := typeOf(c)
		if seen[kind] {
			f.Add(field.Duplicate(at, kind))
		}
		seen[kind] = true
		if kind == "" {
			f.Required(at, "")
		}
	}
	return f.List()
}

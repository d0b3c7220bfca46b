// Package flowcontrol holds the rows of flowcontrol.apiserver.k8s.io/v1: FlowSchema and
// PriorityLevelConfiguration. In: nothing. Out: rows for apiserver.Kinds, with v1.37's defaults,
// checks and columns, and the objects every cluster has (the library's). The library's controller
// reads them when priority and fairness is switched on.
package flowcontrol

import (
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind {
	return []resourcedef.Kind{flowSchemas(), priorityLevelConfigurations()}
}

func newKind(resource, kindName string, t resourcedef.Types) resourcedef.Kind {
	t.HasStatus, t.StatusResetFields = true, []string{"metadata"}
	return resourcedef.Kind{
		Group: flowcontrolv1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName),
		Kind: kindName, Types: t,
	}
}

// keepMetadata keeps all metadata at a status update, where other kinds let finalizers change.
func keepMetadata(now, previous *metav1.ObjectMeta) {
	managed := now.ManagedFields
	*now = *previous.DeepCopy()
	now.ManagedFields = managed
}

func spec() *field.Path { return field.NewPath("spec") }

func flowSchemas() resourcedef.Kind {
	k := newKind("flowschemas", "FlowSchema", typed.NewTypes[flowcontrolv1.FlowSchema, flowcontrolv1.FlowSchemaList]())
	k.Rules = typed.Rules[flowcontrolv1.FlowSchema]{
		Default: func(s *flowcontrolv1.FlowSchema) {
			const middle = 1000
			if s.Spec.MatchingPrecedence == 0 {
				s.Spec.MatchingPrecedence = middle
			}
		},
		PrepareForStatusUpdate: func(s, old *flowcontrolv1.FlowSchema) {
			keepMetadata(&s.ObjectMeta, &old.ObjectMeta)
		},
		Validate:                 checkSchema,
		ValidateStatus:           checkSchemaStatus,
		AllowUnconditionalUpdate: true,
	}.Untyped()
	doc := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(),
			printers.StringColumn("PriorityLevel",
				flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
			printers.StringColumn("MatchingPrecedence", doc["matchingPrecedence"]),
			printers.StringColumn("DistinguisherMethod", doc["distinguisherMethod"]),
			printers.AgeColumn(),
			printers.StringColumn("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
		},
		Row: typed.RowFunc(func(s *flowcontrolv1.FlowSchema, o resourcedef.RowOptions) []any {
			method, missing := "<none>", "?"
			if m := s.Spec.DistinguisherMethod; m != nil {
				method = string(m.Type)
			}
			for _, c := range s.Status.Conditions {
				if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
					missing = string(c.Status)
				}
			}
			return []any{s.Name, s.Spec.PriorityLevelConfiguration.Name, int64(s.Spec.MatchingPrecedence), method,
				printers.TimestampSince(s.CreationTimestamp, o.Now), missing}
		}),
	}
	return k
}

func priorityLevelConfigurations() resourcedef.Kind {
	k := newKind("prioritylevelconfigurations",
		"PriorityLevelConfiguration", typed.NewTypes[flowcontrolv1.PriorityLevelConfiguration,
			flowcontrolv1.PriorityLevelConfigurationList]())
	k.Rules = typed.Rules[flowcontrolv1.PriorityLevelConfiguration]{Default: defaultLevel, Validate: checkLevel,
		ValidateStatus: checkLevelStatus, AllowUnconditionalUpdate: true,
		PrepareForStatusUpdate: func(l, old *flowcontrolv1.PriorityLevelConfiguration) {
			keepMetadata(&l.ObjectMeta, &old.ObjectMeta)
		}}.Untyped()
	limited, queuing := flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc(),
		flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(),
			printers.StringColumn("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
			printers.StringColumn("NominalConcurrencyShares", limited["nominalConcurrencyShares"]),
			printers.StringColumn("Queues", queuing["queues"]),
			printers.StringColumn("HandSize", queuing["handSize"]),
			printers.StringColumn("QueueLengthLimit", queuing["queueLengthLimit"]), printers.AgeColumn(),
		},
		Row: typed.RowFunc(levelRow),
	}
	return k
}

func levelRow(l *flowcontrolv1.PriorityLevelConfiguration, o resourcedef.RowOptions) []any {
	var shares, queues, hand, length any = "<none>", "<none>", "<none>", "<none>"
	if x := l.Spec.Limited; x != nil {
		shares = typed.Deref(x.NominalConcurrencyShares)
		if q := x.LimitResponse.Queuing; q != nil {
			queues, hand, length = q.Queues, q.HandSize, q.QueueLengthLimit
		}
	}
	return []any{l.Name, string(l.Spec.Type), shares, queues, hand, length,
		printers.TimestampSince(l.CreationTimestamp, o.Now)}
}

func defaultLevel(l *flowcontrolv1.PriorityLevelConfiguration) {
	if e := l.Spec.Exempt; e != nil {
		typed.SetDefault(&e.NominalConcurrencyShares, 0)
		typed.SetDefault(&e.LendablePercent, 0)
	}
	x := l.Spec.Limited
	if x == nil {
		return
	}
	const shares = 30
	typed.SetDefault(&x.NominalConcurrencyShares, shares)
	typed.SetDefault(&x.LendablePercent, 0)
	if q := x.LimitResponse.Queuing; q != nil {
		const queues, hand, length = 64, 8, 50
		numberOrNone(&q.Queues, queues)
		numberOrNone(&q.HandSize, hand)
		numberOrNone(&q.QueueLengthLimit, length)
	}
}

func numberOrNone(p *int32, v int32) {
	if *p == 0 {
		*p = v
	}
}

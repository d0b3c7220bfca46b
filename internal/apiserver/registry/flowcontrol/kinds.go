// Package flowcontrol holds the rows of flowcontrol.apiserver.k8s.io/v1: FlowSchema and PriorityLevelConfiguration.
//
// Chapter 1, written.
// In: nothing. Out: rows for apiserver.Kinds, with v1.37's defaults, checks and columns, and the objects every cluster has (the library's). The
// library's controller reads them when priority and fairness is switched on.
package flowcontrol

import (
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

// Kinds are the rows of this package.
func Kinds() []kind.Kind { return []kind.Kind{schemas(), levels()} }

func names(resource, kindName string, t kind.Types) kind.Kind {
	t.HasStatus = true
	return kind.Kind{
		Group: flowcontrolv1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName), Kind: kindName, Types: t,
	}
}

func spec() *field.Path { return field.NewPath("spec") }

func schemas() kind.Kind {
	k := names("flowschemas", "FlowSchema", row.Types[flowcontrolv1.FlowSchema, flowcontrolv1.FlowSchemaList]())
	k.Rules = row.Rules[flowcontrolv1.FlowSchema]{
		Default: func(s *flowcontrolv1.FlowSchema) {
			const middle = 1000
			if s.Spec.MatchingPrecedence == 0 {
				s.Spec.MatchingPrecedence = middle
			}
		},
		Check:         checkSchema,
		CheckStatus:   checkSchemaStatus,
		Unconditional: true,
	}.Rules()
	doc := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
			column.Def("MatchingPrecedence", doc["matchingPrecedence"]), column.Def("DistinguisherMethod", doc["distinguisherMethod"]),
			column.Age(), column.Def("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
		},
		Row: row.Cells(func(s *flowcontrolv1.FlowSchema, o kind.RowOptions) []any {
			method, missing := "<none>", "?"
			if m := s.Spec.DistinguisherMethod; m != nil {
				method = string(m.Type)
			}
			for _, c := range s.Status.Conditions {
				if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
					missing = string(c.Status)
				}
			}
			return []any{s.Name, s.Spec.PriorityLevelConfiguration.Name, int64(s.Spec.MatchingPrecedence), method, column.Since(s.CreationTimestamp, o.Now), missing}
		}),
	}
	return k
}

func levels() kind.Kind {
	k := names("prioritylevelconfigurations", "PriorityLevelConfiguration", row.Types[flowcontrolv1.PriorityLevelConfiguration, flowcontrolv1.PriorityLevelConfigurationList]())
	k.Rules = row.Rules[flowcontrolv1.PriorityLevelConfiguration]{Default: defaultLevel, Check: checkLevel, CheckStatus: checkLevelStatus, Unconditional: true}.Rules()
	limited, queuing := flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc(), flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
			column.Def("NominalConcurrencyShares", limited["nominalConcurrencyShares"]), column.Def("Queues", queuing["queues"]),
			column.Def("HandSize", queuing["handSize"]), column.Def("QueueLengthLimit", queuing["queueLengthLimit"]), column.Age(),
		},
		Row: row.Cells(levelRow),
	}
	return k
}

func levelRow(l *flowcontrolv1.PriorityLevelConfiguration, o kind.RowOptions) []any {
	var shares, queues, hand, length any = "<none>", "<none>", "<none>", "<none>"
	if x := l.Spec.Limited; x != nil {
		shares = row.Value(x.NominalConcurrencyShares)
		if q := x.LimitResponse.Queuing; q != nil {
			queues, hand, length = q.Queues, q.HandSize, q.QueueLengthLimit
		}
	}
	return []any{l.Name, string(l.Spec.Type), shares, queues, hand, length, column.Since(l.CreationTimestamp, o.Now)}
}

func defaultLevel(l *flowcontrolv1.PriorityLevelConfiguration) {
	if e := l.Spec.Exempt; e != nil {
		row.OrElse(&e.NominalConcurrencyShares, 0)
		row.OrElse(&e.LendablePercent, 0)
	}
	x := l.Spec.Limited
	if x == nil {
		return
	}
	const shares = 30
	row.OrElse(&x.NominalConcurrencyShares, shares)
	row.OrElse(&x.LendablePercent, 0)
	if q := x.LimitResponse.Queuing; q != nil {
		const queues, hand, length = 64, 8, 50
		orNumber(&q.Queues, queues)
		orNumber(&q.HandSize, hand)
		orNumber(&q.QueueLengthLimit, length)
	}
}

func orNumber(p *int32, v int32) {
	if *p == 0 {
		*p = v
	}
}

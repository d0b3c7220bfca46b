package core

import (
	"context"
	"net"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// The kind is deprecated for those who write clients, not for who serves them.
type (
	oldEndpoints     = v1.Endpoints      //nolint:staticcheck // served as upstream does
	oldEndpointsList = v1.EndpointsList  //nolint:staticcheck // served as upstream does
	oldSubset        = v1.EndpointSubset //nolint:staticcheck // served as upstream does
)

func endpoints() kind.Kind {
	t := types[oldEndpoints, oldEndpointsList]()
	t.NoGenerate = true
	return kind.Kind{
		Version: "v1", Resource: "endpoints", Singular: "endpoints", Kind: "Endpoints",
		Names: kind.Names{Short: []string{"ep"}},
		Types: t,
		Rules: kind.Rules{
			Default:  func(o runtime.Object) { defaultEndpoints(o.(*oldEndpoints)) },
			Validate: func(_ context.Context, o runtime.Object) field.ErrorList { return validateEndpoints(o.(*oldEndpoints)) },
			ValidateUpdate: func(_ context.Context, o, _ runtime.Object) field.ErrorList {
				return validateEndpoints(o.(*oldEndpoints))
			},
			AllowCreateOnUpdate:      true,
			AllowUnconditionalUpdate: true,
		},
		Table: kind.Table{
			Columns: []metav1.TableColumnDefinition{column.Name(), column.Def("Endpoints", oldEndpoints{}.SwaggerDoc()["subsets"]), column.Age()},
			Row: row(func(e *oldEndpoints, opt kind.RowOptions) []any {
				const shown = 3
				return []any{e.Name, column.Few(endpointTexts(e), shown), column.Since(e.CreationTimestamp, opt.Now)}
			}),
		},
	}
}

func defaultEndpoints(e *oldEndpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			if e.Subsets[i].Ports[j].Protocol == "" {
				e.Subsets[i].Ports[j].Protocol = v1.ProtocolTCP
			}
		}
	}
}

// endpointTexts are the ready addresses, each with each port of its subset.
func endpointTexts(e *oldEndpoints) []string {
	var out []string
	for _, s := range e.Subsets {
		if len(s.Ports) == 0 {
			for _, a := range s.Addresses {
				out = append(out, a.IP)
			}
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				out = append(out, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	return out
}

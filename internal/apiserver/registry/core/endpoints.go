package core

import (
	"net"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// The kind is deprecated for those who write clients, not for who serves them.
type (
	endpointsV1     = v1.Endpoints      //nolint:staticcheck // served as upstream does
	endpointsListV1 = v1.EndpointsList  //nolint:staticcheck // served as upstream does
	endpointSubset  = v1.EndpointSubset //nolint:staticcheck // served as upstream does
)

func endpoints() resourcedef.Kind {
	t := typed.NewNamespacedTypes[endpointsV1, endpointsListV1]()
	t.NoGenerate = true
	return resourcedef.Kind{
		Version: "v1", Resource: "endpoints", Singular: "endpoints", Kind: "Endpoints",
		Names: resourcedef.Names{Short: []string{"ep"}},
		Types: t,
		Rules: typed.Rules[endpointsV1]{
			Default:                  defaultEndpoints,
			Validate:                 validateEndpoints,
			Warn:                     warnEndpoints,
			AllowCreateOnUpdate:      true,
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{printers.NameColumn(),
				printers.StringColumn("Endpoints", endpointsV1{}.SwaggerDoc()["subsets"]), printers.AgeColumn()},
			Row: typed.RowFunc(func(e *endpointsV1, opt resourcedef.RowOptions) []any {
				const shown = 3
				return []any{e.Name, printers.JoinLimited(endpointsCell(e), shown),
					printers.TimestampSince(e.CreationTimestamp, opt.Now)}
			}),
		},
	}
}

func defaultEndpoints(e *endpointsV1) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			if e.Subsets[i].Ports[j].Protocol == "" {
				e.Subsets[i].Ports[j].Protocol = v1.ProtocolTCP
			}
		}
	}
}

// endpointsCell are the ready addresses, each with each port of its subset.
func endpointsCell(e *endpointsV1) []string {
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

// warnEndpoints returns the warnings about deprecated forms of addresses, unless the controller
// wrote them.
func warnEndpoints(e *endpointsV1) []string {
	if e.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil
	}
	var out []string
	add := func(list []v1.EndpointAddress, path *field.Path) {
		for i := range list {
			out = append(out, validation.GetWarningsForIP(path.Index(i).Child("ip"), list[i].IP)...)
		}
	}
	for i := range e.Subsets {
		path := field.NewPath("subsets").Index(i)
		add(e.Subsets[i].Addresses, path.Child("addresses"))
		add(e.Subsets[i].NotReadyAddresses, path.Child("notReadyAddresses"))
	}
	return out
}

package plain

import (
	"fmt"
	"sort"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Discovery are the rows of discovery.k8s.io/v1.
func Discovery() []kind.Kind {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	k := kind.Kind{
		Group: discoveryv1.GroupName, Version: "v1", Resource: "endpointslices", Singular: "endpointslice", Kind: "EndpointSlice",
		Types: types[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](),
		Rules: kind.Rules{
			Default:                  func(o runtime.Object) { defaultSlice(o.(*discoveryv1.EndpointSlice)) },
			AllowUnconditionalUpdate: true,
		},
	}
	k.Types.Namespaced = true
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("AddressType", doc["addressType"]), column.Def("Ports", doc["ports"]), column.Def("Endpoints", doc["endpoints"]), column.Age(),
		},
		Row: row(func(s *discoveryv1.EndpointSlice, o kind.RowOptions) []any {
			return []any{s.Name, string(s.AddressType), slicePorts(s.Ports), sliceAddresses(s.Endpoints), column.Since(s.CreationTimestamp, o.Now)}
		}),
	}
	return []kind.Kind{k}
}

func defaultSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		orElse(&s.Ports[i].Name, "")
		orElse(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func slicePorts(ports []discoveryv1.EndpointPort) string {
	if len(ports) == 0 {
		return "<unset>"
	}
	var out []string
	for i, p := range ports {
		switch {
		case i >= 3:
			return fmt.Sprintf("%s + %d more...", column.Few(out, 3), len(ports)-i)
		case p.Name != nil && *p.Name != "" && p.Port == nil:
			out = append(out, *p.Name)
		case p.Port == nil:
			out = append(out, "*")
		default:
			out = append(out, strconv.Itoa(int(*p.Port)))
		}
	}
	sort.Strings(out)
	return column.Few(out, 3)
}

func sliceAddresses(endpoints []discoveryv1.Endpoint) string {
	if len(endpoints) == 0 {
		return "<unset>"
	}
	var out []string
	for _, e := range endpoints {
		out = append(out, e.Addresses...)
	}
	return column.Few(out, 3)
}

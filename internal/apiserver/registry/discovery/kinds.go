// Package discovery holds the row of discovery.k8s.io/v1: EndpointSlice.
// In: nothing. Out: rows for apiserver.Kinds, with v1.37's defaults, checks and columns.
package discovery

import (
	"cmp"
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind { return []resourcedef.Kind{endpointSlices()} }

func endpointSlices() resourcedef.Kind {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return resourcedef.Kind{
		Group: discoveryv1.GroupName, Version: "v1", Resource: "endpointslices", Singular: "endpointslice",
		Kind:  "EndpointSlice",
		Types: typed.NewNamespacedTypes[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](),
		Rules: typed.Rules[discoveryv1.EndpointSlice]{
			Default:                  defaultSlice,
			PrepareForCreate:         func(_ context.Context, s *discoveryv1.EndpointSlice) { dropTopology(s, nil) },
			PrepareForUpdate:         prepareUpdate,
			Validate:                 check,
			Warn:                     warn,
			WarnUpdate:               func(s, _ *discoveryv1.EndpointSlice) []string { return warnAddresses(s) },
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{
				printers.NameColumn(), printers.StringColumn("AddressType", doc["addressType"]),
				printers.StringColumn("Ports", doc["ports"]), printers.StringColumn("Endpoints", doc["endpoints"]),
				printers.AgeColumn(),
			},
			Row: typed.RowFunc(func(s *discoveryv1.EndpointSlice, o resourcedef.RowOptions) []any {
				return []any{s.Name, string(s.AddressType), portCell(s.Ports), addressCell(s.Endpoints),
					printers.TimestampSince(s.CreationTimestamp, o.Now)}
			}),
		},
	}
}

// prepareUpdate counts changes of labels and endpoints in the generation, also those of topologies
// that dropTopology takes back; the strategy counts those of other content.
func prepareUpdate(s, old *discoveryv1.EndpointSlice) {
	if !apiequality.Semantic.DeepEqual(s.Labels, old.Labels) ||
		!apiequality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
		s.Generation = old.Generation + 1
	}
	dropTopology(s, old)
}

func defaultSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		typed.SetDefault(&s.Ports[i].Name, "")
		typed.SetDefault(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// dropTopology takes out deprecatedTopology, which nobody writes by v1, unless no endpoint is
// changed. A node that was named by it there stays the endpoint's node. old is nil at creation.
func dropTopology(s, old *discoveryv1.EndpointSlice) {
	nodes := sets.New[string]()
	if old != nil {
		if apiequality.Semantic.DeepEqual(old.Endpoints, s.Endpoints) {
			return
		}
		for i := range old.Endpoints {
			nodes.Insert(old.Endpoints[i].DeprecatedTopology[corev1.LabelHostname])
		}
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		node := e.DeprecatedTopology[corev1.LabelHostname]
		if e.NodeName == nil && nodes.Has(node) && len(validation.IsDNS1123Subdomain(node)) == 0 {
			e.NodeName = &node
		}
		e.DeprecatedTopology = nil
	}
}

func warn(s *discoveryv1.EndpointSlice) []string {
	var out []string
	if s.AddressType == discoveryv1.AddressTypeFQDN {
		out = append(out, field.NewPath("spec", "addressType").String()+": FQDN endpoints are deprecated")
	}
	return append(out, warnAddresses(s)...)
}

// warnAddresses returns the warnings about deprecated forms of addresses, unless a controller wrote
// them.
func warnAddresses(s *discoveryv1.EndpointSlice) []string {
	switch s.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return nil
	}
	var out []string
	for i, e := range s.Endpoints {
		for k, a := range e.Addresses {
			out = append(out,
				validation.GetWarningsForIP(field.NewPath("endpoints").Index(i).Child("addresses").Index(k), a)...)
		}
	}
	return out
}

// maxShownCells is how many ports and addresses a cell has room for.
const maxShownCells = 3

func portCell(ports []discoveryv1.EndpointPort) string {
	if len(ports) == 0 {
		return "<unset>"
	}
	var out []string
	for _, p := range ports {
		switch {
		case p.Name != nil && p.Port == nil:
			out = append(out, *p.Name)
		case p.Port == nil:
			out = append(out, "*")
		default:
			out = append(out, strconv.Itoa(int(*p.Port)))
		}
	}
	return cmp.Or(printers.JoinLimited(out, maxShownCells), "<unset>")
}

func addressCell(endpoints []discoveryv1.Endpoint) string {
	if len(endpoints) == 0 {
		return "<unset>"
	}
	var out []string
	for _, e := range endpoints {
		out = append(out, e.Addresses...)
	}
	if len(out) == 0 {
		return "<unset>"
	}
	return cmp.Or(printers.JoinLimited(out, maxShownCells), "<unset>")
}

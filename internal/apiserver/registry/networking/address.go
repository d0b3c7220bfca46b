package networking

import (
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

func addresses() kind.Kind {
	k := names("ipaddresses", "IPAddress", row.Types[networkingv1.IPAddress, networkingv1.IPAddressList](), "ip")
	k.Types.NoGenerate = true
	k.Rules = row.Rules[networkingv1.IPAddress]{
		Name: func(name string, _ bool) []string {
			if a, err := netip.ParseAddr(name); err != nil {
				return []string{err.Error()}
			} else if a.String() != name {
				return []string{"must be a canonical format IP address"}
			}
			return nil
		},
		Check:         checkAddress,
		Unconditional: true,
	}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Def("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"])},
		Row: row.Cells(func(a *networkingv1.IPAddress, o kind.RowOptions) []any {
			parent := "<none>"
			if r := a.Spec.ParentRef; r != nil {
				parent = r.Resource
				if r.Group != "" {
					parent += "." + r.Group
				}
				if r.Namespace != "" {
					parent += "/" + r.Namespace
				}
				parent += "/" + r.Name
			}
			return []any{a.Name, parent, column.Since(a.CreationTimestamp, o.Now)} // one cell more than columns, as upstream
		}),
	}
	return k
}

func checkAddress(a, was *networkingv1.IPAddress) field.ErrorList {
	var f row.Findings
	p := spec().Child("parentRef")
	if was != nil {
		f.SameUnshown(p, a.Spec.ParentRef, was.Spec.ParentRef)
		return f.List()
	}
	r := a.Spec.ParentRef
	if r == nil {
		f.Required(p, "")
		return f.List()
	}
	if r.Group != "" {
		f.Subdomain(p.Child("group"), r.Group)
	}
	for _, x := range []struct {
		child, value string
		needed       bool
	}{{"resource", r.Resource, true}, {"name", r.Name, true}, {"namespace", r.Namespace, false}} {
		if x.value != "" {
			f.Each(p.Child(x.child), x.value, content.IsPathSegmentName(x.value))
		} else if x.needed {
			f.Required(p.Child(x.child), "")
		}
	}
	return f.List()
}

func serviceCIDRs() kind.Kind {
	k := names("servicecidrs", "ServiceCIDR", row.Types[networkingv1.ServiceCIDR, networkingv1.ServiceCIDRList]())
	k.Types.HasStatus, k.Types.NoGenerate = true, true
	k.Rules = row.Rules[networkingv1.ServiceCIDR]{Check: checkServiceCIDR, Unconditional: true}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Def("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]), column.Age()},
		Row: row.Cells(func(c *networkingv1.ServiceCIDR, o kind.RowOptions) []any {
			const shown = 2
			return []any{c.Name, column.Few(c.Spec.CIDRs, shown), column.Since(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func checkServiceCIDR(c, was *networkingv1.ServiceCIDR) field.ErrorList {
	var f row.Findings
	p := spec().Child("cidrs")
	if was != nil {
		checkServiceCIDRUpdate(&f, c, was)
		return f.List()
	}
	const most = 2 // one per address family
	switch n := len(c.Spec.CIDRs); {
	case n == 0:
		f.Required(p, "at least one CIDR required")
		return f.List()
	case n > most:
		f.Add(field.TooMany(p, n, most))
		return f.List()
	}
	families := map[bool]bool{}
	for i, text := range c.Spec.CIDRs {
		f.Add(validation.IsValidCIDR(p.Index(i), text)...)
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		if families[prefix.Addr().Is4()] {
			f.Invalid(p, c.Spec.CIDRs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96")
		}
		families[prefix.Addr().Is4()] = true
		if prefix.Masked() != prefix {
			f.Invalid(p.Index(i), text, "must not have bits set beyond the prefix length")
		}
	}
	return f.List()
}

// checkServiceCIDRUpdate keeps the ranges as they are, but that a second address family may come.
func checkServiceCIDRUpdate(f *row.Findings, c, was *networkingv1.ServiceCIDR) {
	p := spec().Child("cidrs")
	for i, old := range was.Spec.CIDRs {
		if i >= len(c.Spec.CIDRs) {
			f.Invalid(p, c.Spec.CIDRs, "field is immutable")
			return
		}
		f.Same(p.Index(i), c.Spec.CIDRs[i], old)
	}
	if len(was.Spec.CIDRs) == len(c.Spec.CIDRs) {
		return
	}
	fresh := c.DeepCopy()
	f.Add(checkServiceCIDR(fresh, nil)...)
}

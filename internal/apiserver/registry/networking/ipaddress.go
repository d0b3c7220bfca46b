package networking

import (
	"net/netip"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func addresses() resourcedef.Kind {
	k := newKind("ipaddresses", "IPAddress", typed.NewTypes[networkingv1.IPAddress, networkingv1.IPAddressList](), "ip")
	k.Types.NoGenerate = true
	k.Rules = typed.Rules[networkingv1.IPAddress]{
		ValidateName: func(name string, _ bool) []string {
			var out []string
			for _, e := range validation.IsValidIP(nil, name) {
				out = append(out, e.Detail)
			}
			return out
		},
		Validate:                 checkAddress,
		AllowUnconditionalUpdate: true,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{printers.NameColumn(),
			printers.StringColumn("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"])},
		Row: typed.RowFunc(func(a *networkingv1.IPAddress, o resourcedef.RowOptions) []any {
			parent := "<none>"
			if r := a.Spec.ParentRef; r != nil {
				parent = strings.ToLower(schema.GroupResource{Group: r.Group, Resource: r.Resource}.String())
				if r.Namespace != "" {
					parent += "/" + r.Namespace
				}
				parent += "/" + r.Name
			}
			// one cell more than columns, as upstream
			return []any{a.Name, parent, printers.TimestampSince(a.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func checkAddress(a, previous *networkingv1.IPAddress) field.ErrorList {
	var f typed.Errors
	p := spec().Child("parentRef")
	if r := a.Spec.ParentRef; r != nil {
		checkParent(&f, r, p)
	} else {
		f.Required(p, "")
	}
	if previous != nil {
		f.ImmutableWithoutValue(p, a.Spec.ParentRef, previous.Spec.ParentRef)
	}
	return f.List()
}

func checkParent(f *typed.Errors, r *networkingv1.ParentReference, p *field.Path) {
	if r.Group != "" {
		f.DNSSubdomain(p.Child("group"), r.Group)
	}
	for _, x := range []struct {
		child, value string
		needed       bool
	}{{"resource", r.Resource, true}, {"name", r.Name, true}, {"namespace", r.Namespace, false}} {
		if x.value != "" {
			f.InvalidEach(p.Child(x.child), x.value, content.IsPathSegmentName(x.value))
		} else if x.needed {
			f.Required(p.Child(x.child), "")
		}
	}
}

func serviceCIDRs() resourcedef.Kind {
	k := newKind("servicecidrs",
		"ServiceCIDR", typed.NewTypes[networkingv1.ServiceCIDR, networkingv1.ServiceCIDRList]())
	k.Types.HasStatus, k.Types.NoGenerate = true, true
	k.Types.StatusResetFields = []string{"metadata"}
	k.Rules = typed.Rules[networkingv1.ServiceCIDR]{Validate: checkServiceCIDR,
		AllowUnconditionalUpdate: true}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{printers.NameColumn(),
			printers.StringColumn("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]), printers.AgeColumn()},
		Row: typed.RowFunc(func(c *networkingv1.ServiceCIDR, o resourcedef.RowOptions) []any {
			const shown = 2
			return []any{c.Name, printers.JoinLimited(c.Spec.CIDRs, shown),
				printers.TimestampSince(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func checkServiceCIDR(c, previous *networkingv1.ServiceCIDR) field.ErrorList {
	var f typed.Errors
	p := spec().Child("cidrs")
	if previous != nil {
		checkServiceCIDRUpdate(&f, c, previous)
		return f.List()
	}
	const most = 2 // one per address family
	switch n := len(c.Spec.CIDRs); {
	case n == 0:
		f.Required(p, "at least one CIDR required")
		return f.List()
	case n > most:
		f.Invalid(p, typed.GoFields(c.Spec), "may only hold up to 2 values")
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
			f.Invalid(p, c.Spec.CIDRs,
				"may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64")
		}
		families[prefix.Addr().Is4()] = true
		if prefix.Masked() != prefix {
			f.Invalid(p.Index(i), text, "must not have bits set beyond the prefix length")
		}
	}
	return f.List()
}

// checkServiceCIDRUpdate keeps the ranges as they are, but that a second address family may come.
func checkServiceCIDRUpdate(f *typed.Errors, c, previous *networkingv1.ServiceCIDR) {
	p := spec().Child("cidrs")
	for i, old := range previous.Spec.CIDRs {
		if i >= len(c.Spec.CIDRs) {
			f.Invalid(p, c.Spec.CIDRs, "field is immutable")
			return
		}
		f.Immutable(p.Index(i), c.Spec.CIDRs[i], old)
	}
	if len(previous.Spec.CIDRs) == len(c.Spec.CIDRs) {
		return
	}
	fresh := c.DeepCopy()
	f.Add(checkServiceCIDR(fresh, nil)...)
}

package networking

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func networkPolicies() resourcedef.Kind {
	k := newKind("networkpolicies", "NetworkPolicy", typed.NewNamespacedTypes[networkingv1.NetworkPolicy,
		networkingv1.NetworkPolicyList](), "netpol")
	k.Rules = typed.Rules[networkingv1.NetworkPolicy]{
		Default: defaultPolicy,
		PrepareForUpdate: func(p, old *networkingv1.NetworkPolicy) {
			// a null that becomes empty counts
			if !reflect.DeepEqual(p.Spec, old.Spec) {
				p.Generation = old.Generation + 1
			}
		},
		Validate:                 checkPolicy,
		Warn:                     warnPolicy,
		AllowUnconditionalUpdate: true,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{printers.NameColumn(),
			printers.StringColumn("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]),
			printers.AgeColumn()},
		Row: typed.RowFunc(func(p *networkingv1.NetworkPolicy, o resourcedef.RowOptions) []any {
			return []any{p.Name, printers.FormatLabelSelector(&p.Spec.PodSelector),
				printers.TimestampSince(p.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func defaultPolicy(p *networkingv1.NetworkPolicy) {
	eachPort(&p.Spec, func(port *networkingv1.NetworkPolicyPort, _ *field.Path) {
		typed.SetDefault(&port.Protocol, corev1.ProtocolTCP)
	})
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
}

// policyRule is what rules of both directions have: ports, and peers at a path.
type policyRule struct {
	ports []networkingv1.NetworkPolicyPort
	peers []networkingv1.NetworkPolicyPeer
	path  *field.Path
	child string // of the peers
}

// policyRules returns the rules of both directions, ingress first.
func policyRules(s *networkingv1.NetworkPolicySpec) (out []policyRule) {
	for i := range s.Ingress {
		r := &s.Ingress[i]
		out = append(out, policyRule{r.Ports, r.From, spec().Child("ingress").Index(i), "from"})
	}
	for i := range s.Egress {
		r := &s.Egress[i]
		out = append(out, policyRule{r.Ports, r.To, spec().Child("egress").Index(i), "to"})
	}
	return out
}

// eachPort visits the ports of all rules.
func eachPort(s *networkingv1.NetworkPolicySpec, f func(*networkingv1.NetworkPolicyPort, *field.Path)) {
	for _, r := range policyRules(s) {
		r.eachPort(f)
	}
}

func (r *policyRule) eachPort(f func(*networkingv1.NetworkPolicyPort, *field.Path)) {
	for i := range r.ports {
		f(&r.ports[i], r.path.Child("ports").Index(i))
	}
}

// eachPeer visits the other ends of all rules.
func eachPeer(s *networkingv1.NetworkPolicySpec, f func(*networkingv1.NetworkPolicyPeer, *field.Path)) {
	for _, r := range policyRules(s) {
		r.eachPeer(f)
	}
}

func (r *policyRule) eachPeer(f func(*networkingv1.NetworkPolicyPeer, *field.Path)) {
	for i := range r.peers {
		f(&r.peers[i], r.path.Child(r.child).Index(i))
	}
}

func warnPolicy(p *networkingv1.NetworkPolicy) []string {
	var out []string
	eachPeer(&p.Spec, func(peer *networkingv1.NetworkPolicyPeer, path *field.Path) {
		if b := peer.IPBlock; b != nil {
			out = append(out, validation.GetWarningsForCIDR(path.Child("ipBlock", "cidr"), b.CIDR)...)
			for i, e := range b.Except {
				out = append(out, validation.GetWarningsForCIDR(path.Child("ipBlock", "except").Index(i), e)...)
			}
		}
	})
	return out
}

func checkPolicy(p, previous *networkingv1.NetworkPolicy) field.ErrorList {
	var f typed.Errors
	s := &p.Spec
	f.LabelSelector(spec().Child("podSelector"), &s.PodSelector)
	stored := storedBlocks(previous)
	for _, r := range policyRules(s) {
		r.eachPort(func(port *networkingv1.NetworkPolicyPort, path *field.Path) { checkPort(&f, port, path) })
		r.eachPeer(func(peer *networkingv1.NetworkPolicyPeer, path *field.Path) { checkPeer(&f, peer, path, stored) })
	}
	const directions = 2
	types := spec().Child("policyTypes")
	if len(s.PolicyTypes) > directions {
		f.Invalid(types, s.PolicyTypes, "may not specify more than two policyTypes")
		return f.List()
	}
	for i, t := range s.PolicyTypes {
		typed.Supported(&f, types.Index(i), t, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	}
	return f.List()
}

// storedBlocks are the address ranges of the stored policy, which stay fine whatever they look
// like.
func storedBlocks(previous *networkingv1.NetworkPolicy) []string {
	if previous == nil {
		return nil
	}
	var out []string
	eachPeer(&previous.Spec, func(peer *networkingv1.NetworkPolicyPeer, _ *field.Path) {
		if b := peer.IPBlock; b != nil {
			out = append(append(out, b.CIDR), b.Except...)
		}
	})
	return out
}

func checkPort(f *typed.Errors, p *networkingv1.NetworkPolicyPort, path *field.Path) {
	if p.Protocol != nil {
		typed.Supported(f, path.Child("protocol"), *p.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP,
			corev1.ProtocolSCTP)
	}
	port, end := path.Child("port"), path.Child("endPort")
	switch n := p.Port; {
	case n == nil:
		if p.EndPort != nil {
			f.Invalid(end, *p.EndPort, "may not be specified when `port` is not specified")
		}
	case n.Type == intstr.Int:
		f.InvalidEach(port, n.IntVal, validation.IsValidPortNum(int(n.IntVal)))
		if p.EndPort != nil {
			if *p.EndPort < n.IntVal {
				f.Invalid(end, *p.EndPort, "must be greater than or equal to `port`")
			}
			f.InvalidEach(end, *p.EndPort, validation.IsValidPortNum(int(*p.EndPort)))
		}
	default:
		if p.EndPort != nil {
			f.Invalid(end, *p.EndPort, "may not be specified when `port` is non-numeric")
		}
		f.InvalidEach(port, n.StrVal, validation.IsValidPortName(n.StrVal))
	}
}

func checkPeer(f *typed.Errors, p *networkingv1.NetworkPolicyPeer, path *field.Path, stored []string) {
	f.LabelSelector(path.Child("podSelector"), p.PodSelector)
	f.LabelSelector(path.Child("namespaceSelector"), p.NamespaceSelector)
	selects := p.PodSelector != nil || p.NamespaceSelector != nil
	if p.IPBlock != nil {
		checkBlock(f, p.IPBlock, path.Child("ipBlock"), stored)
	}
	switch {
	case !selects && p.IPBlock == nil:
		f.Required(path, "must specify a peer")
	case selects && p.IPBlock != nil:
		f.Forbidden(path, "may not specify both ipBlock and another peer")
	}
}

func checkBlock(f *typed.Errors, b *networkingv1.IPBlock, path *field.Path, stored []string) {
	if b.CIDR == "" {
		f.Required(path.Child("cidr"), "")
		return
	}
	f.Add(validation.IsValidCIDRForLegacyField(path.Child("cidr"), b.CIDR, true, stored)...)
	_, whole, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return
	}
	bits, _ := whole.Mask.Size()
	for i, e := range b.Except {
		at := path.Child("except").Index(i)
		f.Add(validation.IsValidCIDRForLegacyField(at, e, true, stored)...)
		_, part, err := netutils.ParseCIDRSloppy(e)
		if err != nil {
			continue
		}
		if n, _ := part.Mask.Size(); bits >= n || !whole.Contains(part.IP) {
			f.Invalid(at, e, "must be a strict subset of `cidr`")
		}
	}
}

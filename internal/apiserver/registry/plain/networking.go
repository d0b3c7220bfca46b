package plain

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Networking are the rows of networking.k8s.io/v1.
func Networking() []kind.Kind { return []kind.Kind{networkPolicies(), ingresses(), ingressClasses()} }

func networkPolicies() kind.Kind {
	k := kind.Kind{
		Group: networkingv1.GroupName, Version: "v1", Resource: "networkpolicies", Singular: "networkpolicy", Kind: "NetworkPolicy",
		Names: kind.Names{Short: []string{"netpol"}},
		Types: types[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](),
		Rules: kind.Rules{
			Default:                  func(o runtime.Object) { defaultNetworkPolicy(o.(*networkingv1.NetworkPolicy)) },
			AllowUnconditionalUpdate: true,
		},
	}
	k.Types.Namespaced = true
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Def("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]), column.Age()},
		Row: row(func(p *networkingv1.NetworkPolicy, o kind.RowOptions) []any {
			return []any{p.Name, column.Selector(&p.Spec.PodSelector), column.Since(p.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func defaultNetworkPolicy(p *networkingv1.NetworkPolicy) {
	ports := func(list []networkingv1.NetworkPolicyPort) {
		for i := range list {
			orElse(&list[i].Protocol, corev1.ProtocolTCP)
		}
	}
	for i := range p.Spec.Ingress {
		ports(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		ports(p.Spec.Egress[i].Ports)
	}
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
}

func ingresses() kind.Kind {
	k := kind.Kind{
		Group: networkingv1.GroupName, Version: "v1", Resource: "ingresses", Singular: "ingress", Kind: "Ingress",
		Names: kind.Names{Short: []string{"ing"}},
		Types: types[networkingv1.Ingress, networkingv1.IngressList](),
		Rules: kind.Rules{AllowUnconditionalUpdate: true},
	}
	k.Types.Namespaced, k.Types.HasStatus = true, true
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Class", "The name of the IngressClass resource that should be used for additional configuration"),
			column.Def("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
			column.Def("Address", "Address is a list containing ingress points for the load-balancer"),
			column.Def("Ports", "Ports of TLS configurations that open"), column.Age(),
		},
		Row: row(ingressRow),
	}
	return k
}

func ingressRow(i *networkingv1.Ingress, o kind.RowOptions) []any {
	class, ports := "<none>", "80"
	if i.Spec.IngressClassName != nil {
		class = *i.Spec.IngressClassName
	}
	if len(i.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	var hosts []string
	for _, r := range i.Spec.Rules {
		if r.Host != "" {
			hosts = append(hosts, r.Host)
		}
	}
	list := "*"
	if len(hosts) > 0 {
		list = column.Few(hosts, 3)
	}
	points := sets.New[string]()
	for _, p := range i.Status.LoadBalancer.Ingress {
		switch {
		case p.IP != "":
			points.Insert(p.IP)
		case p.Hostname != "":
			points.Insert(p.Hostname)
		}
	}
	return []any{i.Name, class, list, strings.Join(sets.List(points), ","), ports, column.Since(i.CreationTimestamp, o.Now)}
}

func ingressClasses() kind.Kind {
	k := kind.Kind{
		Group: networkingv1.GroupName, Version: "v1", Resource: "ingressclasses", Singular: "ingressclass", Kind: "IngressClass",
		Types: types[networkingv1.IngressClass, networkingv1.IngressClassList](),
		Rules: kind.Rules{
			Default: func(o runtime.Object) {
				if p := o.(*networkingv1.IngressClass).Spec.Parameters; p != nil {
					orElse(&p.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
				}
			},
			AllowUnconditionalUpdate: true,
		},
	}
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Controller", "Controller that is responsible for handling this class"),
			column.Def("Parameters", "A reference to a resource with additional parameters"), column.Age(),
		},
		Row: row(func(c *networkingv1.IngressClass, o kind.RowOptions) []any {
			params := "<none>"
			if p := c.Spec.Parameters; p != nil {
				params = p.Kind
				if p.APIGroup != nil {
					params += "." + *p.APIGroup
				}
				params += "/" + p.Name
			}
			return []any{c.Name, c.Spec.Controller, params, column.Since(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

// oldClass named the class before there was a field for it.
const oldClass = "kubernetes.io/ingress.class"

func ingresses() kind.Kind {
	k := names("ingresses", "Ingress", row.InNamespace[networkingv1.Ingress, networkingv1.IngressList](), "ing")
	k.Types.HasStatus = true
	k.Rules = row.Rules[networkingv1.Ingress]{
		Check:       checkIngress,
		CheckStatus: checkIngressStatus,
		Warn: func(i *networkingv1.Ingress) []string {
			if _, ok := i.Annotations[oldClass]; ok {
				return []string{`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`}
			}
			return nil
		},
		Unconditional: true,
	}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Class", "The name of the IngressClass resource that should be used for additional configuration"),
			column.Def("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
			column.Def("Address", "Address is a list containing ingress points for the load-balancer"),
			column.Def("Ports", "Ports of TLS configurations that open"), column.Age(),
		},
		Row: row.Cells(ingressRow),
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
		const shown = 3
		list = column.Few(hosts, shown)
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

func classes() kind.Kind {
	k := names("ingressclasses", "IngressClass", row.Types[networkingv1.IngressClass, networkingv1.IngressClassList]())
	k.Rules = row.Rules[networkingv1.IngressClass]{
		Default: func(c *networkingv1.IngressClass) {
			if p := c.Spec.Parameters; p != nil {
				row.OrElse(&p.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
			}
		},
		Check:         checkClass,
		Unconditional: true,
	}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Controller", "Controller that is responsible for handling this class"),
			column.Def("Parameters", "A reference to a resource with additional parameters"), column.Age(),
		},
		Row: row.Cells(func(c *networkingv1.IngressClass, o kind.RowOptions) []any {
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

// longestController is the longest name of a controller.
const longestController = 250

func checkClass(c, was *networkingv1.IngressClass) field.ErrorList {
	var f row.Findings
	controller := spec().Child("controller")
	if was != nil {
		f.Same(controller, c.Spec.Controller, was.Spec.Controller)
	}
	if len(c.Spec.Controller) > longestController {
		f.Add(field.TooLong(controller, c.Spec.Controller, longestController))
	}
	f.Add(validation.IsDomainPrefixedPath(controller, c.Spec.Controller)...)
	p, path := c.Spec.Parameters, spec().Child("parameters")
	if p == nil {
		return f.List()
	}
	checkReference(&f, reference{p.APIGroup, p.Kind, p.Name}, path)
	scope, namespace := row.Value(p.Scope), path.Child("namespace")
	if p.Scope == nil {
		f.Required(path.Child("scope"), "")
		return f.List()
	}
	row.OneOf(&f, path.Child("scope"), scope, networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace)
	switch {
	case scope == networkingv1.IngressClassParametersReferenceScopeNamespace && row.Value(p.Namespace) == "":
		f.Required(namespace, "`parameters.scope` is set to 'Namespace'")
	case scope == networkingv1.IngressClassParametersReferenceScopeNamespace:
		f.Label(namespace, *p.Namespace)
	case scope == networkingv1.IngressClassParametersReferenceScopeCluster && p.Namespace != nil:
		f.Forbidden(namespace, "`parameters.scope` is set to 'Cluster'")
	}
	return f.List()
}

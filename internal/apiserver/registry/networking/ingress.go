package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// ingressClassAnnotation named the class before there was a field for it.
const ingressClassAnnotation = "kubernetes.io/ingress.class"

func ingresses() resourcedef.Kind {
	k := newKind("ingresses", "Ingress", typed.NewNamespacedTypes[networkingv1.Ingress, networkingv1.IngressList](),
		"ing")
	k.Types.HasStatus = true
	k.Rules = typed.Rules[networkingv1.Ingress]{
		Validate:       checkIngress,
		ValidateStatus: checkIngressStatus,
		Warn: func(i *networkingv1.Ingress) []string {
			if _, ok := i.Annotations[ingressClassAnnotation]; ok && i.Spec.IngressClassName == nil {
				return []string{
					`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' ` +
						`instead`}
			}
			return nil
		},
		WarnUpdate:               func(_, _ *networkingv1.Ingress) []string { return nil },
		AllowUnconditionalUpdate: true,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(),
			printers.StringColumn("Class",
				"The name of the IngressClass resource that should be used for additional configuration"),
			printers.StringColumn("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
			printers.StringColumn("Address", "Address is a list containing ingress points for the load-balancer"),
			printers.StringColumn("Ports", "Ports of TLS configurations that open"), printers.AgeColumn(),
		},
		Row: typed.RowFunc(ingressRow),
	}
	return k
}

func ingressRow(i *networkingv1.Ingress, o resourcedef.RowOptions) []any {
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
		list = printers.JoinLimited(hosts, shown)
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
	return []any{i.Name, class, list, strings.Join(sets.List(points), ","), ports,
		printers.TimestampSince(i.CreationTimestamp, o.Now)}
}

func ingressClasses() resourcedef.Kind {
	k := newKind("ingressclasses",
		"IngressClass", typed.NewTypes[networkingv1.IngressClass, networkingv1.IngressClassList]())
	k.Rules = typed.Rules[networkingv1.IngressClass]{
		Default: func(c *networkingv1.IngressClass) {
			if p := c.Spec.Parameters; p != nil {
				typed.SetDefault(&p.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
			}
		},
		Validate:                 checkClass,
		AllowUnconditionalUpdate: true,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(),
			printers.StringColumn("Controller", "Controller that is responsible for handling this class"),
			printers.StringColumn("Parameters", "A reference to a resource with additional parameters"),
			printers.AgeColumn(),
		},
		Row: typed.RowFunc(func(c *networkingv1.IngressClass, o resourcedef.RowOptions) []any {
			params := "<none>"
			if p := c.Spec.Parameters; p != nil {
				params = p.Kind
				if p.APIGroup != nil {
					params += "." + *p.APIGroup
				}
				params += "/" + p.Name
			}
			return []any{c.Name, c.Spec.Controller, params, printers.TimestampSince(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// maxControllerLength is the longest name of a controller.
const maxControllerLength = 250

func checkClass(c, previous *networkingv1.IngressClass) field.ErrorList {
	var f typed.Errors
	controller := spec().Child("controller")
	if previous != nil {
		f.Immutable(controller, c.Spec.Controller, previous.Spec.Controller)
	}
	if len(c.Spec.Controller) > maxControllerLength {
		f.Add(field.TooLong(controller, c.Spec.Controller, maxControllerLength))
	}
	f.Add(validation.IsDomainPrefixedPath(controller, c.Spec.Controller)...)
	p, path := c.Spec.Parameters, spec().Child("parameters")
	if p == nil {
		return f.List()
	}
	checkReference(&f, reference{p.APIGroup, p.Kind, p.Name}, path)
	scope, namespace := typed.Deref(p.Scope), path.Child("namespace")
	if p.Scope == nil {
		f.Required(path.Child("scope"), "")
		return f.List()
	}
	typed.Supported(&f, path.Child("scope"), scope, networkingv1.IngressClassParametersReferenceScopeCluster,
		networkingv1.IngressClassParametersReferenceScopeNamespace)
	switch {
	case scope == networkingv1.IngressClassParametersReferenceScopeNamespace && p.Namespace == nil:
		f.Required(namespace, "`parameters.scope` is set to 'Namespace'")
	case scope == networkingv1.IngressClassParametersReferenceScopeNamespace:
		f.DNSLabel(namespace, *p.Namespace)
	case scope == networkingv1.IngressClassParametersReferenceScopeCluster && p.Namespace != nil:
		f.Forbidden(namespace, "`parameters.scope` is set to 'Cluster'")
	}
	return f.List()
}

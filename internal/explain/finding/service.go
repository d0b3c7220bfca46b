package finding

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/pod"
)

// servicePort finds a Service's port that no container of its Pods has: by name, or by number where
// they declare their ports.
func servicePort(c *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*corev1.Service)
	if !ok || len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var out []Finding
	pods := selected(s.Spec.Selector, c.labelledPods(self.Namespace))
	for i, p := range s.Spec.Ports {
		names, numbers := c.portsOf(pods, p.Protocol)
		f := Finding{Code: "PortMissing", Stage: StageTraffic, Object: self,
			Field: fmt.Sprintf("spec.ports[%d].targetPort", i), Value: p.TargetPort.String()}
		patch := ""
		switch {
		case len(pods) == 0:
			continue
		case p.TargetPort.Type == intstr.String && p.TargetPort.StrVal != "":
			if slices.Contains(names, p.TargetPort.StrVal) {
				continue
			}
			var how string
			f.Want, how = Near(p.TargetPort.StrVal, names)
			if f.Want == "" && len(names) == 1 {
				f.Want = names[0]
			}
			f.Message = fmt.Sprintf("Port %d of Service %s goes to the port named %s, and no container of its Pods "+
				"names "+
				"a port so; they have %s.", p.Port, self.Name, p.TargetPort.StrVal, orNone(names, "no named port"))
			if how != "" {
				f.Message += fmt.Sprintf(" Perhaps %s was meant; %s.", f.Want, how)
			}
			patch = jsonText(f.Want)
		default:
			n := p.TargetPort.IntValue()
			if n == 0 {
				n = int(p.Port)
			}
			if len(numbers) == 0 || slices.Contains(numbers, fmt.Sprint(n)) {
				continue
			}
			f.Code, f.Severity, f.Value, f.Want = "PortUndeclared", Threat, fmt.Sprint(n), numbers[0]
			f.Message = fmt.Sprintf("Port %d of Service %s goes to port %d, and the containers of its Pods declare "+
				"%s only: nothing may listen on %d.", p.Port, self.Name, n, joined(numbers), n)
			patch = f.Want
		}
		if f.Want != "" {
			f.Remedies = []Remedy{{Say: "let targetPort be " + f.Want, Run: []string{kubectl(self, "patch",
				"--type=json -p "+shellquote.Quoted(fmt.Sprintf(
					`[{"op":"replace","path":"/spec/ports/%d/targetPort","value":%s}]`, i, patch)))}}}
		}
		out = append(out, f)
	}
	return out
}

// portsOf returns the names and numbers of ports that lasting containers declare.
func (c *Cluster) portsOf(pods []labelled, protocol corev1.Protocol) (names, numbers []string) {
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	for _, x := range pods {
		o := c.Get(x.object)
		if o == nil {
			continue
		}
		spec, _ := podSpecOf(o)
		if spec == nil {
			continue
		}
		for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
			for i := range list {
				if &list[0] != &spec.Containers[0] && !pod.IsSidecar(&list[i]) {
					continue
				}
				for _, p := range list[i].Ports {
					if p.Protocol != "" && p.Protocol != protocol {
						continue
					}
					if n := fmt.Sprint(p.ContainerPort); !slices.Contains(numbers, n) {
						numbers = append(numbers, n)
					}
					if p.Name != "" && !slices.Contains(names, p.Name) {
						names = append(names, p.Name)
					}
				}
			}
		}
	}
	slices.Sort(names)
	slices.Sort(numbers)
	return names, numbers
}

// endpointsBehind finds a Service without ready endpoints although Pods that it selects are ready.
func endpointsBehind(c *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*corev1.Service)
	if !ok || len(s.Spec.Selector) == 0 || !c.Read("EndpointSlice") || !c.Read("Pod") || !c.whole(self.Namespace) {
		return nil
	}
	var well, sick []string
	var ready []*corev1.Pod
	for _, p := range in[*corev1.Pod](c, "Pod", self.Namespace) {
		switch {
		case !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) || pod.IsTerminal(p):
		case pod.IsReady(p) && !reachable(p):
			return nil // such an address is no endpoint
		case pod.IsReady(p) && p.DeletionTimestamp == nil && c.Now.Sub(readySince(p)) > settleTime:
			well, ready = append(well, p.Name), append(ready, p)
		case !pod.IsReady(p):
			sick = append(sick, p.Name)
		}
	}
	if c.endpoints(self.Namespace, self.Name) > 0 {
		return nil
	}
	if f, other := otherFamily(s, self, ready); other {
		return []Finding{f}
	}
	if len(well) > 0 && len(servicePort(c, o, self)) == 0 {
		return []Finding{{Code: "EndpointsBehind", Stage: StageControl, Object: self, Field: "spec.selector",
			Value:   labels.Set(s.Spec.Selector).String(),
			Numbers: map[string]string{"readyPods": fmt.Sprint(len(well)), "readyEndpoints": "0"},
			Message: fmt.Sprintf("Service %s has no ready endpoints although %d of its Pods are ready (%s): no "+
				"controller writes its EndpointSlices.", self.Name, len(well), joined(well))}}
	}
	if len(well) == 0 && len(sick) > 0 {
		f := Finding{Code: "NoReadyPods", Stage: StageTraffic, Object: self, Field: "spec.selector",
			Value:   labels.Set(s.Spec.Selector).String(),
			Numbers: map[string]string{"pods": fmt.Sprint(len(sick)), "readyPods": "0"},
			Message: fmt.Sprintf("Service %s has no ready endpoints: of the %d Pods it selects none is ready (%s).",
				self.Name, len(sick), joined(sick))}
		if !slices.ContainsFunc(in[*corev1.Pod](c, "Pod", self.Namespace), func(p *corev1.Pod) bool {
			return slices.Contains(sick, p.Name) && !c.underWay(p)
		}) {
			f.Severity = Note
		}
		for _, name := range sick {
			f.Related = append(f.Related, Object{"Pod", self.Namespace, name})
		}
		return []Finding{f}
	}
	return nil
}

// underWay reports whether a Pod is young, and nothing has failed of it yet.
func (c *Cluster) underWay(p *corev1.Pod) bool {
	if c.Now.Sub(p.CreationTimestamp.Time) > 3*settleTime/2 || p.Status.Phase == corev1.PodFailed {
		return false
	}
	if cond := pod.Condition(p, corev1.PodScheduled); cond != nil && cond.Status == corev1.ConditionFalse {
		return false
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := s.State.Waiting
		if s.RestartCount > 0 || w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" ||
			s.State.Terminated != nil && s.State.Terminated.ExitCode != 0 {
			return false
		}
	}
	return true
}

// reachable reports whether other nodes reach a Pod's address.
func reachable(p *corev1.Pod) bool {
	ip, err := netip.ParseAddr(p.Status.PodIP)
	return err == nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast()
}

// readySince is when a Pod's condition Ready changed last.
func readySince(p *corev1.Pod) (at time.Time) {
	if c := pod.ReadyCondition(p); c != nil {
		return c.LastTransitionTime.Time
	}
	return at
}

// ingress finds an Ingress that nobody serves, and backends whose Service lacks the port.
func ingress(c *Cluster, o metav1.Object, self Object) []Finding {
	x, ok := o.(*networkingv1.Ingress)
	if !ok {
		return nil
	}
	var out []Finding
	if b := x.Spec.DefaultBackend; b != nil && b.Service != nil {
		if f, bad := c.backendPort(b.Service, self, "spec.defaultBackend.service.port"); bad {
			out = append(out, f)
		}
	}
	for i, r := range x.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for j, p := range r.HTTP.Paths {
			if p.Backend.Service == nil {
				continue
			}
			at := fmt.Sprintf("spec.rules[%d].http.paths[%d].backend.service.port", i, j)
			if f, bad := c.backendPort(p.Backend.Service, self, at); bad {
				out = append(out, f)
			}
		}
	}
	if len(x.Status.LoadBalancer.Ingress) == 0 && c.Now.Sub(x.CreationTimestamp.Time) > settleTime {
		f := Finding{Code: "IngressNotServed", Severity: Threat, Stage: StageControl, Object: self,
			Field: "spec.ingressClassName",
			Message: fmt.Sprintf("Nobody serves Ingress %s: its status has no address. Kubernetes has no controller "+
				"of its own for Ingresses; one has to be installed.", self.Name)}
		if n := x.Spec.IngressClassName; n != nil {
			f.Value = *n
		} else {
			c.classless(&f)
		}
		out = append(out, f)
	}
	return out
}

// classless adds to an Ingress that names no class which classes there are: a controller takes up
// those of its class, or of none if its class is the default.
func (c *Cluster) classless(f *Finding) {
	const isDefault = "ingressclass.kubernetes.io/is-default-class"
	have := c.names("IngressClass", "")
	if len(have) == 0 || slices.ContainsFunc(c.Objects["IngressClass"], func(o metav1.Object) bool {
		return o.GetAnnotations()[isDefault] == "true"
	}) {
		return
	}
	f.Message += fmt.Sprintf(" It names no class in spec.ingressClassName, and none of the classes (%s) is the "+
		"default: their controllers leave it alone.", joined(have))
	f.Remedies = []Remedy{{Say: "name the class of your controller in spec.ingressClassName"}}
	if len(have) == 1 {
		f.Want = have[0]
		f.Remedies[0].Run = []string{kubectl(f.Object, "patch", "--type=merge -p "+shellquote.Quoted(fmt.Sprintf(
			`{"spec":{"ingressClassName":%s}}`, jsonText(f.Want))))}
	}
}

// backendPort reports whether the Service of a backend lacks the port that is named.
func (c *Cluster) backendPort(b *networkingv1.IngressServiceBackend, self Object, at string) (Finding, bool) {
	s, ok := get[*corev1.Service](c, "Service", self.Namespace, b.Name)
	if !ok || s.Spec.Type == corev1.ServiceTypeExternalName && len(s.Spec.Ports) == 0 {
		return Finding{}, false // the port is asked of the host that it names
	}
	var have []string
	for _, p := range s.Spec.Ports {
		if p.Port == b.Port.Number || b.Port.Name != "" && p.Name == b.Port.Name {
			return Finding{}, false
		}
		if b.Port.Name != "" {
			have = append(have, p.Name)
		} else {
			have = append(have, fmt.Sprint(p.Port))
		}
	}
	want := b.Port.Name
	if want == "" {
		want = fmt.Sprint(b.Port.Number)
	}
	f := Finding{Code: "PortMissing", Stage: StageTraffic, Object: self, Field: at, Value: want,
		Related: []Object{objectOf("Service", s)},
		Message: fmt.Sprintf("Ingress %s goes to port %s of Service %s, which has no such port; it has %s.", self.Name,
			want, s.Name, orNone(have, "none"))}
	if f.Want, _ = Near(want, have); f.Want == "" && len(have) == 1 {
		f.Want = have[0]
	}
	last := map[bool]string{true: ".name", false: ".number"}[b.Port.Name != ""]
	if f.Want != "" {
		f.Remedies = []Remedy{{Say: fmt.Sprintf("go to port %s", f.Want), Run: c.setCommand(self, at+last,
			jsonNumber(f.Want))}}
	}
	return f, true
}

package finding

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/workload"
	nodeutil "github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/pod"
)

// serviceKind finds a Service that leads nowhere by its kind: without selector and endpoints, with
// another protocol than its Pods, a name outside that is none inside, a balancer nobody gives.
func serviceKind(c *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*corev1.Service)
	if !ok || !c.whole(self.Namespace) {
		return nil
	}
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return c.externalName(s, self)
	case len(s.Spec.Selector) == 0:
		return c.withoutSelector(s, self)
	}
	out := c.protocols(s, self)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 &&
		c.Now.Sub(s.CreationTimestamp.Time) > settleTime {
		f := Finding{Code: "LoadBalancerPending", Severity: Threat, Stage: StageControl, Object: self,
			Field: "spec.type", Value: "LoadBalancer", Message: fmt.Sprintf("Service %s wants a load balancer, and "+
				"nobody has given it one: status.loadBalancer has no address. Kubernetes has none of its own; one has "+
				"to be installed.", self.Name)}
		if k := s.Spec.LoadBalancerClass; k != nil {
			f.Field, f.Value = "spec.loadBalancerClass", *k
			f.Message += fmt.Sprintf(" It has to serve loadBalancerClass %s.", *k)
		}
		out = append(out, f)
	}
	return append(out, c.localTraffic(s, self)...)
}

// localTraffic finds traffic that is to stay on a node where some nodes have no Pod of the Service.
func (c *Cluster) localTraffic(s *corev1.Service, self Object) []Finding {
	field, kind := "spec.externalTrafficPolicy", "external"
	if s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		if p := s.Spec.InternalTrafficPolicy; p == nil || *p != corev1.ServiceInternalTrafficPolicyLocal {
			return nil
		}
		field, kind = "spec.internalTrafficPolicy", "internal"
	}
	on := map[string]bool{}
	for _, p := range in[*corev1.Pod](c, "Pod", s.Namespace) {
		if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) && pod.IsReady(p) {
			on[p.Spec.NodeName] = true
		}
	}
	var without []string
	nodes := 0
	for _, n := range list[*corev1.Node](c, "Node") {
		if nodeutil.NotReadyCondition(n) != nil {
			continue
		}
		if nodes++; !on[n.Name] {
			without = append(without, n.Name)
		}
	}
	if len(without) == 0 || s.Spec.HealthCheckNodePort != 0 && len(on) > 0 {
		return nil // a balancer that checks nodes leaves those out
	}
	return []Finding{{Code: "NoLocalEndpoints", Severity: Threat, Stage: StageTraffic, Object: self, Field: field,
		Value: "Local", Want: "Cluster", Numbers: map[string]string{"nodesWithout": fmt.Sprint(len(without)),
			"nodesWith": fmt.Sprint(nodes - len(without)), "nodes": fmt.Sprint(nodes)},
		Message: fmt.Sprintf("Service %s keeps %s traffic on its node (%s: Local), and of %d nodes %d have no ready "+
			"Pod of it (%s): connections there go nowhere.", self.Name, kind, field, nodes, len(without),
			joined(without)),
		Remedies: []Remedy{{Say: "let traffic go to any node: the client's address is then not seen",
			Run: []string{kubectl(self, "patch", fmt.Sprintf(`--type=merge -p '{"spec":{%q:"Cluster"}}'`,
				strings.TrimPrefix(field, "spec.")))}}}}}
}

// externalName finds a name of the cluster's own that no Service has.
func (c *Cluster) externalName(s *corev1.Service, self Object) []Finding {
	parts := strings.Split(s.Spec.ExternalName, ".")
	if len(parts) < 3 || parts[2] != "svc" {
		return nil
	}
	to := Object{"Service", parts[1], parts[0]}
	if !c.knows(to) || c.Get(to) != nil {
		return nil
	}
	r := Reference{Field: "spec.externalName", To: to, Stage: StageTraffic}
	f, _ := c.missing(r, self)
	f.Value = s.Spec.ExternalName
	if f.Want != "" {
		f.Want = strings.Join(append([]string{f.Want}, parts[1:]...), ".")
		f.Remedies = []Remedy{{Say: "let it be " + f.Want, Run: c.replaceCommand(self, "spec.externalName", f.Want)}}
	}
	return []Finding{f}
}

// withoutSelector finds a Service without selector for which nobody made endpoints.
func (c *Cluster) withoutSelector(s *corev1.Service, self Object) []Finding {
	if !c.Read("EndpointSlice") || c.Now.Sub(s.CreationTimestamp.Time) < settleTime || s.Name == "kubernetes" {
		return nil
	}
	var near []string
	for _, x := range in[*discoveryv1.EndpointSlice](c, "EndpointSlice", s.Namespace) {
		of := x.Labels[discoveryv1.LabelServiceName]
		if of == s.Name {
			return c.slicePorts(s, x, self)
		}
		if _, ok := get[*corev1.Service](c, "Service", s.Namespace, of); !ok && of != "" {
			near = append(near, of)
		}
	}
	f := Finding{Code: "NoSelector", Severity: Threat, Stage: StageTraffic, Object: self, Field: "spec.selector",
		Message: fmt.Sprintf("Service %s has no selector, and there is no EndpointSlice of it: it leads nowhere.",
			self.Name)}
	if name, how := Near(s.Name, near); name != "" {
		f.Want = name
		f.Message += fmt.Sprintf(" There is one for %s; %s.", name, how)
		for _, x := range in[*discoveryv1.EndpointSlice](c, "EndpointSlice", s.Namespace) {
			if x.Labels[discoveryv1.LabelServiceName] != name {
				continue
			}
			f.Related = append(f.Related, objectOf("EndpointSlice", x))
			f.Message += fmt.Sprintf(" EndpointSlice %s has the label %s=%s.", x.Name,
				discoveryv1.LabelServiceName, name)
			f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("let EndpointSlice %s be of %s", x.Name, s.Name),
				Run: []string{kubectl(objectOf("EndpointSlice", x), "label", "--overwrite "+
					discoveryv1.LabelServiceName+"="+s.Name)}})
		}
	}
	if f.Want == "" {
		c.unlabelledSlice(&f, s)
	}
	return []Finding{f}
}

// unlabelledSlice names an EndpointSlice that nobody's Service has and whose name says that it was
// meant for this one: a slice belongs to a Service by its label, whatever it is called.
func (c *Cluster) unlabelledSlice(f *Finding, s *corev1.Service) {
	for _, x := range in[*discoveryv1.EndpointSlice](c, "EndpointSlice", s.Namespace) {
		of := x.Labels[discoveryv1.LabelServiceName]
		if _, there := get[*corev1.Service](c, "Service", s.Namespace, of); there && of != "" ||
			x.Name != s.Name && !strings.HasPrefix(x.Name, s.Name+"-") {
			continue
		}
		at := objectOf("EndpointSlice", x)
		f.Severity, f.Object, f.Related = Broken, at, append(f.Related, objectOf("Service", s))
		f.Field, f.Value, f.Want = "metadata.labels["+discoveryv1.LabelServiceName+"]", of, s.Name
		f.Message += fmt.Sprintf(" EndpointSlice %s is named after it and lacks the label %s=%s, by which alone a "+
			"slice belongs to a Service.", x.Name, discoveryv1.LabelServiceName, s.Name)
		f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("let EndpointSlice %s be of Service %s", x.Name,
			s.Name),
			Run: []string{kubectl(at, "label", "--overwrite "+discoveryv1.LabelServiceName+"="+s.Name)}})
		return
	}
}

// slicePorts compares a Service's ports with those of an EndpointSlice that somebody made.
func (c *Cluster) slicePorts(s *corev1.Service, x *discoveryv1.EndpointSlice, self Object) []Finding {
	var have []string
	for _, p := range x.Ports {
		if p.Name != nil {
			have = append(have, *p.Name)
		} else {
			have = append(have, "")
		}
	}
	var out []Finding
	for i, p := range s.Spec.Ports {
		if slices.Contains(have, p.Name) || len(have) == 0 {
			continue
		}
		f := Finding{Code: "PortMissing", Stage: StageTraffic, Object: self, Field: fmt.Sprintf("spec.ports[%d].name",
			i), Value: p.Name, Related: []Object{objectOf("EndpointSlice", x)}, Message: fmt.Sprintf("Port %q of "+
			"Service %s is none of EndpointSlice %s, which has %q: names must be "+
			"equal.", p.Name, self.Name, x.Name, have)}
		f.Want, _ = Near(p.Name, have)
		out = append(out, f)
	}
	return out
}

// protocols finds ports that the Pods have for another protocol alone.
func (c *Cluster) protocols(s *corev1.Service, self Object) []Finding {
	var out []Finding
	pods := selected(s.Spec.Selector, c.labelledPods(self.Namespace))
	for i, p := range s.Spec.Ports {
		target := p.TargetPort.String()
		if p.TargetPort == intstr.FromInt32(0) || target == "" {
			target = fmt.Sprint(p.Port)
		}
		own := p.Protocol
		if own == "" {
			own = corev1.ProtocolTCP
		}
		names, numbers := c.portsOf(pods, own)
		if slices.Contains(slices.Concat(names, numbers), target) {
			continue
		}
		for _, other := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
			names, numbers = c.portsOf(pods, other)
			if other == own || !slices.Contains(slices.Concat(names, numbers), target) {
				continue
			}
			f := Finding{Code: "ProtocolDiffers", Stage: StageTraffic, Object: self,
				Field: fmt.Sprintf("spec.ports[%d].protocol", i), Value: string(own), Want: string(other),
				Message: fmt.Sprintf("Port %d of Service %s is for %s, and its Pods have port %s for %s.", p.Port,
					self.Name, own, target, other)}
			f.setTo(c, jsonText(string(other)))
			out = append(out, f)
		}
	}
	return out
}

// governing compares a StatefulSet's Service with its Pods: it must select them and have no
// address.
func governing(c *Cluster, o metav1.Object, self Object) []Finding {
	x, ok := o.(*appsv1.StatefulSet)
	if !ok {
		return nil
	}
	s, ok := get[*corev1.Service](c, "Service", x.Namespace, x.Spec.ServiceName)
	if !ok {
		return nil
	}
	own := x.Spec.Template.Labels
	if len(s.Spec.Selector) > 0 && !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(own)) {
		f := Finding{Code: "GoverningServiceElsewhere", Severity: Threat, Stage: StageTraffic,
			Object: objectOf("Service", s), Field: "spec.selector", Value: labels.Set(s.Spec.Selector).String(),
			Related: []Object{self}, Message: fmt.Sprintf("Service %s of StatefulSet %s (spec.serviceName) selects "+
				"%s, and its Pods have other labels: their names are not resolved.", s.Name, self.Name,
				labels.Set(s.Spec.Selector))}
		if d, near := nearestLabels(s.Spec.Selector, []labelled{{self, own}}); near {
			f.describe(d)
		}
		return []Finding{f}
	}
	if s.Spec.ClusterIP != corev1.ClusterIPNone {
		return []Finding{{Code: "GoverningServiceHasAddress", Severity: Note, Stage: StageTraffic,
			Object: objectOf("Service", s), Field: "spec.clusterIP", Value: s.Spec.ClusterIP, Want: "None",
			Related: []Object{self}, Message: fmt.Sprintf("Service %s of StatefulSet %s has an address: only a "+
				"headless one (clusterIP None) gives each Pod a name.", s.Name, self.Name)}}
	}
	return nil
}

// hostsOf finds hosts of an Ingress that its certificate is not for.
func hostsOf(c *Cluster, o metav1.Object, self Object) []Finding {
	x, ok := o.(*networkingv1.Ingress)
	if !ok {
		return nil
	}
	var out []Finding
	for i, t := range x.Spec.TLS {
		s, ok := get[*corev1.Secret](c, "Secret", x.Namespace, t.SecretName)
		if !ok {
			continue
		}
		block, _ := pem.Decode(s.Data[corev1.TLSCertKey])
		if block == nil {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		for j, h := range t.Hosts {
			if cert.VerifyHostname(h) == nil {
				continue
			}
			f := Finding{Code: "CertificateForOthers", Severity: Threat, Stage: StageTraffic, Object: self,
				Field: fmt.Sprintf("spec.tls[%d].hosts[%d]", i, j), Value: h, Related: []Object{objectOf("Secret", s)},
				Message: fmt.Sprintf("Ingress %s serves host %s with the certificate in Secret %s, which is for %s.",
					self.Name, h, s.Name, orNone(cert.DNSNames, "no host"))}
			f.Want, _ = Near(h, cert.DNSNames)
			out = append(out, f)
		}
	}
	return out
}

// selectorOf is the selector of a workload that chooses Pods by labels.
func selectorOf(o metav1.Object) *metav1.LabelSelector {
	if _, ok := o.(*appsv1.ReplicaSet); ok && metav1.GetControllerOf(o) != nil {
		return nil
	}
	return workload.FieldsOf(o).Selector
}

// overlap finds two workloads that select each other's Pods.
func overlap(c *Cluster, o metav1.Object, self Object) []Finding {
	mine := selectorOf(o)
	s, err := metav1.LabelSelectorAsSelector(mine)
	if mine == nil || err != nil {
		return nil
	}
	var out []Finding
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"} {
		for _, x := range in[metav1.Object](c, kind, self.Namespace) {
			if selectorOf(x) == nil || x.GetUID() == o.GetUID() && x.GetName() == self.Name ||
				!s.Matches(labels.Set(labelsOfPods(x))) {
				continue
			}
			out = append(out, Finding{Code: "SelectorsOverlap", Severity: Threat, Stage: StageControl, Object: self,
				Field: "spec.selector", Value: s.String(), Related: []Object{objectOf(kind, x)},
				Message: fmt.Sprintf("%s %s selects %s, which the Pods of %s %s have too: Services, budgets and "+
					"counts take them for one.", self.Kind, self.Name, s, kind, x.GetName())})
		}
	}
	return out
}

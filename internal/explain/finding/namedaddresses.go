package finding

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// How texts name an address: as a URL, and as a host with its port.
var (
	urlWords = regexp.MustCompile(`\b([a-z][a-z0-9+]*)://(?:[^\s/@'"]*@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)` +
		`(?::(\d{1,5}))?`)
	hostPortWords = regexp.MustCompile(`(?:^|[\s=,;@'"])([A-Za-z0-9][A-Za-z0-9.-]*):(\d{2,5})(?:$|[\s/,;?'"])`)
	// what is looked up, or asked with a port of its own word
	lookupWords = regexp.MustCompile(`\b(?:nslookup|getent hosts|dig|nc)\s+(?:-\S+\s+(?:\d+\s+)?)*` +
		`([A-Za-z0-9][A-Za-z0-9.-]*)(?:\s+(\d{2,5})\b)?`)
	hostVariable = regexp.MustCompile(`(^|_)(HOST|HOSTNAME|ADDR|ADDRESS|SERVER|ENDPOINT|URL|URI)$`)
	hostWord     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`)
)

// schemePorts are the ports of URLs that say none.
var schemePorts = map[string]int{"http": 80, "https": 443, "ws": 80, "wss": 443, "postgres": 5432, "postgresql": 5432,
	"mysql": 3306, "redis": 6379, "rediss": 6379, "amqp": 5672, "amqps": 5671, "mongodb": 27017, "nats": 4222,
	"kafka": 9092, "ldap": 389, "ldaps": 636, "smtp": 25, "ftp": 21, "memcached": 11211}

// namedAddress is an address in a container's command, arguments or variables.
type namedAddress struct {
	field string // path below the container
	host  string
	port  int // 0: not said
}

// configured are the texts that a container's variables take from ConfigMaps.
func (c *Cluster) configured(x *corev1.Container, ns string) []text {
	var out []text
	for i, e := range x.Env {
		if e.ValueFrom == nil || e.ValueFrom.ConfigMapKeyRef == nil {
			continue
		}
		r := e.ValueFrom.ConfigMapKeyRef
		if m, ok := get[*corev1.ConfigMap](c, "ConfigMap", ns, r.Name); ok {
			out = append(out, text{field: fmt.Sprintf("env[%d].valueFrom.configMapKeyRef", i), text: m.Data[r.Key]})
		}
	}
	for i, from := range x.EnvFrom {
		if from.ConfigMapRef == nil {
			continue
		}
		if m, ok := get[*corev1.ConfigMap](c, "ConfigMap", ns, from.ConfigMapRef.Name); ok {
			for _, k := range slices.Sorted(maps.Keys(m.Data)) {
				out = append(out, text{field: fmt.Sprintf("envFrom[%d].configMapRef", i), text: m.Data[k]})
			}
		}
	}
	return out
}

// expanded is a text with a container's own variables in it replaced.
func expanded(x *corev1.Container, s string) string {
	for _, e := range x.Env {
		s = strings.ReplaceAll(s, "$("+e.Name+")", e.Value)
	}
	return s
}

// fileEnds are ends of files, which a number may follow as it follows a host.
var fileEnds = []string{"yaml", "yml", "json", "conf", "cfg", "go", "py", "js", "sh", "txt", "log", "pem", "crt", "key",
	"sock", "xml", "properties", "html", "rb", "java", "c", "md"}

// addressesOf are the addresses that a container's texts name, each once.
func (c *Cluster) addressesOf(x *corev1.Container, ns string) []namedAddress {
	var out []namedAddress
	add := func(field, host string, port int) {
		host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
		if host != "" && !slices.ContainsFunc(out, func(a namedAddress) bool {
			return a.host == host && a.port == port
		}) {
			out = append(out, namedAddress{field, host, port})
		}
	}
	for _, t := range append(askingTexts(x), c.configured(x, ns)...) {
		t.text = expanded(x, t.text)
		rest := t.text
		for _, m := range urlWords.FindAllStringSubmatch(t.text, -1) {
			port, err := strconv.Atoi(m[3])
			if err != nil {
				port = schemePorts[m[1]]
			}
			add(t.field, m[2], port)
			rest = strings.Replace(rest, m[0], " ", 1)
		}
		for _, m := range hostPortWords.FindAllStringSubmatch(rest, -1) {
			if n, err := strconv.Atoi(m[2]); err == nil && strings.ContainsFunc(m[1], isLetterOrDot) &&
				!slices.Contains(fileEnds, strings.TrimPrefix(path.Ext(m[1]), ".")) {
				add(t.field, m[1], n)
			}
		}
		for _, m := range lookupWords.FindAllStringSubmatch(t.text, -1) {
			port, err := strconv.Atoi(m[2])
			if err != nil {
				port = 0
			}
			if strings.ContainsFunc(m[1], isLetterOrDot) {
				add(t.field, m[1], port)
			}
		}
	}
	for i, e := range x.Env {
		if hostVariable.MatchString(strings.ToUpper(e.Name)) && hostWord.MatchString(e.Value) &&
			strings.ContainsFunc(e.Value, isLetterOrDot) {
			add(fmt.Sprintf("env[%d].value", i), e.Value, portBeside(x, e.Name))
		}
	}
	return out
}

func isLetterOrDot(r rune) bool { return r == '.' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// portBeside is the number in the variable that says the port of a variable with a host: DB_PORT of
// DB_HOST; 0 where there is none.
func portBeside(x *corev1.Container, host string) int {
	at := strings.LastIndex(host, "_")
	for _, e := range x.Env {
		if at > 0 && strings.EqualFold(e.Name, host[:at]+"_PORT") {
			if n, err := strconv.Atoi(e.Value); err == nil {
				return n
			}
		}
	}
	return 0
}

// destination is who has an address, as far as it is known.
type destination struct {
	text      string            // as a sentence names it
	service   Object            // empty: none
	namespace string            // of its Pods; empty: no Pods have the address
	selector  map[string]string // of the Service
	pods      []labelled
	known     bool // pods are all that have it
	addr      netip.Addr
	ports     []corev1.ServicePort // of the Pods, as their Service names them; none: any
}

// destinationOf finds who has an address that an object of a namespace names; ok is false for the
// Pod itself, nodes, and names of which nothing is known.
func (c *Cluster) destinationOf(a namedAddress, ns string) (d destination, ok bool) {
	if addr, err := netip.ParseAddr(a.host); err == nil {
		return c.destinationAt(addr)
	}
	parts := strings.Split(a.host, ".")
	to := Object{"Service", ns, parts[0]}
	switch {
	case len(parts) >= 3 && parts[2] == "svc":
		to.Namespace = parts[1]
	case len(parts) == 2 && c.Get(Object{Kind: "Namespace", Name: parts[1]}) != nil:
		to.Namespace = parts[1]
	case len(parts) > 1 && parts[len(parts)-1] != "local" && parts[len(parts)-1] != "internal":
		return destination{text: a.host + ", a name outside the cluster"}, c.Read("Namespace")
	case len(parts) > 1:
		return d, false
	}
	s, found := get[*corev1.Service](c, "Service", to.Namespace, to.Name)
	if !found {
		other := to.Namespace != ns && c.Get(Object{Kind: "Namespace", Name: to.Namespace}) != nil && !c.knows(to)
		return destination{text: "Service " + to.Name + " of namespace " + to.Namespace, service: to,
			namespace: to.Namespace}, other
	}
	return c.behindService(s, a)
}

// behindService are the Pods of a Service; ok is false where they are not known by its selector, or
// it has no such port.
func (c *Cluster) behindService(s *corev1.Service, a namedAddress) (destination, bool) {
	d := destination{text: "Service " + s.Name, service: objectOf("Service", s), namespace: s.Namespace,
		selector: s.Spec.Selector}
	if len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName || !c.whole(s.Namespace) {
		return d, false
	}
	d.pods, d.known = selected(s.Spec.Selector, c.templates(s.Namespace)), true
	if len(d.pods) == 0 {
		d.pods = selected(s.Spec.Selector, c.labelledPods(s.Namespace))
	}
	for _, p := range s.Spec.Ports {
		if s.Spec.ClusterIP == corev1.ClusterIPNone && a.port != 0 {
			p.TargetPort = intstr.FromInt(a.port) // the port is asked of the Pods
		} else if a.port != 0 && int(p.Port) != a.port {
			continue
		}
		d.ports = append(d.ports, p)
	}
	return d, len(d.pods) > 0 && len(d.ports) > 0
}

// templates are the templates of a namespace's workloads, of which there are far fewer than Pods.
func (c *Cluster) templates(namespace string) []labelled {
	var out []labelled
	for _, kind := range workloadKinds {
		for _, o := range in[metav1.Object](c, kind, namespace) {
			if metav1.GetControllerOf(o) == nil {
				out = append(out, labelled{objectOf(kind, o), labelsOfPods(o)})
			}
		}
	}
	return out
}

// addressOf is the address of a Pod, or of one made from a template; not valid where there is none.
func (c *Cluster) addressOf(x labelled) netip.Addr {
	o := c.Get(x.object)
	p, ok := o.(*corev1.Pod)
	if !ok && o != nil {
		for _, p = range c.podsOf(o) {
			if p.Status.PodIP != "" {
				break
			}
		}
	}
	if p == nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(p.Status.PodIP)
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// destinationAt finds who has an IP address.
func (c *Cluster) destinationAt(addr netip.Addr) (destination, bool) {
	if addr.IsLoopback() || addr.IsUnspecified() || addr.IsLinkLocalUnicast() || addr.IsMulticast() {
		return destination{}, false
	}
	for _, n := range list[*corev1.Node](c, "Node") {
		if slices.ContainsFunc(n.Status.Addresses, func(x corev1.NodeAddress) bool {
			return x.Address == addr.String()
		}) {
			return destination{}, false
		}
	}
	for _, s := range list[*corev1.Service](c, "Service") {
		if s.Spec.ClusterIP == addr.String() {
			return c.behindService(s, namedAddress{})
		}
	}
	for _, p := range list[*corev1.Pod](c, "Pod") {
		if p.Status.PodIP == addr.String() {
			return destination{text: "Pod " + p.Name, namespace: p.Namespace, known: true, addr: addr,
				pods: []labelled{{objectOf("Pod", p), p.Labels}}}, true
		}
	}
	return destination{text: addr.String(), addr: addr}, true
}

// portNumbers are the ports of a Pod or template that a Service's port leads to; none where it has
// no port of that name.
func (c *Cluster) portNumbers(x labelled, p corev1.ServicePort) []int {
	switch {
	case p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal != 0:
		return []int{int(p.TargetPort.IntVal)}
	case p.TargetPort.StrVal == "":
		return []int{int(p.Port)}
	}
	return c.named(x, p.TargetPort.StrVal)
}

// named are the numbers of the ports of a name that a Pod's or template's containers have.
func (c *Cluster) named(x labelled, name string) []int {
	spec, _ := podSpecOf(c.Get(x.object))
	var out []int
	if spec == nil {
		return nil
	}
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			for _, p := range list[i].Ports {
				if p.Name == name {
					out = append(out, int(p.ContainerPort))
				}
			}
		}
	}
	return out
}

// namespaceMatches reports whether a selector selects a namespace, as far as its labels are known.
func (c *Cluster) namespaceMatches(s *metav1.LabelSelector, namespace string) bool {
	match, err := metav1.LabelSelectorAsSelector(s)
	n := c.Get(Object{Kind: "Namespace", Name: namespace})
	if err != nil {
		return false
	}
	return n == nil || match.Matches(labels.Set(n.GetLabels()))
}

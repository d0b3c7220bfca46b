package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// probeField is the field of a probe, below it, that its failure is about, with its content and
// what would do: the scheme, port, path, command or time.
func probeField(c *corev1.Container, p *corev1.Probe, words string, d probeDiagnosis) (field, value, want string) {
	low := strings.ToLower(words)
	late := strings.Contains(low, "deadline exceeded") || strings.Contains(low, "timeout") ||
		strings.Contains(low, "timed out")
	for _, f := range d.fixes {
		if rest, ok := strings.CutPrefix(f.Description, "probe port "); ok && want == "" {
			want, _, _ = strings.Cut(rest, " ")
		}
	}
	switch h := p.HTTPGet; {
	case d.otherHost:
		if h == nil {
			return ".tcpSocket.host", hostOf(p), ""
		}
		return ".httpGet.host", h.Host, ""
	case d.header != nil:
		return d.header.field(), d.header.value, d.header.want
	case p.GRPC != nil && strings.HasPrefix(d.text, "asks port"):
		return ".grpc.port", probePortText(p), want
	case p.GRPC != nil && p.GRPC.Service != nil && strings.HasPrefix(d.text, "asks for the health of service"):
		return ".grpc.service", *p.GRPC.Service, ""
	case late:
		return ".timeoutSeconds", fmt.Sprint(p.TimeoutSeconds), fmt.Sprint(5 * max(p.TimeoutSeconds, 1))
	case h != nil && (strings.Contains(low, "server gave http response to https") ||
		strings.Contains(low, "first record does not look like a tls handshake")):
		return ".httpGet.scheme", string(h.Scheme), "HTTP"
	case h != nil && (strings.Contains(low, "malformed http response") || strings.Contains(low,
		"http request to an https")):
		return ".httpGet.scheme", string(h.Scheme), "HTTPS"
	case h != nil && strings.Contains(low, "statuscode"):
		return ".httpGet.path", h.Path, ""
	case p.Exec != nil:
		return ".exec.command", strings.Join(p.Exec.Command, " "), ""
	}
	port := probePortText(p)
	switch {
	case p.HTTPGet != nil:
		return ".httpGet.port", port, want
	case p.TCPSocket != nil:
		return ".tcpSocket.port", port, want
	case p.GRPC != nil:
		return ".grpc.port", port, want
	}
	return "", c.Name, ""
}

// probePortText is a probe's port as it is written: a number or a name.
func probePortText(p *corev1.Probe) string {
	switch {
	case p.HTTPGet != nil:
		return p.HTTPGet.Port.String()
	case p.TCPSocket != nil:
		return p.TCPSocket.Port.String()
	case p.GRPC != nil:
		return strconv.Itoa(int(p.GRPC.Port))
	}
	return ""
}

// failsYet is how bad a failing probe is: before it has failed as often as its threshold says it
// may only be slow.
func failsYet(f journal.Probed, p *corev1.Probe) finding.Severity {
	if f.Result == "unknown" && programMissing(f.Message) {
		return finding.Broken // it is never counted, and never runs
	}
	if f.Count < int(max(p.FailureThreshold, 1)) {
		return finding.Note
	}
	return finding.Broken
}

// pathOf is the path of a container in its Pod.
func pathOf(p *corev1.Pod, c container) string {
	list, specs := "containers", p.Spec.Containers
	if c.init {
		list, specs = "initContainers", p.Spec.InitContainers
	}
	return fmt.Sprintf("spec.%s[%d]", list, slices.IndexFunc(specs,
		func(x corev1.Container) bool { return x.Name == c.spec.Name }))
}

// lateAnswer explains a probe that gets no answer in time.
func lateAnswer(in In, p *corev1.Probe, f journal.Probed, output string) probeDiagnosis {
	more := 5 * max(p.TimeoutSeconds, 1)
	d := probeDiagnosis{text: fmt.Sprintf("gets no answer within its timeout of %ds: %s", p.TimeoutSeconds, output),
		fixes: []Fix{editedProbe(in, f, fmt.Sprintf("give it longer: timeoutSeconds %d", more),
			func(x *corev1.Probe) { x.TimeoutSeconds = more })}}
	for _, c := range containers(in.Pod) {
		limit, ok := c.spec.Resources.Limits[corev1.ResourceCPU]
		if c.spec.Name != f.Container || !ok || limit.MilliValue() >= littleCPU {
			continue
		}
		d.text += fmt.Sprintf("; the container may use %s of a cpu (limits.cpu), and what answers the probe runs "+
			"within that", limit.String())
		d.fixes = append(d.fixes, editedContainer(in, f.Container, fmt.Sprintf("or let the container use more cpu: "+
			"limits.cpu %dm", 10*limit.MilliValue()), func(x *corev1.Container) {
			x.Resources.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(10*limit.MilliValue(),
				resource.DecimalSI)
		}))
	}
	return d
}

// littleCPU is a cpu limit, in thousandths, below which even a small program takes noticeably
// longer.
const littleCPU = 100

// portUnnamed explains a probe of a port name that the container does not have.
func portUnnamed(in In, c *corev1.Container, f journal.Probed, name string) probeDiagnosis {
	var names []string
	for _, p := range c.Ports {
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	have := "none with a name"
	if len(names) > 0 {
		have = joinList(names)
	}
	t := probeDiagnosis{text: fmt.Sprintf("asks the port named %s, and the container names no port so; it has %s", name,
		have)}
	near := nearestName(name, names)
	if near == "" && len(names) == 1 {
		near = names[0]
	}
	if near != "" {
		t.fixes = []Fix{editedProbe(in, f, "probe port "+near+" instead of "+name, func(x *corev1.Probe) {
			x.HTTPGet.Port = intstr.FromString(near)
		})}
	}
	return t
}

// otherScheme explains a probe that speaks HTTP to a program that speaks HTTPS, or the other way
// round.
func otherScheme(in In, f journal.Probed, port int, speaks corev1.URIScheme) probeDiagnosis {
	asks := corev1.URISchemeHTTPS
	if speaks == asks {
		asks = corev1.URISchemeHTTP
	}
	return probeDiagnosis{text: fmt.Sprintf("asks port %d by %s, and the program answers by %s", port, asks, speaks),
		fixes: []Fix{editedProbe(in, f, "ask by "+string(speaks)+": scheme "+string(speaks),
			func(x *corev1.Probe) { x.HTTPGet.Scheme = speaks })}}
}

// hostOf is the host that a probe asks instead of the Pod's address; empty: the Pod.
func hostOf(p *corev1.Probe) string {
	switch {
	case p.HTTPGet != nil:
		return p.HTTPGet.Host
	case p.TCPSocket != nil:
		return p.TCPSocket.Host
	}
	return ""
}

// asksOtherHost reports whether a probe names a host that is not the Pod's own address: in its
// node's network a Pod may be asked by any address of the node.
func asksOtherHost(pod *corev1.Pod, p *corev1.Probe) bool {
	host := hostOf(p)
	return host != "" && !pod.Spec.HostNetwork && host != pod.Status.PodIP
}

// otherHost explains a probe that asks another host than its Pod and does not reach it.
func otherHost(in In, f journal.Probed, output string) probeDiagnosis {
	var host string
	fix := editedProbe(in, f, "ask the Pod itself: without a host", func(x *corev1.Probe) {
		if host = hostOf(x); x.HTTPGet != nil {
			x.HTTPGet.Host = ""
		} else if x.TCPSocket != nil {
			x.TCPSocket.Host = ""
		}
	})
	whose := ""
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		whose = " (that is the node's own: the kubelet asks from the node)"
	}
	text := fmt.Sprintf("asks the host %s%s instead of the Pod, and does not reach it: %s", host, whose, output)
	return probeDiagnosis{otherHost: true, text: text, fixes: []Fix{fix}}
}

// noHealthService explains a gRPC probe of a port where nothing answers by gRPC, or not the health
// service: it cannot run, whatever the program's health is.
func noHealthService(in In, f journal.Probed, output string) probeDiagnosis {
	var port int32
	fix := editedProbe(in, f, "ask only whether the port is open (tcpSocket): what the program answers then counts no "+
		"more", func(x *corev1.Probe) {
		if x.GRPC != nil {
			port = x.GRPC.Port
			x.TCPSocket, x.GRPC = &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}, nil
		}
	})
	return probeDiagnosis{text: fmt.Sprintf("asks port %d by gRPC, and the health service (grpc.health.v1.Health) "+
		"does not answer there: %s", port, output), fixes: append([]Fix{fix},
		textFixes("or let the program serve grpc.health.v1.Health on that port")...)}
}

// probeKillFinding turns a container's finding into one about the probe for which it is stopped.
func probeKillFinding(in In, c container, k probeKill, f *finding.Finding) {
	f.Code, f.Field = "KilledByProbe", f.Field+"."+k.probe.Probe+"Probe"
	p := probeOf(c.spec, k.probe.Probe)
	if p == nil {
		return
	}
	f.Numbers["periodSeconds"], f.Numbers["failureThreshold"] = fmt.Sprint(p.PeriodSeconds),
		fmt.Sprint(p.FailureThreshold)
	f.Numbers["timeoutSeconds"] = fmt.Sprint(p.TimeoutSeconds)
	d := diagnoseProbe(in, c.spec, withSockets(in, k.probe))
	field, value, want := probeField(c.spec, p, k.probe.Message, d)
	f.Field, f.Value, f.Want = f.Field+field, value, want
	f.Message += fmt.Sprintf(" Its %s probe %s.", k.probe.Probe, d.text)
}

// unnamedPort is the name of a port that a probe asks and that its container does not declare; ok
// is false where there is no such thing.
func unnamedPort(c *corev1.Container, p *corev1.Probe) (name string, ok bool) {
	if p == nil || p.Exec != nil || p.GRPC != nil {
		return "", false
	}
	port := intstr.IntOrString{}
	switch {
	case p.HTTPGet != nil:
		port = p.HTTPGet.Port
	case p.TCPSocket != nil:
		port = p.TCPSocket.Port
	}
	n, _ := probePort(c, p)
	return port.StrVal, port.Type == intstr.String && n == 0
}

// unknownGRPCService explains a gRPC probe for a service of which the program's health service does
// not know.
func unknownGRPCService(in In, f journal.Probed, output string) probeDiagnosis {
	service := ""
	fix := editedProbe(in, f, "ask how the whole program is: without a service", func(x *corev1.Probe) {
		if x.GRPC != nil && x.GRPC.Service != nil {
			service, x.GRPC.Service = *x.GRPC.Service, nil
		}
	})
	text := fmt.Sprintf("asks for the health of service %q (grpc.service), of which the program does not know: %s",
		service, output)
	return probeDiagnosis{text: text, neverRight: true, fixes: append([]Fix{fix},
		textFixes("or name a service that the program reports, letter by letter")...)}
}

package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

func initContainersRunning(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	n, done := len(in.Pod.Spec.InitContainers), 0
	for _, c := range containers(in.Pod) {
		if !c.init || c.status == nil {
			continue
		}
		sidecar := pod.IsSidecar(c.spec)
		switch {
		case c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode == 0,
			sidecar && c.status.Started != nil && *c.status.Started:
			done++
		case c.status.State.Running != nil:
			a := &Answer{State: fmt.Sprintf("Init:%d/%d", done, n), Since: c.status.State.Running.StartedAt.Time}
			if sidecar && probePending(a, in, c, fmt.Sprintf("%s (%d of %d) runs but has not started", c.title(),
				done+1, n)) {
				a.Cause += c.blockedContainers(in)
				return a
			}
			a.Cause = fmt.Sprintf("%s (%d of %d) runs.%s", c.title(), done+1, n, c.blockedContainers(in))
			if !sidecar {
				initWaitsFor(a, in, c)
				saysNow(a, in, c)
			}
			a.Fixes = append(a.Fixes, logsOf(in, c.spec.Name))
			return a
		}
	}
	return nil
}

// hostPort is an address in a command line.
type hostPort struct {
	host string
	port int // 0: no port
}

var (
	addressPattern = regexp.MustCompile(
		`(?:https?://|tcp://|^|[\s=@"'/])(\[::1\]|[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?):(\d{2,5})\b`)
	ncPattern     = regexp.MustCompile(`\bnc\s+(?:-\S+\s+(?:\d+\s+)?)*([A-Za-z0-9_.:-]+)\s+(\d{2,5})\b`)
	devTCPPattern = regexp.MustCompile(`/dev/tcp/([A-Za-z0-9_.-]+)/(\d{2,5})\b`)
	lookupPattern = regexp.MustCompile(
		`\b(?:nslookup|getent hosts|dig|host)\s+(?:-\S+\s+)*([A-Za-z0-9_][A-Za-z0-9_.-]*)`)
	fetchPattern = regexp.MustCompile(`https?://([A-Za-z0-9_][A-Za-z0-9_.-]*)(?:[/\s"']|$)`)
)

// hostPortsIn returns the addresses in a container's command line and environment.
func hostPortsIn(c *corev1.Container) []hostPort {
	text := commandLine(c)
	for _, e := range c.Env {
		text += " " + e.Value
		text = strings.NewReplacer("$("+e.Name+")", e.Value, "${"+e.Name+"}", e.Value, "$"+e.Name,
			e.Value).Replace(text)
	}
	var out []hostPort
	add := func(host string, port int) {
		if d := (hostPort{host, port}); !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	for _, re := range []*regexp.Regexp{addressPattern, ncPattern, devTCPPattern} {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			if n, err := strconv.Atoi(m[2]); err == nil {
				add(strings.Trim(m[1], "[]"), n)
			}
		}
	}
	for _, m := range fetchPattern.FindAllStringSubmatch(text, -1) {
		port := 80
		if strings.Contains(m[0], "https:") {
			port = 443
		}
		add(m[1], port)
	}
	for _, m := range lookupPattern.FindAllStringSubmatch(text, -1) {
		add(m[1], 0)
	}
	return out
}

// initWaitsFor looks in an init container's command line for what it waits for: a later container,
// or a Service.
func initWaitsFor(a *Answer, in In, c container) {
	for _, d := range hostPortsIn(c.spec) {
		if d.host == "127.0.0.1" || d.host == "localhost" || d.host == "::1" {
			if initDeadlock(a, in, c, d) {
				return
			}
			continue
		}
		if name, full, ok := serviceName(d.host, in.Ref.Namespace); ok && dependencyFailed(a, in,
			serviceDependency{d, name, full, c}) {
			return
		}
		if packetFails(a, in, c, d) {
			return
		}
	}
	fileDeadlock(a, in, c)
}

// initDeadlock explains an init container that waits for a container which only starts after it.
func initDeadlock(a *Answer, in In, c container, d hostPort) bool {
	spec := &in.Pod.Spec
	at := slices.IndexFunc(spec.InitContainers, func(x corev1.Container) bool { return x.Name == c.spec.Name })
	for i := at + 1; i < len(spec.InitContainers); i++ {
		if x := &spec.InitContainers[i]; declaresPort(x, d.port) {
			what := "the init container"
			if pod.IsSidecar(x) {
				what = "the sidecar"
			}
			a.Cause = fmt.Sprintf(deadlock+"init container %s (number %d) waits for %s:%d, which %s %s "+
				"(number %d) would serve, and %s is started only after %s has succeeded. Waiting never ends it.",
				c.spec.Name, at+1, d.host, d.port, what, x.Name, i+1, x.Name, c.spec.Name)
			a.Fixes = append(a.Fixes, jsonPatchFix(in, fmt.Sprintf("put %s before %s", x.Name, c.spec.Name),
				op{Op: "move", From: fmt.Sprintf("/initContainers/%d", i),
					Path: fmt.Sprintf("/initContainers/%d", at)}))
			return true
		}
	}
	for i := range spec.Containers {
		x := &spec.Containers[i]
		if !declaresPort(x, d.port) {
			continue
		}
		a.Cause = fmt.Sprintf(deadlock+"init container %s waits for %s:%d, which container %s would serve, "+
			"and %s is started only after every init container has succeeded. Waiting never ends it.", c.spec.Name,
			d.host, d.port, x.Name, x.Name)
		if len(spec.Containers) > 1 {
			always := corev1.ContainerRestartPolicyAlways
			side := x.DeepCopy()
			side.RestartPolicy = &always
			a.Fixes = append(a.Fixes,
				jsonPatchFix(in, fmt.Sprintf("make %s a sidecar before %s (an init container that is kept running)",
					x.Name, c.spec.Name),
					op{Op: "remove", Path: fmt.Sprintf("/containers/%d", i)},
					op{Op: "add", Path: fmt.Sprintf("/initContainers/%d", at), Value: side}))
		}
		a.Fixes = append(a.Fixes,
			jsonPatchFix(in, fmt.Sprintf("or do without %s: let the program itself wait for what it needs",
				c.spec.Name), op{Op: "remove", Path: fmt.Sprintf("/initContainers/%d", at)}))
		return true
	}
	return false
}

// declaresPort reports whether a container declares the port or has it as a separate number in its
// command line.
func declaresPort(c *corev1.Container, port int) bool {
	for _, p := range c.Ports {
		if int(p.ContainerPort) == port {
			return true
		}
	}
	number := regexp.MustCompile(`(?:^|[^\d.])` + strconv.Itoa(port) + `(?:[^\d.]|$)`)
	if number.MatchString(commandLine(c)) {
		return !slices.ContainsFunc(hostPortsIn(c),
			func(d hostPort) bool { return d.port == port && d.host != "0.0.0.0" })
	}
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
		return e.Value == strconv.Itoa(port) || strings.HasSuffix(e.Value, ":"+strconv.Itoa(port))
	})
}

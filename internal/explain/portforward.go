package explain

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// portForwardWindow is how long a port-forward is worth explaining.
const portForwardWindow = 10 * time.Minute

// portForwardRefused explains a failed port-forward to a ready Pod whose processes listen on the
// Pod's address only, not on localhost.
func portForwardRefused(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	f, at, ok := newest[journal.Forwarded](in, nil)
	if !ok || in.Now.Sub(at) > portForwardWindow {
		return nil
	}
	reach, only := map[string]bool{}, map[string]string{}
	for _, s := range f.Listening {
		host, port, err := net.SplitHostPort(s)
		switch {
		case err != nil:
		case host == "*" || host == "127.0.0.1" || host == "::1":
			reach[port] = true
		default:
			only[port] = host
		}
	}
	var ports, where []string
	for port, host := range only {
		if !reach[port] {
			ports, where = append(ports, port), append(where, net.JoinHostPort(host, port))
		}
	}
	if len(ports) == 0 {
		return nil
	}
	slices.Sort(ports)
	slices.Sort(where)
	a := &Answer{State: "Ready"}
	if c := pod.Condition(in.Pod, corev1.PodReady); c != nil {
		a.Since = c.LastTransitionTime.Time
	}
	a.Cause = fmt.Sprintf("The Pod is ready, but port-forward cannot reach port %s: it dials 127.0.0.1 (and ::1) "+
		"inside the Pod, and the process listens on %s, the Pod IP, only. Probes and Services use the Pod IP and work.",
		joinList(ports), joinList(where))
	a.Facts = []string{fmt.Sprintf("seen %s ago, when the port was asked for: the Pod's processes listen on %s",
		ago(in.Now.Sub(at)), strings.Join(f.Listening, ", "))}
	for _, c := range in.Pod.Spec.Containers {
		if fix, ok := listenOnAllAddresses(in, c, ports); ok {
			a.Fixes = append(a.Fixes, fix)
		}
	}
	a.Fixes = append(a.Fixes,
		Fix{Description: "or let the program listen on every address (0.0.0.0), or reach it through a Service"})
	return a
}

// listenOnAllAddresses returns the fix that makes the container's program listen on all addresses:
// in its command line, or the variable with the address.
func listenOnAllAddresses(in In, c corev1.Container, ports []string) (Fix, bool) {
	var vars []string
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && (e.ValueFrom.FieldRef.FieldPath == "status.podIP" ||
			e.ValueFrom.FieldRef.FieldPath == "status.podIPs") {
			vars = append(vars, e.Name)
		}
	}
	if len(vars) == 0 {
		return Fix{}, false
	}
	output := regexp.MustCompile(`\$(?:\((?:` + strings.Join(vars, "|") + `)\)|\{(?:` + strings.Join(vars,
		"|") + `)\}|(?:` + strings.Join(vars, "|") + `)):(` + strings.Join(ports, "|") + `)\b`)
	if output.MatchString(commandLine(&c)) {
		return editedContainer(in, c.Name,
			"let "+c.Name+" listen on every address: 0.0.0.0 instead of the Pod IP in its command",
			func(x *corev1.Container) {
				for _, list := range [][]string{x.Command, x.Args} {
					for i := range list {
						list[i] = output.ReplaceAllString(list[i], "0.0.0.0:$1")
					}
				}
			}), true
	}
	return editedContainer(in, c.Name,
		fmt.Sprintf("let %s listen on every address: 0.0.0.0 instead of the Pod IP in %s", c.Name, joinList(vars)),
		func(x *corev1.Container) {
			for i := range x.Env {
				if slices.Contains(vars, x.Env[i].Name) {
					x.Env[i].Value, x.Env[i].ValueFrom = "0.0.0.0", nil
				}
			}
		}), true
}

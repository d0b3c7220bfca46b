package finding

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/pod"
)

// place is a container in an object, with its path.
type place struct {
	self Object
	at   string
	c    *corev1.Container
	spec *corev1.PodSpec
}

// eachContainer asks a function about all containers of a Pod or template.
func eachContainer(o metav1.Object, self Object, find func(place) []Finding) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil {
		return nil
	}
	var out []Finding
	for i := range spec.InitContainers {
		out = append(out, find(place{self, fmt.Sprintf("%s.initContainers[%d]", at, i), &spec.InitContainers[i],
			spec})...)
	}
	for i := range spec.Containers {
		out = append(out, find(place{self, fmt.Sprintf("%s.containers[%d]", at, i), &spec.Containers[i], spec})...)
	}
	return out
}

// anyReady reports whether a Pod of an object is ready, or it itself: what its containers say of
// ports does work then.
func (c *Cluster) anyReady(o metav1.Object) bool {
	if p, ok := o.(*corev1.Pod); ok {
		return pod.IsReady(p)
	}
	return slices.ContainsFunc(c.podsOf(o), pod.IsReady)
}

// probes finds probes of ports that the container does not have, and delays longer than a roll-out
// may take.
func probes(c *Cluster, o metav1.Object, self Object) []Finding {
	well := c.anyReady(o)
	deadline := int32(0)
	if d, ok := o.(*appsv1.Deployment); ok {
		deadline = 600
		if d.Spec.ProgressDeadlineSeconds != nil {
			deadline = *d.Spec.ProgressDeadlineSeconds
		}
	}
	return eachContainer(o, self, func(x place) []Finding {
		var out []Finding
		for _, p := range probesOf(x.c) {
			if !well {
				out = append(out, c.probePort(x, p)...)
			}
			out = append(out, c.probeTimes(x, p, deadline, well)...)
		}
		return out
	})
}

// namedProbe is a probe with its field.
type namedProbe struct {
	field string
	probe *corev1.Probe
}

func probesOf(c *corev1.Container) []namedProbe {
	var out []namedProbe
	for _, p := range []namedProbe{{"startupProbe", c.StartupProbe}, {"livenessProbe", c.LivenessProbe},
		{"readinessProbe", c.ReadinessProbe}} {
		if p.probe != nil {
			out = append(out, p)
		}
	}
	return out
}

// probePort compares a probe's port with those that the container declares.
func (c *Cluster) probePort(x place, p namedProbe) []Finding {
	var port intstr.IntOrString
	field := x.at + "." + p.field
	switch {
	case p.probe.HTTPGet != nil:
		port, field = p.probe.HTTPGet.Port, field+".httpGet.port"
	case p.probe.TCPSocket != nil:
		port, field = p.probe.TCPSocket.Port, field+".tcpSocket.port"
	case p.probe.GRPC != nil:
		port, field = intstr.FromInt32(p.probe.GRPC.Port), field+".grpc.port"
	default:
		return nil
	}
	var names, numbers []string
	for _, d := range x.c.Ports {
		numbers = append(numbers, fmt.Sprint(d.ContainerPort))
		if d.Name != "" {
			names = append(names, d.Name)
		}
	}
	f := Finding{Code: "ProbePortMissing", Stage: StageRun, Object: x.self, Field: field, Value: port.String()}
	have := names
	if port.Type == intstr.Int {
		f.Code, f.Severity, have = "ProbePortUndeclared", Threat, numbers
	}
	if slices.Contains(have, port.String()) || port.Type == intstr.Int && len(numbers) == 0 {
		return nil
	}
	var how string
	f.Want, how = Near(port.String(), have)
	if f.Want == "" && len(have) == 1 {
		f.Want = have[0]
	}
	f.Message = fmt.Sprintf("The %s of container %s asks port %s, and the container declares %s.", p.field, x.c.Name,
		port.String(), orNone(have, "no such port"))
	if how != "" {
		f.Message += fmt.Sprintf(" Perhaps %s was meant; %s.", f.Want, how)
	}
	f.setTo(c, jsonNumber(f.Want))
	return []Finding{f}
}

// probeTimes finds a first probe that comes later than a roll-out may take, or after minutes.
func (c *Cluster) probeTimes(x place, p namedProbe, deadline int32, well bool) []Finding {
	// the first question comes after the delay, each further one a period later
	delay := p.probe.InitialDelaySeconds
	further := max(0, p.probe.SuccessThreshold-1) * p.probe.PeriodSeconds
	field, value, n := "initialDelaySeconds", delay, delay+further
	if further > delay {
		field, value = "successThreshold", p.probe.SuccessThreshold
	}
	if p.field == "livenessProbe" || n < 120 || well {
		return nil
	}
	f := Finding{Code: "ProbeLate", Severity: Threat, Stage: StageTraffic, Object: x.self,
		Field: x.at + "." + p.field + "." + field, Value: fmt.Sprint(value), Want: "10",
		Numbers: map[string]string{field: fmt.Sprint(value), "seconds": fmt.Sprint(n),
			"periodSeconds": fmt.Sprint(p.probe.PeriodSeconds)},
		Message: fmt.Sprintf("The %s of container %s lets it be ready after %d s at the earliest (%s %d).", p.field,
			x.c.Name, n, field, value)}
	if field == "successThreshold" {
		f.Want = "1"
	}
	if deadline > 0 && n >= deadline {
		f.Severity = Broken
		f.Numbers["progressDeadlineSeconds"] = fmt.Sprint(deadline)
		f.Message += fmt.Sprintf(" The roll-out is given up after %d s (progressDeadlineSeconds).", deadline)
	}
	f.setTo(c, f.Want)
	return []Finding{f}
}

// quantities finds amounts whose unit was probably mistaken: less than a byte of memory, memory
// that no program fits in, requests that are a thousand times what nodes have.
func quantities(c *Cluster, o metav1.Object, self Object) []Finding {
	least := resource.MustParse("4Mi")
	return eachContainer(o, self, func(x place) []Finding {
		var out []Finding
		for _, list := range []struct {
			field string
			all   corev1.ResourceList
		}{{"requests", x.c.Resources.Requests}, {"limits", x.c.Resources.Limits}} {
			for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
				q, ok := list.all[name]
				if !ok || q.IsZero() || q.Cmp(least) >= 0 || list.field == "requests" && q.MilliValue()%1000 == 0 {
					continue
				}
				f := Finding{Code: "QuantityTiny", Severity: Threat, Stage: StageRun, Object: x.self,
					Field: fmt.Sprintf("%s.resources.%s.%s", x.at, list.field, name), Value: q.String(),
					Want:    strings.TrimRight(q.String(), "mkKMi") + "Mi",
					Numbers: map[string]string{"bytes": fmt.Sprint(q.Value())}}
				if f.Want == q.String() {
					continue
				}
				f.Message = fmt.Sprintf("Container %s has %s %s of %s, which is %d bytes: no program runs in that. "+
					"Perhaps %s was meant; m stands for thousandths.", x.c.Name, list.field, q.String(), name,
					q.Value(),
					f.Want)
				if p, ok := o.(*corev1.Pod); ok && p.Status.Phase == corev1.PodPending && p.Spec.NodeName != "" &&
					list.field == "limits" {
					f.Severity = Broken // also its volumes in memory are as large as the limit
				}
				f.Remedies = []Remedy{{Say: fmt.Sprintf("set it to %s", f.Want), Run: c.replaceCommand(self, f.Field,
					f.Want)}}
				out = append(out, f)
			}
		}
		return out
	})
}

var sleeping = regexp.MustCompile(`\bsleep\s+(\d+)`)

// hookTimes finds a preStop hook that takes as long as the grace period or longer.
func hookTimes(c *Cluster, o metav1.Object, self Object) []Finding {
	return eachContainer(o, self, func(x place) []Finding {
		if x.c.Lifecycle == nil || x.c.Lifecycle.PreStop == nil {
			return nil
		}
		grace, n, field := int64(pod.GracePeriod(x.spec)/time.Second), int64(0), x.at+".lifecycle.preStop"
		if h := x.c.Lifecycle.PreStop; h.Sleep != nil {
			n, field = h.Sleep.Seconds, field+".sleep.seconds"
		} else if h.Exec != nil {
			field += ".exec.command"
			if m := sleeping.FindStringSubmatch(strings.Join(h.Exec.Command, " ")); m != nil {
				n, _ = strconv.ParseInt(m[1], 10, 64) // digits
			}
		}
		if n == 0 || n < grace {
			return nil
		}
		_, at := podSpecOf(o)
		want := fmt.Sprint(n + 10)
		f := Finding{Code: "HookTooLong", Severity: Threat, Stage: StageChange, Object: self, Field: field,
			Value: fmt.Sprint(n), Want: want, Numbers: map[string]string{"preStopSeconds": fmt.Sprint(n),
				"terminationGracePeriodSeconds": fmt.Sprint(grace)}, Message: fmt.Sprintf("The preStop hook of "+
				"container %s takes %d s, and terminationGracePeriodSeconds is %d: the program is killed without "+
				"having been told to end.", x.c.Name, n, grace)}
		f.Remedies = []Remedy{{Say: fmt.Sprintf("let terminationGracePeriodSeconds be %s", want),
			Run: c.setCommand(self, at+".terminationGracePeriodSeconds", want)}}
		return []Finding{f}
	})
}

// users finds a container that must not run as root and is told to.
func users(c *Cluster, o metav1.Object, self Object) []Finding {
	return eachContainer(o, self, func(x place) []Finding {
		var forbidden, root string
		_, at := podSpecOf(o)
		if s := x.spec.SecurityContext; s != nil {
			if s.RunAsNonRoot != nil && *s.RunAsNonRoot {
				forbidden = at + ".securityContext.runAsNonRoot"
			}
			if s.RunAsUser != nil && *s.RunAsUser == 0 {
				root = at + ".securityContext.runAsUser"
			}
		}
		if s := x.c.SecurityContext; s != nil {
			if s.RunAsNonRoot != nil {
				forbidden = ""
				if *s.RunAsNonRoot {
					forbidden = x.at + ".securityContext.runAsNonRoot"
				}
			}
			if s.RunAsUser != nil {
				root = ""
				if *s.RunAsUser == 0 {
					root = x.at + ".securityContext.runAsUser"
				}
			}
		}
		if forbidden == "" || root == "" {
			return nil
		}
		f := Finding{Code: "RunsAsRoot", Stage: StageRun, Object: self, Field: root, Value: "0", Want: "1000",
			Numbers: map[string]string{"runAsUser": "0"}, Message: fmt.Sprintf("Container %s is to run as user 0 (%s) "+
				"and must not run as root (%s): the kubelet does not start it.", x.c.Name, root, forbidden)}
		f.Remedies = []Remedy{{Say: "let it run as another user, for instance 1000: its files must be readable to it",
			Run: c.setCommand(self, root, "1000")}}
		return []Finding{f}
	})
}

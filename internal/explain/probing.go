package explain

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// probeDiagnosis is why a probe fails, and what to do.
type probeDiagnosis struct {
	text     string // what it checks and the result, without the container's name
	fixes    []Fix
	commands []Fix // commands that show more and change nothing
	// otherHost says that the probe asks another host than the Pod, and does not reach it
	otherHost bool
	// neverRight says that the probe asks what no time makes right, such as an address on which the
	// program does not listen
	neverRight bool
	header     *headerBlame // of an HTTP probe, that its server's answer is about; nil: none
}

// probeOf returns a container's probe by its kind in the journal.
func probeOf(c *corev1.Container, kind string) *corev1.Probe {
	switch kind {
	case "liveness":
		return c.LivenessProbe
	case "startup":
		return c.StartupProbe
	}
	return c.ReadinessProbe
}

// diagnoseProbe explains a failing probe.
func diagnoseProbe(in In, c *corev1.Container, f journal.Probed) probeDiagnosis {
	p := probeOf(c, f.Probe)
	output := strings.TrimSuffix(strings.TrimSpace(f.Message), ".")
	t := probeDiagnosis{text: "fails: " + output}
	if p == nil {
		return t
	}
	port, networked := probePort(c, p)
	low := strings.ToLower(output)
	switch {
	case p.Exec != nil && strings.Contains(low, "timed out"):
		return lateAnswer(in, p, f, output)
	case p.Exec != nil:
		t.text = fmt.Sprintf("runs %s, which fails: %s", strings.Join(p.Exec.Command, " "), output)
		if f.Result == "unknown" {
			t.text = fmt.Sprintf("runs %s, which cannot be run: %s", strings.Join(p.Exec.Command, " "),
				plainWords(output))
		}
		if output == "" {
			t.text = fmt.Sprintf("runs %s, which ends with another exit code than 0 and prints nothing",
				strings.Join(p.Exec.Command, " "))
		}
		t.commands = []Fix{commandFix("run the probe's command by hand",
			fmt.Sprintf("kubectl -n %s exec %s -c %s -- %s", in.Ref.Namespace, in.Ref.Name, c.Name,
				shellquote.Words(p.Exec.Command)))}
	case asksOtherHost(in.Pod, p) && strings.Contains(low, "dial "):
		t = otherHost(in, f, output)
	case p.GRPC != nil && (strings.Contains(low, "unimplemented") || strings.Contains(low, "does not implement") ||
		strings.Contains(low, "failed to connect service") && (listens(f, port) ||
			f.Connection == journal.ProbeConnected || in.NoJournal && f.Connection == "")) &&
		!strings.Contains(low, "refused"):
		t = noHealthService(in, f, output)
	case p.GRPC != nil && strings.Contains(low, "unknown service"):
		t = unknownGRPCService(in, f, output)
	case networked && (strings.Contains(low, "connection refused") || f.Connection == journal.ProbeRefused):
		t = wrongPort(in, c, f, port)
	case p.HTTPGet != nil && port == 0:
		t = portUnnamed(in, c, f, p.HTTPGet.Port.StrVal)
	case p.HTTPGet != nil && strings.Contains(low, "http response to https"):
		t = otherScheme(in, f, port, corev1.URISchemeHTTP)
	case p.HTTPGet != nil && strings.Contains(low, "malformed http response"):
		t = otherScheme(in, f, port, corev1.URISchemeHTTPS)
	case p.HTTPGet != nil && strings.Contains(low, "statuscode"):
		t.text = fmt.Sprintf("asks path %s on port %d and gets %s", p.HTTPGet.Path, port,
			strings.TrimPrefix(output, "HTTP probe failed with "))
		t.fixes = wrongAnswer(in, c, f, port)
		if b, ok := answerOfHeader(in, c, p, output); ok {
			t.text, t.header, t.fixes = t.text+b.text, &b, append(headerFixes(in, f, b), t.fixes...)
		}
	case strings.Contains(low, "deadline exceeded"), strings.Contains(low, "timeout"),
		strings.Contains(low, "timed out"):
		t = lateAnswer(in, p, f, output)
	}
	return t
}

// listens reports whether something was seen to listen on a port when the probe failed.
func listens(f journal.Probed, port int) bool {
	return slices.ContainsFunc(f.Listening, func(s string) bool {
		_, p, err := net.SplitHostPort(s)
		return err == nil && p == strconv.Itoa(port)
	})
}

// withSockets adds to a failure the sockets of the newest failure that has them.
func withSockets(in In, f journal.Probed) journal.Probed {
	if f.Listening == nil {
		if with, _, ok := newest[journal.Probed](in, func(p journal.Probed) bool {
			return p.Container == f.Container && p.Probe == f.Probe && p.Listening != nil
		}); ok {
			f.Listening = with.Listening
		}
	}
	return f
}

// wrongPort explains a probe of a port where nothing listens.
func wrongPort(in In, c *corev1.Container, f journal.Probed, port int) probeDiagnosis {
	t := probeDiagnosis{text: fmt.Sprintf("asks port %d, where nothing listens (connection refused)", port)}
	var open, local []string
	for _, s := range f.Listening {
		host, p, err := net.SplitHostPort(s)
		switch {
		case err != nil:
		case p == strconv.Itoa(port):
			local = append(local, s)
		case host == "127.0.0.1" || host == "::1":
		default:
			open = append(open, p)
		}
	}
	slices.Sort(open)
	open = slices.Compact(open)
	switch {
	case len(local) > 0:
		t.text = fmt.Sprintf("asks port %d on the Pod's address (connection refused), and the process listens on %s "+
			"only", port, joinList(local))
		t.fixes = textFixes("let the program listen on every address (0.0.0.0)")
		t.neverRight = true
		return t
	case len(open) > 0:
		t.text += "; the Pod's processes listen on " + joinList(open)
	case f.Listening != nil:
		t.text += "; the Pod's processes listen on no port that can be reached"
	default:
		if open = otherPorts(c, port); len(open) > 0 {
			t.text += "; where its processes listen is not known, the container declares " + joinList(open)
		}
	}
	for _, p := range declaredFirst(c, open) {
		n, err := strconv.Atoi(p)
		if err != nil {
			continue
		}
		t.fixes = append(t.fixes, editedProbe(in, f, fmt.Sprintf("probe port %d instead of %d", n, port),
			func(x *corev1.Probe) { setPort(x, n) }))
	}
	if len(t.fixes) == 0 {
		t.commands = []Fix{commandFix("compare the probe's port and path with where the program listens",
			fmt.Sprintf("kubectl -n %s logs %s -c %s", in.Ref.Namespace, in.Ref.Name, c.Name))}
	}
	return t
}

// otherPorts are the TCP ports that a container declares, without one.
func otherPorts(c *corev1.Container, port int) []string {
	var out []string
	for _, x := range c.Ports {
		if int(x.ContainerPort) != port && (x.Protocol == "" || x.Protocol == corev1.ProtocolTCP) {
			out = append(out, strconv.Itoa(int(x.ContainerPort)))
		}
	}
	return out
}

// declaredFirst sorts the ports that the container declares first.
func declaredFirst(c *corev1.Container, ports []string) []string {
	declared := func(p string) bool {
		return slices.ContainsFunc(c.Ports,
			func(x corev1.ContainerPort) bool { return strconv.Itoa(int(x.ContainerPort)) == p })
	}
	out := slices.Clone(ports)
	slices.SortStableFunc(out, func(a, b string) int {
		switch {
		case declared(a) && !declared(b):
			return -1
		case declared(b) && !declared(a):
			return 1
		}
		return 0
	})
	return out[:min(2, len(out))]
}

// probePort returns the port of a network probe.
func probePort(c *corev1.Container, p *corev1.Probe) (int, bool) {
	var port intstr.IntOrString
	switch {
	case p.HTTPGet != nil:
		port = p.HTTPGet.Port
	case p.TCPSocket != nil:
		port = p.TCPSocket.Port
	case p.GRPC != nil:
		return int(p.GRPC.Port), true
	default:
		return 0, false
	}
	if port.Type == intstr.Int {
		return port.IntValue(), true
	}
	for _, x := range c.Ports {
		if x.Name == port.StrVal {
			return int(x.ContainerPort), true
		}
	}
	return 0, false
}

func setPort(p *corev1.Probe, n int) {
	switch {
	case p.HTTPGet != nil:
		p.HTTPGet.Port = intstr.FromInt(n)
	case p.TCPSocket != nil:
		p.TCPSocket.Port = intstr.FromInt(n)
	case p.GRPC != nil:
		p.GRPC.Port = int32(n)
	}
}

// editedProbe returns the fix that changes the probe of f.
func editedProbe(in In, f journal.Probed, say string, change func(*corev1.Probe)) Fix {
	return editedContainer(in, f.Container, say, func(c *corev1.Container) {
		if p := probeOf(c, f.Probe); p != nil {
			change(p)
		}
	})
}

// probeKill is a container that the kubelet stopped because of a probe.
type probeKill struct {
	probe     journal.Probed
	grace     int64
	code      int32
	sigkilled bool // TERM did not end it
	known     bool
	asked     time.Time // when it was asked to end; only while it still runs
}

// killing is the newest stop of a container that was asked for before a run ended: that of a later
// run is not about this one.
func killing(in In, c container, t *corev1.ContainerStateTerminated) (journal.Killing, time.Time, bool) {
	end := t.FinishedAt.Add(secondsOf(1))
	for i := len(in.Entries) - 1; i >= 0; i-- {
		if k, ok := in.Entries[i].Fact.(journal.Killing); ok && k.Container == c.spec.Name &&
			!in.Entries[i].At.After(end) {
			return k, in.Entries[i].At, true
		}
	}
	return journal.Killing{}, time.Time{}, false
}

// killedByProbe reports whether the kubelet stopped the container's last run, and why.
func killedByProbe(in In, c container, t *corev1.ContainerStateTerminated) probeKill {
	k, at, ok := killing(in, c, t)
	if !ok || !strings.Contains(k.Cause, "probe") || at.Before(t.StartedAt.Time) {
		return probeKill{}
	}
	out := probeKillOf(in, c, k, at)
	out.code, out.sigkilled = t.ExitCode, t.ExitCode == 137
	return out
}

// stoppedByProbe reports whether the kubelet has asked a running container to end, as a probe
// failed.
func stoppedByProbe(in In, c container) probeKill {
	if c.status == nil || c.status.State.Running == nil || in.Pod.DeletionTimestamp != nil {
		return probeKill{}
	}
	k, at, ok := newest[journal.Killing](in, func(k journal.Killing) bool { return k.Container == c.spec.Name })
	// the status has whole seconds: a stop within the first may be the run's before
	if !ok || !strings.Contains(k.Cause, "probe") || at.Before(c.status.State.Running.StartedAt.Add(time.Second)) {
		return probeKill{}
	}
	over := func(e journal.Entry) bool {
		switch f := e.Fact.(type) {
		case journal.ContainerStarted:
			return f.Container == c.spec.Name && e.At.After(at)
		case journal.ContainerExited:
			return f.Container == c.spec.Name && e.At.After(at)
		}
		return false
	}
	if slices.ContainsFunc(in.Entries, over) {
		return probeKill{}
	}
	out := probeKillOf(in, c, k, at)
	out.asked = at
	return out
}

// probeKillOf is a stop for a probe, with that probe's last failure.
func probeKillOf(in In, c container, k journal.Killing, at time.Time) probeKill {
	kind := "liveness"
	if strings.Contains(k.Cause, "startup") {
		kind = "startup"
	}
	out := probeKill{grace: k.Grace, known: true, probe: journal.Probed{Container: c.spec.Name, Probe: kind}}
	for _, e := range in.Entries {
		if f, ok := e.Fact.(journal.Probed); ok && f.Container == c.spec.Name && f.Probe == kind &&
			f.Result == "failure" && !e.At.After(at) {
			out.probe = f
		}
	}
	return out
}

// killedByProbeCause explains how a probe ended a container. Fixes: the probe's target first, then
// more time, then no probe.
func killedByProbeCause(a *Answer, in In, c container, k probeKill) {
	w := diagnoseProbe(in, c.spec, withSockets(in, k.probe))
	p := probeOf(c.spec, k.probe.Probe)
	times := ""
	if k.probe.Threshold > 0 {
		times = fmt.Sprintf(" It failed %d times in a row", k.probe.Threshold)
	} else if p != nil {
		times = fmt.Sprintf(" It failed %d times in a row", p.FailureThreshold)
	}
	a.Cause = fmt.Sprintf("Container %s is stopped by the kubelet (%s probe failed): its %s probe %s.%s, so the "+
		"kubelet asked the process to end", c.spec.Name, k.probe.Probe, k.probe.Probe, w.text, times)
	switch passed := in.Now.Sub(k.asked); {
	case !k.asked.IsZero() && passed < secondsOf(k.grace):
		a.Cause += fmt.Sprintf("; it was sent TERM %s ago and has not ended, and is killed in %s.", ago(passed),
			ago(secondsOf(k.grace)-passed))
	case !k.asked.IsZero():
		a.Cause += fmt.Sprintf(", %s ago, with a grace period of %ds.", ago(passed), k.grace)
	case k.sigkilled:
		a.Cause += fmt.Sprintf("; it ignored TERM, and after the grace period of %ds it was killed (exit code %d).",
			k.grace, k.code)
	default:
		a.Cause += fmt.Sprintf("; it ended with exit code %d.", k.code)
	}
	a.Facts = append(a.Facts, memoryText(in, c)...)
	a.Fixes = append(a.Fixes, w.fixes...)
	defer func() { a.Fixes = append(a.Fixes, w.commands...) }()
	if p == nil {
		return
	}
	if k.probe.Probe == "startup" && !w.otherHost {
		times := max(60, 2*p.FailureThreshold)
		a.Fixes = append(a.Fixes, editedProbe(in, k.probe, fmt.Sprintf("give it longer to start: failureThreshold %d, "+
			"which times periodSeconds %d is %s", times, p.PeriodSeconds, ago(secondsOf(int64(times*p.PeriodSeconds)))),
			func(x *corev1.Probe) { x.FailureThreshold = times }))
	}
	if k.probe.Probe == "liveness" && c.spec.StartupProbe == nil && !wasEverAlive(in, c) && !w.neverRight {
		a.Fixes = append(a.Fixes,
			editedContainer(in, c.spec.Name,
				"it never answered before it was stopped: give it time to start with a startupProbe (5 minutes)",
				func(x *corev1.Container) {
					s := x.LivenessProbe.DeepCopy()
					s.TerminationGracePeriodSeconds = nil
					s.PeriodSeconds, s.FailureThreshold, s.SuccessThreshold, s.InitialDelaySeconds = 5, 60, 1, 0
					x.StartupProbe = s
				}))
	}
	a.Fixes = append(a.Fixes,
		editedContainer(in, c.spec.Name,
			fmt.Sprintf("or do without the %s probe: then nobody restarts the container when it hangs", k.probe.Probe),
			func(x *corev1.Container) {
				if k.probe.Probe == "startup" {
					x.StartupProbe = nil
				} else {
					x.LivenessProbe = nil
				}
			}), Fix{Description: "or mend what the probe asks for, or give it longer (failureThreshold, " +
			"timeoutSeconds)"})
}

// wasEverAlive reports whether the liveness probe succeeded once, or did not fail for longer than
// its threshold takes.
func wasEverAlive(in In, c container) bool {
	p := c.spec.LivenessProbe
	_, _, ok := newest[journal.Probed](in, func(f journal.Probed) bool {
		return f.Container == c.spec.Name && f.Probe == "liveness" && f.Result == "success"
	})
	t := c.status.LastTerminationState.Terminated
	if ok || t == nil || p == nil {
		return true
	}
	// Successes before the first failure are not journaled: then the run lasted longer than the
	// failures took.
	return t.FinishedAt.Sub(t.StartedAt.Time) >
		secondsOf(int64(p.InitialDelaySeconds+p.PeriodSeconds*(p.FailureThreshold+1))+2)+pod.GracePeriod(&in.Pod.Spec)
}

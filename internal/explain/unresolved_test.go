package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// called is a Pod that asked for orders, or another name, and ended with these words; Service
// orders is there.
func called(words string) In {
	in := crashed(words)
	in.app().Args = []string{"serve", "http://orders/", "http://orderz:80/"}
	in.NamespaceContext = &NamespaceContext{Services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "orders",
		Namespace: "shop"}, Spec: corev1.ServiceSpec{ClusterIP: "10.1.2.3"}}}, Ready: map[string]int{"orders": 1}}
	return in
}

// A name that does not resolve is blamed on the word that names it, on the name servers of the Pod,
// or on the policy that keeps it from them; a name that resolves by now on nothing.
func TestANameThatDoesNotResolveIsBlamed(t *testing.T) {
	lookup := `Get "http://orderz:80/": dial tcp: lookup orderz on 10.96.0.10:53: no such host`
	for name, c := range map[string]struct {
		words              string
		set                func(*In)
		kind, field, value string
		want               string
	}{
		"nearly a Service": {lookup, func(*In) {}, "Pod", "spec.containers[0].args[2]", "orderz", "orders"},
		"in curl's words": {"curl: (6) Could not resolve host: orderz", func(*In) {}, "Pod",
			"spec.containers[0].args[2]", "orderz", "orders"},
		"other name servers": {"lookup orders on 127.0.0.1:53: read: connection refused", func(in *In) {
			in.Pod.Spec.DNSPolicy = corev1.DNSNone
			in.Pod.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}}
		}, "Pod", "spec.dnsConfig.nameservers", "127.0.0.1", ""},
		"a policy": {lookup, func(in *In) {
			in.NamespaceContext.Policies = []*networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "quiet",
				Namespace: "shop"}, Spec: networkingv1.NetworkPolicySpec{
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}}}}
		}, "NetworkPolicy", "spec.egress", "orderz", ""},
		"it is there by now": {"lookup orders on 10.96.0.10:53: no such host", func(*In) {}, "", "", "", ""},
		"no name": {"all is lost", func(in *In) {
			in.app().Args = []string{"serve", "http://orders/"}
		}, "", "", "", ""},
	} {
		in := called(c.words)
		c.set(&in)
		f, a := blamed(in, "DependencyFails")
		if f.Object.Kind != c.kind || f.Field != c.field || f.Value != c.value || f.Want != c.want {
			t.Errorf("%s: got %s %s=%q want %q, want %+v; cause %s", name, f.Object.Kind, f.Field, f.Value, f.Want,
				c, a.Cause)
		}
	}
}

// hostAliases that give a Service's name, or a name that is not reached, another address are
// blamed; those of other names, and of a name that answered, are not.
func TestAnAliasOfAnotherAddressIsBlamed(t *testing.T) {
	for words, want := range map[string]string{
		`Get "http://orders/": dial tcp 127.0.0.9:80: connect: connection refused`: "spec.hostAliases[1]",
		`orders: connection timed out`:                                             "spec.hostAliases[1]",
		`dial mail (10.0.0.8): i/o timeout`:                                        "spec.hostAliases[0]",
		`dial mail: i/o timeout`:                                                   "", // and no Service of the name
		`orders-db: connection refused`:                                            "",
		`orders answered 200`:                                                      "",
	} {
		in := called(words)
		in.Pod.Spec.HostAliases = []corev1.HostAlias{{IP: "10.0.0.8", Hostnames: []string{"mail"}},
			{IP: "127.0.0.9", Hostnames: []string{"x", "orders"}}}
		f, a := blamed(in, "Restricted")
		if f.Field != want {
			t.Errorf("%s: got %s, want %s; cause %s", words, f.Field, want, a.Cause)
		}
		if want != "" && (!strings.Contains(a.Cause, "hostAliases gives that name the address "+f.Value) ||
			!strings.Contains(a.Fixes[0].Description, "out of hostAliases")) {
			t.Errorf("%s: got cause %q and remedy %q", words, a.Cause, a.Fixes[0].Description)
		}
	}
}

// What each part of a runtime puts before the words of what failed is left out.
func TestARuntimesWordsAreShortened(t *testing.T) {
	for words, want := range map[string]string{
		"failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create " +
			`failed: unable to start container process: error during container init: exec: lost`: `exec: lost`,
		`rpc error: code = Unknown desc = failed to exec in container: failed to start exec "0a": OCI runtime ` +
			`exec failed: exec failed: unable to start container process: exec: "/c": no file`: `exec: "/c": no file`,
		"secret \"x\" not found":          "secret \"x\" not found",
		"the image failed to create shim": "the image failed to create shim",
	} {
		if got := plainWords(words); got != want {
			t.Errorf("%s: got %q, want %q", words, got, want)
		}
	}
}

// A probe whose program is not in the image never succeeds, though no failure is counted: it is
// broken, and the command is blamed. One that could not be asked for another reason may pass.
func TestAProbesProgramIsMissing(t *testing.T) {
	for words, want := range map[string]finding.Severity{
		`failed to exec: exec: "/opt/check": stat /opt/check: no such file or directory`: finding.Broken,
		`failed to exec: exec: "/opt/check": permission denied`:                          finding.Broken,
		"rpc error: code = Unavailable desc = the runtime is being restarted":            finding.Note,
	} {
		in := base()
		in.Pod.Status.Phase = corev1.PodRunning
		s := in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-30 * time.Second)}})
		s.Started = new(bool)
		*s.Started = true
		in.app().ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 3,
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/opt/check"}}}}
		in.fact(time.Second, "kubelet", journal.Probed{Container: "app", Probe: "readiness", Result: "unknown",
			Message: words})
		f, a := blamed(in, "ProbeFails")
		if f.Severity != want || !strings.Contains(f.Field, "readinessProbe.exec.command") {
			t.Errorf("%s: got %s with severity %v, want %v; cause %s", words, f.Field, f.Severity, want, a.Cause)
		}
		says := strings.Contains(a.Fixes[0].Description, "correct the probe's command: /opt/check is not in the image")
		if says != (want == finding.Broken) {
			t.Errorf("%s: got remedy %q", words, a.Fixes[0].Description)
		}
	}
}

// The reason of a container's end stands for both in an overview; an end whose reason is not told,
// or is no more than possible, stands for itself.
func TestTheReasonOfAnEndStandsForBoth(t *testing.T) {
	end := finding.Finding{Code: "ContainerExited", Message: "Container app ended.",
		Numbers: map[string]string{"exitCode": "1"}}
	reason := finding.Finding{Code: "Restricted", Field: "spec.x", Message: "It may not."}
	note := reason
	note.Severity = finding.Note
	evicted := finding.Finding{Code: "Evicted", Field: "spec.y", Message: "too much"}
	for _, c := range []struct {
		state, cause string
		findings     []finding.Finding
		want         string
	}{
		{"CrashLoopBackOff", "Container app ends. It may not.", []finding.Finding{end, reason}, "Restricted"},
		{"CrashLoopBackOff", "Container app ends.", []finding.Finding{end, reason}, "ContainerExited Restricted"},
		{"CrashLoopBackOff", "Container app ends. It may not.", []finding.Finding{end, note},
			"ContainerExited Restricted"},
		{"Failed (Evicted)", "The Pod broke its limit.", []finding.Finding{end, evicted}, "Evicted"},
		{"Failed", "Container app ends.", []finding.Finding{end, evicted}, "ContainerExited Evicted"},
		{"CrashLoopBackOff", "It may not.", []finding.Finding{reason, end}, "Restricted ContainerExited"},
	} {
		a := withReasonFirst(Answer{State: c.state, Cause: c.cause, Findings: c.findings})
		var got []string
		for _, f := range a.Findings {
			got = append(got, f.Code)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s %s: got %s, want %s", c.state, c.cause, s, c.want)
		}
		if len(a.Findings) == 1 && a.Findings[0].Numbers["exitCode"] != "1" {
			t.Errorf("%s: got numbers %v, want those of the end too", c.want, a.Findings[0].Numbers)
		}
	}
}

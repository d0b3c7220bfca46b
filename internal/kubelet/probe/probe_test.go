package probe_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

// row: PRB-21
// row: PRB-22
func TestDefaults(t *testing.T) {
	got := probe.SpecOf(&v1.Probe{})
	want := probe.Spec{Period: 10 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// row: PRB-16
func TestInitialHealth(t *testing.T) {
	for k, want := range map[probe.Kind]probe.Health{probe.Liveness: probe.Healthy, probe.Readiness: probe.Unhealthy,
		probe.Startup: probe.Pending} {
		if got := probe.InitialHealth(k); got != want {
			t.Errorf("%s begins %v, want %v", k, got, want)
		}
	}
}

// Each letter is an answer: s success, w warning, f failure, u unknown, e error. The results are .
// for none, + and -.
//
// row: PRB-13
func TestCount(t *testing.T) {
	for _, tc := range []struct {
		name     string
		s, f     int
		answers  string
		verdicts string
	}{
		{"one success is enough", 1, 3, "s", "+"},
		{"three failures in a row", 1, 3, "ffsfff", "..+..-"},
		{"two successes wanted", 2, 1, "sfss", ".-.+"},
		{"a warning is a success", 1, 3, "w", "+"},
		{"an error counts for nothing and interrupts nothing", 1, 3, "feffe", "...-."},
		{"unknown counts as a failure", 1, 2, "uf", ".-"},
		{"a verdict is repeated", 1, 1, "ffss", "--++"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c probe.Streak
			var got strings.Builder
			for _, a := range tc.answers {
				var v probe.Health
				c, v = c.Add(outcome(a), probe.Spec{SuccessThreshold: tc.s, FailureThreshold: tc.f})
				got.WriteString(map[probe.Health]string{probe.Pending: ".", probe.Healthy: "+",
					probe.Unhealthy: "-"}[v])
			}
			if got.String() != tc.verdicts {
				t.Errorf("%s gives %s, want %s", tc.answers, got.String(), tc.verdicts)
			}
		})
	}
}

func outcome(a rune) probe.Outcome {
	if a == 'e' {
		return probe.Outcome{Err: errors.New("no answer")}
	}
	return probe.Outcome{Result: map[rune]probe.Result{'s': probe.Success, 'w': probe.Warning, 'f': probe.Failure,
		'u': probe.Unknown}[a]}
}

// A result never changes with fewer equal answers in a row than its threshold.
//
// row: PRB-14
func TestResultNeedsItsThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := probe.Spec{SuccessThreshold: rapid.IntRange(1, 4).Draw(t, "success"),
			FailureThreshold: rapid.IntRange(1, 4).Draw(t, "failure")}
		var c probe.Streak
		var tail string
		for _, a := range rapid.SliceOfN(rapid.SampledFrom([]rune("sfe")), 1, 30).Draw(t, "answers") {
			var v probe.Health
			c, v = c.Add(outcome(a), s)
			if a != 'e' {
				tail += string(a)
			}
			good, bad := strings.HasSuffix(tail, strings.Repeat("s", s.SuccessThreshold)),
				strings.HasSuffix(tail, strings.Repeat("f", s.FailureThreshold))
			if a != 'e' && (v == probe.Healthy != good || v == probe.Unhealthy != bad) ||
				a == 'e' && v != probe.Pending {
				t.Fatalf("after %s: result %v", tail, v)
			}
		}
	})
}

// row: PRB-20
// row: PRB-23
func TestNextProbeTime(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	spec := probe.Spec{Period: 10 * time.Second}
	delayed := probe.Spec{Period: 10 * time.Second, InitialDelay: 3 * time.Second}
	for name, tc := range map[string]struct {
		st   probe.State
		s    probe.Spec
		want time.Time
	}{
		"readiness at once":            {probe.State{Kind: probe.Readiness, StartedAt: start}, spec, start},
		"liveness after a period":      {probe.State{Kind: probe.Liveness, StartedAt: start}, spec, at(10)},
		"startup after a period":       {probe.State{Kind: probe.Startup, StartedAt: start}, spec, at(10)},
		"not before the delay":         {probe.State{Kind: probe.Liveness, StartedAt: start}, delayed, at(3)},
		"startup not before its delay": {probe.State{Kind: probe.Startup, StartedAt: start}, delayed, at(3)},
		"readiness neither":            {probe.State{Kind: probe.Readiness, StartedAt: start}, delayed, at(3)},
		"a delay longer than a period": {probe.State{Kind: probe.Liveness, StartedAt: start},
			probe.Spec{Period: 10 * time.Second, InitialDelay: 25 * time.Second}, at(25)},
		"a delay longer than startup took": {probe.State{Kind: probe.Liveness, StartedAt: start, Released: at(5)},
			probe.Spec{Period: 10 * time.Second, InitialDelay: 25 * time.Second}, at(25)},
		"no delay after the first": {probe.State{Kind: probe.Liveness, StartedAt: start, LastProbed: at(3)},
			delayed, at(13)},
		"then every period": {probe.State{Kind: probe.Liveness, StartedAt: start, LastProbed: at(42)},
			spec, at(52)},
		"held": {probe.State{Kind: probe.Liveness, StartedAt: start, AwaitsStartup: true},
			spec, time.Time{}},
		"over": {probe.State{Kind: probe.Startup, StartedAt: start, LastProbed: at(10),
			Finished: true}, spec, time.Time{}},
		"readiness when startup lets go": {probe.State{Kind: probe.Readiness, StartedAt: start, Released: at(20)}, spec,
			at(20)},
		"liveness a period after that": {probe.State{Kind: probe.Liveness, StartedAt: start, Released: at(20)}, spec,
			at(30)},
		"the delay still holds": {probe.State{Kind: probe.Readiness, StartedAt: start, Released: at(1)},
			delayed, at(3)},
		"adopted containers are spread": {probe.State{Kind: probe.Readiness, StartedAt: start.Add(-time.Hour),
			Adopted: start, Jitter: 4 * time.Second}, spec, at(4)},
	} {
		if got := probe.Next(tc.st, tc.s); !got.Equal(tc.want) {
			t.Errorf("%s: %v, want %v", name, got.Sub(start), tc.want.Sub(start))
		}
	}
}

// row: PRB-04
func TestProbePortIsResolved(t *testing.T) {
	c := &v1.Container{Ports: []v1.ContainerPort{{Name: "first", ContainerPort: 7}, {Name: "web", ContainerPort: 8080},
		{ContainerPort: 8}, {Name: "last", ContainerPort: 9}}}
	for _, tc := range []struct {
		in   intstr.IntOrString
		want string
	}{
		{intstr.FromInt32(80), "80 <nil>"},
		{intstr.FromString("web"), "8080 <nil>"},
		{intstr.FromString("first"), "7 <nil>"},
		{intstr.FromString("last"), "9 <nil>"},
		{intstr.FromString("81"), "81 <nil>"},
		// recordings/pods/readiness-port-name-unknown
		{intstr.FromString("nosuch"), `0 strconv.Atoi: parsing "nosuch": invalid syntax`},
		{intstr.FromInt32(0), "0 invalid port number: 0"},
		{intstr.FromString("65536"), "0 invalid port number: 65536"},
	} {
		n, err := probe.Port(tc.in, c)
		if got := fmt.Sprintf("%d %v", n, err); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.in.String(), got, tc.want)
		}
	}
}

// row: PRB-32
func TestEventFor(t *testing.T) {
	for _, tc := range []struct {
		kind probe.Kind
		o    probe.Outcome
		want string
	}{
		{probe.Liveness, probe.Outcome{Result: probe.Failure, Output: "HTTP probe failed with statuscode: 500"},
			"Unhealthy Liveness probe failed: HTTP probe failed with statuscode: 500 true"},
		{probe.Readiness, probe.Outcome{Result: probe.Failure, Output: "sick\n"},
			"Unhealthy Readiness probe failed: sick\n true"},
		{probe.Startup, probe.Outcome{Err: errors.New("no")},
			"Unhealthy Startup probe errored and resulted in unknown state: no true"},
		{probe.Readiness, probe.Outcome{Result: probe.Warning, Output: "Probe terminated redirects, Response body: x"},
			"ProbeWarning Readiness probe warning: Probe terminated redirects, Response body: x true"},
		{probe.Readiness, probe.Outcome{Result: probe.Success, Output: "fine"}, "  false"},
	} {
		e, ok := probe.EventFor(tc.kind, tc.o)
		if got := fmt.Sprintf("%s %s %v", e.Reason, e.Message, ok); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestExpandStatic(t *testing.T) {
	env := []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", ValueFrom: &v1.EnvVarSource{}}}
	for in, want := range map[string]string{
		"$(A)": "1", "x$(A)y$(A)": "x1y1", "$(B)": "$(B)", "$$(A)": "$(A)", "$A": "$A", "$(A": "$(A", "$": "$", "": "",
		"a$$b": "a$b", "$(NO)z": "$(NO)z",
	} {
		if got := probe.ExpandStatic([]string{in}, env)[0]; got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestLateAnswers(t *testing.T) {
	for _, tc := range []struct {
		late, period time.Duration
		want         bool
	}{
		{0, time.Second, false}, {250 * time.Millisecond, time.Second, false},
		{499 * time.Millisecond, time.Second, false}, {500 * time.Millisecond, time.Second, true},
		{4 * time.Second, 10 * time.Second, false}, {5 * time.Second, 10 * time.Second, true},
	} {
		if got := probe.IsLate(tc.late, probe.Spec{Period: tc.period}); got != tc.want {
			t.Errorf("%v late of %v: got %v, want %v", tc.late, tc.period, got, tc.want)
		}
	}
}

// row: PRB-32
func TestNoEventForGoneContainer(t *testing.T) {
	for text, want := range map[string]bool{
		"rpc error: code = Unknown desc = failed to exec in container: container is in CONTAINER_EXITED state": true,
		"rpc error: code = NotFound desc = failed to exec in container: failed to load task: no running task found: " +
			"not found": true,
		`rpc error: code = Unknown desc = failed to exec in container: exec: "nosuchbinary": executable file not ` +
			`found in $PATH`: false,
	} {
		if probe.ContainerGone(errors.New(text)) != want {
			t.Errorf("%s: want %v", text, want)
		}
	}
	if probe.ContainerGone(nil) {
		t.Error("an answer is no error")
	}
}

package kubelet_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// KEP-5532: a container's end starts the whole Pod over in its sandbox, init containers first,
// again and again without a wait.
func TestRestartAllContainers(t *testing.T) {
	runTest(t, func(r *rig) {
		never := v1.ContainerRestartPolicyNever
		watcher := scriptContainer("watcher", "sleep 2; exit 42")
		watcher.RestartPolicy = &never
		watcher.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action: v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
				Values: []int32{42}},
		}}
		p := pod("job", scriptContainer("worker", runs), watcher)
		p.Spec.InitContainers = []v1.Container{scriptContainer("setup", "true")}
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		r.create(p)
		recording := r.recordStates("default")
		sandbox := r.phase("job", v1.PodRunning).Status.PodIP
		r.advance(3500 * time.Millisecond)
		p = r.phase("job", v1.PodRunning)
		for _, st := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
			if last := st.LastTerminationState.Terminated; st.RestartCount != 1 || last == nil ||
				last.Reason != "RestartingAllContainers" || last.ExitCode != 137 || last.ContainerID != "" {
				t.Errorf("%s: %d restarts, last %+v, want 1 and RestartingAllContainers 137\n%s", st.Name,
					st.RestartCount, last, r.facts.text())
			}
		}
		if p.Status.PodIP != sandbox || r.fake.Count("RunPodSandbox") != 1 {
			t.Errorf("the sandbox was not kept: got %q after %d calls of RunPodSandbox, want %q after 1",
				p.Status.PodIP,
				r.fake.Count("RunPodSandbox"), sandbox)
		}
		if c := condition(p, v1.AllContainersRestarting); c == nil || c.Status != v1.ConditionFalse {
			t.Errorf("got %+v, want Status ConditionFalse", c)
		}
		message := strings.Join(recording.states(), "\n")
		for _, want := range []string{
			"AllContainersRestarting=True RestartAllContainersStarted container exited with restart policy rule",
			"[watcher terminated,Error,42",
		} {
			if !strings.Contains(message, want) {
				t.Errorf("nowhere %q in\n%s", want, message)
			}
		}
		r.advance(10 * time.Second) // each round lasts two seconds and no round waits
		if n := r.get("job").Status.ContainerStatuses[0].RestartCount; n < 4 {
			t.Errorf("%d restarts: a round waited\n%s", n, r.facts.text())
		}
		r.stop()
		r.start()
		before := r.get("job").Status.ContainerStatuses[1].RestartCount
		r.advance(7 * time.Second)
		if n := r.get("job").Status.ContainerStatuses[1].RestartCount; n < before+2 {
			t.Errorf("%d restarts after %d and a restart of the kubelet\n%s", n, before, r.facts.text())
		}
		if r.events.count("Warning BackOff") != 0 || r.events.count("Normal Killing: killing") == 0 {
			t.Errorf(`got %v, want 0 times "Warning BackOff" and count other than 0`, r.events.text())
		}
	})
}

// containerState finds the containers of a recorded state: name, state, restart count.
var containerState = regexp.MustCompile(`\[(\w+ \w+)(,RestartingAllContainers)?[^\[]*? n=(\d+)\]`)

// From the end of the container that asks for it to the removal of all records nothing new is
// shown; then all containers are, at once, with their restart counts one higher: also that of a
// sidecar that was started again before. Then the Pod waits for its sidecars as at its begin.
func TestRestartAllContainersIsShownInOneStep(t *testing.T) {
	runTest(t, func(r *rig) {
		never, always := v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyAlways
		watcher := scriptContainer("watcher", "sleep 5; exit 42")
		watcher.RestartPolicy = &never
		watcher.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action: v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
				Values: []int32{42}},
		}}
		p := pod("job", scriptContainer("worker", runs), watcher)
		crashes, steady := scriptContainer("crashes", "sleep 2; exit 1"), scriptContainer("steady", runs)
		crashes.RestartPolicy, steady.RestartPolicy = &always, &always
		p.Spec.InitContainers = []v1.Container{crashes, steady}
		r.faultOf("job", "StartContainer", "delay(300ms)")
		r.create(p)
		recording := r.recordStates("default")
		r.advance(12 * time.Second)
		var seen []string
		for _, s := range recording.states() {
			phase, _, _ := strings.Cut(strings.TrimPrefix(s, "job "), " ")
			for _, c := range containerState.FindAllStringSubmatch(s, -1) {
				phase += " " + c[1] + strings.Replace(c[2], ",RestartingAllContainers", " removed", 1) + " " + c[3]
			}
			seen = append(seen, phase)
		}
		got := strings.Join(seen, "\n")
		last := -1
		for _, line := range seen {
			_, count, _ := strings.Cut(line, " crashes ")
			count, _, _ = strings.Cut(count, " steady")
			n, err := strconv.Atoi(count[strings.LastIndex(count, " ")+1:])
			if err != nil || n < last {
				t.Errorf("%d restarts of crashes after %d, %v: got\n%s", n, last, err, got)
			}
			if last = n; strings.Contains(line, "removed") && strings.Count(line, "removed") != 4 {
				t.Errorf("got %q, want all containers removed at once", line)
			}
		}
		const awaited = `Pending crashes running 2 steady waiting 1 watcher waiting 1 worker waiting 1
Pending crashes running 2 steady running 1 watcher waiting 1 worker waiting 1
Running crashes running 2 steady running 1 watcher waiting 1 worker running 1
`
		if !strings.Contains(got, awaited) {
			t.Errorf("got\n%s\nwant in it\n%s", got, awaited)
		}
		// The reason RestartingAllContainers may be over before it is written; what it leaves in
		// the last states is not.
		rounds, states := 0, recording.states()
		for i, s := range states[1:] {
			const restarting = "AllContainersRestarting=True"
			if !strings.Contains(states[i], restarting) || strings.Contains(s, restarting) {
				continue
			}
			rounds++
			if gone := strings.Count(s, " last=terminated,RestartingAllContainers,137"); gone != 4 ||
				strings.Count(s, " waiting,") != 4 {
				t.Errorf("got %s, want all 4 containers waiting after they were removed", s)
			}
		}
		if rounds == 0 {
			t.Errorf("got\n%s\nwant a restart of all to be told, and its end", got)
		}
	})
}

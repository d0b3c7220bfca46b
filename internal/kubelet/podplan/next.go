package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// Next decides (upstream: computePodActions). The order of its parts is the order of a Pod's life:
// end it if it has to end, stop unhealthy and changed containers, prepare its volumes, create its
// sandbox, run its init containers, start its containers, remove dead ones.
//
// Nothing is planned for a Pod that is not accepted yet, and nothing is started once
// EffectiveTermination is not nil.
func Next(in In) Plan {
	var p Plan
	if end := EffectiveTermination(in); end != nil {
		return planTermination(in, *end)
	}
	if d, has := deadline(in); has {
		p.wake(d)
	}
	if in.Facts.Accepted.IsZero() {
		return p
	}
	if restartAllContainers(in, &p) {
		return p
	}
	kills, replaced := containersToKill(in, &p)
	if len(kills) > 0 {
		if !in.waitsForRetry(&p, StopTry) {
			p.Do = append(p.Do, Stop{kills})
			p.Do = append(p.Do, replaced...)
		}
		return p
	}
	if in.Facts.VolumesReady.IsZero() {
		if !in.waitsForRetry(&p, PrepareVolumesTry) {
			p.Do = append(p.Do, PrepareVolumes{})
			if canPrepareInParallel(in) {
				p.Do = append(p.Do, CreateSandbox{Parallel: true})
			}
		}
		return p
	}
	if !planSandbox(in, &p) {
		return p
	}
	planResize(in, &p)
	startContainers(in, &p)
	if len(p.Do) == 0 {
		removeDeadContainers(in, &p)
	}
	return p
}

// planSandbox sees to it that there is exactly one ready sandbox, the newest; false means not yet.
func planSandbox(in In, p *Plan) bool {
	newest := in.Observed.Sandbox()
	if in.waitsForRetry(p, StopTry) {
		return false
	}
	if newest != nil && newest.Ready {
		for _, old := range in.Observed.Sandboxes[1:] {
			if old.Ready {
				p.Do = append(p.Do, StopSandbox{ID: old.ID})
			}
		}
		return len(p.Do) == 0
	}
	if newest == nil {
		if !in.waitsForRetry(p, SandboxTry) {
			p.Do = append(p.Do, CreateSandbox{})
		}
		return false
	}
	// The sandbox died under its Pod: what is left in it is stopped, and everything begins again in
	// a new one.
	if kills := killsIn(in, newest.ID); len(kills) > 0 {
		p.Do = append(p.Do, Stop{kills})
	}
	if in.waitsForRetry(p, SandboxTry) {
		return false
	}
	again := willRunAgain(in)
	p.Do = append(p.Do, StopSandbox{ID: newest.ID, Changed: again && len(in.Observed.Containers) > 0})
	if again {
		p.Do = append(p.Do, CreateSandbox{Attempt: newest.Attempt + 1})
	}
	return false
}

// willRunAgain tells whether an app container will run once what is left of the Pod has been
// stopped: not when the end of an init container ends a Pod that is never restarted.
func willRunAgain(in In) bool {
	for _, m := range Members(in.Pod) {
		c := in.Observed.Latest(m.Name)
		if m.Kind == Init && in.Pod.Spec.RestartPolicy == v1.RestartPolicyNever && c != nil &&
			(c.alive() || c.State == Exited && c.Exit.Code != 0) && !ShouldRestart(in.Pod, m, 1) {
			return false
		}
		if m.Kind != App {
			continue
		}
		if c == nil || c.State == Created || c.alive() && ShouldRestart(in.Pod, m, 1) ||
			c.State == Exited && c.shouldRestart(in.Pod, m) {
			return true
		}
	}
	return false
}

func killsIn(in In, sandbox string) []Kill {
	var kills []Kill
	for _, c := range in.Observed.Containers {
		if c.Sandbox == sandbox && c.alive() {
			m, _ := MemberOf(in.Pod, c.Name)
			kills = append(kills, Kill{ID: c.ID, Name: c.Name, Kind: m.Kind, Grace: pod.GracePeriod(&in.Pod.Spec),
				Event: "Stopping container " + c.Name, Cause: "sandbox changed", Restart: ShouldRestart(in.Pod, m, 1)})
		}
	}
	return kills
}

// containersToKill finds running containers that a probe has given up, whose definition changed, or
// whose state the runtime does not know, and says how they are replaced. A container whose back-off
// has time left is only stopped.
func containersToKill(in In, p *Plan) (kills []Kill, then []Action) {
	sandbox, wide := in.Observed.Sandbox(), false
	for _, m := range Members(in.Pod) {
		if sandbox == nil || m.Kind == Ephemeral {
			continue
		}
		c := in.Observed.In(sandbox.ID, m.Name)
		// of an init container only a runtime that died while it started it is held against it
		if c == nil || !c.alive() || m.Kind == Init && c.State != Unknown {
			continue
		}
		text, cause, grace := killReason(in, m, c)
		if cause == "" {
			continue
		}
		again := cause == "changed" || cause == resized || restartsUnobserved(in.Pod, m) ||
			cause == unknownState && m.Kind == App
		last := !again && isLastRunning(in, m.Name)
		switch {
		case cause == resized:
			if !wide {
				wide = true
				then = append(then, Resize{})
			}
		case again && m.Kind == App && cause != unknownState: // of init containers upstream never says it
			text += ", will be restarted"
		case last: // the Pod is stopped as a whole
			text, grace = "Stopping container "+m.Name, pod.GracePeriod(&in.Pod.Spec)
		}
		kills = append(kills, Kill{ID: c.ID, Name: c.Name, Kind: m.Kind, Grace: grace, Event: text, Cause: cause,
			RunPreStop: true, LastContainer: last})
		if !again || !sandbox.Ready || in.Facts.VolumesReady.IsZero() {
			continue
		}
		if ok, carry := in.Limits.afterUnhealthy(c, in.Observed.Previous(c), in.Now); ok {
			then = append(then, Start{Name: m.Name, Kind: m.Kind, Attempt: c.Attempt + 1, Sandbox: sandbox.ID,
				CrashDelay: carry})
			kills[len(kills)-1].Restart = true
		} else {
			kills[len(kills)-1].BackOff = true
		}
	}
	return kills, then
}

// isLastRunning tells whether every other app container has ended for good.
func isLastRunning(in In, name string) bool {
	for _, m := range Members(in.Pod) {
		if m.Kind != App || m.Name == name {
			continue
		}
		if c := in.Observed.Latest(m.Name); c == nil || c.State != Exited || ShouldRestart(in.Pod, m, c.Exit.Code) {
			return false
		}
	}
	return true
}

// Causes of stopping a container.
const (
	resized      = "resize"        // it is restarted for its new size
	unknownState = "unknown state" // the runtime does not know its state
)

// killReason says what is wrong with a running container: the Killing event's text, the cause, and
// the grace it gets.
func killReason(in In, m Member, c *Container) (text, cause string, grace time.Duration) {
	kind, grace := "Container", pod.GracePeriod(&in.Pod.Spec)
	if m.Kind != App {
		kind = "Init container"
	}
	subject := kind + " " + m.Name
	switch h := in.Health[m.Name]; {
	case c.State == Unknown:
		return kind + ` is in "unknown" state, try killing it before restart`, unknownState, grace
	case c.Annotations.Hash != "" && c.Annotations.Hash != Hash(m.Container):
		return subject + " definition changed", "changed", grace
	case h.FailedProbe == "liveness":
		return subject + " failed liveness probe", "liveness probe failed",
			pod.ProbeGracePeriod(&in.Pod.Spec, m.LivenessProbe)
	case h.FailedProbe == "startup":
		return subject + " failed startup probe", "startup probe failed",
			pod.ProbeGracePeriod(&in.Pod.Spec, m.StartupProbe)
	case in.restartsForResize(m):
		return "Container " + m.Name + " resize requires restart", resized, grace
	}
	return "", "", 0
}

// startContainers adds what is to be started in the newest sandbox, which is ready (upstream:
// InitContainersToStart, ContainersToStart, EphemeralContainersToStart). Everything that can be
// started is, in the order of the spec; a failed start makes the executor stop, and the next plan
// goes on with the others: those whose start has failed come after those whose start has not, or
// has failed longer ago, so that none waits while another is tried twice.
func startContainers(in In, p *Plan) {
	addStarts(in, p)
	slices.SortStableFunc(p.Do, func(a, b Action) int {
		return in.Tries[turnOf(a)].FailedAt.Compare(in.Tries[turnOf(b)].FailedAt)
	})
}

// addStarts adds the starts in the order of the spec.
func addStarts(in In, p *Plan) {
	sandbox := in.Observed.Sandbox()
	done := Initialized(in.Pod, in.Observed, sandbox.ID, in.Health)
	blocked := false
	for _, m := range Members(in.Pod) {
		switch m.Kind {
		case Init:
			if done || blocked {
				continue
			}
			c := in.Observed.In(sandbox.ID, m.Name)
			if c != nil && c.State == Exited && c.Exit.Code == 0 {
				continue
			}
			startContainer(in, p, m)
			blocked = true
		case Sidecar:
			if blocked {
				continue
			}
			startContainer(in, p, m)
			c := in.Observed.In(sandbox.ID, m.Name)
			blocked = !done && (c == nil || c.State != Running || !in.Health[m.Name].Started)
		case App:
			if done {
				startContainer(in, p, m)
			}
		case Ephemeral:
			startContainer(in, p, m)
		}
	}
}

// turnOf is the name under which the failures of a container's start are counted; no name for what
// the starts of others wait for.
func turnOf(a Action) string {
	if s, ok := a.(Start); ok && (s.Kind == App || s.Kind == Ephemeral) {
		return s.Name
	}
	return ""
}

// startContainer adds the start of one container if it does not run, may be started, and its time
// has come.
func startContainer(in In, p *Plan, m Member) {
	sandbox := in.Observed.Sandbox()
	c := in.Observed.Latest(m.Name)
	s := Start{Name: m.Name, Kind: m.Kind, Sandbox: sandbox.ID}
	t, failed := in.Tries[m.Name]
	rest := failed && t.Refusal.Code != PostStartHookError && t.Refusal.Code != RunContainerError
	switch {
	case c == nil:
	case c.State == Created && c.Sandbox == sandbox.ID: // made by a kubelet that died before it could start it
		p.Do = append(p.Do, RemoveContainer{c.ID, c.Name})
		s.Attempt, s.CrashDelay = c.Attempt, max(c.Annotations.CrashDelay, 0)
	case c.State != Exited && c.Sandbox == sandbox.ID:
		return
	case m.Kind == Init && c.Sandbox != sandbox.ID:
		// runs again because the sandbox is new: no crash
		s.Attempt, s.CrashDelay = c.Attempt+1, max(c.Annotations.CrashDelay, 0)
	case c.State == Exited && !c.shouldRestart(in.Pod, m):
		return
	case c.State != Exited: // died with its sandbox, unseen
		s.Attempt, s.CrashDelay = c.Attempt+1, max(c.Annotations.CrashDelay, 0)
	default:
		at, carry := in.Limits.next(c)
		switch {
		case c.Sandbox == "" && pod.CanRestartAll(in.Pod):
			// its record went when the Pod started over, which is no crash
			at, carry = in.Now, 0
		case c.Sandbox == "": // only the API remembers it: its wait is counted by its restarts, and is over
			at = in.Now
		case c.Sandbox != sandbox.ID:
			at, carry = in.Now, max(c.Annotations.CrashDelay, 0)
		}
		if in.Now.Before(at) {
			p.wake(at)
			if shown := BackOffShown(in.Observed, c, at); in.Now.Before(shown) {
				p.wake(shown)
			}
			p.Facts = append(p.Facts, in.backingOff(c, at))
			return
		}
		s.Attempt, s.CrashDelay = c.Attempt+1, carry
	}
	if rest && in.waitsForRetry(p, m.Name) {
		return
	}
	p.Do = append(p.Do, s)
}

// deadContainersKept is how many containers of one name stay in the runtime: the newest and the one
// before it, for kubectl logs --previous.
const deadContainersKept = 2

// removeDeadContainers removes containers nobody will ask for, and dead sandboxes that hold none
// (upstream: containerGC.evictContainers and evictSandboxes).
func removeDeadContainers(in In, p *Plan) {
	count, used := map[string]int{}, map[string]bool{}
	for _, c := range in.Observed.Containers {
		count[c.Name]++
		if c.Sandbox == "" {
			continue // only the API remembers it
		}
		if count[c.Name] > deadContainersKept && c.State == Exited {
			p.Do = append(p.Do, RemoveContainer{c.ID, c.Name})
			continue
		}
		used[c.Sandbox] = true
	}
	for i, s := range in.Observed.Sandboxes {
		if i > 0 && !s.Ready && !used[s.ID] {
			p.Do = append(p.Do, RemoveSandbox{s.ID})
		}
	}
	if len(p.Do) > 0 && in.waitsForRetry(p, ReleaseTry) {
		p.Do = nil
	}
}

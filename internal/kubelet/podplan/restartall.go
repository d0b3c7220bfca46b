package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// One container's end can start the whole Pod over in its sandbox (restartPolicyRules with action
// RestartAllContainers, KEP-5532): everything is stopped without preStop hooks, the records go,
// those of the container that asked for it last, so that an interrupted restart goes on; then the
// Pod begins with its first init container. What ran before stays in the status as last state, and
// the restart counts go on from there. No round waits for the one before: a restart of all is no
// crash.

// RestartAllGrace is what running containers get when the whole Pod starts over.
const RestartAllGrace = 2 * time.Second

const restartAll = "all containers restart" // the cause of stopping them

// restartAllRequester is the container of the newest sandbox whose end asks for a restart of all.
func restartAllRequester(p *v1.Pod, seen Observed) *Container {
	sandbox := seen.Sandbox()
	if sandbox == nil || !pod.CanRestartAll(p) {
		return nil
	}
	for _, m := range Members(p) {
		if c := seen.In(sandbox.ID, m.Name); c != nil && c.State == Exited && requestsRestartAll(m, c.Exit.Code) {
			return c
		}
	}
	return nil
}

// requestsRestartAll tells whether the first rule that matches the exit code restarts all
// containers.
func requestsRestartAll(m Member, code int32) bool {
	for _, r := range m.RestartPolicyRules {
		if matches(r.ExitCodes, code) {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		}
	}
	return false
}

// RestartingAll tells whether the whole Pod is being started over.
func RestartingAll(p *v1.Pod, seen Observed) bool { return restartAllRequester(p, seen) != nil }

// restartAllContainers plans the restart of all; false when nobody asked for one.
func restartAllContainers(in In, p *Plan) bool {
	by := restartAllRequester(in.Pod, in.Observed)
	if by == nil {
		return false
	}
	sandbox := in.Observed.Sandbox()
	var kills []Kill
	var forget []Action
	for _, m := range Members(in.Pod) {
		if m.Kind == Ephemeral {
			continue
		}
		for _, c := range slices.Backward(in.Observed.Containers) { // the newest of a name keeps its restart count
			switch {
			case c.Name != m.Name || c.Sandbox != sandbox.ID || c.ID == by.ID:
			case c.alive():
				kills = append(kills,
					Kill{ID: c.ID, Name: c.Name, Kind: m.Kind,
						Grace: min(RestartAllGrace, pod.GracePeriod(&in.Pod.Spec)),
						Event: "killing", Cause: restartAll})
			default:
				forget = append(forget, RemoveContainer{c.ID, c.Name})
			}
		}
	}
	if len(kills) > 0 {
		if !in.waitsForRetry(p, StopTry) {
			p.Do = append(p.Do, Stop{kills})
		}
		return true
	}
	if !in.waitsForRetry(p, ReleaseTry) {
		p.Do = append(forget, RemoveContainer{by.ID, by.Name})
	}
	return true
}

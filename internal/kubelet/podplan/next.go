package podplan

import "time"

// Next decides. The order of its parts is the order of a Pod's life: end it if it has to end, see to sick and changed containers, furnish, give it a
// sandbox, initialise it, start its containers, forget what is old.
func Next(in In) Plan {
	var p Plan
	if end := Ending(in); end != nil {
		return stopping(in, *end)
	}
	if d, has := deadline(in); has {
		p.wake(d)
	}
	if in.Facts.Accepted.IsZero() {
		return p
	}
	if startOver(in, &p) {
		return p
	}
	kills, replaced := sick(in, &p)
	if len(kills) > 0 {
		if !in.held(&p, StopTry) {
			p.Do = append(p.Do, Stop{kills})
			p.Do = append(p.Do, replaced...)
		}
		return p
	}
	if in.Facts.Furnished.IsZero() {
		if !in.held(&p, FurnishTry) {
			p.Do = append(p.Do, Furnish{})
			if together(in) {
				p.Do = append(p.Do, CreateSandbox{Beside: true})
			}
		}
		return p
	}
	if !sandbox(in, &p) {
		return p
	}
	resize(in, &p)
	starts(in, &p)
	if len(p.Do) == 0 {
		forget(in, &p)
	}
	return p
}

// sandbox sees to it that there is exactly one ready sandbox, the newest; false means not yet.
func sandbox(in In, p *Plan) bool {
	newest := in.Seen.Sandbox()
	if in.held(p, StopTry) {
		return false
	}
	if newest != nil && newest.Ready {
		for _, old := range in.Seen.Sandboxes[1:] {
			if old.Ready {
				p.Do = append(p.Do, StopSandbox{ID: old.ID})
			}
		}
		return len(p.Do) == 0
	}
	if newest == nil {
		if !in.held(p, SandboxTry) {
			p.Do = append(p.Do, CreateSandbox{})
		}
		return false
	}
	// The sandbox died under its Pod: what is left in it is stopped, and everything begins again in a new one.
	if kills := leftIn(in, newest.ID); len(kills) > 0 {
		p.Do = append(p.Do, Stop{kills})
	}
	if in.held(p, SandboxTry) {
		return false
	}
	again := goesOn(in)
	p.Do = append(p.Do, StopSandbox{ID: newest.ID, Changed: again && len(in.Seen.Containers) > 0})
	if again {
		p.Do = append(p.Do, CreateSandbox{Attempt: newest.Attempt + 1})
	}
	return false
}

// goesOn tells whether an app container will run once what is left of the Pod has been stopped.
func goesOn(in In) bool {
	for _, m := range Members(in.Pod) {
		if m.Kind != App {
			continue
		}
		if c := in.Seen.Latest(m.Name); c == nil || c.State == Created || c.alive() && Restarts(in.Pod, m, 1) || c.State == Exited && c.restarts(in.Pod, m) {
			return true
		}
	}
	return false
}

func leftIn(in In, sandbox string) []Kill {
	var kills []Kill
	for _, c := range in.Seen.Containers {
		if c.Sandbox == sandbox && c.alive() {
			m, _ := MemberOf(in.Pod, c.Name)
			kills = append(kills, Kill{ID: c.ID, Name: c.Name, Kind: m.Kind, Grace: Grace(in.Pod), Event: "Stopping container " + c.Name, Cause: "sandbox changed", Again: Restarts(in.Pod, m, 1)})
		}
	}
	return kills
}

// sick finds running containers that a probe has given up, whose definition changed, or whose state the runtime does not know, and says how they are
// replaced. A container whose back-off has time left is only stopped.
func sick(in In, p *Plan) (kills []Kill, then []Action) {
	box, wide := in.Seen.Sandbox(), false
	for _, m := range Members(in.Pod) {
		if box == nil || m.Kind == Ephemeral {
			continue
		}
		c := in.Seen.In(box.ID, m.Name)
		if c == nil || !c.alive() || m.Kind == Init && c.State != Unknown { // of an init container only a runtime that died while it started it is held against it
			continue
		}
		text, cause, grace := complaint(in, m, c)
		if cause == "" {
			continue
		}
		again := cause == "changed" || cause == resized || restartsUnended(in.Pod, m) || cause == unseen && m.Kind == App
		last := !again && lastToRun(in, m.Name)
		switch {
		case cause == resized:
			if !wide {
				wide = true
				then = append(then, Resize{})
			}
		case again && m.Kind == App && cause != unseen: // of init containers upstream never says it
			text += ", will be restarted"
		case last: // the Pod is stopped as a whole
			text, grace = "Stopping container "+m.Name, Grace(in.Pod)
		}
		kills = append(kills, Kill{ID: c.ID, Name: c.Name, Kind: m.Kind, Grace: grace, Event: text, Cause: cause, Hook: true, Last: last})
		if !again || !box.Ready || in.Facts.Furnished.IsZero() {
			continue
		}
		if ok, carry := in.Limits.afterSick(c, in.Seen.Previous(c), in.Now); ok {
			then = append(then, Start{Name: m.Name, Kind: m.Kind, Attempt: c.Attempt + 1, Sandbox: box.ID, CrashDelay: carry})
			kills[len(kills)-1].Again = true
		} else {
			kills[len(kills)-1].Held = true
		}
	}
	return kills, then
}

// lastToRun tells whether every other app container has ended for good.
func lastToRun(in In, name string) bool {
	for _, m := range Members(in.Pod) {
		if m.Kind != App || m.Name == name {
			continue
		}
		if c := in.Seen.Latest(m.Name); c == nil || c.State != Exited || Restarts(in.Pod, m, c.Exit.Code) {
			return false
		}
	}
	return true
}

// Causes of stopping a container.
const (
	resized = "resize"        // it is restarted for its new size
	unseen  = "unknown state" // the runtime does not know its state
)

// complaint says what is wrong with a running container: the Killing event's text, the cause, and the grace it gets.
func complaint(in In, m Member, c *Container) (text, cause string, grace time.Duration) {
	kind, grace := "Container", Grace(in.Pod)
	if m.Kind != App {
		kind = "Init container"
	}
	who := kind + " " + m.Name
	switch h := in.Health[m.Name]; {
	case c.State == Unknown:
		return kind + ` is in "unknown" state, try killing it before restart`, unseen, grace
	case c.Notes.Hash != "" && c.Notes.Hash != Hash(m.Container):
		return who + " definition changed", "changed", grace
	case h.Sick == "liveness":
		if l := m.LivenessProbe; l != nil && l.TerminationGracePeriodSeconds != nil {
			grace = time.Duration(*l.TerminationGracePeriodSeconds) * time.Second
		}
		return who + " failed liveness probe", "liveness probe failed", grace
	case h.Sick == "startup":
		if s := m.StartupProbe; s != nil && s.TerminationGracePeriodSeconds != nil {
			grace = time.Duration(*s.TerminationGracePeriodSeconds) * time.Second
		}
		return who + " failed startup probe", "startup probe failed", grace
	case in.anew(m):
		return "Container " + m.Name + " resize requires restart", resized, grace
	}
	return "", "", 0
}

// starts adds what is to be started in the newest sandbox, which is ready. Everything that can be started is, in the order of the spec; a failed start
// makes the executor stop, and the next plan goes on with the others.
func starts(in In, p *Plan) {
	box := in.Seen.Sandbox()
	done := Initialized(in.Pod, in.Seen, box.ID, in.Health)
	blocked := false
	for _, m := range Members(in.Pod) {
		switch m.Kind {
		case Init:
			if done || blocked {
				continue
			}
			c := in.Seen.In(box.ID, m.Name)
			if c != nil && c.State == Exited && c.Exit.Code == 0 {
				continue
			}
			start(in, p, m)
			blocked = true
		case Sidecar:
			if blocked {
				continue
			}
			start(in, p, m)
			c := in.Seen.In(box.ID, m.Name)
			blocked = !done && (c == nil || c.State != Running || !in.Health[m.Name].Started)
		case App:
			if done {
				start(in, p, m)
			}
		case Ephemeral:
			start(in, p, m)
		}
	}
}

// start adds the start of one container if it does not run, may be started, and its time has come.
func start(in In, p *Plan, m Member) {
	box := in.Seen.Sandbox()
	c := in.Seen.Latest(m.Name)
	s := Start{Name: m.Name, Kind: m.Kind, Sandbox: box.ID}
	t, failed := in.Tries[m.Name]
	rest := failed && t.Refusal.Code != PostStartHookError && t.Refusal.Code != RunContainerError
	switch {
	case c == nil:
	case c.State == Created && c.Sandbox == box.ID: // made by a kubelet that died before it could start it
		p.Do = append(p.Do, RemoveContainer{c.ID, c.Name})
		s.Attempt, s.CrashDelay = c.Attempt, max(c.Notes.CrashDelay, 0)
	case c.State != Exited && c.Sandbox == box.ID:
		return
	case m.Kind == Init && c.Sandbox != box.ID:
		s.Attempt, s.CrashDelay = c.Attempt+1, max(c.Notes.CrashDelay, 0) // runs again because the sandbox is new: no crash
	case c.State == Exited && !c.restarts(in.Pod, m):
		return
	case c.State != Exited: // died with its sandbox, unseen
		s.Attempt, s.CrashDelay = c.Attempt+1, max(c.Notes.CrashDelay, 0)
	default:
		at, carry := in.Limits.next(c)
		switch {
		case c.Sandbox == "" && CanRestartAll(in.Pod): // its record went when the Pod started over, which is no crash
			at, carry = in.Now, 0
		case c.Sandbox == "": // only the API remembers it: its wait is counted by its restarts, and is over
			at = in.Now
		case c.Sandbox != box.ID:
			at, carry = in.Now, max(c.Notes.CrashDelay, 0)
		}
		if in.Now.Before(at) {
			p.wake(at)
			if shown := BackOffShown(in.Seen, c, at); in.Now.Before(shown) {
				p.wake(shown)
			}
			p.Say = append(p.Say, in.backingOff(c, at))
			return
		}
		s.Attempt, s.CrashDelay = c.Attempt+1, carry
	}
	if rest && in.held(p, m.Name) {
		return
	}
	p.Do = append(p.Do, s)
}

// kept is how many containers of one name stay in the runtime: the newest and the one before it, for kubectl logs --previous.
const kept = 2

// forget removes containers nobody will ask for, and dead sandboxes that hold none.
func forget(in In, p *Plan) {
	count, used := map[string]int{}, map[string]bool{}
	for _, c := range in.Seen.Containers {
		count[c.Name]++
		if c.Sandbox == "" {
			continue // only the API remembers it
		}
		if count[c.Name] > kept && c.State == Exited {
			p.Do = append(p.Do, RemoveContainer{c.ID, c.Name})
			continue
		}
		used[c.Sandbox] = true
	}
	for i, s := range in.Seen.Sandboxes {
		if i > 0 && !s.Ready && !used[s.ID] {
			p.Do = append(p.Do, RemoveSandbox{s.ID})
		}
	}
	if len(p.Do) > 0 && in.held(p, ReleaseTry) {
		p.Do = nil
	}
}

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gantry-project/gantry/test/replay/pods"
)

// drawer draws a life. What it draws happens at times that are two seconds apart at least, so that
// the order does not depend on which of two is faster, nor on how often upstream looks.
type drawer struct {
	*rand.Rand
	second int // the last that something was drawn for
}

// draw draws n lives in the form of those that are written; the same seed draws the same ones.
func draw(seed uint64, n int) []object {
	var out []object
	for i := range n {
		d := &drawer{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		about, steps := d.steps()
		out = append(out, object{"name": fmt.Sprintf("seed-%d-%d-%s", seed, i, about), "area": "random",
			"steps": steps})
	}
	return out
}

// randomLives are n lives that are drawn.
func randomLives(seed uint64, n int) ([]pods.Case, error) {
	var out []pods.Case
	for _, life := range draw(seed, n) {
		c, err := newLife(life)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (d *drawer) chance(percent int) bool { return d.IntN(100) < percent }

// later is two seconds or more after all others drawn, as a shell's command.
func (d *drawer) later() string {
	d.second += 2 + d.IntN(2)
	return fmt.Sprintf("sleep %d", d.second)
}

func pick[T any](d *drawer, of ...T) T { return of[d.IntN(len(of))] }

// steps draws a life, and says what it is about.
func (d *drawer) steps() (about string, steps []any) {
	if d.chance(5) {
		return "static", d.static()
	}
	spec := map[string]any{
		"restartPolicy":                 pick(d, "Always", "OnFailure", "Never"),
		"terminationGracePeriodSeconds": pick(d, 1, 2, 5),
		"volumes":                       []any{map[string]any{"name": "d", "emptyDir": map[string]any{}}},
	}
	var inits, mains []any
	for i := range pick(d, 0, 0, 0, 1, 2) {
		inits = append(inits, d.initContainer(fmt.Sprintf("i%d", i)))
	}
	for i := range pick(d, 1, 1, 2, 3) {
		mains = append(mains, d.container(fmt.Sprintf("c%d", i)))
	}
	spec["containers"] = mains
	if inits != nil {
		spec["initContainers"] = inits
	}
	if d.chance(10) {
		spec["activeDeadlineSeconds"] = d.second + 4
	}
	if d.chance(10) {
		spec["shareProcessNamespace"] = true
	}
	about, then := "base", []any{map[string]any{"sleep": d.second + pick(d, 3, 6, 12)}}
	if d.chance(70) {
		t := themes[d.IntN(len(themes))]
		about, then = t.name, t.of(d, spec)
	}
	steps = append([]any{map[string]any{"pod": spec}}, then...)
	if brokenStart(spec) { // upstream's kubelet shows it the next time it comes by
		steps = append(steps, sleep(14))
	}
	remove := map[string]any{"name": "p"}
	switch d.IntN(4) {
	case 0:
		return about, steps
	case 1:
		remove["grace"] = pick(d, 0, 1, 3)
		if hasPreStop(spec) { // which a deletion with grace 0 does not run: intended.yaml
			remove["grace"] = pick(d, 1, 3)
		}
	}
	return about, append(steps, map[string]any{"delete": remove},
		map[string]any{"wait": map[string]any{"pod": "p", "until": "gone", "timeout": 40}})
}

// brokenStart tells whether a container of the Pod cannot be made or started.
func brokenStart(spec object) bool {
	broken := false
	for _, list := range []string{"initContainers", "containers"} {
		all, _ := spec[list].([]any)
		for _, c := range all {
			c := c.(object)
			_, command := c["command"]
			broken = broken || c["env"] != nil || c["envFrom"] != nil || command || c["image"] != nil ||
				c["securityContext"] != nil
		}
	}
	return broken
}

// hasPreStop tells whether a container of the Pod has a preStop hook.
func hasPreStop(spec object) bool {
	return slices.ContainsFunc(spec["containers"].([]any), func(c any) bool {
		hooks, _ := c.(object)["lifecycle"].(object)
		return hooks["preStop"] != nil
	})
}

// static is the life of a Pod that a file of the kubelet's has.
func (d *drawer) static() []any {
	c := d.container("c0")
	delete(c, "env") // such a Pod refers to no API objects
	if c["sh"] == nil {
		c["sh"] = runs
	}
	spec := object{"restartPolicy": "Always", "terminationGracePeriodSeconds": pick(d, 1, 2, 5), "containers": []any{c},
		"volumes": []any{object{"name": "d", "emptyDir": object{}}}}
	file := func(m object) any {
		m["name"] = "st.yaml"
		return object{"manifest-file": m}
	}
	return []any{file(object{"content": object{"metadata": object{"name": "st"}, "spec": spec}}),
		object{"wait": object{"pod": "st-*", "until": "running=c0", "timeout": 40}}, sleep(d.second + 10),
		file(object{"remove": true}), object{"wait": object{"pod": "st-*", "until": "gone", "timeout": 60}}}
}

// mount is what every container has, so that it knows whether it runs for the first time.
func mount() []any { return []any{map[string]any{"name": "d", "mountPath": "/d"}} }

const runs = "trap 'exit 0' TERM; while true; do sleep 0.2; done"

func (d *drawer) initContainer(name string) map[string]any {
	c := map[string]any{"name": name, "volumeMounts": mount()}
	switch d.IntN(6) {
	case 0:
		c["sh"] = fmt.Sprintf("test -e /d/%[1]s || { touch /d/%[1]s; exit 1; }; %[2]s", name, d.later())
	case 1:
		c["sh"] = fmt.Sprintf("%s; exit %d", d.later(), 1+d.IntN(5))
	case 2, 3:
		c["restartPolicy"] = "Always"
		c["sh"] = runs
		if d.chance(40) {
			c["sh"] = fmt.Sprintf("%s; exit %d", d.later(), d.IntN(3))
		} else if d.chance(50) {
			c["sh"] = d.later() + "; sleep 1; touch /tmp/up; " + runs
			c["startupProbe"] = probe([]any{"cat", "/tmp/up"}, 1, 30)
		}
	default:
		c["sh"] = d.later()
	}
	return c
}

func probe(command []any, period, failures int) map[string]any {
	return map[string]any{"exec": map[string]any{"command": command}, "periodSeconds": period,
		"failureThreshold": failures}
}

func (d *drawer) container(name string) map[string]any {
	c := map[string]any{"name": name, "volumeMounts": mount()}
	switch d.IntN(12) {
	case 0:
		c["image"] = "registry.example/nope:1"
	case 1:
		c["command"] = []any{"/nope"}
	case 2:
		c["sh"] = runs
		c["env"] = []any{map[string]any{"name": "X",
			"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "nope", "key": "k"}}}}
	case 3, 4:
		c["sh"] = fmt.Sprintf("%s; exit %d", d.later(), pick(d, 0, 1, 42))
	case 5, 6:
		c["sh"] = fmt.Sprintf("test -e /d/%[1]s && { %[2]s; }; touch /d/%[1]s; %[3]s; exit %[4]d", name, runs,
			d.later(), pick(d, 0, 1, 42))
	case 7:
		c["sh"] = "trap '' TERM; while true; do sleep 0.5; done"
	default:
		c["sh"] = runs
	}
	if c["sh"] == runs { // else it ends while it is asked
		d.probes(c)
		d.hooks(c)
	}
	if d.chance(20) {
		c["restartPolicy"] = pick(d, "Never", "OnFailure", "Always")
		if d.chance(60) {
			c["restartPolicyRules"] = []any{map[string]any{"action": "Restart",
				"exitCodes": map[string]any{"operator": pick(d, "In", "NotIn"), "values": []any{42}}}}
		}
	}
	return c
}

func (d *drawer) probes(c map[string]any) {
	if d.chance(20) {
		c["readinessProbe"] = probe([]any{pick(d, "true", "false")}, 2, 2)
	}
	if d.chance(15) {
		c["livenessProbe"] = probe([]any{pick(d, "true", "false", "false")}, 2, 2)
	}
	if d.chance(15) {
		c["startupProbe"] = probe([]any{pick(d, "true", "true", "false")}, 2, 3)
	}
}

func (d *drawer) hooks(c map[string]any) {
	hook := func(script string) map[string]any {
		return map[string]any{"exec": map[string]any{"command": []any{"sh", "-c", script}}}
	}
	all := map[string]any{}
	if d.chance(15) {
		all["preStop"] = hook(pick(d, "sleep 1", "exit 1", "sleep 20"))
	}
	if d.chance(10) {
		all["postStart"] = hook(pick(d, "sleep 1", "exit 1"))
	}
	if len(all) > 0 {
		c["lifecycle"] = all
	}
}

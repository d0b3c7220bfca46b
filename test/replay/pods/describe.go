package pods

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/test/replay"
)

// describesDiffer compares what describe printed line by line; its events as a set, with the
// tolerance that counts of Events have, where upstream repeated them.
func describesDiffer(want, got Recording, events bool) []replay.Difference {
	var out []replay.Difference
	left := slices.Clone(got.Describe)
	for i, w := range want.Describe {
		at := slices.IndexFunc(left, func(g Text) bool { return replay.Match(w.Pod, g.Pod) })
		if at < 0 {
			out = append(out, replay.Difference{Path: "describe " + w.Pod, Want: "it was there", Got: "nothing"})
			continue
		}
		g := left[at]
		left = slices.Delete(left, at, at+1)
		wantAbout, wantEvents := w.split()
		gotAbout, gotEvents := g.split()
		last := !slices.ContainsFunc(want.Describe[i+1:], func(x Text) bool { return x.Pod == w.Pod })
		if last && between(want, got, w.Pod, g.Pod) {
			wantAbout, gotAbout = withoutVolatile(wantAbout), withoutVolatile(gotAbout)
		}
		path := "describe " + w.Pod
		out = append(out, linesDiffer(path, wantAbout, gotAbout)...)
		if events {
			out = append(out, tableDiffers(path, want.withoutEarly(wantEvents, got), gotEvents)...)
		}
	}
	return out
}

// split parts the table of events from the rest.
func (t Text) split() (about, events []string) {
	i := slices.IndexFunc(t.Body, func(l string) bool { return strings.HasPrefix(l, "Events:") })
	if i < 0 {
		return t.Body, nil
	}
	return t.Body[:i], t.Body[i:]
}

// numbered are masks that a number distinguishes.
var numbered = regexp.MustCompile(`<([a-zA-Z -]+)\d+>`)

// tableDiffers compares tables of events. Repeats that kubectl shows on lines of their own count as
// the counts of Events do.
func tableDiffers(path string, want, got []string) []replay.Difference {
	var out []replay.Difference
	left := slices.Clone(got)
	done := map[string]bool{}
	for _, w := range want {
		like := numbered.ReplaceAllString(w, "<$1>")
		if done[like] {
			continue
		}
		done[like] = true
		many := 0.0
		for _, x := range want {
			if numbered.ReplaceAllString(x, "<$1>") == like {
				many++
			}
		}
		before := len(left)
		left = slices.DeleteFunc(left, func(g string) bool { return replay.Match(w, g) })
		mine := float64(before - len(left))
		switch {
		case mine == 0:
			out = append(out, replay.Difference{Path: path, Want: w, Got: "nothing"})
		case math.Abs(many-mine) > max(1, many/3):
			out = append(out, replay.Difference{Path: path, Want: fmt.Sprintf("%s (%g lines)", w, many),
				Got: fmt.Sprintf("%g lines", mine)})
		}
	}
	for _, g := range left {
		out = append(out, replay.Difference{Path: path, Want: "nothing", Got: g})
	}
	return out
}

// volatilePattern are the lines that change with each state of a container.
var volatilePattern = regexp.MustCompile(
	`^Status:|^\s+(State|Last State|Reason|Message|Exit Code|Started|Finished|Ready|Restart Count|Container ID|` +
		`Initialized|ContainersReady|PodReadyToStartContainers):?\s`)

func withoutVolatile(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), volatilePattern.MatchString)
}

// between reports whether the two describes looked at different states that upstream showed within
// a short time of each other: the states themselves are compared in the history.
func between(want, got Recording, wantPod, gotPod string) bool {
	ws, gs := snapshots(group(want.History, "pod").lines[wantPod], "pod"),
		snapshots(group(got.History, "pod").lines[gotPod], "pod")
	w, g := snapshotAt(ws, want.End), snapshotAt(gs, got.End)
	if w < 0 || g < 0 || len(differingPaths(ws[w], gs[g])) == 0 {
		return false
	}
	for _, other := range ws {
		if other.t <= want.End+transientDuration && other.t+other.last >= want.End-transientDuration &&
			len(differingPaths(other, gs[g])) == 0 {
			return true
		}
	}
	return false
}

// snapshotAt is the state at a time, before the cleaning up that begins then.
func snapshotAt(list []snapshot, at float64) int {
	out := -1
	for i, m := range list {
		if m.t <= at && (m.parts[".deletionTimestamp"] == "" || out < 0 ||
			list[out].parts[".deletionTimestamp"] != "") {
			out = i
		}
	}
	return out
}

// differingPaths are the places of the status that differ, but for the generation it is of.
func differingPaths(a, b snapshot) []string {
	return slices.DeleteFunc(unequal(a, b), func(path string) bool {
		return !strings.HasPrefix(path, ".status.") || strings.HasSuffix(path, "bservedGeneration") ||
			strings.HasPrefix(path, ".status.resources")
	})
}

// earlyProbePattern is what a probe says that comes before the program listens: how fast a program
// starts is not the node's.
var earlyProbePattern = regexp.MustCompile(
	`probe failed: .*(connect: connection refused|failed to connect service .* context deadline exceeded)$`)

// withoutEarlyProbes leaves out events that came too early.
func (r Recording) withoutEarlyProbes(got Recording) []map[string]any {
	return slices.DeleteFunc(slices.Clone(r.Events), func(l map[string]any) bool { return r.tooEarly(l, got) })
}

// tooEarly reports whether an Event is of a first probe that came before the program listened,
// where the program did listen at the second and ours had it listening at the first.
func (r Recording) tooEarly(l map[string]any, got Recording) bool {
	text, _ := l["message"].(string)
	if l["reason"] != "Unhealthy" || l["count"] != 1.0 || !earlyProbePattern.MatchString(text) {
		return false
	}
	same := func(o map[string]any) bool {
		other, _ := o["message"].(string)
		return o["reason"] == "Unhealthy" && replay.Match(fmt.Sprint(l["object"]), fmt.Sprint(o["object"])) &&
			o["fieldPath"] == l["fieldPath"] && replay.Match(text, other)
	}
	repeated := slices.ContainsFunc(r.Events,
		func(o map[string]any) bool { n, _ := o["count"].(float64); return n > 1 && same(o) })
	return !repeated && !slices.ContainsFunc(got.Events, same) && (r.listens(l) || r.becomesReady(l))
}

// listens reports whether a later probe of the same container got another answer.
func (r Recording) listens(l map[string]any) bool {
	return slices.ContainsFunc(r.Events, func(o map[string]any) bool {
		return o["reason"] == "Unhealthy" && o["object"] == l["object"] && o["fieldPath"] == l["fieldPath"] &&
			o["message"] != l["message"]
	})
}

func (r Recording) becomesReady(l map[string]any) bool {
	return slices.ContainsFunc(r.History, func(h map[string]any) bool {
		return "Pod/"+fmt.Sprint(h["pod"]) == l["object"] && condition(h, "Ready", "True")
	})
}

// withoutEarly leaves the lines of such events out of a table.
func (r Recording) withoutEarly(table []string, got Recording) []string {
	return slices.DeleteFunc(slices.Clone(table), func(line string) bool {
		return slices.ContainsFunc(r.Events, func(l map[string]any) bool {
			return strings.HasSuffix(line, fmt.Sprint(l["message"])) && r.tooEarly(l, got)
		})
	})
}

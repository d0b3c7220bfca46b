package pods

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/test/replay"
)

// Compare compares what was seen with the recording. Near means equal in what clients act on:
// phases, conditions, states, reasons, exit codes, restart counts, the set of events, codes of
// replies and commands; not messages, resources, printed tables, times.
func Compare(c *Case, got Recording) (diffs []replay.Difference, near bool) {
	want := c.Recorded.withoutLate()
	got = got.withoutLate()
	if c.Stability.History != "differs" {
		diffs = append(diffs, histories("history", "pod", want.History, got.History)...)
		diffs = append(diffs, rowsDiffer(want.Rows, got.Rows)...)
		diffs = append(diffs, describesDiffer(want, got, c.Stability.Events != "differs")...)
	}
	if c.Stability.Events != "differs" {
		diffs = append(diffs, eventsDiffer(want.withoutEarlyProbes(got), got.Events, c.Stability.Events == "same")...)
	}
	diffs = append(diffs, histories("objects", "object", want.Objects, got.Objects)...)
	diffs = append(diffs, repliesDiffer(want.Replies, got.Replies)...)
	diffs = append(diffs, outputsDiffer(want.Output, got.Output)...)
	return diffs,
		!slices.ContainsFunc(diffs, func(d replay.Difference) bool { return !toleratedPaths.MatchString(d.Path) })
}

// withoutLate leaves out Pods that controllers made while the case was being cleaned up: a race
// between the cleaner and the garbage collector.
func (r Recording) withoutLate() Recording {
	late := map[string]bool{}
	seen := map[string]bool{}
	for _, l := range r.History {
		name := fmt.Sprint(l["pod"])
		t, _ := l["t"].(float64)
		if !seen[name] && r.End > 0 && t >= r.End {
			late[name] = true
		}
		seen[name] = true
	}
	if len(late) == 0 {
		return r
	}
	named := func(text string) bool {
		for name := range late {
			if strings.HasSuffix(text, name) || strings.Contains(text, name+" ") {
				return true
			}
		}
		return false
	}
	r.History = slices.DeleteFunc(slices.Clone(r.History),
		func(l map[string]any) bool { return late[fmt.Sprint(l["pod"])] })
	r.Rows = slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return late[row.Cells[0]] })
	r.Events = slices.DeleteFunc(slices.Clone(r.Events), func(l map[string]any) bool {
		return named(fmt.Sprint(l["object"])) || named(fmt.Sprint(l["message"]))
	})
	return r
}

// toleratedPaths are the places where a difference does not make a client act otherwise.
var toleratedPaths = regexp.MustCompile(
	`^(get|describe) |^(history|objects|events) .*(\.message|[rR]esources\b.*|\.user\b.*|\.imageID|\.containerID|` +
		`eneration|\.annotations\b.*|\.volumeMounts\b.*| time| count| message| order)$|^output .* text$|^replies ` +
		`.*\.(message|Warning)$`)

// histories compares the sequences of states of every object, and pairs objects whose names were
// made up.
func histories(part, key string, want, got []map[string]any) []replay.Difference {
	w, g := group(want, key), group(got, key)
	var out []replay.Difference
	for _, name := range w.order {
		pick, cost := "", math.Inf(1)
		for _, candidate := range g.order {
			if !replay.Match(name, candidate) {
				continue
			}
			ws, gs := snapshots(w.lines[name], key), snapshots(g.lines[candidate], key)
			// Of several that were alike, those made at the same time meet.
			if c := align(ws, gs).cost + math.Abs(ws[0].t-gs[0].t)/10; c < cost {
				pick, cost = candidate, c
			}
		}
		if pick == "" {
			out = append(out, replay.Difference{Path: part + " " + name, Want: "it was there", Got: "never seen"})
			continue
		}
		out = append(out, differences(part+" "+name, snapshots(w.lines[name], key), snapshots(g.lines[pick], key))...)
		g.order = slices.DeleteFunc(g.order, func(n string) bool { return n == pick })
	}
	for _, name := range g.order {
		out = append(out, replay.Difference{Path: part + " " + name, Want: "nothing", Got: "it was there"})
	}
	return out
}

type groups struct {
	order []string
	lines map[string][]map[string]any
}

func group(lines []map[string]any, key string) groups {
	g := groups{lines: map[string][]map[string]any{}}
	for _, l := range lines {
		name := fmt.Sprint(l[key])
		if g.lines[name] == nil {
			g.order = append(g.order, name)
		}
		g.lines[name] = append(g.lines[name], l)
	}
	return g
}

// rowsDiffer compares the rows of `kubectl get pods`.
func rowsDiffer(want, got []Row) []replay.Difference {
	lines := func(rows []Row) (out []map[string]any) {
		for _, r := range rows {
			line := map[string]any{"t": r.T, "NAME": r.Cells[0]}
			for i, name := range []string{"READY", "STATUS", "RESTARTS", "IP", "NODE", "NOMINATED", "GATES"} {
				if i+1 < len(r.Cells) {
					line[name] = r.Cells[i+1]
				}
			}
			out = append(out, line)
		}
		return out
	}
	return histories("get", "NAME", lines(want), lines(got))
}

// linesDiffer names lines that are missing and lines that are too many.
func linesDiffer(path string, want, got []string) []replay.Difference {
	var out []replay.Difference
	left := slices.Clone(got)
	for _, w := range want {
		i := slices.IndexFunc(left, func(g string) bool { return replay.Match(w, g) })
		if i < 0 {
			out = append(out, replay.Difference{Path: path, Want: w, Got: "nothing"})
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for i, g := range left {
		if i < len(out) && out[i].Got == "nothing" {
			out[i].Got = g
			continue
		}
		out = append(out, replay.Difference{Path: path, Want: "nothing", Got: g})
	}
	return out
}

func repliesDiffer(want, got []map[string]any) []replay.Difference {
	var out []replay.Difference
	for i := range max(len(want), len(got)) {
		path := fmt.Sprintf("replies %d", i)
		switch {
		case i >= len(got):
			out = append(out, replay.Difference{Path: path, Want: fmt.Sprint(want[i]["verb"], " ", want[i]["path"], " ",
				want[i]["code"]), Got: "no such reply"})
		case i >= len(want):
			out = append(out, replay.Difference{Path: path, Want: "no such reply",
				Got: fmt.Sprint(got[i]["verb"], " ", got[i]["path"], " ", got[i]["code"], " ", got[i]["body"])})
		default:
			w, g := maps.Clone(want[i]), maps.Clone(got[i])
			delete(w, "t")
			delete(g, "t")
			out = append(out, replay.Compare(path, w, g)...)
		}
	}
	return out
}

func outputsDiffer(want, got []Command) []replay.Difference {
	var out []replay.Difference
	for _, w := range want {
		i := slices.IndexFunc(got, func(g Command) bool { return g.Step == w.Step })
		path := fmt.Sprintf("output of step %d (%s)", w.Step, strings.ReplaceAll(w.Line, "\n", " "))
		if i < 0 {
			out = append(out, replay.Difference{Path: path, Want: "exit " + w.Exit, Got: "not run"})
			continue
		}
		if w.Exit != got[i].Exit {
			out = append(out, replay.Difference{Path: path + " exit", Want: w.Exit,
				Got: got[i].Exit + " " + strings.Join(got[i].Body, " | ")})
			continue
		}
		kind := " text"
		if strings.HasPrefix(w.Line, "kubectl exec") || strings.HasPrefix(w.Line, "kubectl logs") {
			kind = " result"
		}
		wantBody, gotBody := w.Body, got[i].Body
		if strings.HasPrefix(w.Line, "kubectl describe") {
			wantBody, gotBody = mapEach(wantBody, maskAges), mapEach(gotBody, maskAges)
		}
		out = append(out, linesDiffer(path+kind, wantBody, gotBody)...)
	}
	return out
}

func mapEach(list []string, f func(string) string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, f(s))
	}
	return out
}

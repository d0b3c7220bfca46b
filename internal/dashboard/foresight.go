package dashboard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

// Simulate runs `gantry simulate` on a copy of what client may read. The error is a usage error
// where the simulation refuses the call. Safe for concurrent use; it ends with ctx.
type Simulate func(ctx context.Context, client kubernetes.Interface, c SimulateCall) (*forecast.Forecast, error)

// SimulateCall is a call of gantry simulate.
type SimulateCall struct {
	Verb  string   // drain, rollout
	Flags []string // --NAME or --NAME=VALUE
	Names []string // what it is about: KIND/NAME
}

// String is the command for a shell.
func (c SimulateCall) String() string {
	words := []string{"gantry", "simulate", c.Verb}
	for _, w := range append(slices.Clone(c.Flags), c.Names...) {
		words = append(words, shellquote.Word(w))
	}
	return strings.Join(words, " ")
}

// maxDrawnPods bounds the Pods that a time line draws.
const maxDrawnPods = 40

// drainCalculator is gantry simulate drain.
func drainCalculator() Calculator {
	return Calculator{Name: "drain", Title: "Drain",
		About: "What draining nodes brings, tried on a copy of this cluster (gantry simulate drain).",
		Fields: []Field{
			{Name: "nodes", Label: "Nodes, by comma", Kind: kindText, Suggest: suggestNodes},
			{Name: "alone", Label: "Pods without a controller", Kind: kindChoice,
				Options: []string{"stop the drain", "are evicted"}, Default: "stop the drain"},
			{Name: "emptydir", Label: "Pods with emptyDir volumes", Kind: kindChoice,
				Options: []string{"stop the drain", "are evicted"}, Default: "are evicted"},
		},
		answer: func(ctx context.Context, a question, values map[string]string) (Forecast, error) {
			call, err := drainCall(values)
			if err != nil || len(call.Names) == 0 {
				return Forecast{Lines: []string{"Name the nodes to drain."}}, err
			}
			return a.foresee(ctx, call)
		}}
}

// drainCall is gantry simulate drain; without names while no node is named.
func drainCall(values map[string]string) (SimulateCall, error) {
	out := SimulateCall{Verb: "drain"}
	for name, flag := range map[string]string{"alone": "--force", "emptydir": "--delete-emptydir-data"} {
		switch values[name] {
		case "are evicted":
			out.Flags = append(out.Flags, flag)
		case "stop the drain", "":
		default:
			return out, cli.UsageError(fmt.Errorf(`%s is %q: must be "stop the drain" or "are evicted"`, name,
				values[name]))
		}
	}
	slices.Sort(out.Flags)
	for n := range strings.SplitSeq(values["nodes"], ",") {
		if n = strings.TrimPrefix(strings.TrimSpace(n), "node/"); n != "" {
			out.Names = append(out.Names, "node/"+n)
		}
	}
	return out, nil
}

// rolloutCalculator is gantry simulate rollout.
func rolloutCalculator() Calculator {
	return Calculator{Name: "rollout", Title: "Rollout",
		About: "How a rollout goes under its bounds, tried on a copy of this cluster (gantry simulate rollout).",
		Fields: []Field{
			{Name: "object", Label: "Workload, as NAMESPACE/deployment/NAME", Kind: kindText,
				Suggest: suggestWorkloads},
			{Name: "surge", Label: "maxSurge", Unit: "%", Kind: kindRange, Max: 100, Step: 5, Default: "25"},
			{Name: "unavailable", Label: "maxUnavailable", Unit: "%", Kind: kindRange, Max: 100, Step: 5,
				Default: "25"},
			{Name: "ready", Label: "A new Pod is ready after", Kind: kindChoice,
				Options: []string{asMeasured, "p50", "p99", "5s", "15s", "30s", "1m", "2m", "5m"}, Default: asMeasured},
		},
		answer: func(ctx context.Context, a question, values map[string]string) (Forecast, error) {
			call, err := rolloutCall(values, a.namespace)
			if err != nil || len(call.Names) == 0 {
				return Forecast{Lines: []string{"Name the workload to roll out."}}, err
			}
			return a.foresee(ctx, call)
		}}
}

// asMeasured is the choice of a time that is taken from the Pods that run.
const asMeasured = "as measured"

// rolloutCall is gantry simulate rollout; without a name while no workload is named. maxSurge is no
// field of a StatefulSet.
func rolloutCall(values map[string]string, namespace string) (SimulateCall, error) {
	out := SimulateCall{Verb: "rollout"}
	object := strings.TrimSpace(values["object"])
	if object == "" {
		return out, nil
	}
	if strings.Count(object, "/") == 2 {
		namespace, object, _ = strings.Cut(object, "/")
	}
	out.Names, out.Flags = []string{object}, []string{"--namespace=" + namespace}
	bounds := []struct{ flag, field string }{{"--max-surge", "surge"}, {"--max-unavailable", "unavailable"}}
	if strings.HasPrefix(object, "statefulset/") || strings.HasPrefix(object, "sts/") {
		bounds = bounds[1:]
	}
	for _, b := range bounds {
		n, err := number(values, b.field, 0, 100)
		if err != nil {
			return out, err
		}
		out.Flags = append(out.Flags, fmt.Sprintf("%s=%d%%", b.flag, int(n)))
	}
	if ready := values["ready"]; ready != asMeasured && ready != "" {
		d, err := time.ParseDuration(ready)
		if ready != "p50" && ready != "p99" && (err != nil || d < 0) {
			return out, cli.UsageError(fmt.Errorf("ready is %q: must be a duration such as 30s, or %q", ready,
				asMeasured))
		}
		out.Flags = append(out.Flags, "--ready-after="+ready)
	}
	return out, nil
}

// foresee simulates and draws.
func (a question) foresee(ctx context.Context, c SimulateCall) (Forecast, error) {
	if a.simulate == nil {
		return Forecast{}, cli.UsageError(fmt.Errorf("this page runs no simulations: use %s", c))
	}
	f, err := a.simulate(ctx, a.client, c)
	if err != nil {
		return Forecast{}, err
	}
	return drawForecast(f, c.String()), nil
}

// drawForecast draws what gantry simulate says.
func drawForecast(f *forecast.Forecast, command string) Forecast {
	out := Forecast{Lines: strings.Split(f.Sentence(), "\n"), Timeline: timeline(f), Copy: command}
	for _, b := range f.Blocked {
		until := "to the end"
		if b.Until != nil {
			until = "until " + seconds(*b.Until)
		}
		out.Troubles = append(out.Troubles, fmt.Sprintf("%s is held up from %s %s: %s", b.Pod, seconds(b.From), until,
			b.Message))
	}
	for _, p := range f.Pending {
		name := p.Pod
		if name == "" {
			name = p.Object
		}
		text := name + " does not become ready: " + p.Cause
		for _, fix := range p.Fixes {
			text += "\n→ " + fix
		}
		out.Troubles = append(out.Troubles, text)
	}
	out.Tables = append(out.Tables, podTable(f))
	if len(f.Capacity) > 0 {
		t := Table{Caption: "Capacity at each moment", Marked: -1,
			Head: []string{"From", "Pods", "Ready", "New", "New and ready", "Leaving"}}
		for _, c := range f.Capacity {
			t.Rows = append(t.Rows, []string{seconds(c.At), fmt.Sprint(c.Total), fmt.Sprint(c.Ready),
				fmt.Sprint(c.New), fmt.Sprint(c.NewReady), fmt.Sprint(c.Leaving)})
		}
		out.Tables = append(out.Tables, t)
	}
	out.Lines = append(out.Lines, f.Notes...)
	return out
}

func podTable(f *forecast.Forecast) Table {
	t := Table{Caption: "The Pods that come, go or move", Marked: -1,
		Head: []string{"Pod", "Node", "Created", "Ready", "Leaves", "Gone", "By", "In place of"}}
	for _, p := range f.Pods {
		created := optionalSeconds(p.Created)
		if p.Created == nil {
			created = "before"
		}
		node := p.Node
		if node == "" {
			node = "none"
		}
		t.Rows = append(t.Rows, []string{p.Key(), node, created, optionalSeconds(p.Ready), optionalSeconds(p.Leaves),
			optionalSeconds(p.Gone), p.Cause, p.Replaces})
	}
	return t
}

// timeline has a lane for the ready Pods of a rollout and one for each Pod, in the forecast's
// order.
func timeline(f *forecast.Forecast) []Lane {
	end := f.Outcome.Took
	for _, p := range f.Pods {
		for _, at := range []*time.Duration{p.Created, p.Ready, p.Leaves, p.Gone} {
			if at != nil {
				end = max(end, *at)
			}
		}
	}
	var out []Lane
	if l := capacityLane(f.Capacity, end); len(l.Spans) > 0 {
		out = append(out, l)
	}
	for i, p := range f.Pods {
		if i == maxDrawnPods {
			out = append(out, Lane{Spans: []Bar{},
				Label: fmt.Sprintf("… and %d Pods more, in the table", len(f.Pods)-i)})
			break
		}
		out = append(out, podLane(p, end))
	}
	return out
}

func capacityLane(moments []forecast.Capacity, end time.Duration) Lane {
	out := Lane{Label: "ready Pods"}
	for i, c := range moments {
		until, text := end, fmt.Sprintf("%d of %d ready", c.Ready, c.Desired)
		if i+1 < len(moments) {
			until = moments[i+1].At
		}
		state := "good"
		switch {
		case c.Ready == 0:
			state = "bad"
		case c.Ready < c.Desired:
			state = "maybe"
		}
		if last := len(out.Spans) - 1; last >= 0 && out.Spans[last].Text == text {
			out.Spans[last].To = until.Seconds() // only others than the ready Pods changed
			continue
		}
		out.Spans = append(out.Spans, Bar{c.At.Seconds(), until.Seconds(), state, text})
	}
	return out
}

// podLane draws a Pod from its creation, or the beginning, until it is gone.
func podLane(p forecast.Pod, end time.Duration) Lane {
	label, where := p.Key(), p.Node
	if where != "" {
		label += " on " + where
	}
	out := []Bar{}
	add := func(from, to time.Duration, state, text string) {
		if to > from {
			out = append(out, Bar{from.Seconds(), to.Seconds(), state, text})
		}
	}
	or := func(at *time.Duration, other time.Duration) time.Duration {
		if at == nil {
			return other
		}
		return *at
	}
	created, leaves, gone := or(p.Created, 0), or(p.Leaves, end), or(p.Gone, end)
	switch {
	case p.Created == nil:
		add(0, leaves, "good", "was there before")
	case p.Ready != nil:
		add(created, *p.Ready, "maybe", "starts")
		add(*p.Ready, leaves, "good", "ready")
	case where == "":
		add(created, leaves, "bad", "waits for a node")
	default:
		add(created, leaves, "bad", "is not ready")
	}
	if p.Leaves != nil {
		add(leaves, gone, "idle", "ends")
	}
	return Lane{Label: label, Spans: out}
}

// seconds prints a time since the change.
func seconds(d time.Duration) string {
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func optionalSeconds(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return seconds(*d)
}

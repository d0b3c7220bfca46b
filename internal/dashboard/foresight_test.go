package dashboard

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

// A form becomes a call of gantry simulate; what is no field's value is refused by the field's
// name, and nothing that a person writes becomes a flag.
func TestFormsBecomeCalls(t *testing.T) {
	form := func(pairs ...string) map[string]string {
		out := map[string]string{"surge": "25", "unavailable": "0"}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = pairs[i+1]
		}
		return out
	}
	rollout := func(v map[string]string) (SimulateCall, error) { return rolloutCall(v, "mine") }
	for name, c := range map[string]struct {
		call   func(map[string]string) (SimulateCall, error)
		values map[string]string
		want   string // the command, or a part of the error
	}{
		"no node yet":    {drainCall, form("nodes", " , "), "gantry simulate drain"},
		"nodes":          {drainCall, form("nodes", "a, node/b"), "gantry simulate drain node/a node/b"},
		"a flag as node": {drainCall, form("nodes", "--from=/x"), "gantry simulate drain node/--from=/x"},
		"all evicted": {drainCall, form("nodes", "a", "alone", "are evicted", "emptydir", "are evicted"),
			"gantry simulate drain --delete-emptydir-data --force node/a"},
		"another choice": {drainCall, form("nodes", "a", "alone", "perhaps"), `alone is "perhaps"`},
		"no object yet":  {rollout, form(), "gantry simulate rollout"},
		"deployment": {rollout, form("object", "deployment/web"),
			"gantry simulate rollout --namespace=mine --max-surge=25% --max-unavailable=0% deployment/web"},
		"of another namespace": {rollout, form("object", "shop/statefulset/db", "ready", "30s"),
			"gantry simulate rollout --namespace=shop --max-unavailable=0% --ready-after=30s statefulset/db"},
		"a percentile": {rollout, form("object", "deployment/web", "ready", "p99"), "gantry simulate rollout " +
			"--namespace=mine --max-surge=25% --max-unavailable=0% --ready-after=p99 deployment/web"},
		"too much surge": {rollout, form("object", "deployment/web", "surge", "101"), `surge is "101"`},
		"no time":        {rollout, form("object", "deployment/web", "ready", "soon"), `ready is "soon"`},
	} {
		call, err := c.call(c.values)
		got := call.String()
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != c.want || err != nil && !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		for _, flag := range call.Flags {
			if strings.HasPrefix(flag, "--from") {
				t.Errorf("%s: got the flag %s, which nobody may give", name, flag)
			}
		}
	}
}

// A forecast is drawn with each Pod's life, what holds it up and what does not become ready.
func TestForecastsAreDrawn(t *testing.T) {
	at := func(s int) *time.Duration { d := time.Duration(s) * time.Second; return &d }
	f := &forecast.Forecast{Verb: "drain", Target: []string{"node/a"},
		Outcome: forecast.Outcome{Done: true, Took: 20 * time.Second, Seeds: 1},
		Pods: []forecast.Pod{
			{Namespace: "d", Name: "old", Node: "a", Leaves: at(5), Gone: at(8), Cause: "evicted"},
			{Namespace: "d", Name: "new", Node: "b", Created: at(5), Ready: at(9), Replaces: "d/old"},
			{Namespace: "d", Name: "late", Created: at(6)}},
		Blocked: []forecast.Blocked{{Pod: "d/old", Budget: "d/web", Message: "needs 1", From: 0, Until: at(5)}},
		Pending: []forecast.Pending{{Pod: "d/late", Cause: "no room", Fixes: []string{"add a node"}}}}
	s := page()
	s.options.Simulate = func(_ context.Context, _ kubernetes.Interface, c SimulateCall) (*forecast.Forecast, error) {
		if c.String() != "gantry simulate drain node/a" {
			t.Errorf("got call %s", c)
		}
		return f, nil
	}
	got, err := question{simulate: s.options.Simulate}.foresee(t.Context(), SimulateCall{Verb: "drain",
		Names: []string{"node/a"}})
	if err != nil {
		t.Fatal(err)
	}
	var lanes []string
	for _, l := range got.Timeline {
		for _, b := range l.Spans {
			lanes = append(lanes, l.Label+": "+b.State+" "+b.Text)
		}
	}
	want := []string{"d/old on a: good was there before", "d/old on a: idle ends", "d/new on b: maybe starts",
		"d/new on b: good ready", "d/late: bad waits for a node"}
	if !slices.Equal(lanes, want) {
		t.Errorf("got lanes %q, want %q", lanes, want)
	}
	if len(got.Troubles) != 2 || !strings.Contains(got.Troubles[0], "until 5.0 s: needs 1") ||
		!strings.Contains(got.Troubles[1], "no room\n→ add a node") {
		t.Errorf("got troubles %q", got.Troubles)
	}
	if !strings.HasPrefix(got.Lines[0], "drain node/a: done after 20.0s") ||
		got.Copy != "gantry simulate drain node/a" {
		t.Errorf("got %q and %q", got.Lines, got.Copy)
	}
	if _, err := (question{}).foresee(t.Context(), SimulateCall{Verb: "drain"}); err == nil {
		t.Error("a page without simulations answers")
	}
}

// The three Pods of the form leave in the kubelet's order; thresholds and figures that cannot be
// are refused by name.
func TestEvictionsAreForeseen(t *testing.T) {
	form := map[string]string{}
	for _, f := range evictionCalculator().Fields {
		form[f.Name] = f.Default
	}
	ask := func(name, value string) (Forecast, error) {
		was := form[name]
		defer func() { form[name] = was }()
		form[name] = value
		return forecastEviction(t.Context(), question{}, form)
	}
	calm, err := ask("grows", "0")
	if err != nil || len(calm.Lines) != 1 || calm.Lines[0] != "nobody goes within 10m0s" {
		t.Errorf("without growth: got %q, %v", calm.Lines, err)
	}
	full, err := ask("capacity", "2560")
	if err != nil {
		t.Fatal(err)
	}
	if len(full.Lines) == 0 || !strings.Contains(full.Lines[0], "default/besteffort goes, for memory.available") {
		t.Errorf("got %q, want the BestEffort Pod to go first", full.Lines)
	}
	if len(full.Tables) != 2 || full.Tables[0].Marked != 0 || full.Tables[0].Rows[0][1] != "BestEffort" {
		t.Errorf("got tables %+v", full.Tables)
	}
	for name, value := range map[string]string{"hard": "much", "soft": "-1", "ranking": "by name", "grace": "",
		"burstable": "NaN"} {
		if _, err := ask(name, value); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s %q: got error %v, want one that names the field", name, value, err)
		}
	}
}

// A node's size becomes settings that the kubelet takes; one that is none is refused.
func TestSizesBecomeSettings(t *testing.T) {
	got, err := forecastSize(map[string]string{"cpu": "4", "memory": "16", "disk": "100"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.Copy, "kind: KubeletConfiguration") || len(got.Tables[0].Rows) != 3 {
		t.Errorf("got %+v", got)
	}
	if _, err := forecastSize(map[string]string{"cpu": "0", "memory": "16", "disk": "0"}); err == nil ||
		!strings.Contains(err.Error(), "cpu") {
		t.Errorf("got %v for a node without cores", err)
	}
}

package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/simulate/nodepressure"
)

// evictionTimes are how a node is looked at: the kubelet's period, for ten minutes.
var evictionTimes = nodepressure.Times{Period: 10 * time.Second, Duration: 10 * time.Minute}

// evictionCalculator is gantry simulate eviction, for memory.
func evictionCalculator() Calculator {
	memory := func(name, label string, most float64, value string) Field {
		return Field{Name: name, Label: label, Unit: "Mi", Kind: kindRange, Max: most, Step: 32, Default: value}
	}
	capacity := memory("capacity", "Memory of the node", 16384, "4096")
	capacity.Min = 512
	return Calculator{Name: "eviction", Title: "Eviction",
		About: "Whom a node without memory evicts, by the kubelet's own decision (gantry simulate eviction): for " +
			"three Pods of the figures here, or for the Pods of a node.",
		Fields: []Field{
			{Name: "node", Label: "Node (empty: the three Pods)", Kind: kindText, Suggest: suggestNodes,
				Optional: true},
			{Name: "ranking", Label: "Order", Kind: kindChoice, Options: eviction.Rankings(),
				Default: string(eviction.Upstream)},
			memory("hard", "evictionHard memory.available", 2048, "100"),
			memory("soft", "evictionSoft memory.available (0: none)", 4096, "512"),
			{Name: "grace", Label: "evictionSoftGracePeriod", Unit: "s", Kind: kindRange, Max: 300, Step: 10,
				Default: "90"},
			memory("reclaim", "evictionMinimumReclaim", 2048, "0"),
			memory("grows", "Use grows by, each minute", 1024, "64"),
			capacity,
			memory("besteffort", "Used by a BestEffort Pod", 8192, "512"),
			memory("burstable", "Used by a Burstable Pod that requests 512Mi", 8192, "1024"),
			memory("guaranteed", "Used by a Guaranteed Pod of 1Gi", 1024, "960"),
		},
		answer: forecastEviction}
}

func forecastEviction(ctx context.Context, a question, values map[string]string) (Forecast, error) {
	n, err := pressedNode(ctx, a, values)
	if err != nil {
		return Forecast{}, err
	}
	if n.Config, err = evictionConfig(values, n.Config); err != nil {
		return Forecast{}, err
	}
	r := nodepressure.Run(n, evictionTimes)
	out := Forecast{Timeline: evictionTimeline(r)}
	for _, v := range r.Victims() {
		out.Lines = append(out.Lines, fmt.Sprintf("after %s %s goes, for %s", seconds(v.At), v.Pod, v.Signal))
	}
	if len(out.Lines) == 0 {
		out.Lines = []string{"nobody goes within " + evictionTimes.Duration.String()}
	}
	if p := mostInformativePass(r); p != nil {
		out.Tables = append(out.Tables, rankedTable(p), thresholdTable(p))
	}
	return out, nil
}

// pressedNode is the node that is asked about: the named one with its kubelet's figures, or one
// with three Pods.
func pressedNode(ctx context.Context, a question, values map[string]string) (nodepressure.Node, error) {
	grows, err := number(values, "grows", 0, 1<<20)
	if err != nil {
		return nodepressure.Node{}, err
	}
	perSecond := int64(grows * (1 << 20) / 60)
	if name := strings.TrimPrefix(strings.TrimSpace(values["node"]), "node/"); name != "" {
		n, err := gather.NodePressure(ctx, a.client, name, true)
		if err != nil {
			return n, err
		}
		for i := range n.Pods { // the whole growth, shared by all
			n.Pods[i].Growth.Memory = perSecond / int64(len(n.Pods))
		}
		return n, nil
	}
	m := nodepressure.Scenario{Node: nodepressure.MixedNode{Name: "node"}}
	sizes := map[string]resource.Quantity{}
	for _, name := range []string{"capacity", "besteffort", "burstable", "guaranteed"} {
		n, err := number(values, name, 0, 1<<24)
		if err != nil {
			return nodepressure.Node{}, err
		}
		sizes[name] = *resource.NewQuantity(int64(n)<<20, resource.BinarySI)
	}
	m.Node.Capacity = map[string]resource.Quantity{string(eviction.MemoryAvailable): sizes["capacity"]}
	for _, name := range []string{"besteffort", "burstable", "guaranteed"} {
		use := sizes[name]
		p := nodepressure.MixedPod{Name: name, Use: nodepressure.MixedUse{Memory: &use}}
		switch name {
		case "burstable":
			p.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("512Mi")}
			p.Growth = map[string]resource.Quantity{"memory": *resource.NewQuantity(perSecond, resource.BinarySI)}
		case "guaranteed":
			p.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"),
				v1.ResourceMemory: resource.MustParse("1Gi")}
			p.Requests = p.Limits
		}
		m.Pods = append(m.Pods, p)
	}
	raw, err := yaml.Marshal(m)
	if err != nil {
		return nodepressure.Node{}, err
	}
	n, err := nodepressure.ReadScenario(raw)
	if err != nil {
		return n, cli.UsageError(err)
	}
	return n, nil
}

// evictionConfig gives a configuration the thresholds of the form.
func evictionConfig(values map[string]string, c eviction.Config) (eviction.Config, error) {
	at := func(name string) (string, error) {
		n, err := number(values, name, 0, 1<<24)
		return fmt.Sprintf("%dMi", int64(n)), err
	}
	hard, err := at("hard")
	soft, err2 := at("soft")
	reclaim, err3 := at("reclaim")
	grace, err4 := number(values, "grace", 0, 1e6)
	ranking, err5 := eviction.ParseRanking(values["ranking"])
	if err5 != nil {
		err5 = cli.UsageError(fmt.Errorf("ranking: %w", err5))
	}
	for _, err := range []error{err, err2, err3, err4, err5} {
		if err != nil {
			return c, err
		}
	}
	signal := string(eviction.MemoryAvailable)
	s := eviction.Settings{Hard: map[string]string{}, MinimumReclaim: map[string]string{signal: reclaim}}
	if hard != "0Mi" {
		s.Hard[signal] = hard
	}
	if soft != "0Mi" {
		s.Soft = map[string]string{signal: soft}
		s.SoftGracePeriod = map[string]string{signal: fmt.Sprintf("%ds", int(grace))}
	}
	thresholds, errs := eviction.Thresholds(s)
	if err := errors.Join(errs...); err != nil {
		return c, cli.UsageError(err)
	}
	c.Thresholds, c.Ranking = thresholds, ranking
	return c, nil
}

// mostInformativePass is the pass that shows most: the first in which a Pod goes, else the last.
func mostInformativePass(r *nodepressure.Result) *nodepressure.Pass {
	for i := range r.Passes {
		if r.Passes[i].Victim != nil {
			return &r.Passes[i]
		}
	}
	if len(r.Passes) == 0 {
		return nil
	}
	return &r.Passes[len(r.Passes)-1]
}

func rankedTable(p *nodepressure.Pass) Table {
	t := Table{Caption: "Who goes first, at " + seconds(p.At), Marked: -1,
		Head: []string{"Pod", "Class", "Priority", "Used", "Requested", "Over", "Why this place"}}
	size := func(n int64) string { return nodepressure.Amount(string(eviction.MemoryAvailable), n) }
	for i, x := range p.Ranked {
		t.Rows = append(t.Rows, []string{x.Pod, x.QOS, fmt.Sprint(x.Priority), size(x.Use), size(x.Request),
			size(x.Over), x.Why})
		if p.Victim != nil && p.Victim.Pod == x.Pod {
			t.Marked = i
		}
	}
	return t
}

// thresholdTable is the walk through the decision: each signal beside its thresholds.
func thresholdTable(p *nodepressure.Pass) Table {
	t := Table{Caption: "Signals and thresholds, at " + seconds(p.At), Marked: -1,
		Head: []string{"Signal", "Available", "Threshold", "Met"}}
	for i, x := range p.Thresholds {
		available := ""
		for _, s := range p.Signals {
			if s.Signal == x.Signal {
				available = nodepressure.Amount(s.Signal, s.Available)
			}
		}
		met := "no"
		switch {
		case x.Met && x.Left > 0:
			met = fmt.Sprintf("since %s, %s of its grace period are left", seconds(x.Since), seconds(x.Left))
		case x.Met:
			met = "yes"
		}
		kind := "hard"
		if x.Grace > 0 {
			kind = "soft, " + x.Grace.String()
		}
		t.Rows = append(t.Rows, []string{x.Signal, available, x.Value + " (" + kind + ")", met})
		if p.Target != nil && p.Target.Signal == x.Signal && p.Target.Value == x.Value {
			t.Marked = i
		}
	}
	return t
}

// evictionTimeline draws the available memory and the Pods that go.
func evictionTimeline(r *nodepressure.Result) []Lane {
	memory := Lane{Label: "memory", Spans: []Bar{}}
	for i, p := range r.Passes {
		until := evictionTimes.Duration
		if i+1 < len(r.Passes) {
			until = r.Passes[i+1].At
		}
		state, text := "good", "above the thresholds"
		switch {
		case p.Victim != nil:
			state, text = "bad", p.Victim.Pod+" goes"
		case p.Target != nil:
			state, text = "bad", "a threshold is crossed"
		case len(p.Conditions) > 0:
			state, text = "maybe", strings.Join(p.Conditions, ", ")
		}
		last := len(memory.Spans) - 1
		if last >= 0 && memory.Spans[last].Text == text {
			memory.Spans[last].To = until.Seconds()
			continue
		}
		memory.Spans = append(memory.Spans, Bar{p.At.Seconds(), until.Seconds(), state, text})
	}
	out := []Lane{memory}
	for i, v := range r.Victims() {
		if i == maxDrawnPods {
			break
		}
		out = append(out, Lane{Label: v.Pod, Spans: []Bar{{0, v.At.Seconds(), "good", "runs"},
			{v.At.Seconds(), evictionTimes.Duration.Seconds(), "idle", "evicted for " + v.Signal}}})
	}
	return out
}

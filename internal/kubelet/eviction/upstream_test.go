package eviction

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var answersFile = flag.String("answers", "testdata/upstream.json.gz", "file of hack/evictiondiff")

// The file of hack/evictiondiff, which explains it.
type (
	upstreamConfig struct {
		Hard, Soft, Grace, Reclaim map[string]string
		EnforcePods                bool
		Transition, MaxPodGrace    int64
		ImageFs, SplitFs           bool
	}
	upstreamFigures map[string][3]int64 // available, capacity, age in seconds
	upstreamUse     struct {
		Memory     *int64 `json:"m"`
		Processes  uint64 `json:"p"`
		Containers []struct {
			Name   string    `json:"n"`
			Memory *int64    `json:"m"`
			Layer  *[2]int64 `json:"r"`
			Logs   *[2]int64 `json:"l"`
		} `json:"c"`
		Volumes map[string][2]int64 `json:"v"`
	}
	upstreamAnswer struct {
		Conditions                        []string
		Met                               []string `json:"starved"` // thresholds, whose grace is over
		Resource, Signal, Victim, Message string
		Reclaimed, Order                  []string
		Grace                             int64
		Annotations                       map[string]string
	}
	upstreamStep struct {
		At             int64
		Figures, After upstreamFigures
		Use            map[string]upstreamUse
		Answer         upstreamAnswer
	}
	upstreamScenario struct {
		Config upstreamConfig
		Pods   []v1.Pod
		Steps  []upstreamStep
	}
	upstreamAnswers struct {
		Upstream string
		Refusals []struct {
			Config upstreamConfig
			Error  string
		}
		Scenarios []upstreamScenario
	}
)

func readAnswers(t *testing.T) upstreamAnswers {
	t.Helper()
	f, err := os.Open(*answersFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var a upstreamAnswers
	if err := json.NewDecoder(z).Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a
}

func (c upstreamConfig) settings() Settings {
	return Settings{Hard: c.Hard, Soft: c.Soft, SoftGracePeriod: c.Grace, MinimumReclaim: c.Reclaim,
		EnforcePods: c.EnforcePods}
}

// TestUpstreamsRefusals compares the texts about settings that cannot be used.
//
// row: EVC-08, EVC-12
func TestUpstreamsRefusals(t *testing.T) {
	a := readAnswers(t)
	if len(a.Refusals) < 20 {
		t.Errorf("got %d refusals, want 20 or more", len(a.Refusals))
	}
	for _, r := range a.Refusals {
		_, errs := Thresholds(r.Config.settings())
		var field *FieldError
		if len(errs) == 0 || !errors.As(errs[0], &field) || !strings.HasSuffix(errs[0].Error(), r.Error) {
			t.Errorf("%+v: got %v, want one about a field that ends with %q", r.Config, errs, r.Error)
		}
	}
}

// TestUpstreamsDecisions compares decisions with those of upstream's manager.
//
// row: EVC-09, EVC-10, EVC-11, EVC-12, EVC-23
func TestUpstreamsDecisions(t *testing.T) {
	a := readAnswers(t)
	victims := map[string]int{}
	for i := range a.Scenarios {
		s := &a.Scenarios[i]
		t.Run(fmt.Sprint(i), func(t *testing.T) { s.compare(t, victims) })
	}
	if len(a.Scenarios) < 1000 || len(victims) != len(signals) {
		t.Errorf("got %d scenarios with victims of %v, want 1000 with victims of every signal", len(a.Scenarios),
			victims)
	}
}

func (s *upstreamScenario) compare(t *testing.T, victims map[string]int) {
	t.Helper()
	list, errs := Thresholds(s.Config.settings())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	disks := Disks{DedicatedImageFs: s.Config.ImageFs, SplitImageFs: s.Config.SplitFs}
	list, _ = ForDisks(list, disks)
	in := In{Disks: disks, Config: Config{Thresholds: list, PressureTransition: seconds(s.Config.Transition),
		MaxPodGrace: seconds(s.Config.MaxPodGrace)}}
	for i := range s.Pods {
		in.Pods = append(in.Pods, &s.Pods[i])
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		in.Now = time.Unix(0, 0).Add(seconds(step.At))
		in.Observations, in.Use = step.Figures.observations(in.Now), step.use(in.Pods)
		d := Decide(in)
		where := fmt.Sprintf("look %d", i)
		step.compareState(t, where, d)
		step.compareVictim(t, where, in, d)
		victims[step.Answer.Signal]++
		in.State = d.State
	}
	delete(victims, "")
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// observations have one time for each file system, as upstream's have.
func (f upstreamFigures) observations(now time.Time) Observations {
	out := Observations{}
	for name, v := range f {
		age := v[2]
		if fs, ok := strings.CutSuffix(name, ".inodesFree"); ok {
			if bytes, measured := f[fs+".available"]; measured {
				age = bytes[2]
			}
		}
		out[Signal(name)] = Observation{At: now.Add(-seconds(age)), Available: v[0], Capacity: v[1]}
	}
	return out
}

func (s *upstreamStep) use(pods []*v1.Pod) map[types.UID]PodUse {
	out := map[types.UID]PodUse{}
	space := func(v *[2]int64) *Space {
		if v == nil {
			return nil
		}
		return &Space{v[0], v[1]}
	}
	for _, p := range pods {
		u, measured := s.Use[p.Name]
		if !measured {
			continue
		}
		x := PodUse{Memory: u.Memory, Processes: u.Processes, Volumes: map[string]Space{}}
		for _, c := range u.Containers {
			x.Containers = append(x.Containers,
				ContainerUse{Name: c.Name, Memory: c.Memory, Layer: space(c.Layer), Logs: space(c.Logs)})
		}
		for name, v := range u.Volumes {
			x.Volumes[name] = Space{v[0], v[1]}
		}
		out[p.UID] = x
	}
	return out
}

func (s *upstreamStep) compareState(t *testing.T, where string, d Decision) {
	t.Helper()
	var conditions, starved []string
	for _, c := range d.Conditions {
		conditions = append(conditions, string(c))
	}
	for _, x := range d.State.ThresholdsMet {
		starved = append(starved, fmt.Sprintf("%s/%s", x.Signal, x.Grace))
	}
	slices.Sort(starved)
	if !slices.Equal(conditions, s.Answer.Conditions) {
		t.Errorf("%s: conditions: got %v, want %v", where, conditions, s.Answer.Conditions)
	}
	if !slices.Equal(starved, s.Answer.Met) {
		t.Errorf("%s: thresholds met: got %v, want %v", where, starved, s.Answer.Met)
	}
}

// compareVictim follows upstream where upstream's choice is by chance: among thresholds that are
// met, memory aside, it takes any.
func (s *upstreamStep) compareVictim(t *testing.T, where string, in In, d Decision) {
	t.Helper()
	a := s.Answer
	if (d.Target != nil) != (a.Resource != "") {
		t.Fatalf("%s: got target %v, want one: %t", where, d.Target, a.Resource != "")
	}
	if d.Target == nil {
		return
	}
	if d.Target.Signal.isMemory() != (a.Resource == "memory") {
		t.Errorf("%s: got %s first, want a threshold of %s first", where, d.Target.Signal, a.Resource)
	}
	if a.Victim == "" {
		s.compareReclaim(t, where, in, d)
		return
	}
	messages := map[string]bool{}
	var chosen *Decision
	for i, threshold := range d.Thresholds {
		x := d
		x.Thresholds = slices.Concat([]Threshold{threshold}, d.Thresholds[:i], d.Thresholds[i+1:])
		x.Victim = nil
		x.choose(in)
		if string(x.Resource) != a.Resource || x.Victim == nil {
			continue
		}
		if string(threshold.Signal) == a.Signal && x.Victim.Grace == seconds(a.Grace) {
			chosen = &x
		}
	}
	if chosen == nil {
		t.Fatalf("%s: no threshold of %v takes %s for %s with %d s of grace", where, d.Thresholds, a.Victim, a.Signal,
			a.Grace)
	}
	for _, threshold := range d.Thresholds {
		if threshold.Signal.Resource() == chosen.Resource {
			x := *chosen
			x.Target = &threshold
			text, _ := message(&x, chosen.Victim.Ranked, in)
			messages[text] = true
		}
	}
	s.compareRanking(t, where, chosen, messages)
}

// compareReclaim: without a victim, either enough was reclaimed or nobody may go.
func (s *upstreamStep) compareReclaim(t *testing.T, where string, in In, d Decision) {
	t.Helper()
	after := s.After
	if after == nil || len(s.Answer.Reclaimed) == 0 {
		after = s.Figures
	}
	resolved := Resolved(in.Config, after.observations(in.Now)) && len(s.Answer.Reclaimed) > 0
	mayGo := slices.ContainsFunc(d.Ranked, func(r Ranked) bool { return !r.Critical })
	if !resolved && mayGo {
		t.Errorf("%s: got victim %s, want none", where, d.Victim.Pod.Name)
	}
}

func (s *upstreamStep) compareRanking(t *testing.T, where string, d *Decision, messages map[string]bool) {
	t.Helper()
	a := s.Answer
	var order, reclaim []string
	for _, r := range d.Ranked {
		order = append(order, r.Pod.Name)
	}
	for _, r := range d.Reclaim {
		reclaim = append(reclaim, string(r))
	}
	if !slices.Equal(reclaim, a.Reclaimed) {
		t.Errorf("%s: reclaims: got %v, want %v", where, reclaim, a.Reclaimed)
	}
	if !slices.Equal(order, a.Order) {
		t.Errorf("%s: order for %s: got %v, want %v", where, a.Signal, order, a.Order)
	}
	if d.Victim.Pod.Name != a.Victim {
		t.Errorf("%s: victim: got %s, want %s", where, d.Victim.Pod.Name, a.Victim)
	}
	if !messages[a.Message] {
		t.Errorf("%s: message: got one of %q, want %q", where, slices.Collect(maps.Keys(messages)), a.Message)
	}
	if !maps.Equal(d.Victim.Annotations, a.Annotations) {
		t.Errorf("%s: annotations: got %v, want %v", where, d.Victim.Annotations, a.Annotations)
	}
}

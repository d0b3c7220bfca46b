package nodepressure

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
)

const mix = `
node:
  name: n1
  capacity: {memory.available: 4Gi, nodefs.available: 20Gi, pid.available: 1000}
  available: {memory.available: 150Mi}
  unusedImages: 1Gi
pods:
- name: batch
  use: {memory: 100Mi, volumes: {scratch: 200Mi}, processes: 10}
- name: web
  priority: 100
  requests: {memory: 200Mi}
  use: {memory: 600Mi, logs: 50Mi}
- name: db
  namespace: data
  requests: {memory: 1Gi, cpu: "1"}
  limits: {memory: 1Gi, cpu: "1"}
  use: {memory: 900Mi}
- name: cache
  requests: {memory: 100Mi}
  use: {memory: 300Mi, layer: 10Mi, inodes: 100}
- name: dns
  critical: true
  use: {memory: 700Mi}
`

func readMix(t *testing.T, text string, s eviction.Settings) Node {
	t.Helper()
	n, err := ReadScenario([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	list, errs := eviction.Thresholds(s)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	n.Config = eviction.Config{Thresholds: list, PressureTransition: 5 * time.Minute, MaxPodGrace: time.Minute,
		FruitlessEvictions: 3, FruitlessHoldPeriod: 5 * time.Minute}
	return n
}

func hard(signal, value string) eviction.Settings {
	return eviction.Settings{Hard: map[string]string{signal: value}}
}

func run(n Node, d time.Duration) *Result {
	return Run(n, Times{Period: 10 * time.Second, Duration: d})
}

func names(list []Victim) (out []string) {
	for _, v := range list {
		out = append(out, fmt.Sprintf("%s@%s", v.Pod, v.At))
	}
	return out
}

func text(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Each step of the decision is printed; one Pod's use, one threshold or one figure of the node
// changes steps and victims.
// row: TOO-02
func TestTheDecisionIsWalkedStepByStep(t *testing.T) {
	n := readMix(t, mix, hard("memory.available", "200Mi"))
	out := text(t, run(n, time.Minute).WriteText)
	for _, step := range []string{
		"  1 signals\n", "memory.available             150Mi of 4Gi available",
		"  2 thresholds\n", "< 200Mi (hard): met for 0s", "  3 conditions: MemoryPressure\n",
		"  4 acts on memory.available < 200Mi (resource memory)\n", "  5 nothing of it can be reclaimed without a " +
			"Pod\n",
		"  6 order\n", "  7 evicts default/cache, which gets 1s to end\n",
		"The node was low on resource: memory. Threshold quantity: 200Mi, available: 150Mi.",
		"Evicted in 1m0s: default/cache (0s, memory.available).",
	} {
		if !strings.Contains(out, step) {
			t.Errorf("the walk lacks %q:\n%s", step, out)
		}
	}
	for _, c := range []struct {
		change string
		want   []string
	}{
		{"pod/batch.memory=40Mi", nil},                               // 210Mi are left
		{"pod/batch.memory=250Mi", []string{"default/batch@0s"}},     // more over its request than cache
		{"pod/web.memory=740Mi", []string{"default/cache@0s"}},       // 10Mi are left
		{"pod/data/db.request.memory=100Mi", []string{"data/db@0s"}}, // 800Mi over
		{"pod/cache.priority=-5", []string{"default/cache@0s"}},
		{"pod/batch.priority=500", []string{"default/cache@0s"}},
		{"node.memory.available=1Gi", nil},
		{"pod/web.growth.memory=1Mi", []string{"default/cache@0s"}},
	} {
		n := readMix(t, mix, hard("memory.available", "200Mi"))
		if err := n.Set(c.change); err != nil {
			t.Fatal(err)
		}
		if got := names(run(n, 5*time.Second).Victims()); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.change, got, c.want)
		}
	}
	if got := names(run(readMix(t, mix, hard("memory.available", "100Mi")), time.Minute).Victims()); len(got) > 0 {
		t.Errorf("a threshold of 100Mi: got %v, want nobody", got)
	}
}

// Every Pod has its place, its class and what puts it there.
// row: TOO-03
func TestEveryPlaceHasItsReason(t *testing.T) {
	for _, c := range []struct {
		ranking eviction.Ranking
		want    []string
	}{
		{eviction.Upstream, []string{
			"1 default/cache Burstable: before batch: takes more than it requests by 200Mi, which is more than 100Mi",
			"2 default/batch BestEffort: before web: priority 0 is lower than 100",
			"3 default/web Burstable: before dns: priority 100 is lower than 2000000000",
			"4 default/dns BestEffort: critical, never a victim; before db: takes 700Mi, more than it requests (0)",
			"5 data/db Guaranteed: behind dns: takes 900Mi, not more than it requests (1Gi)"}},
		{eviction.Seed001, []string{
			"1 default/dns BestEffort: critical, never a victim; before batch: takes more than it requests by 700Mi, " +
				"which is more than 100Mi",
			"2 default/batch BestEffort: before web: BestEffort goes before Burstable",
			"3 default/web Burstable: before cache: takes more than it requests by 400Mi, which is more than 200Mi",
			"4 default/cache Burstable: before db: Burstable goes before Guaranteed",
			"5 data/db Guaranteed: behind cache: Guaranteed goes after Burstable"}},
	} {
		n := readMix(t, mix, hard("memory.available", "200Mi"))
		n.Config.Ranking = c.ranking
		var got []string
		for _, p := range run(n, 0).Passes[0].Ranked {
			got = append(got, fmt.Sprintf("%d %s %s: %s", p.Place, p.Pod, p.QOS, p.Why))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.ranking, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// A soft threshold waits for its grace; what is evicted for frees more than the threshold.
// row: TOO-04
func TestSoftTimersAndMinimumReclaim(t *testing.T) {
	s := eviction.Settings{Soft: map[string]string{"memory.available": "200Mi"},
		SoftGracePeriod: map[string]string{"memory.available": "90s"}}
	n := readMix(t, mix, s)
	if got := names(run(n, time.Minute).Victims()); len(got) > 0 {
		t.Errorf("after 60 s of 90 s: got %v, want nobody", got)
	}
	r := run(n, 2*time.Minute)
	if got := names(r.Victims()); !slices.Equal(got, []string{"default/cache@1m30s"}) {
		t.Errorf("after 90 s: got %v, want cache then", got)
	}
	out := text(t, r.WriteText)
	for _, want := range []string{"(soft, grace 1m30s): met for 0s, 1m30s of the grace left", "… 8 more like it",
		"(soft, grace 1m30s): met for 1m30s", "which gets 1m0s to end"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	h := hard("memory.available", "200Mi")
	h.MinimumReclaim = map[string]string{"memory.available": "400Mi"}
	r = run(readMix(t, mix, h), time.Minute)
	if got := names(r.Victims()); !slices.Equal(got, []string{"default/cache@0s", "default/batch@1s",
		"default/web@2s"}) {
		t.Errorf("with a minimum reclaim of 400Mi: got %v, want three: 450Mi, 550Mi, then 1150Mi are left", got)
	}
	if out := text(t, r.WriteText); !strings.Contains(out, "frees until 600Mi): met until the minimum reclaim is "+
		"there") {
		t.Errorf("the walk does not tell of the minimum reclaim:\n%s", out)
	}
}

func TestReclaimComesBeforePods(t *testing.T) {
	n := readMix(t, mix, hard("nodefs.available", "20Gi"))
	n.Signals[eviction.NodeFsAvailable] = Level{Available: 19 << 30, Capacity: 30 << 30}
	r := run(n, 10*time.Second)
	if len(r.Victims()) > 0 || !r.Passes[0].Resolved || r.Passes[1].Target != nil {
		t.Errorf("got %v, want unused images to be enough", names(r.Victims()))
	}
	n.Signals[eviction.NodeFsAvailable] = Level{Available: 18 << 30, Capacity: 30 << 30}
	if got := names(run(n, 0).Victims()); !slices.Equal(got, []string{"default/batch@0s"}) {
		t.Errorf("got %v, want batch, whose volume is biggest", got)
	}
}

func TestEvictionsThatBringNothingStop(t *testing.T) {
	n := readMix(t, mix, hard("memory.available", "200Mi"))
	n.Wedged = true
	r := run(n, time.Minute)
	if got := len(r.Victims()); got != 3 {
		t.Errorf("got %d victims, want 3", got)
	}
	if out := text(t, r.WriteText); !strings.Contains(out, "3 Pods in a row were evicted for memory.available") {
		t.Errorf("the walk does not name it:\n%s", out)
	}
}

func TestJSONAndSVG(t *testing.T) {
	r := run(readMix(t, mix, hard("memory.available", "200Mi")), time.Minute)
	raw, err := json.Marshal(r)
	var back Result
	if err == nil {
		err = json.Unmarshal(raw, &back)
	}
	if err != nil || !slices.Equal(back.Victims(), r.Victims()) {
		t.Errorf("got %v %v back, want %v", back.Victims(), err, r.Victims())
	}
	svg := text(t, r.WriteSVG)
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"<svg", "default/cache", "polyline", "200Mi (hard)"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
}

func TestEvictionForecast(t *testing.T) {
	n := readMix(t, mix, hard("memory.available", "100Mi"))
	f := Forecast(n, 10)
	if m := f.Margins[0]; m.Left != 50*mi+1 || !m.Near {
		t.Errorf("got %+v, want 50Mi and a byte until the threshold, near", m)
	}
	var got []string
	for _, x := range f.Next {
		got = append(got, fmt.Sprintf("%s %d", x.Pod, (x.At-1)/mi))
	}
	// 50Mi less: cache, which gives back 300Mi; 350Mi less: batch, 100Mi; 450Mi less: web
	want := []string{"default/cache 50", "default/batch 350", "default/web 450", "data/db 1050"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	cache, _ := f.Of("default/cache", f.Margins[0])
	if cache.Place != 1 || len(cache.Saving) != 2 || cache.Saving[0].Request != 200*mi+0 &&
		cache.Saving[0].Request != 201*mi {
		t.Errorf("got place %d, savings %+v; want first, and a request of 201Mi: batch is 100Mi over",
			cache.Place, cache.Saving)
	}
	// what is advised does what it says
	changed := readMix(t, mix, hard("memory.available", "100Mi"))
	if err := changed.Set(fmt.Sprintf("pod/cache.request.memory=%d", cache.Saving[0].Request)); err != nil {
		t.Fatal(err)
	}
	if g := Forecast(changed, 1); g.Next[0].Pod != "default/"+cache.Saving[0].Behind {
		t.Errorf("with %s first is %s, want %s", cache.Saving[0].Change, g.Next[0].Pod, cache.Saving[0].Behind)
	}
	// so much less of memory evicts them in this order
	for i, x := range f.Next[:3] {
		n := readMix(t, mix, hard("memory.available", "100Mi"))
		for _, c := range []struct {
			less int64
			want int
		}{{x.At, i + 1}, {x.At - 1, i}} {
			m := n
			m.Signals = map[eviction.Signal]Level{eviction.MemoryAvailable: {Available: 150*mi - c.less,
				Capacity: 4096 * mi}}
			if m.Signals[eviction.MemoryAvailable].Available < 0 {
				continue // more than there is: only Pods that grow get there
			}
			if got := len(run(m, time.Minute).Victims()); got != c.want {
				t.Errorf("%s: at %d bytes less %d go, want %d", x.Pod, c.less, got, c.want)
			}
		}
	}
}

func TestAHealthyNodeIsNotNear(t *testing.T) {
	n := readMix(t, mix, hard("memory.available", "100Mi"))
	for available, near := range map[int64]bool{2 << 30: false, 400 * mi: false, 310 * mi: false, 300 * mi: true,
		50 * mi: true} {
		n.Signals = map[eviction.Signal]Level{eviction.MemoryAvailable: {Available: available, Capacity: 4 << 30}}
		if m := Forecast(n, 0).Margins[0]; m.Near != near {
			t.Errorf("%s available: near is %t, want %t", size(available), m.Near, near)
		}
	}
}

// Every field that cannot be used is named.
func TestBadMixes(t *testing.T) {
	base := func(pods string) string { return "node: {capacity: {memory.available: 1Gi}}\npods: [" + pods + "]\n" }
	for document, field := range map[string]string{
		"kind: Pod\n":                          "kind: ",
		"node: {}\n":                           "node.capacity: ",
		"nodes: {}\n":                          `unknown field "nodes"`,
		"node: {capacity: {memory: 1Gi}}\n":    "node.capacity.memory: there is no such signal",
		"node: {capacity: {pid.available: 0}}": "node.capacity.pid.available: ",
		"node: {capacity: {pid.available: x}}": "",
		"node: {capacity: {pid.available: 5}, available: {memory.available: 1}}": "node.available.memory.available: ",
		"node: {capacity: {pid.available: 5}, available: {pid.available: 6}}":    "node.available.pid.available: ",
		"node: {capacity: {pid.available: 5}, unusedImages: -1}":                 "node.unusedImages: ",
		base("{name: a/b}"):                                                        "pods[0].name: ",
		base("{name: a}, {name: a}"):                                               "pods[1].name: ",
		base("{name: a, use: {memory: -1}}"):                                       "pods[0].use.memory: ",
		base("{name: a, use: {volumes: {v: -1}}}"):                                 "pods[0].use.volumes.v: ",
		base("{name: a, growthPerSecond: {cpu: 1}}"):                               "pods[0].growthPerSecond.cpu: ",
		base("{name: a, endsAfter: -1s}"):                                          "pods[0].endsAfter: ",
		base("{name: a, requests: {memory: 2}, limits: {memory: 1}}"):              "pods[0].requests.memory: ",
		base("{name: a, requests: {memory: -2}}"):                                  "pods[0].requests.memory: ",
		base("{name: a, spec: {containers: []}}"):                                  "pods[0].spec.containers: ",
		base("{name: a, requests: {}, spec: {containers: [{name: c}]}}"):           "pods[0].spec: ",
		base("{name: a, spec: {containers: [{name: c}]}, use: {volumes: {v: 1}}}"): "pods[0].use.volumes.v: ",
		base("{name: a, memory: 1}"):                                               `unknown field "pods[0].memory"`,
	} {
		if _, err := ReadScenario([]byte(document)); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%q: got %v, want an error with %q", document, err, field)
		}
	}
	for change, field := range map[string]string{
		"pod/web.memory": "must be pod/NAME.KEY=AMOUNT", "web.memory=1": "web.memory: ",
		"pod/none.memory=1": "pod/none.memory: ",
		"pod/web.cpu=1":     "pod/web.cpu: ", "pod/web.memory=much": "pod/web.memory: ",
		"pod/web.memory=-1":     "pod/web.memory: ",
		"pod/web.priority=high": "pod/web.priority: ", "pod/web.volumes.x=1": "pod/web.volumes.x: ",
		"node.imagefs.available=1": "node.imagefs.available: ", "node.pid.available=-1": "node.pid.available: ",
	} {
		n := readMix(t, mix, hard("memory.available", "100Mi"))
		if err := n.Set(change); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("--set %s: got %v, want an error with %q", change, err, field)
		}
	}
}

// The name of two Pods is refused with both; their full names are taken.
func TestAmbiguousNamesAreRefused(t *testing.T) {
	n := readMix(t, mix+"- name: web\n  namespace: data\n  use: {memory: 1Mi}\n", hard("memory.available", "100Mi"))
	err := n.Set("pod/web.memory=2Mi")
	if err == nil || !strings.Contains(err.Error(), "write pod/default/web or pod/data/web") {
		t.Errorf("error %v, want one that names both", err)
	}
	if err := n.Set("pod/data/web.memory=2Mi"); err != nil {
		t.Error(err)
	}
}

// Negative times and amounts are refused with the field.
func TestNegativeSpecsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"  terminationGracePeriodSeconds: -1\n": ".terminationGracePeriodSeconds: -1 must not be negative",
		"  spec: {terminationGracePeriodSeconds: -5, containers: [{name: c}]}\n": ".spec." +
			"terminationGracePeriodSeconds: -5 must",
		"  spec: {containers: [{name: c, resources: {requests: {memory: \"-1\"}}}]}\n": ".spec.containers[0]." +
			"resources.requests.memory: -1 must",
	} {
		if _, err := ReadScenario([]byte(mix + "- name: bad\n" + text)); err == nil ||
			!strings.HasPrefix(err.Error(), "pods[5]"+want) {
			t.Errorf("%s: error %v, want pods[5]%s", text, err, want)
		}
	}
}

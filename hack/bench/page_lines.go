package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/hack/bench/result"
)

// section is a table of the page.
type section struct {
	title string
	lines []line
}

// line is one line of a table: a figure of a part's newest run.
type line struct {
	what         string
	part, figure string
	stat         stat
	budget       budget
	against      string // the figure of the same run that this one is divided by
}

// stat is which of a figure's values a line shows.
type stat int

const (
	middle stat = iota // the median, or the value of what has no samples
	p99
)

func (s stat) of(f result.Figure) *float64 {
	switch {
	case s == p99:
		return f.P99
	case f.Median != nil:
		return f.Median
	}
	return f.Value
}

// budget is what the design wants of a figure, or of a ratio where the unit is ×. The zero budget
// wants nothing.
type budget struct {
	least bool
	limit float64
	unit  string
}

func atMost(limit float64, unit string) budget  { return budget{limit: limit, unit: unit} }
func atLeast(limit float64, unit string) budget { return budget{least: true, limit: limit, unit: unit} }

func (b budget) String() string {
	if b.unit == "" {
		return ""
	}
	sign := map[bool]string{false: "≤", true: "≥"}[b.least]
	return fmt.Sprintf("%s %s%s", sign, result.Number(b.limit), shortUnit(b.unit))
}

// convert is a value in the budget's unit, where that is another one for the same quantity.
func (b budget) convert(v float64, unit string) (float64, string) {
	switch {
	case unit == "MiB" && b.unit == "MB":
		return v * (1 << 20) / 1e6, b.unit
	case unit == "ms" && b.unit == "µs":
		return v * 1000, b.unit
	}
	return v, unit
}

// kept says whether a value, or a ratio, is within the budget.
func (b budget) kept(v float64) bool {
	if b.least {
		return v >= b.limit
	}
	return v <= b.limit
}

// ratio is the cell of a measured value: to the other figure, or else to the budget; bold where the
// budget is missed. It is empty where there is neither.
func (l line) ratio(v float64, other *float64) string {
	var ratio float64
	kept := true
	switch {
	case other != nil && *other != 0:
		ratio = v / *other
		kept = l.budget.unit == "" || l.budget.kept(ratio)
	case other == nil && l.budget.limit != 0:
		ratio = v / l.budget.limit
		kept = l.budget.kept(v)
	default:
		return ""
	}
	digits := 2
	if ratio >= 10 {
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, ratio)
	if !kept {
		return "**" + text + "**"
	}
	return text
}

// sections are the page's tables.
var sections = []section{
	{"One node", oneNode},
	{"Writes (Pods per core-second) and watches", slices.Concat(writes(), watches())},
	{"Services, names and Pod network", podNetwork},
	{"Scheduling through the API server (Pods per core-second), 5,000 nodes unless said", besides()},
	{"Scheduling decisions in memory, 5,000 nodes, all nodes scored", decisions()},
}

// kubeletAlone is how figures of the kubelet's process with 110 Pods at rest begin.
const kubeletAlone = "rest/110 Pods, kubelet alone/gantry kubelet"

var oneNode = []line{
	{"start: /readyz", "start", "new directory/readyz", middle, atMost(1000, "ms"), ""},
	{"start: node Ready", "start", "new directory/node Ready", middle, atMost(2000, "ms"), ""},
	{"start: first Pod Running", "start", "new directory/first Pod Running", middle, atMost(3000, "ms"), ""},
	{"idle `gantry up`: RSS", "idle", "gantry up/RSS", middle, atMost(200, "MB"), ""},
	{"idle `gantry up`: anonymous", "idle", "gantry up/anonymous", middle, atMost(110, "MB"), ""},
	{"idle `gantry up`: CPU of a core", "idle", "gantry up/CPU", middle, atMost(1, "% of a core"), ""},
	{"idle RSS beside upstream's processes", "idle", "gantry up/RSS", middle, atMost(0.25, "×"), "other/RSS"},
	{"journal: CPU", "journal", "CPU", middle, atMost(2, "% of a core"), ""},
	{"kubelet, 110 Pods: anonymous", "node", kubeletAlone + "/anonymous", middle, atMost(50, "MB"), ""},
	{"kubelet, 110 Pods: CPU of a core", "node", kubeletAlone + "/CPU", middle, atMost(1, "% of a core"), ""},
	{"kubelet, 110 Pods: CRI calls/min", "node", "calls/a minute at rest, 110 Pods, kubelet alone", middle, budget{}, ""},
	{"Pod create → Running", "pods", "one by one/start, client", middle, atMost(200, "ms"), ""},
	{"own share as traced, p99", "pods", "one by one/start, own as traced", p99, atMost(10, "ms"), ""},
	{"own share, p99", "pods", "one by one/start, own", p99, budget{}, ""},
	{"50 at once: create → Running", "pods", "at once/start, client", middle, budget{}, ""},
	{"Pod delete → gone", "pods", "one by one/end, client", middle, budget{}, ""},
	{"create → queued, p99", "latencies", "create → queued", p99, atMost(50, "ms"), ""},
	{"scheduler's decision, p99", "latencies", "decision", p99, atMost(100, "ms"), ""},
	{"queued → bound, p99", "latencies", "queued → bound", p99, atMost(200, "ms"), ""},
	{"not ready → EndpointSlice, p99", "latencies", "not ready → EndpointSlice", p99, atMost(1000, "ms"), ""},
	{"process exit → status, p99", "node", "one by one/exit → status", p99, atMost(30, "ms"), ""},
}

// writes are creations of Pods beside the other server.
func writes() (out []line) {
	for _, server := range []string{"gantry server", "gantry up"} {
		for _, clients := range []int{1, 8, 32} {
			figure := fmt.Sprintf("%d clients/Pods per core-second", clients)
			what := strings.Replace(fmt.Sprintf("`%s`, %d clients: Pods", server, clients), "1 clients", "1 client", 1)
			out = append(out, line{what, "api", server + "/" + figure, middle, atLeast(2, "×"), "other/" + figure})
		}
	}
	return out
}

// watches are writes before 100 watchers.
func watches() (out []line) {
	const after, cpu = "/after the answer", "/CPU per write"
	for _, pace := range []struct{ name, short string }{
		{"8 clients at 200 per second", "8 clients, 200/s"}, {"8 clients at once at 200 per second", "8 at once, 200/s"},
		{"8 clients", "8 clients"}, {"32 clients", "32 clients"},
	} {
		figure := "gantry up/" + pace.name + after
		out = append(out, line{pace.short + ": answer → watch, p99", "load", figure, p99, atMost(10, "ms"), ""})
	}
	for _, pace := range []string{"8 clients at 200 per second", "32 clients"} {
		what := strings.Replace(pace, " at 200 per second", ", 200/s", 1) + ": CPU per write"
		out = append(out, line{what, "load", "gantry up/" + pace + cpu, middle, budget{}, "other/" + pace + cpu})
	}
	return out
}

var podNetwork = []line{
	{"change among 10,000 Services", "network-changes", "10000 Services/change", middle, atMost(10, "ms"), ""},
	{"same, p99", "network-changes", "10000 Services/change", p99, atMost(50, "ms"), ""},
	{"first sync of 10,000 Services", "network-changes", "10000 Services/first sync", middle, budget{}, ""},
	{"proxy, 10,000 Services: RSS", "network-changes", "10000 Services/RSS", middle, atMost(150, "MiB"), ""},
	{"connection, one of 10,000 Services", "network-connections", "one of 10000 Services/connection", middle,
		atMost(1.2, "×"), "direct/connection"},
	{"CNI ADD", "network-attachments", "gantry-cni/no port/ADD", middle,
		atMost(0.5, "×"), "reference plugins/no port/ADD"},
	{"CNI ADD with a host port", "network-attachments", "gantry-cni/host port/ADD", middle,
		atMost(0.5, "×"), "reference plugins/host port/ADD"},
	{"CNI DEL", "network-attachments", "gantry-cni/no port/DEL", middle, budget{}, "reference plugins/no port/DEL"},
	{"DNS, 32 clients: queries", "dns", "32 clients/queries", middle, budget{}, ""},
	{"DNS, 32 clients: p99", "dns", "32 clients/query", p99, budget{}, ""},
}

// besides are the cases of scheduler_perf, at 5,000 nodes unless said.
func besides() (out []line) {
	for _, c := range []struct {
		name  string
		nodes int
	}{
		{"SchedulingBasic", 5000}, {"SchedulingNodeAffinity", 5000}, {"SchedulingPodAffinity", 5000},
		{"SchedulingPodAntiAffinity", 5000}, {"TopologySpreading", 5000},
		{"SchedulingWithMixedChurn", 5000}, {"Unschedulable", 5000},
		{"SchedulingWhileGated", 5000}, {"SchedulingDaemonset", 5000}, {"SchedulingCSIPVs", 5000},
		{"SchedulingMigratedInTreePVs", 5000}, {"SchedulingWithResourceClaim", 5000}, {"PreemptionAsync", 5000},
		{"PreemptionAsync", 500},
	} {
		figure := fmt.Sprintf("%s, %d nodes/Pods per core-second", c.name, c.nodes)
		what := c.name
		if c.nodes != 5000 {
			what += fmt.Sprintf(", %d nodes", c.nodes)
		}
		out = append(out, line{what, "schedperf-beside", "gantry/" + figure, middle, atLeast(10, "×"), "other/" + figure})
	}
	figure := "SchedulingBasic, 5000 nodes/create → bound"
	what := "SchedulingBasic: create → bound, p99"
	return append(out, line{what, "schedperf-beside", "gantry/" + figure, p99, budget{}, "other/" + figure})
}

// decisions are those in memory.
func decisions() (out []line) {
	const part, traced, in, figure = "schedperf-memory", "schedperf-openb", "gantry/", ", 5000 nodes/decision"
	for _, name := range []string{
		"SchedulingBasic", "SchedulingPodAffinity", "TopologySpreading", "SchedulingDaemonset", "SchedulingWithResourceClaim",
	} {
		out = append(out, line{name, part, in + name + figure, middle, atMost(10, "µs"), ""})
	}
	return append(out,
		line{"SchedulingBasic, p99", part, in + "SchedulingBasic" + figure, p99, atMost(1, "ms"), ""},
		line{"PreemptionAsync, victims included", part, in + "PreemptionAsync" + figure, middle, budget{}, ""},
		line{"trace openb, 1,523 nodes", traced, in + "openb, 1523 nodes/decision", middle, budget{}, ""},
		line{"trace openb, 100,000 nodes", traced, in + "openb, grown, 100000 nodes/decision", middle, budget{}, ""})
}

package sizing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/sizing"
)

const gi = 1 << 30

// busy is a container that takes 100m and 100Mi nine tenths of the time, and ten times as much
// else.
func busy() string {
	var b strings.Builder
	b.WriteString("time,namespace,pod,container,cpu,memory\n")
	for i := range 200 {
		cpu, memory := "100m", "100Mi"
		if i%10 == 0 {
			cpu, memory = "1", "1000Mi"
		}
		fmt.Fprintf(&b, "%d,shop,web-6d5f7c9b8-x2x4%c,app,%s,%s\n", i, "bcdfghj"[i%7], cpu, memory)
	}
	return b.String()
}

// row: TOO-10
func TestRequestsAreThe95thPercentile(t *testing.T) {
	s := sizing.Series{}
	if err := sizing.ReadCSV(strings.NewReader(busy()), s); err != nil {
		t.Fatal(err)
	}
	u := s[sizing.Key{Namespace: "shop", Workload: "web", Container: "app"}]
	if len(s) != 1 || u == nil {
		t.Fatalf("got %v, want one container: the Pods are of one Deployment", s.Keys())
	}
	a := sizing.Containers(s, sizing.DefaultPolicy())[0]
	if got := a.Request.CPU.String() + " " + a.Request.Memory.String(); got != "1 1000Mi" {
		t.Errorf("got requests %s, want 1 1000Mi: the averages are 190m and 190Mi", got)
	}
	if a.CPU.Average < 0.189 || a.CPU.Average > 0.191 {
		t.Errorf("got average %g, want 0.19", a.CPU.Average)
	}
	if a.Limit.CPU != nil || a.Limit.Memory.String() != "1200Mi" || a.Ratio.Memory != 1.2 {
		t.Errorf("got limits %v %v, ratio %g; want none, 1200Mi, 1.2", a.Limit.CPU, a.Limit.Memory, a.Ratio.Memory)
	}
	if !slices.ContainsFunc(a.Warnings, func(w string) bool { return strings.Contains(w, "times its average") }) {
		t.Errorf("got warnings %q, want one about the average", a.Warnings)
	}
	for i := range u.Memory { // from 10m and 1Mi to 1 and 100Mi, evenly: the 95th of a hundred
		u.CPU[i], u.Memory[i] = float64(i/2+1)/100, float64((i/2+1)<<20)
	}
	a = sizing.Containers(s, sizing.DefaultPolicy())[0]
	if got := a.Request.CPU.String() + " " + a.Request.Memory.String(); got != "950m 95Mi" {
		t.Errorf("got requests %s, want 950m 95Mi", got)
	}
	for i := range u.Memory { // one peak in 200 samples: the request does not follow, the limit does
		u.CPU[i], u.Memory[i] = 0.1, 100<<20
	}
	u.Memory[7] = 1000 << 20
	limit := resource.MustParse("1Gi")
	request := resource.MustParse("64Mi")
	u.Request, u.Limit = &sizing.Resources{Memory: &request}, &sizing.Resources{Memory: &limit}
	a = sizing.Containers(s, sizing.DefaultPolicy())[0]
	if a.Request.Memory.String() != "100Mi" || a.Ratio.Memory != 12 {
		t.Errorf("got %s, ratio %g; want 100Mi and 12", a.Request.Memory, a.Ratio.Memory)
	}
	for _, want := range []string{"the limit is 12.00 times the request", "its limit now is 16.00 times its request",
		"came within 10% of its limit of 1Gi", "requests 64Mi now and takes more"} {
		if !strings.Contains(strings.Join(a.Warnings, "\n"), want) {
			t.Errorf("got warnings %q, want one with %q", a.Warnings, want)
		}
	}
}

func TestFewSamplesAreSaid(t *testing.T) {
	s := sizing.Series{sizing.Key{Workload: "w", Container: "c"}: {Memory: []float64{1, 2, 3}}}
	a := sizing.Containers(s, sizing.DefaultPolicy())[0]
	all := strings.Join(a.Warnings, "\n")
	if !strings.Contains(all, "cpu: nothing was measured") || !strings.Contains(all, "memory: 3 samples say little") ||
		a.Request.CPU != nil || a.Request.Memory.String() != "4Mi" {
		t.Errorf("got %+v", a)
	}
}

// All three forms give the same series.
func TestSeriesOfPrometheus(t *testing.T) {
	var text, matrix strings.Builder
	var cpu, memory []string
	for i := range 5 {
		ms := 1_700_000_000_000 + i*15000
		fmt.Fprintf(&text, "# TYPE container_cpu_usage_seconds_total "+
			"counter\ncontainer_cpu_usage_seconds_total{container=\"app\","+
			"namespace=\"shop\",pod=\"web-0\"} %g %d\n", float64(i)*3, ms)
		fmt.Fprintf(&text, "container_memory_working_set_bytes{container=\"app\",namespace=\"shop\",pod=\"web-0\"} "+
			"%d %d\n"+
			"container_memory_working_set_bytes{namespace=\"shop\",pod=\"web-0\"} 1 %d\nother_metric 1\n", 100+i, ms,
			ms)
		cpu = append(cpu, fmt.Sprintf(`[%d.5,"%g"]`, ms/1000, float64(i)*3))
		memory = append(memory, fmt.Sprintf(`[%d,"%d"]`, ms/1000, 100+i))
	}
	labels := `"namespace":"shop","pod":"web-0","container":"app"`
	answer := func(metric, values string) string {
		return `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{` + metric + labels +
			`},"values":[` +
			values + `]}]}}`
	}
	matrix.WriteString(answer(`"__name__":"container_cpu_usage_seconds_total",`, strings.Join(cpu, ",")))
	matrix.WriteString(answer(`"__name__":"container_memory_working_set_bytes",`, strings.Join(memory, ",")))
	fromText, fromJSON := sizing.Series{}, sizing.Series{}
	if err := sizing.ReadPrometheusText(strings.NewReader(text.String()), fromText); err != nil {
		t.Fatal(err)
	}
	if err := sizing.ReadPrometheusJSON(strings.NewReader(matrix.String()), "", fromJSON); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]sizing.Series{"text": fromText, "JSON": fromJSON} {
		u := s[sizing.Key{Namespace: "shop", Workload: "web", Container: "app"}]
		if len(s) != 1 || u == nil {
			t.Fatalf("%s: got %v, want one container", name, s)
		}
		slices.Sort(u.Memory)
		if got := fmt.Sprint(u.CPU, u.Memory); got != "[0.2 0.2 0.2 0.2] [100 101 102 103 104]" {
			t.Errorf("%s: got %s", name, got)
		}
	}
	rates := sizing.Series{}
	if err := sizing.ReadPrometheusJSON(strings.NewReader(answer("", `[1,"0.25"],[2,"NaN"]`)), sizing.CPU,
		rates); err != nil {
		t.Fatal(err)
	}
	if got := rates[rates.Keys()[0]].CPU; !slices.Equal(got, []float64{0.25}) {
		t.Errorf("got %v, want 0.25", got)
	}
}

// Every place that cannot be used is named.
func TestBadUsage(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "line 1: ",
		"container,cpu\n":                      "line 1: has no column memory",
		"container,cpu,memory\na,1\n":          "line 2: ",
		"container,cpu,memory\n,1,1\n":         "line 2: container: ",
		"container,cpu,memory\na,1,1\na,x,1\n": "line 3: cpu: ",
		"container,cpu,memory\na,1,-1\n":       "line 2: memory: ",
	} {
		if err := sizing.ReadCSV(strings.NewReader(text), sizing.Series{}); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want an error that begins with %q", text, err, want)
		}
	}
	one := func(value string) string {
		return `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"container":"a"},"values":[` +
			value + `]}]}}`
	}
	for text, want := range map[string]string{
		`{"status":"error","error":"bad"}`:                    `status: "error": bad`,
		`{"status":"success","data":{"resultType":"scalar"}}`: "data.resultType: ",
		one(`[1,"1"]`):   "data.result[0].metric.__name__: ",
		one(`[1,2]`):     "data.result[0].values[0]: ",
		one(`[1,"-1"]`):  "data.result[0].values[0]: ",
		one(`["a","1"]`): "data.result[0].values[0]: ",
		`{`:              "unexpected EOF",
	} {
		if err := sizing.ReadPrometheusJSON(strings.NewReader(text), "", sizing.Series{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
	err := sizing.ReadPrometheusText(strings.NewReader("container_cpu_usage_seconds_total{container=\"a\"} 1\n"),
		sizing.Series{})
	if err == nil || !strings.Contains(err.Error(), "has no time") {
		t.Errorf("got %v, want an error about the time", err)
	}
	for size, field := range map[sizing.NodeSize]string{{10, gi, 0}: "cpu: ", {1000, 1, 0}: "memory: ", {1000, gi,
		1}: "disk: "} {
		if err := sizing.CheckSize(size); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%+v: got %v, want an error about %s", size, err, field)
		}
	}
}

// What is reserved grows with the node, more slowly than it, and all of it adds up.
// row: TOO-11
func TestReservationsByNodeSize(t *testing.T) {
	for _, c := range []struct {
		cpu, memory                         int64
		kube, system, hard, kubeCPU, sysCPU string
	}{
		{2000, 4, "1Gi", "100Mi", "100Mi", "70m", "40m"},
		{4000, 16, "2663Mi", "328Mi", "328Mi", "80m", "80m"},
		{16000, 64, "5612Mi", "1311Mi", "1Gi", "110m", "320m"},
		{64000, 256, "12166Mi", "2Gi", "1Gi", "230m", "500m"},
	} {
		n := sizing.NodeSize{MilliCPU: c.cpu, Memory: c.memory * gi, Disk: 100 * gi}
		a := sizing.Node(n)
		got := []string{a.Kube["memory"], a.System["memory"], a.Hard["memory.available"], a.Kube["cpu"],
			a.System["cpu"]}
		if want := []string{c.kube, c.system, c.hard, c.kubeCPU, c.sysCPU}; !slices.Equal(got, want) {
			t.Errorf("%d Gi: got %v, want %v", c.memory, got, want)
		}
		for name, left := range a.Allocatable {
			sum := left.DeepCopy()
			for _, text := range []string{a.Kube[string(name)], a.System[string(name)],
				map[v1.ResourceName]string{v1.ResourceMemory: a.Hard["memory.available"],
					v1.ResourceEphemeralStorage: a.Hard["nodefs.available"]}[name]} {
				if text != "" {
					sum.Add(resource.MustParse(text))
				}
			}
			if all := n.Capacity()[name]; sum.Cmp(all) != 0 {
				t.Errorf("%d Gi: %s: allocatable and what is kept are %s, want %s", c.memory, name, sum.String(),
					all.String())
			}
		}
		if warnings := sizing.Check(n, reserved(a.Kube, a.System, a.Hard["memory.available"])); len(warnings) > 0 {
			t.Errorf("%d Gi: its own advice is warned of: %q", c.memory, warnings)
		}
	}
}

func reserved(kube, system map[string]string, hard string) kubeletresource.Reserved {
	return kubeletresource.Reserved{Kube: kubeletresource.ParseQuantities(kube),
		System:   kubeletresource.ParseQuantities(system),
		Eviction: v1.ResourceList{v1.ResourceMemory: resource.MustParse(hard)}}
}

// row: TOO-12
func TestThresholdsFollowTheNodeSize(t *testing.T) {
	last := resource.Quantity{}
	for _, memory := range []int64{4, 16, 64, 256} {
		a := sizing.Node(sizing.NodeSize{MilliCPU: 4000, Memory: memory * gi, Disk: memory * 20 * gi})
		hard, soft := resource.MustParse(a.Hard["memory.available"]), resource.MustParse(a.Soft["memory.available"])
		if hard.Cmp(last) < 0 || soft.Cmp(hard) <= 0 || hard.Value() > memory*gi/20 || hard.Value() < 100<<20 {
			t.Errorf("%d Gi: hard %s, soft %s; want at least %s, the soft one above, at most a twentieth", memory,
				hard.String(),
				soft.String(), last.String())
		}
		if a.Grace["memory.available"] == "" || a.Grace["nodefs.available"] == "" {
			t.Errorf("got grace periods %v, want one for each soft threshold", a.Grace)
		}
		last = hard
	}
	if a := sizing.Node(sizing.NodeSize{MilliCPU: 4000, Memory: 16 * gi,
		Disk: 2000 * gi}); a.Hard["nodefs.available"] != "20Gi" {
		t.Errorf("a disk of 2000Gi: got %s, want 20Gi: a tenth is more than a node needs", a.Hard["nodefs.available"])
	}
	for _, c := range []struct {
		memory, disk                int64 // Gi; a disk of 0 is not known
		hard, soft                  string
		nodefs, imagefs, softNodefs string
	}{
		{4, 80, "100Mi", "200Mi", "8Gi", "12Gi", "12Gi"},
		{4, 2, "100Mi", "200Mi", "512Mi", "512Mi", "768Mi"},
		{16, 2000, "328Mi", "656Mi", "20Gi", "30Gi", "30Gi"},
		{256, 0, "1Gi", "2Gi", "10%", "15%", "15%"},
	} {
		a := sizing.Node(sizing.NodeSize{MilliCPU: 4000, Memory: c.memory * gi, Disk: c.disk * gi})
		got := fmt.Sprint(a.Hard, a.Soft, a.Grace, a.Reclaim)
		want := fmt.Sprint(map[string]string{"memory.available": c.hard, "nodefs.available": c.nodefs,
			"imagefs.available": c.imagefs, "nodefs.inodesFree": "5%", "imagefs.inodesFree": "5%",
			"pid.available": "5%"},
			map[string]string{"memory.available": c.soft, "nodefs.available": c.softNodefs},
			map[string]string{"memory.available": "1m30s", "nodefs.available": "2m"},
			map[string]string{"memory.available": c.hard})
		if got != want {
			t.Errorf("%d Gi of memory, a disk of %d: got hard, soft, grace and reclaim\n%s\nwant\n%s", c.memory,
				c.disk, got, want)
		}
	}
}

// row: EVC-35
func TestReservationsAtBothExtremesAreWarnedOf(t *testing.T) {
	n := sizing.NodeSize{MilliCPU: 4000, Memory: 16 * gi}
	for name, c := range map[string]struct {
		r    kubeletresource.Reserved
		want []string // each in the warning of its place
	}{
		"nothing": {reserved(nil, nil, "100Mi"), []string{"0 of cpu, too little", "0 of memory, too little",
			"memory.available is 100Mi, too little"}},
		"too much": {reserved(map[string]string{"cpu": "2", "memory": "6Gi"}, map[string]string{"cpu": "1",
			"memory": "4Gi"}, "4Gi"),
			[]string{"3 of cpu, too much", "10Gi of memory, too much", "memory.available is 4Gi, too much"}},
		"as advised": {reserved(map[string]string{"cpu": "80m", "memory": "2663Mi"}, map[string]string{"cpu": "80m",
			"memory": "328Mi"}, "328Mi"), nil},
	} {
		got := sizing.Check(n, c.r)
		ok := len(got) == len(c.want)
		for i := range c.want {
			ok = ok && strings.Contains(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	all := strings.Join(sizing.Check(n, reserved(nil, nil, "328Mi")), "\n")
	for _, effect := range []string{"the node becomes NotReady", "Pods are evicted though they keep to their " +
		"requests"} {
		if !strings.Contains(all, effect) {
			t.Errorf("got %q, want the effect %q", all, effect)
		}
	}
}

// What cannot have been measured is refused with the field.
func TestImpossibleUsage(t *testing.T) {
	for _, value := range []string{"NaN", "+Inf", "-1", "1e300"} {
		text := `container_memory_working_set_bytes{container="a",pod="p"} ` + value + " 1000\n"
		if err := sizing.ReadPrometheusText(strings.NewReader(text), sizing.Series{}); err == nil ||
			!strings.HasPrefix(err.Error(), "container_memory_working_set_bytes: ") {
			t.Errorf("text %s: got %v, want an error about the metric", value, err)
		}
		answer := `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"container":"a"},` +
			`"values":[[1,"` + value + `"]]}]}}`
		err := sizing.ReadPrometheusJSON(strings.NewReader(answer), sizing.Memory, sizing.Series{})
		if refused := err != nil && strings.HasPrefix(err.Error(), "data.result[0].values[0]: "); refused !=
			(value != "NaN") {
			t.Errorf("JSON %s: got %v", value, err)
		}
	}
	if err := sizing.ReadCSV(strings.NewReader("container,cpu,memory\na,1,1e30\n"), sizing.Series{}); err == nil ||
		!strings.HasPrefix(err.Error(), "line 2: memory: ") {
		t.Errorf("CSV: got %v, want an error about the memory", err)
	}
}

// A request that the usage stays below is not said to be too small, though the advice is rounded
// up.
func TestRequestsAreComparedWithUsage(t *testing.T) {
	now := resource.MustParse("105m")
	s := sizing.Series{{Workload: "web", Container: "app"}: {CPU: []float64{0.104, 0.104},
		Request: &sizing.Resources{CPU: &now}}}
	for _, w := range sizing.Containers(s, sizing.DefaultPolicy())[0].Warnings {
		if strings.Contains(w, "takes more") {
			t.Errorf("got %q: 104m is less than 105m", w)
		}
	}
}

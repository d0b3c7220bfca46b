package sizing

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resource is what a file without names of metrics measures; empty: the names tell.
type Resource string

// The resources.
const (
	CPU    Resource = "cpu"    // cores, as rate(container_cpu_usage_seconds_total[…]) gives
	Memory Resource = "memory" // bytes, as container_memory_working_set_bytes
)

// Metrics that are read, of the kubelet's /metrics/cadvisor and /metrics/resource.
const (
	cpuMetric    = "container_cpu_usage_seconds_total"
	memoryMetric = "container_memory_working_set_bytes"
)

// ReadCSV adds the rows of a CSV file with a header: container, cpu and memory, and, where there
// are, namespace, workload and pod. Values are quantities: 250m, 120Mi; cpu or memory may be empty.
func ReadCSV(r io.Reader, into Series) error {
	c := csv.NewReader(r)
	c.TrimLeadingSpace = true
	header, err := c.Read()
	if err != nil {
		return wrong("line 1", "must be a header with container, cpu and memory: %w", err)
	}
	column := map[string]int{}
	for i, name := range header {
		column[strings.ToLower(strings.TrimSpace(name))] = i
	}
	for _, needed := range []string{"container", "cpu", "memory"} {
		if _, ok := column[needed]; !ok {
			return wrong("line 1", "has no column %s", needed)
		}
	}
	for n := 2; ; n++ {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return wrong("line "+strconv.Itoa(n), "%w", err)
		}
		cell := func(name string) string {
			if i, ok := column[name]; ok {
				return strings.TrimSpace(row[i])
			}
			return ""
		}
		if cell("container") == "" {
			return wrong("line "+strconv.Itoa(n)+": container", "must not be empty")
		}
		workload := cell("workload")
		if workload == "" {
			workload = Workload(cell("pod"))
		}
		u := into.Of(Key{cell("namespace"), workload, cell("container")})
		for name, to := range map[string]*[]float64{"cpu": &u.CPU, "memory": &u.Memory} {
			text := cell(name)
			if text == "" {
				continue
			}
			q, err := resource.ParseQuantity(text)
			if err != nil || q.Sign() < 0 {
				return wrong("line "+strconv.Itoa(n)+": "+name, "%q: must be a quantity of 0 or more", text)
			}
			if q.AsApproximateFloat64() > mostUsage {
				return wrong("line "+strconv.Itoa(n)+": "+name, "%q: must be at most %d", text, int64(mostUsage))
			}
			*to = append(*to, q.AsApproximateFloat64())
		}
	}
}

// promAnswer is an answer of Prometheus' HTTP API.
type promAnswer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Metric map[string]string `json:"metric"`
			Values [][2]any          `json:"values"` // of a range
			Value  *[2]any           `json:"value"`  // of one time
		} `json:"result"`
	} `json:"data"`
}

// ReadPrometheusJSON adds answers of Prometheus' API to query or query_range. of tells what answers
// without names measure, such as those to rate().
func ReadPrometheusJSON(r io.Reader, of Resource, into Series) error {
	d := json.NewDecoder(r)
	for {
		var a promAnswer
		if err := d.Decode(&a); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if a.Status != "success" {
			return wrong("status", "%q: %s", a.Status, a.Error)
		}
		if t := a.Data.ResultType; t != "matrix" && t != "vector" {
			return wrong("data.resultType", "%q: must be matrix (of query_range) or vector", t)
		}
		for i, x := range a.Data.Result {
			field := "data.result[" + strconv.Itoa(i) + "]"
			values := x.Values
			if x.Value != nil {
				values = append(values, *x.Value)
			}
			var points []point
			for j, v := range values {
				p, err := promPoint(v)
				if err != nil {
					return wrong(field+".values["+strconv.Itoa(j)+"]", "%w", err)
				}
				if !math.IsNaN(p.value) {
					points = append(points, p)
				}
			}
			if err := into.add(timeSeries{field, of, x.Metric, points}); err != nil {
				return err
			}
		}
	}
}

func promPoint(v [2]any) (point, error) {
	at, isNumber := v[0].(float64)
	text, isText := v[1].(string)
	if !isNumber || !isText {
		return point{}, errors.New(`must be [SECONDS, "VALUE"]`)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err == nil && !math.IsNaN(value) { // Prometheus answers NaN where there is nothing
		err = checkUsage(value)
	}
	return point{time.UnixMilli(int64(at * 1000)), value}, err
}

// mostUsage is the most bytes, cores or seconds of CPU that are taken for a measurement: 1 PiB.
const mostUsage = 1 << 50

// checkUsage refuses what cannot have been measured.
func checkUsage(value float64) error {
	if !(value >= 0 && value <= mostUsage) { // also not a number
		return fmt.Errorf("%v: must be a number from 0 to %d", value, int64(mostUsage))
	}
	return nil
}

// timeSeries is one of Prometheus', as it stands in a field of a file.
type timeSeries struct {
	field  string
	of     Resource
	labels map[string]string
	points []point
}

// add adds the points of one time series by its labels. Series of whole Pods, and of containers
// without a name, are left out.
func (s Series) add(x timeSeries) error {
	labels, points, of := x.labels, x.points, x.of
	name, container := labels["__name__"], labels["container"]
	if container == "" || container == "POD" {
		return nil
	}
	k := Key{labels["namespace"], labels["workload"], container}
	if k.Workload == "" {
		k.Workload = Workload(labels["pod"])
	}
	u := s.Of(k)
	switch {
	case name == cpuMetric:
		u.CPU = append(u.CPU, rates(points)...)
	case name == memoryMetric, name == "" && of == Memory:
		for _, p := range points {
			u.Memory = append(u.Memory, p.value)
		}
	case name == "" && of == CPU:
		for _, p := range points {
			u.CPU = append(u.CPU, p.value)
		}
	case name == "":
		return wrong(x.field+".metric.__name__", "is missing: say what the file measures, as cpu=FILE or memory=FILE")
	}
	return nil
}

// ReadPrometheusText adds scrapes in Prometheus' text format, one after the other, with times:
// those
// of /metrics/resource and /metrics/cadvisor of a kubelet.
func ReadPrometheusText(r io.Reader, into Series) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	var lines []string
	for _, line := range strings.Split(string(raw), "\n") {
		if name, _, _ := strings.Cut(line, "{"); name == cpuMetric || name == memoryMetric {
			lines = append(lines, line)
		}
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader([]byte(strings.Join(lines, "\n") + "\n")))
	if err != nil {
		return err
	}
	for _, name := range []string{cpuMetric, memoryMetric} {
		points, labels := map[string][]point{}, map[string]map[string]string{}
		for _, m := range families[name].GetMetric() {
			if m.TimestampMs == nil && name == cpuMetric {
				return wrong(name, "has no time: a counter without times is no series; scrape /metrics/resource")
			}
			if err := checkUsage(m.GetUntyped().GetValue()); err != nil {
				return wrong(name, "%w", err)
			}
			of := map[string]string{"__name__": name}
			for _, l := range m.GetLabel() {
				of[l.GetName()] = l.GetValue()
			}
			id := strings.Join([]string{of["namespace"], of["pod"], of["container"], of["id"]}, "\n")
			labels[id] = of
			points[id] = append(points[id], point{time.UnixMilli(m.GetTimestampMs()), m.GetUntyped().GetValue()})
		}
		for _, id := range slices.Sorted(maps.Keys(points)) {
			if err := into.add(timeSeries{name, "", labels[id], points[id]}); err != nil {
				return err
			}
		}
	}
	return nil
}

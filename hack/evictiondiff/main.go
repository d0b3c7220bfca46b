package main

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
)

// Refusal is a configuration that upstream refuses, and its text.
type Refusal struct {
	Config Config `json:"config"`
	Error  string `json:"error"`
}

// Answers are the file.
type Answers struct {
	Upstream  string     `json:"upstream"`
	Seed      uint64     `json:"seed"`
	Refusals  []Refusal  `json:"refusals"`
	Scenarios []Scenario `json:"scenarios"`
}

func main() {
	n := flag.Int("n", 1000, "how many scenarios")
	seed := flag.Uint64("seed", 1, "of the random choices")
	out := flag.String("o", "../../internal/kubelet/eviction/testdata/upstream.json.gz", "file that is written")
	flag.Parse()
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	a := Answers{Upstream: "v1.37.2", Seed: *seed, Refusals: refusals()}
	g := generator{rand.New(rand.NewPCG(*seed, 0))}
	for range *n {
		s := g.scenario()
		if err := run(&s); err != nil {
			fatal(err)
		}
		a.Scenarios = append(a.Scenarios, s)
	}
	if err := write(*out, a); err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "evictiondiff:", err)
	os.Exit(1)
}

func write(path string, a Answers) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(z).Encode(a); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

// refusals are configurations with one fault each.
func refusals() []Refusal {
	m := func(k, v string) map[string]string { return map[string]string{k: v} }
	list := []Config{
		{Hard: m("mem.available", "1Gi")}, {Hard: m("memory.available", "-1Gi")}, {Hard: m("memory.available", "0")},
		{Hard: m("memory.available", "-5%")}, {Hard: m("memory.available", "101%")}, {Hard: m("nodefs.available", "x%")},
		{Hard: m("nodefs.available", "1Gx")}, {Soft: m("memory.available", "1Gi")},
		{Soft: m("nodefs.inodesFree", "10%"), Grace: m("nodefs.available", "1m")},
		{Soft: m("cpu.available", "1"), Grace: m("cpu.available", "1m")}, {Grace: m("cpu.available", "1m")},
		{Grace: m("memory.available", "1")}, {Grace: m("memory.available", "-1m")}, {Grace: m("memory.available", "soon")},
		{Reclaim: m("cpu.available", "1")}, {Reclaim: m("memory.available", "-1Mi")},
		{Reclaim: m("memory.available", "0%")}, {Reclaim: m("memory.available", "-3%")},
		{Reclaim: m("memory.available", "lots")}, {Reclaim: m("memory.available", "y%")},
		{Soft: m("pid.available", "200%"), Grace: m("pid.available", "1m")},
		{Hard: m("Memory.Available", "1Gi")}, {Hard: m("", "1Gi")}, {Hard: m("pid.available", "")},
	}
	var out []Refusal
	for _, c := range list {
		_, err := eviction.ParseThresholdConfig(nil, c.Hard, c.Soft, c.Grace, c.Reclaim)
		if err == nil {
			fatal(fmt.Errorf("upstream takes %+v", c))
		}
		out = append(out, Refusal{c, err.Error()})
	}
	return out
}

package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// The trace gives shares of a GPU in thousandths: one GPU is 1000 of this resource, so that shares
// can be asked for. A share may straddle GPUs here, which the real cluster's device plugin would
// not allow.
const (
	gpuMilli   = "example.com/gpu-milli"
	modelLabel = "example.com/gpu-model"
)

// trace is the openb trace as objects.
type trace struct {
	nodes []*v1.Node
	pods  []*v1.Pod
}

// readTrace reads the two files of a directory.
func readTrace(dir string) (*trace, error) {
	if dir == "" {
		return nil, fmt.Errorf("-dir or GANTRY_OPENB must name the directory of openb_node_list_all_node.csv and " +
			"openb_pod_list_default.csv")
	}
	t := &trace{}
	err := eachLine(filepath.Join(dir, "openb_node_list_all_node.csv"), func(f map[string]string) error {
		n, err := traceNode(f)
		t.nodes = append(t.nodes, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, eachLine(filepath.Join(dir, "openb_pod_list_default.csv"), func(f map[string]string) error {
		p, err := tracePod(f)
		t.pods = append(t.pods, p)
		return err
	})
}

func eachLine(path string, do func(map[string]string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil || len(lines) == 0 {
		return fmt.Errorf("%s: %d lines, %w", path, len(lines), err)
	}
	for i, line := range lines[1:] {
		fields := map[string]string{}
		for k, name := range lines[0] {
			fields[name] = line[k]
		}
		if err := do(fields); err != nil {
			return fmt.Errorf("%s:%d: %w", path, i+2, err)
		}
	}
	return nil
}

// numbers reads fields; an empty one is 0.
func numbers(f map[string]string, names ...string) ([]int64, error) {
	out := make([]int64, len(names))
	for i, name := range names {
		if f[name] == "" {
			continue
		}
		n, err := strconv.ParseInt(f[name], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[i] = n
	}
	return out, nil
}

func traceNode(f map[string]string) (*v1.Node, error) {
	n, err := numbers(f, "cpu_milli", "memory_mib", "gpu")
	if err != nil {
		return nil, err
	}
	room := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(n[0], resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(n[1]<<20, resource.BinarySI),
		v1.ResourcePods:   resource.MustParse("110"),
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: f["sn"], Labels: map[string]string{v1.LabelHostname: f["sn"]}},
		Status: v1.NodeStatus{Capacity: room, Allocatable: room,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Fake"}}}}
	if n[2] > 0 {
		room[gpuMilli] = *resource.NewQuantity(n[2]*1000, resource.DecimalSI)
		node.Labels[modelLabel] = f["model"]
	}
	return node, nil
}

func tracePod(f map[string]string) (*v1.Pod, error) {
	n, err := numbers(f, "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return nil, err
	}
	p := makePod("openb", f["name"])
	p.UID = types.UID(f["name"])
	p.Labels["qos"] = f["qos"]
	ask := p.Spec.Containers[0].Resources.Requests
	ask[v1.ResourceCPU], ask[v1.ResourceMemory] = *resource.NewMilliQuantity(n[0], resource.DecimalSI),
		*resource.NewQuantity(n[1]<<20, resource.BinarySI)
	if n[2] > 0 {
		milli := n[2] * 1000
		if n[2] == 1 && n[3] > 0 {
			milli = n[3]
		}
		ask[gpuMilli] = *resource.NewQuantity(milli, resource.DecimalSI)
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{gpuMilli: ask[gpuMilli]}
	}
	if models := f["gpu_spec"]; models != "" {
		p.Spec.Affinity = &v1.Affinity{
			NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{
					{MatchExpressions: []v1.NodeSelectorRequirement{{Key: modelLabel, Operator: v1.NodeSelectorOpIn,
						Values: strings.Split(models, "|")}}}}}}}
	}
	return p, nil
}

// grown repeats nodes and Pods under new names until there are that many nodes.
func (t *trace) grown(nodes int) *trace {
	out := &trace{}
	for round := 0; len(out.nodes) < nodes; round++ {
		for _, n := range t.nodes {
			if len(out.nodes) == nodes {
				break
			}
			c := n.DeepCopy()
			c.Name = fmt.Sprintf("%s-%d", n.Name, round)
			c.Labels[v1.LabelHostname] = c.Name
			out.nodes = append(out.nodes, c)
		}
		for _, p := range t.pods {
			c := *p
			c.Name = fmt.Sprintf("%s-%d", p.Name, round)
			c.UID = types.UID(c.Name)
			out.pods = append(out.pods, &c)
		}
	}
	return out
}

func openb(ctx context.Context, o options) ([]row, error) {
	t, err := readTrace(o.dir)
	if err != nil {
		return nil, err
	}
	if o.gantry != "" || o.kubeconfig != "" {
		r, err := t.throughAPI(ctx, o)
		return []row{r}, err
	}
	r, err := t.inMemory(ctx, o, "openb")
	rows := []row{r}
	if err == nil && o.grow > len(t.nodes) {
		r, err = t.grown(o.grow).inMemory(ctx, o, "openb, grown")
		rows = append(rows, r)
	}
	return rows, err
}

func (t *trace) inMemory(ctx context.Context, o options, name string) (row, error) {
	m, err := newEvaluator(o.shadow)
	if err != nil {
		return row{}, err
	}
	for _, n := range t.nodes {
		m.snapshot.SetNode(n)
	}
	r := row{Case: name, Nodes: len(t.nodes), Pods: len(t.pods)}
	each := make([]time.Duration, 0, len(t.pods))
	begin, cpu := time.Now(), ownCPU()
	for _, p := range t.pods {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		from := time.Now()
		ok, err := m.decide(ctx, p)
		if err != nil {
			return r, err
		}
		each = append(each, time.Since(from))
		if ok {
			r.Placed++
		}
	}
	r.took(each, time.Since(begin), ownCPU()-cpu)
	r.PerSecond = r.PerSecond * float64(r.Pods) / float64(max(r.Placed, 1)) // decisions, those against included
	r.PerCore = r.PerCore * float64(r.Pods) / float64(max(r.Placed, 1))
	r.RSS = ownRSS()
	free, stranded := m.fragments()
	r.Note = fmt.Sprintf("GPU free %.1f %%, of it %.1f %% on nodes without a whole CPU left", 100*free, 100*stranded)
	return r, nil
}

// fragments returns the share of all GPUs that is free, and the share of that on nodes with less
// than one CPU left, which is unusable.
func (m *evaluator) fragments() (free, stranded float64) {
	var all, left, lost int64
	for _, n := range m.snapshot.UpdateSnapshot().All() {
		has, used := snapshotOf(n)
		gpu := has.Scalar[gpuMilli]
		all += gpu
		left += gpu - used.Scalar[gpuMilli]
		if has.MilliCPU-used.MilliCPU < 1000 {
			lost += gpu - used.Scalar[gpuMilli]
		}
	}
	return share(left, all), share(lost, left)
}

func share(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func snapshotOf(n framework.NodeInfo) (has, used *fit.Vector) {
	return snapshot.VectorOf(n.GetAllocatable()), snapshot.VectorOf(n.GetRequested())
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/internal/simulate/source"
)

// perNode is how many Pods fit on a node of the part capacity.
const perNode = 10

// capacity measures `gantry simulate capacity` as a person runs it, on two cores: from a snapshot
// of 100,000 nodes on which 1,000,000 Pods fit. "command" is the whole call, "CPU time" what it
// took of both cores together and "RSS" the most memory that it had; "reading" is how long the file
// takes to read alone.
func (b *bench) capacity(ctx context.Context) ([]result.Figure, error) {
	nodes := 100_000
	if b.short {
		nodes /= 10
	}
	dir, err := os.MkdirTemp("", "gantry-bench-capacity-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	snapshot, pod := filepath.Join(dir, "nodes.json"), filepath.Join(dir, "pod.yaml")
	if err := writeNodes(snapshot, nodes); err != nil {
		return nil, err
	}
	if err := os.WriteFile(pod, []byte(capacityPod), 0o600); err != nil {
		return nil, err
	}
	var reading, command, cpu []time.Duration
	rss := 0.0
	for range b.times(2) {
		begun := time.Now()
		if _, _, err := source.FromFiles(ctx, []string{snapshot}, nil); err != nil {
			return nil, err
		}
		reading = append(reading, time.Since(begun))
		begun = time.Now()
		used, err := b.countCapacity(ctx, snapshot, pod, nodes*perNode)
		if err != nil {
			return nil, err
		}
		command, cpu = append(command, time.Since(begun)), append(cpu, used.UserTime()+used.SystemTime())
		if u, ok := used.SysUsage().(*syscall.Rusage); ok {
			rss = max(rss, mib(u.Maxrss))
		}
	}
	name := fmt.Sprintf("%d nodes, %d Pods", nodes, nodes*perNode)
	return []result.Figure{result.Durations(name+"/command", command), result.Durations(name+"/reading", reading),
		result.Durations(name+"/CPU time", cpu),
		result.Value(name+"/RSS", "MiB", rss)}, nil
}

// countCapacity runs the command once. The error is also that another number of Pods fits.
func (b *bench) countCapacity(ctx context.Context, snapshot, pod string, want int) (*os.ProcessState, error) {
	c := exec.CommandContext(ctx, b.binary, "simulate", "capacity", "-f", pod, "--from", snapshot, "-o", "json")
	c.Env = append(os.Environ(), "GOMAXPROCS=2")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, err
	}
	var answer struct{ Fits int }
	if err := json.Unmarshal(out, &answer); err != nil {
		return nil, err
	}
	if answer.Fits != want {
		return nil, fmt.Errorf("%d Pods fit, want %d", answer.Fits, want)
	}
	return c.ProcessState, nil
}

const capacityPod = `apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers: [{name: app, image: app, resources: {requests: {cpu: 400m, memory: 1Gi}}}]
`

// writeNodes writes a snapshot of nodes as clusters have them.
func writeNodes(file string, n int) error {
	var c source.Copied
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	has := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("64Gi"),
		v1.ResourcePods: resource.MustParse("110"), v1.ResourceEphemeralStorage: resource.MustParse("100Gi")}
	for i := range n {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), CreationTimestamp: at,
			UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))}}
		node.Labels = map[string]string{v1.LabelHostname: node.Name, v1.LabelOSStable: "linux",
			v1.LabelArchStable: "amd64", v1.LabelTopologyZone: fmt.Sprint("zone-", i%3)}
		node.Status = v1.NodeStatus{Capacity: has, Allocatable: has,
			Addresses: []v1.NodeAddress{{Type: v1.NodeHostName, Address: node.Name}},
			NodeInfo:  v1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64"}}
		for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure,
			v1.NodeReady} {
			status := v1.ConditionFalse
			if kind == v1.NodeReady {
				status = v1.ConditionTrue
			}
			node.Status.Conditions = append(node.Status.Conditions, v1.NodeCondition{Type: kind, Status: status,
				LastHeartbeatTime: at, LastTransitionTime: at, Reason: "Kubelet", Message: "as its kubelet says"})
		}
		c.Objects = append(c.Objects, node)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := source.WriteSnapshot(f, c, at.Time); err != nil {
		return err
	}
	return f.Close()
}

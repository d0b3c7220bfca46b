package main

import (
	"context"
	"path/filepath"
	"time"
)

// cores gives a container two cores of one NUMA node alone, and refuses what no single node has.
func cores(ctx context.Context, n *node) error {
	if err := n.start(ctx, workload{name: "shared", image: busybox, command: []string{"sleep", "9999"}}); err != nil {
		return err
	}
	n.cpuset("shared", "at first", "0-3", "")
	if err := n.create(ctx, workload{name: "wide", image: busybox, command: []string{"sleep", "9999"},
		requests: "cpu=3,memory=64Mi", limits: "cpu=3,memory=64Mi", bound: true}); err != nil {
		return err
	}
	p, err := n.view.waitPod("wide", "is refused", failed)
	if err != nil {
		return err
	}
	n.expect(p.Status.Reason == "TopologyAffinityError", "three cores are on no one NUMA node: %s: %s",
		p.Status.Reason, p.Status.Message)
	if err := n.start(ctx, workload{name: "exclusive", image: busybox, command: []string{"sleep", "9999"},
		requests: "cpu=2,memory=64Mi", limits: "cpu=2,memory=64Mi"}); err != nil {
		return err
	}
	n.cpuset("exclusive", "alone on NUMA node 1", "2-3", "1")
	poll(func() bool { return effective(n.containerCgroup("shared"), "cpuset.cpus") == "0-1" })
	n.cpuset("shared", "beside it", "0-1", "")
	return nil
}

// poll waits for what no event tells of, for a while.
func poll(holds func() bool) {
	for end := now() + patience; !holds() && now() < end; {
		time.Sleep(100 * time.Millisecond)
	}
}

// cpuset expects a container's cores and, when mems is given, its NUMA nodes.
func (n *node) cpuset(name, when, cpus, mems string) {
	at := n.containerCgroup(name)
	gotCPUs, gotMems := effective(at, "cpuset.cpus"), effective(at, "cpuset.mems")
	n.expect(gotCPUs == cpus && (mems == "" || gotMems == mems), "%s %s: cpuset.cpus %s (want %s), cpuset.mems %s",
		name,
		when, gotCPUs, cpus, gotMems)
}

// effective is what holds of a file of cpusets.
func effective(dir, file string) string { return contents(filepath.Join(dir, file+".effective")) }

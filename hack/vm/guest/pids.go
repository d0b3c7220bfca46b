package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// pids has a Pod make processes without end. The Pod's own limit holds it; when that still leaves
// the node with too few, the Pod goes that has most.
func pids(ctx context.Context, n *node) error {
	if err := n.start(ctx,
		workload{name: "few", image: busybox, command: []string{"sh", "-c", "sleep 9999 & sleep 9999 & " +
			"wait"}}); err != nil {
		return err
	}
	before := contents("/proc/sys/kernel/pid_max")
	defer func() { _ = os.WriteFile("/proc/sys/kernel/pid_max", []byte(before), 0o644) }()
	// With the bomb at its limit 300 are left, less than the threshold.
	most := tasks() + podPids + pidThreshold*3/5
	if err := os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(most)), 0o644); err != nil {
		return err
	}
	n.say("the machine has %d tasks and may have %d; a Pod may have %d", tasks(), most, podPids)
	bomb := "(while :; do sleep 9999 & done); exec sleep 9999"
	if err := n.start(ctx, workload{name: "bomb", image: busybox, command: []string{"sh", "-c", bomb}}); err != nil {
		return err
	}
	at := n.podCgroup("bomb")
	limit := contents(filepath.Join(at, "pids.max"))
	n.expect(limit == strconv.Itoa(podPids), "pids.max of the Pod is %s", limit)
	hits := make(chan string, 1)
	stop := make(chan struct{})
	defer close(stop)
	go n.samplePids(at, hits, stop)
	p, err := n.view.waitPod("bomb", "ends", failed)
	if err != nil {
		return err
	}
	select {
	case text := <-hits:
		n.expect(true, "the Pod's limit held: %s", text)
	default:
		n.expect(false, "the bomb never met its Pod's limit")
	}
	n.expect(p.Status.Reason == "Evicted" && strings.Contains(p.Status.Message, "pids"), "bomb is evicted: %s %s",
		p.Status.Reason, p.Status.Message)
	n.expect(n.view.had(v1.NodePIDPressure), "the node has shown PIDPressure")
	n.expect(!n.view.had(v1.NodeMemoryPressure), "and no MemoryPressure")
	n.unharmed("few")
	return nil
}

// tasks are how many there are on the machine.
func tasks() int {
	f := strings.Fields(contents("/proc/loadavg"))
	if len(f) < 4 {
		return 0
	}
	_, all, _ := strings.Cut(f[3], "/")
	n, _ := strconv.Atoi(all)
	return n
}

// samplePids says every ten seconds how many processes there are, and once that the Pod's limit was
// hit.
func (n *node) samplePids(at string, hits chan string, stop chan struct{}) {
	for i := 0; ; i++ {
		current := contents(filepath.Join(at, "pids.current"))
		if i%100 == 0 {
			n.say("%d tasks on the machine, %s in the bomb", tasks(), current)
		}
		if current == strconv.Itoa(podPids) {
			select {
			case hits <- fmt.Sprintf("it had %s processes and no more", current):
			default:
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

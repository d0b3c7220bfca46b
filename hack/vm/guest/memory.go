package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// rate is how fast the hog eats, in MiB a second.
const rate = "40"

// memory has a Pod eat memory beside Pods that the node must not take: one within its request, a
// Guaranteed one, and one that asks for nothing and holds little.
func memory(ctx context.Context, n *node) error {
	if err := n.kernel.watchMemory(); err != nil {
		return err
	}
	if err := n.start(ctx, memoryPods(false)...); err != nil {
		return err
	}
	if err := n.feed(ctx, hog()); err != nil {
		return err
	}
	n.unharmed("guaranteed", "within", "small")
	return nil
}

// hog is the Pod that eats.
func hog() workload {
	return workload{name: "hog", image: agnhost, command: eat("1400", rate), requests: "memory=50Mi"}
}

// memoryPods are those beside it; bound to the node past the scheduler, or not.
func memoryPods(bound bool) []workload {
	return []workload{
		{name: "guaranteed", image: agnhost, command: eat("60"), requests: "cpu=500m,memory=100Mi",
			limits: "cpu=500m,memory=100Mi", bound: bound},
		{name: "within", image: agnhost, command: eat("120"), requests: "memory=200Mi", bound: bound},
		{name: "small", image: agnhost, command: eat("40"), bound: bound},
	}
}

// feed runs a Pod that eats and expects that the node evicts it.
func (n *node) feed(ctx context.Context, hog workload) error {
	started, oomBefore := now(), n.kernel.oomKills()
	n.view.had(v1.NodeMemoryPressure)
	stop := make(chan struct{})
	defer close(stop)
	n.say("%s eats %s MiB a second; the node acts when %d MiB are left", hog.name, rate, memoryThreshold>>20)
	if err := n.create(ctx, hog); err != nil {
		return err
	}
	var pids []int
	go func() { n.kernel.sampleMemory(stop) }()
	if _, err := n.view.waitPod(hog.name, "eats", func(p *v1.Pod) bool {
		return running(p) || failed(p)
	}); err != nil {
		return err
	}
	if at := n.podCgroup(hog.name); at != "" {
		pids = processesBelow(at)
	}
	p, err := n.view.waitPod(hog.name, "ends", failed)
	if err != nil {
		return err
	}
	n.expect(p.Status.Reason == "Evicted" && strings.Contains(p.Status.Message, "low on resource: memory"),
		"%s is evicted: %s %s", hog.name, p.Status.Reason, p.Status.Message)
	n.expect(n.kernel.oomKills() == oomBefore, "the OOM killer takes nobody (%d)", n.kernel.oomKills()-oomBefore)
	n.expect(n.view.had(v1.NodeMemoryPressure), "the node has shown MemoryPressure")
	n.reaction(ctx, n.who, hog.name, started, pids)
	n.logStages(n.log, started)
	n.reportPasses()
	return nil
}

// reportPasses says why and how often Gantry has looked at the node at once, by its log.
func (n *node) reportPasses() {
	count := map[string]int{}
	for line := range strings.Lines(contents(dataDir + "/gantry.log")) {
		if _, why, ok := strings.Cut(line, `looking at once" reason="`); ok {
			count[strings.TrimSuffix(strings.TrimSpace(why), `"`)]++
		}
	}
	for why, times := range count {
		n.say("the node was looked at at once %d times so far: %s", times, why)
	}
}

// swap shows what containers may swap and what memory is kept for them, and the pressure that the
// kernel counts.
func swap(ctx context.Context, n *node) error {
	const request, mib = 200, 1 << 20
	pods := []workload{
		{name: "burstable", image: agnhost, command: eat("50"), requests: fmt.Sprintf("memory=%dMi", request)},
		{name: "besteffort", image: agnhost, command: eat("10")},
		{name: "guaranteed", image: agnhost, command: eat("10"), requests: "cpu=500m,memory=50Mi",
			limits: "cpu=500m,memory=50Mi"},
	}
	if err := n.start(ctx, pods...); err != nil {
		return err
	}
	m := readMeminfo()
	want := int64(float64(request*mib) / float64(m["MemTotal"]) * float64(m["SwapTotal"]))
	got := number(n.containerCgroup("burstable"), "memory.swap.max")
	n.expect(got > want-mib && got < want+mib, "burstable may swap %d bytes of %d MiB, its share of the requests (%d)",
		got, m["SwapTotal"]>>20, want)
	for _, name := range []string{"besteffort", "guaranteed"} {
		got := contents(filepath.Join(n.containerCgroup(name), "memory.swap.max"))
		n.expect(got == "0", "%s may not swap: memory.swap.max %s", name, got)
	}
	high := number(n.containerCgroup("burstable"), "memory.high")
	n.expect(high > request*mib && high < m["MemTotal"], "Memory QoS: burstable is slowed down from %d MiB on "+
		"(memory.high)",
		high>>20)
	for name, file := range map[string]string{"guaranteed": "memory.min", "burstable": "memory.low"} {
		pod, container := number(n.podCgroup(name), file), number(n.containerCgroup(name), file)
		n.expect(pod > 0 && container > 0, "Memory QoS: %s of %s is %d MiB, of its container %d MiB", file, name,
			pod>>20,
			container>>20)
	}
	raw, err := n.api.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + nodeName +
		"/proxy/stats/summary").DoRaw(ctx)
	n.expect(err == nil && strings.Contains(string(raw), `"psi"`), "pressure is in the kubelet's summary (error: %v)",
		err)
	for _, file := range []string{"memory", "cpu", "io"} {
		n.say("/proc/pressure/%s: %s", file, strings.ReplaceAll(contents("/proc/pressure/"+file), "\n", "; "))
	}
	return nil
}

// number reads a file with one number; 0 when it has none.
func number(dir, file string) int64 {
	var out int64
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	_, _ = fmt.Sscan(string(text), &out)
	return out
}

package main

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// BenchmarkDecide is one scheduling attempt for a known Pod shape at 5,000 nodes: the snapshot, the
// decision, the journal fact and the assumption.
func BenchmarkDecide(b *testing.B) {
	for i := range workloads {
		s := &workloads[i]
		if s.setup != nil || s.evicts {
			continue
		}
		for _, nodes := range []int{500, 5000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", s.name, nodes), func(b *testing.B) { deciding(b, s, nodes) })
		}
	}
}

// decisionsPerRound is how many Pods are placed before the cluster is emptied of them.
const decisionsPerRound = 1000

func deciding(b *testing.B, s *workload, nodes int) {
	m, err := newEvaluator(false)
	if err != nil {
		b.Fatal(err)
	}
	for i := range nodes {
		m.snapshot.SetNode(s.makeNode(i))
	}
	pods := make([]*v1.Pod, min(decisionsPerRound, nodes/2))
	for i := range pods {
		pods[i] = s.makeMeasured(i, nodes)
	}
	b.ReportAllocs()
	n, spent := 0, ownCPU()
	for ; b.Loop(); n++ {
		i := n % len(pods)
		if i == 0 && n > 0 {
			b.StopTimer()
			began := ownCPU()
			for _, p := range pods {
				m.snapshot.RemovePod(p.UID)
			}
			if _, err := m.decide(b.Context(), pods[0]); err != nil { // evaluates the emptied nodes again
				b.Fatal(err)
			}
			m.snapshot.RemovePod(pods[0].UID)
			spent += ownCPU() - began
			b.StartTimer()
		}
		if _, err := m.decide(b.Context(), pods[i]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((ownCPU()-spent).Nanoseconds())/float64(n), "cpu-ns/op")
}

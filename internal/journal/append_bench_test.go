package journal

import (
	"encoding/json"
	"testing"
	"time"
)

// schedulingEntries are what the scheduler ships for one Pod that is placed among many nodes.
func schedulingEntries() []Entry {
	ref := Ref{Namespace: "default", Name: "pod-12345", UID: "3759bbfc-cb75-4d39-8a07-eccb03d22c71"}
	parts := make([]PluginScore, 0, 8)
	for _, plugin := range []string{"TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity",
		"NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality", "DynamicResources"} {
		parts = append(parts, PluginScore{Plugin: plugin, Raw: 87, Norm: 100, Weight: 3, Weighted: 300})
	}
	ruled := Ruled{Attempt: 1, Profile: "default-scheduler", Nodes: 5000, Feasible: 5000, Winner: "node-1234",
		RunnerUp: "node-4321", Ties: 12, Took: 9000,
		Points: map[string]Took{"PreFilter": 100, "Filter": 2000, "Score": 3000}}
	for range 5 {
		ruled.Scores = append(ruled.Scores, NodeScore{Node: "node-1234", Total: 900, Parts: parts})
	}
	at := time.Unix(1, 0)
	return []Entry{
		{Seq: 1, At: at, Ref: ref, By: "scheduler", Fact: Queued{Queue: "active", Cause: "PodAdd"}},
		{Seq: 2, At: at, Ref: ref, By: "scheduler", Fact: ruled},
		{Seq: 3, At: at, Ref: ref, By: "scheduler", Fact: Bound{Node: "node-1234"}},
	}
}

// BenchmarkAppendJSON and BenchmarkMarshalJSON are one Pod's facts by hand and by reflection: the
// difference is what append.go is kept for.
func BenchmarkAppendJSON(b *testing.B) {
	entries := schedulingEntries()
	var body []byte
	b.ReportAllocs()
	for b.Loop() {
		body = body[:0]
		for _, e := range entries {
			var err error
			if body, err = e.AppendJSON(body); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkMarshalJSON(b *testing.B) {
	entries := schedulingEntries()
	b.ReportAllocs()
	for b.Loop() {
		for _, e := range entries {
			if _, err := json.Marshal(e); err != nil {
				b.Fatal(err)
			}
		}
	}
}

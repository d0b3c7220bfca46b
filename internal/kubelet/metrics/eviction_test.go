package metrics

import (
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gantry-project/gantry/internal/journal"
)

// row: EVC-01
func TestEvictionMetrics(t *testing.T) {
	m := New()
	for i, signal := range []string{"memory.available", "allocatableMemory.available", "nodefs.available",
		"nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "containerfs.available",
		"containerfs.inodesFree", "pid.available"} {
		m.EvictionSignal(signal, int64(10+i), 100)
		label := map[string]string{"eviction_signal": signal}
		if got := value(t, m, "gantry_eviction_signal_available", label); got != float64(10+i) {
			t.Errorf("%s: got %v, want %d", signal, got, 10+i)
		}
		if got := value(t, m, "gantry_eviction_signal_capacity", label); got != 100 {
			t.Errorf("capacity of %s: got %v, want 100", signal, got)
		}
	}
	memory := map[string]string{"eviction_signal": "memory.available"}
	m.Sink(journal.Discard{}).Put(journal.Ref{Name: "p"}, journal.Evicted{Signal: "memory.available"})
	m.Sink(journal.Discard{}).Put(journal.Ref{Name: "q"}, journal.Evicted{Signal: "memory.available"})
	if got := value(t, m, "kubelet_evictions", memory); got != 2 {
		t.Errorf("kubelet_evictions: got %v, want 2", got)
	}
	m.EvictionStatsAge("memory.available", 30*time.Millisecond)
	if got := value(t, m, "kubelet_eviction_stats_age_seconds", memory); got != 1 {
		t.Errorf("kubelet_eviction_stats_age_seconds: got %v observations, want 1", got)
	}
	for _, n := range []int{2, 0} {
		m.EvictionsFruitless("memory.available", n)
		if got := value(t, m, "gantry_evictions_fruitless", memory); got != float64(n) {
			t.Errorf("gantry_evictions_fruitless: got %v, want %d", got, n)
		}
	}
	(*Metrics)(nil).EvictionSignal("x", 1, 1)
}

// value is a sample's value, or how many observations a histogram has.
func value(t *testing.T, m *Metrics, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			if !slices.ContainsFunc(s.GetLabel(),
				func(l *dto.LabelPair) bool { return labels[l.GetName()] != l.GetValue() }) {
				return s.GetGauge().GetValue() + s.GetCounter().GetValue() + float64(s.GetHistogram().GetSampleCount())
			}
		}
	}
	t.Fatalf("%s is not served", name)
	return 0
}

package config

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
)

// fires tells whether so much of 1000 Mi, inodes or ids being available meets a hard threshold.
func fires(t *testing.T, l *Loaded, signal string, available, capacity int64) bool {
	t.Helper()
	list, errs := eviction.Thresholds(EvictionSettings(l.Config))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	d := eviction.Decide(eviction.In{Config: eviction.Config{Thresholds: list}, Now: time.Unix(1, 0),
		Observations: eviction.Observations{eviction.Signal(signal): {Available: available, Capacity: capacity}}})
	return d.Target != nil
}

func TestDefaultThresholds(t *testing.T) {
	plain, preset := load(t, Sources{}), load(t, Sources{Preset: "seed-001"})
	from := func(text string) *Loaded {
		return load(t, Sources{File: write(t, t.TempDir(), "config.yaml", text)})
	}
	soft := from("evictionSoft: {memory.available: 500Mi}\nevictionSoftGracePeriod: {memory.available: 1m}\n")
	merged := from("mergeDefaultEvictionSettings: true\nevictionHard: {pid.available: '300'}\n")
	alone := from("evictionHard: {pid.available: '300'}\n")
	const mi, tib = 1 << 20, 1 << 40
	for _, c := range []struct {
		signal     string
		have, seed string
		l          int64 // capacity
		at, seedAt int64 // the least that is enough; 0: no threshold
	}{
		// row: EVC-02
		{"memory.available", "100Mi", "200Mi", 4096 * mi, 100 * mi, 200 * mi},
		// row: EVC-03
		{"nodefs.available", "10%", "10%", 1000 * mi, 100*mi + 1, 100*mi + 1},
		// row: EVC-04
		{"nodefs.inodesFree", "5%", "5%", 100000, 5000, 5000},
		// row: EVC-05
		{"imagefs.available", "15%", "10%", 1000 * mi, 150*mi + 6, 100*mi + 1},
		// row: EVC-06
		{"imagefs.inodesFree", "5%", "5%", 100000, 5000, 5000},
		{"pid.available", "", "5%", 30000, 0, 1500},
	} {
		if a, b := plain.Config.EvictionHard[c.signal], preset.Config.EvictionHard[c.signal]; a != c.have ||
			b != c.seed {
			t.Errorf("%s: got %q, with the preset %q, want %q and %q", c.signal, a, b, c.have, c.seed)
		}
		if got := soft.Config.EvictionHard[c.signal]; got != c.have {
			t.Errorf("%s: with soft thresholds alone got %q, want %q", c.signal, got, c.have)
		}
		wantMerged, wantAlone := c.have, ""
		if c.signal == "pid.available" {
			wantMerged, wantAlone = "300", "300"
		}
		if a, b := merged.Config.EvictionHard[c.signal], alone.Config.EvictionHard[c.signal]; a != wantMerged ||
			b != wantAlone {
			t.Errorf("%s: beside another threshold got %q merged, %q not, want %q and %q", c.signal, a, b, wantMerged,
				wantAlone)
		}
		for l, at := range map[*Loaded]int64{plain: c.at, preset: c.seedAt} {
			if at == 0 {
				if fires(t, l, c.signal, 1, c.l) {
					t.Errorf("%s: fires without a threshold", c.signal)
				}
				continue
			}
			if fires(t, l, c.signal, at, c.l) || !fires(t, l, c.signal, at-2, c.l) {
				t.Errorf("%s: got %t at %d and %t below, want only below", c.signal, fires(t, l, c.signal, at, c.l), at,
					fires(t, l, c.signal, at-2, c.l))
			}
		}
	}
}

// row: EVC-07
// row: EVC-08
// row: EVC-10
// row: EVC-11
func TestPresetsOfSoftThresholds(t *testing.T) {
	for preset, want := range map[string]map[string]string{
		"seed-000": {"memory.available": "500Mi", "nodefs.available": "15%"},
		"seed-001": {"memory.available": "500Mi", "nodefs.available": "15%", "nodefs.inodesFree": "10%",
			"imagefs.available": "15%", "imagefs.inodesFree": "10%", "pid.available": "10%"},
	} {
		c := load(t, Sources{Preset: preset}).Config
		for signal, text := range want {
			if c.EvictionSoft[signal] != text || c.EvictionSoftGracePeriod[signal] == "" {
				t.Errorf("%s: %s: got %q after %q, want %q after a grace period", preset, signal,
					c.EvictionSoft[signal],
					c.EvictionSoftGracePeriod[signal], text)
			}
		}
		for signal := range want {
			grace := "2m"
			if preset == "seed-000" && signal == "memory.available" {
				grace = "1m30s"
			}
			if got := c.EvictionSoftGracePeriod[signal]; got != grace {
				t.Errorf("%s: grace of %s: got %q, want %q", preset, signal, got, grace)
			}
		}
		if preset == "seed-000" && !maps.Equal(c.EvictionMinimumReclaim,
			map[string]string{"memory.available": "200Mi", "nodefs.available": "500Mi"}) {
			t.Errorf("%s: reclaims at least %v, want 200Mi and 500Mi", preset, c.EvictionMinimumReclaim)
		}
		if len(c.EvictionSoft) != len(want) || c.EvictionMaxPodGracePeriod != 60 {
			t.Errorf("%s: got %v and %d s, want %v and 60 s", preset, c.EvictionSoft, c.EvictionMaxPodGracePeriod, want)
		}
	}
}

// row: EVC-02
func TestDefaultsOfThresholdsAreMergedWhenAskedTo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "k.yaml")
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for text, want := range map[string]int{
		"evictionHard: {memory.available: 1Gi}\n":                                     1,
		"evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\n": 5,
		"evictionHard: {}\n": 0, "maxPods: 9\n": 5,
	} {
		if err := os.WriteFile(file, []byte(head+text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := load(t, Sources{File: file}).Config
		if len(c.EvictionHard) != want || strings.Contains(text, "1Gi") && c.EvictionHard["memory.available"] != "1Gi" {
			t.Errorf("%s: got %v, want %d thresholds", text, c.EvictionHard, want)
		}
	}
}

package config

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
)

//go:embed gates.txt
var gateTable string

// Gates are the feature gates of one kubelet.
type Gates struct {
	known featuregate.MutableFeatureGate
}

// On tells whether a gate is on. A name that no kubelet knows is off.
func (g Gates) On(name string) bool {
	if g.known == nil {
		return false
	}
	if _, ok := g.known.GetAll()[featuregate.Feature(name)]; !ok {
		return false
	}
	return g.known.Enabled(featuregate.Feature(name))
}

// Default is what a gate is when nobody sets it.
func (g Gates) Default(name string) bool { return g.known.GetAll()[featuregate.Feature(name)].Default }

// ResolveGates sets gates over v1.37's defaults. An unknown gate, or a change of a locked one, is
// an error with upstream's text.
func ResolveGates(set map[string]bool) (Gates, error) {
	gate := featuregate.NewFeatureGate()
	if err := logsapi.AddFeatureGates(gate); err != nil {
		return Gates{}, err
	}
	specs, err := parseGates(gateTable)
	if err != nil {
		return Gates{}, err
	}
	if err := gate.Add(specs); err != nil {
		return Gates{}, fmt.Errorf("feature gates: %w", err)
	}
	// In order, so that of several wrong names always the same one is reported.
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := gate.SetFromMap(map[string]bool{name: set[name]}); err != nil {
			return Gates{}, err
		}
	}
	return Gates{gate}, nil
}

func parseGates(table string) (map[featuregate.Feature]featuregate.FeatureSpec, error) {
	out := map[featuregate.Feature]featuregate.FeatureSpec{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) < 3 {
			return nil, fmt.Errorf("feature gate %q: want name, stage and default", line)
		}
		spec := featuregate.FeatureSpec{Default: f[2] == "on", LockToDefault: len(f) > 3}
		switch f[1] {
		case "Alpha":
			spec.PreRelease = featuregate.Alpha
		case "Beta":
			spec.PreRelease = featuregate.Beta
		case "Deprecated":
			spec.PreRelease = featuregate.Deprecated
		}
		out[featuregate.Feature(f[0])] = spec
	}
	return out, nil
}

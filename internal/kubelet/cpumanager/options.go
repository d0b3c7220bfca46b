package cpumanager

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/cpumanager/cpuassignment"
	"github.com/gantry-project/gantry/internal/kubelet/machine"
)

// Names of policies.
const (
	PolicyNone   = "none"
	PolicyStatic = "static"
)

// Names of options.
const (
	FullPCPUsOnly            = "full-pcpus-only"
	DistributeAcrossNUMA     = "distribute-cpus-across-numa"
	AlignBySocket            = "align-by-socket"
	DistributeAcrossCores    = "distribute-cpus-across-cores"
	StrictCPUReservation     = "strict-cpu-reservation"
	PreferAlignByUncoreCache = "prefer-align-cpus-by-uncorecache"
)

// Options are cpuManagerPolicyOptions, read.
type Options struct {
	cpuassignment.Options
	StrictReservation bool // the shared pool has no reserved CPUs
}

// optionRow is an option: where its value goes, and which gate it needs.
type optionRow struct {
	gate, level string
	at          *bool
}

// ParseOptions reads cpuManagerPolicyOptions; gate tells whether a feature gate is on. The errors
// are upstream's.
func ParseOptions(set map[string]string, gate func(string) bool) (Options, error) {
	var o Options
	rows := map[string]optionRow{
		FullPCPUsOnly:            {at: &o.FullPhysicalCPUs},
		StrictCPUReservation:     {at: &o.StrictReservation},
		PreferAlignByUncoreCache: {at: &o.PreferAlignByUncoreCache},
		DistributeAcrossNUMA:     {"CPUManagerPolicyBetaOptions", "Beta", &o.DistributeAcrossNUMA},
		AlignBySocket:            {"CPUManagerPolicyAlphaOptions", "Alpha", &o.AlignBySocket},
		DistributeAcrossCores:    {"CPUManagerPolicyAlphaOptions", "Alpha", &o.DistributeAcrossCores},
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		row, known := rows[name]
		switch {
		case !known:
			return o, fmt.Errorf("unknown CPU Manager Policy option: %q", name)
		case row.gate != "" && !gate(row.gate):
			return o, fmt.Errorf("CPU Manager Policy %s-level Options not enabled, but option %q provided", row.level,
				name)
		}
		on, err := strconv.ParseBool(set[name])
		if err != nil {
			return o, fmt.Errorf("bad value for option %q: %w", name, err)
		}
		*row.at = on
	}
	return o, o.conflict()
}

// conflict is the error of options that exclude each other.
func (o Options) conflict() error {
	for _, pair := range []struct {
		both bool
		a, b string
	}{
		{o.FullPhysicalCPUs && o.DistributeAcrossCores, FullPCPUsOnly, DistributeAcrossCores},
		{o.DistributeAcrossNUMA && o.DistributeAcrossCores, DistributeAcrossNUMA, DistributeAcrossCores},
		{o.PreferAlignByUncoreCache && o.DistributeAcrossCores, PreferAlignByUncoreCache, DistributeAcrossCores},
		{o.PreferAlignByUncoreCache && o.DistributeAcrossNUMA, PreferAlignByUncoreCache, DistributeAcrossNUMA},
	} {
		if pair.both {
			return fmt.Errorf("static policy options %s and %s can not be used at the same time", pair.a, pair.b)
		}
	}
	return nil
}

// check holds the options against the machine and the topology manager's policy.
func (o Options) check(t machine.Topology, topologyPolicy string) error {
	switch {
	case o.AlignBySocket && topologyPolicy == kubelet.SingleNumaNodeTopologyManagerPolicy:
		return fmt.Errorf("Topolgy manager %s policy is incompatible with CPUManager %s policy option", topologyPolicy,
			AlignBySocket)
	case o.AlignBySocket && t.NumSockets > t.NumNodes:
		return fmt.Errorf("Align by socket is not compatible with hardware where number of sockets are more than " +
			"number of NUMA")
	}
	return nil
}

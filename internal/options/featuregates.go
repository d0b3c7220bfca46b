package options

import (
	"fmt"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/features"
)

// FeatureGates switch on what is off by default. Names of flags are upstream's.
type FeatureGates struct {
	enabled  map[string]bool
	served   cliflag.ConfigurationMap
	emulated []string
	features.Features
}

// GateFlag adds --feature-gates alone, for a component that serves no API.
func (g *FeatureGates) GateFlag(f *pflag.FlagSet) { g.featureGateFlag(f) }

// CompleteGates reads what GateFlag added.
func (g *FeatureGates) CompleteGates() (err error) {
	if g.Features, err = features.Parse(g.enabled); err != nil {
		return cli.UsageError(fmt.Errorf("--feature-gates: %w", err))
	}
	return nil
}

func (g *FeatureGates) featureGateFlag(f *pflag.FlagSet) {
	f.Var(cliflag.NewMapStringBool(&g.enabled), "feature-gates",
		"NAME=true,… of what is off by default: GenericWorkload (Workload, PodGroup and gang scheduling, KEP-4671), "+
			"CBORServingAndStorage (CBOR beside JSON and protobuf, KEP-4222), CSIVolumeHealth (the health of CSI "+
			"volumes, KEP-1432), CrossNamespaceVolumeDataSource (claims made from another namespace's, KEP-3294); "+
			"HPAScaleToZero=false refuses autoscalers without replicas, PersistentVolumeClaimUnusedSinceTime=false "+
			"leaves out the condition Unused of claims (KEP-5541)")
}

func (g *FeatureGates) flags(f *pflag.FlagSet) {
	g.featureGateFlag(f)
	g.served = cliflag.ConfigurationMap{}
	f.StringSliceVar(&g.emulated, "emulated-version", nil,
		"1.36: defaults and texts that v1.37 changed are as they were there (1.37)")
	f.Var(&g.served, "runtime-config",
		"GROUP/VERSION=true,… of APIs off by default: scheduling.k8s.io/v1beta1, with its gate")
}

// complete reads the flags.
func (g *FeatureGates) complete() (err error) {
	if err := g.CompleteGates(); err != nil {
		return err
	}
	if err := g.Serve(g.served); err != nil {
		return cli.UsageError(fmt.Errorf("--runtime-config: %w", err))
	}
	if err := g.Emulate(g.emulated); err != nil {
		return cli.UsageError(fmt.Errorf("--emulated-version: %w", err))
	}
	return nil
}

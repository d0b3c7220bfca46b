package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/metrics/legacyregistry"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/internal/leaderelection"
	electionconfig "github.com/gantry-project/gantry/internal/leaderelection/config"
	"github.com/gantry-project/gantry/internal/scheduler/config"
)

// Port is where schedulers serve health and metrics, as upstream's.
const Port = 10259

// Flags are the flags of a scheduler's command, named as upstream's.
type Flags struct {
	File    string
	Address string
	Port    int
	Cert    string
	Key     string

	shadow     bool
	election   leaderelection.Flags
	gates      map[string]bool
	deprecated []string // versions to emulate
	flagSet    *pflag.FlagSet
}

// Add adds the flags to a set.
func (f *Flags) Add(s *pflag.FlagSet) {
	f.flagSet = s
	s.StringVar(&f.File, "config", "", "KubeSchedulerConfiguration file")
	s.StringVar(&f.Address, "bind-address", "0.0.0.0", "address for health and metrics")
	s.IntVar(&f.Port, "secure-port", Port, "port for health and metrics over HTTPS; 0 serves none")
	s.StringVar(&f.Cert, "tls-cert-file", "", "serving certificate (default: signed by itself)")
	s.StringVar(&f.Key, "tls-private-key-file", "", "its key")
	s.BoolVar(&f.shadow, "shadow-check", false,
		"rule twice, from memory and by asking every plugin about every node, and report any difference; the plain "+
			"ruling counts")
	s.Var(cliflag.NewMapStringBool(&f.gates), "feature-gates",
		"NAME=true,… of what is off by default: GenericWorkload (Pods of a PodGroup are scheduled together, KEP-4671)")
	s.StringSliceVar(&f.deprecated, "emulated-version", nil,
		"1.36: FailedScheduling is told in the words that v1.37 changed (1.37)")
	f.election.Add(s, schedulerconfig.SchedulerDefaultLockObjectName)
}

// Options reads the configuration file and gives the options of Run; known are the names of the
// out-of-tree plugins that are compiled in.
func (f *Flags) Options(known ...string) (Options, error) {
	cfg, err := ReadConfig(f.File, known...)
	if err != nil {
		return Options{}, err
	}
	f.election.Override(&cfg.LeaderElection)
	election := electionconfig.FromV1alpha1(cfg.LeaderElection)
	if errs := electionconfig.Validate(&election, field.NewPath("leaderElection")); len(errs) > 0 {
		return Options{}, fmt.Errorf("--leader-elect-…: %w", errs.ToAggregate())
	}
	o := Options{Config: cfg, ShadowCheck: f.shadow}
	if o.Features, err = features.Parse(f.gates); err != nil {
		return Options{}, fmt.Errorf("--feature-gates: %w", err)
	}
	if err := o.Features.Emulate(f.deprecated); err != nil {
		return Options{}, fmt.Errorf("--emulated-version: %w", err)
	}
	if f.Port != 0 {
		o.Serving = &ServingOptions{Address: net.JoinHostPort(f.Address, strconv.Itoa(f.Port)), CertFile: f.Cert,
			KeyFile: f.Key, Flags: f.flagSet, ExtraMetrics: legacyregistry.DefaultGatherer}
	}
	return o, nil
}

// ReadConfig reads a KubeSchedulerConfiguration file; the default one when path is empty.
func ReadConfig(path string, known ...string) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	if path == "" {
		return config.Default(), nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	c, err := config.Load(raw, known...)
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration %s: %w", path, err)
	}
	return c, nil
}

// IsPortTaken tells whether a scheduler did not start because its port is taken.
func IsPortTaken(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

package config

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	componentbase "k8s.io/component-base/config/v1alpha1"
	config "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
)

// DefaultSchedulerName is the profile of Pods that name none.
const DefaultSchedulerName = "default-scheduler"

// DefaultExtenderTimeout bounds a call of an extender that names no httpTimeout; upstream's.
const DefaultExtenderTimeout = 5 * time.Second

// Load reads a configuration file's bytes (YAML or JSON), completes and validates it. known names
// the out-of-tree plugins that are compiled in.
func Load(data []byte, known ...string) (*config.KubeSchedulerConfiguration, error) {
	decoder, err := strictDecoder()
	if err != nil {
		return nil, err
	}
	obj, gvk, err := decoder.Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("scheduler configuration: want kind KubeSchedulerConfiguration of %s, got %s",
			config.SchemeGroupVersion, gvk)
	}
	if err := cfg.DecodeNestedObjects(decoder); err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	errs := checkSets(cfg, known)
	Complete(cfg)
	if err := append(errs, checkReferences(cfg, known)...).ToAggregate(); err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	return cfg, nil
}

// Default is the completed configuration of an empty file.
func Default() *config.KubeSchedulerConfiguration {
	cfg := &config.KubeSchedulerConfiguration{}
	Complete(cfg)
	return cfg
}

func strictDecoder() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	if err := config.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("scheduler configuration types: %w", err)
	}
	for _, row := range plugins.OutOfTree {
		if row.Args != nil {
			scheme.AddKnownTypeWithName(config.SchemeGroupVersion.WithKind(row.Name+"Args"), row.Args.New())
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(), nil
}

// Complete fills in what is not set.
func Complete(cfg *config.KubeSchedulerConfiguration) {
	cfg.TypeMeta = metav1.TypeMeta{APIVersion: config.SchemeGroupVersion.String(), Kind: "KubeSchedulerConfiguration"}
	set(&cfg.Parallelism, 16)
	set(&cfg.PodInitialBackoffSeconds, 1)
	set(&cfg.PodMaxBackoffSeconds, 10)
	if len(cfg.Profiles) == 0 {
		cfg.Profiles = []config.KubeSchedulerProfile{{}}
	}
	if len(cfg.Profiles) == 1 {
		set(&cfg.Profiles[0].SchedulerName, DefaultSchedulerName)
	}
	for i := range cfg.Profiles {
		completeProfile(&cfg.Profiles[i])
	}
	completeElection(&cfg.LeaderElection)
	if cfg.ClientConnection.ContentType == "" {
		cfg.ClientConnection.ContentType = runtime.ContentTypeProtobuf
	}
	for i := range cfg.Extenders {
		if t := &cfg.Extenders[i].HTTPTimeout; t.Duration == 0 {
			t.Duration = DefaultExtenderTimeout
		}
	}
	set(&cfg.EnableProfiling, true)
	set(&cfg.EnableContentionProfiling, true)
}

// EnablePlugin adds a plugin to every profile of a completed configuration that neither has it nor
// disables it, as a gate does that brings a default plugin.
func EnablePlugin(cfg *config.KubeSchedulerConfiguration, name string) {
	for i := range cfg.Profiles {
		set := &cfg.Profiles[i].Plugins.MultiPoint
		if !disables(*set, name) && !slices.ContainsFunc(set.Enabled,
			func(p config.Plugin) bool { return p.Name == name }) {
			set.Enabled = append(set.Enabled, config.Plugin{Name: name})
		}
	}
}

func set[T any](field **T, to T) {
	if *field == nil {
		*field = &to
	}
}

func completeElection(e *componentbase.LeaderElectionConfiguration) {
	set(&e.LeaderElect, true)
	for d, to := range map[*metav1.Duration]time.Duration{&e.LeaseDuration: 15 * time.Second,
		&e.RenewDeadline: 10 * time.Second, &e.RetryPeriod: 2 * time.Second} {
		if d.Duration == 0 {
			d.Duration = to
		}
	}
	for s, to := range map[*string]string{&e.ResourceLock: "leases",
		&e.ResourceName:      config.SchedulerDefaultLockObjectName,
		&e.ResourceNamespace: config.SchedulerDefaultLockObjectNamespace} {
		if *s == "" {
			*s = to
		}
	}
}

// completeProfile merges the default plugins in and gives every built-in plugin that takes
// arguments its completed ones.
func completeProfile(p *config.KubeSchedulerProfile) {
	if p.Plugins == nil {
		p.Plugins = &config.Plugins{}
	}
	p.Plugins.MultiPoint = merge(defaults(), p.Plugins.MultiPoint)
	given := map[string]*config.PluginConfig{}
	for i := range p.PluginConfig {
		given[p.PluginConfig[i].Name] = &p.PluginConfig[i]
	}
	for _, row := range plugins.OutOfTree {
		if c := given[row.Name]; c != nil && row.Args != nil && c.Args.Object != nil {
			row.Args.Default(c.Args.Object)
		}
	}
	for _, row := range plugins.InTree {
		if row.Args == nil {
			continue
		}
		c := given[row.Name]
		if c == nil {
			p.PluginConfig = append(p.PluginConfig,
				config.PluginConfig{Name: row.Name, Args: runtime.RawExtension{Object: row.Args.New()}})
			c = &p.PluginConfig[len(p.PluginConfig)-1]
		}
		if c.Args.Object != nil {
			row.Args.Default(c.Args.Object)
		}
	}
}

func defaults() config.PluginSet {
	var s config.PluginSet
	for _, row := range plugins.InTree {
		p := config.Plugin{Name: row.Name}
		if row.Weight > 0 {
			p.Weight = &row.Weight
		}
		s.Enabled = append(s.Enabled, p)
	}
	return s
}

// merge lays a profile's set over the default one: disabled defaults go ("*": all), a default that
// is enabled again takes the profile's weight in its old place, all other enabled ones follow.
func merge(base, own config.PluginSet) config.PluginSet {
	out := config.PluginSet{Disabled: own.Disabled}
	replaced := map[int]bool{}
	for _, p := range base.Enabled {
		if disables(own, p.Name) {
			continue
		}
		for i, mine := range own.Enabled {
			if mine.Name == p.Name {
				p, replaced[i] = mine, true
			}
		}
		out.Enabled = append(out.Enabled, p)
	}
	for i, mine := range own.Enabled {
		if !replaced[i] {
			out.Enabled = append(out.Enabled, mine)
		}
	}
	return out
}

func disables(s config.PluginSet, name string) bool {
	for _, d := range s.Disabled {
		if d.Name == name || d.Name == "*" {
			return true
		}
	}
	return false
}

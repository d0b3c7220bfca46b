package noderole

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/cli"
	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/images/credentialprovider"
	"github.com/gantry-project/gantry/internal/options"
)

// KubeletOptions are the kubelet's flags beyond where it lives, under upstream's names where
// upstream has one.
type KubeletOptions struct {
	ConfigSources kubeconfig.Sources
	plugins       credentialprovider.Files
	set           *pflag.FlagSet
	Loaded        *kubeconfig.Loaded // from load on
	labels        map[string]string
	taints        []string
	registerNode  bool
	cloudProvider string
	housekeeping  time.Duration
	ranking       string // of evictions
}

func (n *KubeletOptions) KubeletFlags(f *pflag.FlagSet) {
	f.StringToStringVar(&n.labels, "node-labels", nil, "labels of this node: key=value,…")
	f.StringSliceVar(&n.taints, "register-with-taints", nil,
		"taints put on this node at its first registration: key=value:effect,…")
	f.StringVar(&n.cloudProvider, "cloud-provider", "",
		"external: a cloud controller manager gives addresses and takes off the taint that the node is registered "+
			"with; empty: there is none")
	f.DurationVar(&n.housekeeping, "pod-housekeeping-period", 2*time.Second,
		"how often volumes, cgroups and logs that no Pod owns are looked for and cleared away")
	f.StringVar(&n.ranking, "eviction-ranking", "",
		"order in which Pods leave a node that is short of something: "+strings.Join(eviction.Rankings(), ", ")+
			"; that of the preset when empty, else upstream's")
	f.BoolVar(&n.registerNode, "register-node", true, "create the Node object")
	inertFlags(f)
}

// inertFlags are flags of upstream's kubelet that are taken and do nothing, so that a command line
// written for it starts; who gives one is told.
func inertFlags(f *pflag.FlagSet) {
	for name, why := range map[string]string{
		"cert-dir":                       "certificates are kept in the data directory",
		"experimental-mounter-path":      "it is deprecated upstream",
		"runtime-cgroups":                "the runtime's cgroup is found by its process",
		"minimum-container-ttl-duration": "it is deprecated upstream; use --eviction-hard or --eviction-soft",
		"maximum-dead-containers":        "it is deprecated upstream; use --eviction-hard or --eviction-soft",
		"maximum-dead-containers-per-container": "it is deprecated upstream; use --eviction-hard or " +
			"--eviction-soft",
	} {
		if f.Lookup(name) == nil {
			f.String(name, "", "no effect: "+why)
			// MarkDeprecated only fails for a flag that is not there, or without a text.
			_ = f.MarkDeprecated(name, "it has no effect: "+why)
			f.Lookup(name).Hidden = false
		}
	}
}

// Role makes the description of a node from the flags.
func (n *KubeletOptions) Role(ctx context.Context, p *options.Instance, e *ContainerRuntime,
	client kubernetes.Interface) (*Role, error) {
	n.logIgnoredFields()
	systemd, err := e.cgroupDriver(ctx, n.Loaded.Config)
	if err != nil {
		return nil, err
	}
	if n.housekeeping <= 0 {
		return nil, cli.UsageError(fmt.Errorf("--pod-housekeeping-period %s: must be more than 0", n.housekeeping))
	}
	ranking, err := n.evictionRanking()
	if err != nil {
		return nil, err
	}
	taints, err := parseTaints(n.taints)
	if err != nil {
		return nil, err
	}
	for k, v := range n.labels {
		if errs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(errs) > 0 {
			return nil, cli.UsageError(fmt.Errorf("--node-labels %s=%s: %s", k, v, errs[0]))
		}
	}
	if n.cloudProvider != "" && n.cloudProvider != "external" {
		return nil, cli.UsageError(fmt.Errorf("--cloud-provider %q: must be external or empty", n.cloudProvider))
	}
	taints = append(taints, n.Loaded.Config.RegisterWithTaints...)
	return &Role{instance: p, containerRuntime: e, config: n.Loaded.Config, client: client, slices: systemd,
		housekeeping: n.housekeeping, labels: n.labels, taints: taints, skipRegistration: !n.registerNode,
		plugins: n.plugins, external: n.cloudProvider != "",
		eviction: evictionOptions{ranking, n.Loaded.DefaultEvictionHard}}, nil
}

// evictionRanking is the ranking of the flag, or the one that comes with the preset.
func (n *KubeletOptions) evictionRanking() (eviction.Ranking, error) {
	if n.ranking == "" && slices.Contains(eviction.Rankings(), n.ConfigSources.Preset) {
		return eviction.Ranking(n.ConfigSources.Preset), nil
	}
	r, err := eviction.ParseRanking(n.ranking)
	if err != nil {
		return "", cli.UsageError(fmt.Errorf("--eviction-ranking: %w", err))
	}
	return r, nil
}

// parseTaints reads key=value:effect, key:effect.
func parseTaints(texts []string) ([]v1.Taint, error) {
	var out []v1.Taint
	for _, text := range texts {
		head, effect, ok := strings.Cut(text, ":")
		key, value, _ := strings.Cut(head, "=")
		e := v1.TaintEffect(effect)
		if !ok || e != v1.TaintEffectNoSchedule && e != v1.TaintEffectPreferNoSchedule && e != v1.TaintEffectNoExecute {
			return nil, cli.UsageError(
				fmt.Errorf("--register-with-taints %q: must be key=value:effect with effect NoSchedule, "+
					"PreferNoSchedule or NoExecute", text))

		}
		if errs := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(errs) > 0 {
			return nil, cli.UsageError(fmt.Errorf("--register-with-taints %q: %s", text, errs[0]))
		}
		out = append(out, v1.Taint{Key: key, Value: value, Effect: e})
	}
	return out, nil
}

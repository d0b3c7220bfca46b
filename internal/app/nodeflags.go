package app

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/scheduler/host"
)

// nodeFlags are the kubelet's flags beyond where it lives, under upstream's names where upstream has one.
type nodeFlags struct {
	config          string
	labels          map[string]string
	taints          []string
	registerNode    bool
	schedulerConfig string
	schedulerPort   int
}

func (n *nodeFlags) flags(f *pflag.FlagSet) {
	n.kubeletFlags(f)
	f.StringVar(&n.schedulerConfig, "scheduler-config", "", "KubeSchedulerConfiguration file")
	f.IntVar(&n.schedulerPort, "scheduler-port", host.Port, "port on 127.0.0.1 for the scheduler's health and metrics; 0 serves none")
}

func (n *nodeFlags) kubeletFlags(f *pflag.FlagSet) {
	f.StringVar(&n.config, "kubelet-config", "", "KubeletConfiguration file")
	f.StringToStringVar(&n.labels, "node-labels", nil, "labels of this node: key=value,…")
	f.StringSliceVar(&n.taints, "register-with-taints", nil, "taints put on this node at its first registration: key=value:effect,…")
	f.BoolVar(&n.registerNode, "register-node", true, "create the Node object")
}

// role makes the description of a node from the flags.
func (n *nodeFlags) role(p *place, e *engine, client kubernetes.Interface) (*nodeRole, error) {
	config, err := readKubeletConfig(n.config)
	if err != nil {
		return nil, err
	}
	taints, err := parseTaints(n.taints)
	if err != nil {
		return nil, err
	}
	for k, v := range n.labels {
		if errs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(errs) > 0 {
			return nil, usageError{fmt.Errorf("--node-labels %s=%s: %s", k, v, errs[0])}
		}
	}
	return &nodeRole{place: p, engine: e, config: config, client: client, labels: n.labels, taints: taints, noJoin: !n.registerNode}, nil
}

// readKubeletConfig reads a KubeletConfiguration strictly: an unknown field is an error that names it.
func readKubeletConfig(path string) (*kubeletconfig.KubeletConfiguration, error) {
	c := &kubeletconfig.KubeletConfiguration{MaxPods: 110, ClusterDomain: "cluster.local"}
	if path == "" {
		return c, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, withFix(fmt.Errorf("kubelet configuration: %w", err), "name a readable file with --kubelet-config")
	}
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(raw), c); err != nil {
		return nil, withFix(fmt.Errorf("kubelet configuration %s: %w", path, err), "correct the field that the message names; kubelet.config.k8s.io/v1beta1 documents all")
	}
	if c.Kind != "KubeletConfiguration" || c.APIVersion != kubeletconfig.SchemeGroupVersion.String() {
		return nil, withFix(fmt.Errorf("kubelet configuration %s is a %q of %q", path, c.Kind, c.APIVersion), "it must say kind: KubeletConfiguration and apiVersion: %s", kubeletconfig.SchemeGroupVersion)
	}
	if c.MaxPods <= 0 {
		return nil, fmt.Errorf("kubelet configuration %s: maxPods: Invalid value: %d: must be greater than 0", path, c.MaxPods)
	}
	return c, nil
}

// parseTaints reads key=value:effect, key:effect.
func parseTaints(texts []string) ([]v1.Taint, error) {
	var out []v1.Taint
	for _, text := range texts {
		head, effect, ok := strings.Cut(text, ":")
		key, value, _ := strings.Cut(head, "=")
		e := v1.TaintEffect(effect)
		if !ok || e != v1.TaintEffectNoSchedule && e != v1.TaintEffectPreferNoSchedule && e != v1.TaintEffectNoExecute {
			return nil, usageError{fmt.Errorf("--register-with-taints %q: must be key=value:effect with effect NoSchedule, PreferNoSchedule or NoExecute", text)}
		}
		if errs := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(errs) > 0 {
			return nil, usageError{fmt.Errorf("--register-with-taints %q: %s", text, errs[0])}
		}
		out = append(out, v1.Taint{Key: key, Value: value, Effect: e})
	}
	return out, nil
}

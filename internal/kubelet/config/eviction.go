package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
)

// When evictions are fruitless: how many in a row, and how long nobody goes then.
const (
	fruitlessEvictions  = 3
	fruitlessHoldPeriod = 5 * time.Minute
)

// EvictionConfig is how a complete configuration has the node evict. defaultHard: nobody set
// evictionHard (see Loaded).
func EvictionConfig(c *kubelet.KubeletConfiguration, defaultHard bool, ranking eviction.Ranking) (eviction.Config,
	error) {
	thresholds, errs := eviction.Thresholds(EvictionSettings(c))
	if err := errors.Join(errs...); err != nil {
		return eviction.Config{}, fmt.Errorf("evictions: %w", err)
	}
	if defaultHard {
		thresholds = eviction.CapDisks(thresholds, eviction.DefaultDiskCap)
	}
	return eviction.Config{
		Thresholds: thresholds, PressureTransition: c.EvictionPressureTransitionPeriod.Duration,
		MaxPodGrace: time.Duration(c.EvictionMaxPodGracePeriod) * time.Second, Ranking: ranking,
		FruitlessEvictions: fruitlessEvictions, FruitlessHoldPeriod: fruitlessHoldPeriod,
	}, nil
}

// EvictionSettings are the eviction fields of a configuration.
func EvictionSettings(c *kubelet.KubeletConfiguration) eviction.Settings {
	return eviction.Settings{Hard: c.EvictionHard, Soft: c.EvictionSoft, SoftGracePeriod: c.EvictionSoftGracePeriod,
		MinimumReclaim: c.EvictionMinimumReclaim, EnforcePods: slices.Contains(c.EnforceNodeAllocatable, enforcePods)}
}

// validateEviction checks thresholds, graces and reclaims. A soft threshold without a grace period
// is an error.
func validateEviction(p *problems, c *kubelet.KubeletConfiguration) {
	p.addIf(c.EvictionMaxPodGracePeriod < 0, "evictionMaxPodGracePeriod %v must not be a negative number",
		c.EvictionMaxPodGracePeriod)
	_, errs := eviction.Thresholds(EvictionSettings(c))
	for _, err := range errs {
		p.add("%w", err)
	}
}

// Reserved is what the configuration keeps of a node's capacity from Pods.
func Reserved(c *kubelet.KubeletConfiguration, capacity v1.ResourceList) kubeletresource.Reserved {
	return kubeletresource.Reserved{System: kubeletresource.ParseQuantities(c.SystemReserved),
		Kube: kubeletresource.ParseQuantities(c.KubeReserved), Eviction: EvictionReserved(c.EvictionHard, capacity)}
}

// EvictionReserved is what the hard eviction thresholds keep of a node's capacity from Pods: of
// memory by memory.available, of ephemeral storage by nodefs.available. Thresholds that do not read
// are none; validation refuses them before.
func EvictionReserved(hard map[string]string, capacity v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for signal, name := range map[string]v1.ResourceName{"memory.available": v1.ResourceMemory,
		"nodefs.available": v1.ResourceEphemeralStorage} {
		text, set := hard[signal]
		all, has := capacity[name]
		if !set || !has {
			continue
		}
		if share, percent := strings.CutSuffix(text, "%"); percent {
			if f, err := strconv.ParseFloat(share, 32); err == nil {
				out[name] = *resource.NewQuantity(int64(float64(all.Value())*float64(float32(f)/100)),
					resource.BinarySI)
			}
		} else if q, err := resource.ParseQuantity(text); err == nil {
			out[name] = q
		}
	}
	return out
}

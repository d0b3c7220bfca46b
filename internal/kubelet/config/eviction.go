package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// Signals are what eviction thresholds may name.
func Signals() []string {
	return []string{
		"allocatableMemory.available", "containerfs.available", "containerfs.inodesFree", "imagefs.available",
		"imagefs.inodesFree",
		"memory.available", "nodefs.available", "nodefs.inodesFree", "pid.available",
	}
}

// validateEviction checks thresholds, graces and reclaims. A soft threshold without a grace period
// is an error.
func validateEviction(p *problems, c *kubelet.KubeletConfiguration) {
	p.addIf(c.EvictionMaxPodGracePeriod < 0, "evictionMaxPodGracePeriod %v must not be a negative number",
		c.EvictionMaxPodGracePeriod)
	for _, f := range []struct {
		name string
		m    map[string]string
	}{{"evictionHard", c.EvictionHard}, {"evictionSoft", c.EvictionSoft},
		{"evictionMinimumReclaim", c.EvictionMinimumReclaim}} {
		for _, signal := range slices.Sorted(maps.Keys(f.m)) {
			if err := threshold(signal, f.m[signal], f.name == "evictionMinimumReclaim"); err != nil {
				p.add("%s: %w", f.name, err)
			}
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(c.EvictionSoftGracePeriod)) {
		d, err := time.ParseDuration(c.EvictionSoftGracePeriod[signal])
		switch {
		case !slices.Contains(Signals(), signal):
			p.add("evictionSoftGracePeriod: unsupported eviction signal %v", signal)
		case err != nil:
			p.add("evictionSoftGracePeriod: %w", err)
		case d < 0:
			p.add("evictionSoftGracePeriod: invalid eviction grace period specified: %v, must be a positive value",
				c.EvictionSoftGracePeriod[signal])
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(c.EvictionSoft)) {
		_, ok := c.EvictionSoftGracePeriod[signal]
		p.addIf(!ok, "evictionSoft: grace period must be specified for the soft eviction threshold %v", signal)
	}
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

// threshold checks one value: a quantity, or a percentage of capacity.
func threshold(signal, value string, reclaim bool) error {
	if !slices.Contains(Signals(), signal) {
		return fmt.Errorf("unsupported eviction signal %v", signal)
	}
	if share, ok := strings.CutSuffix(value, "%"); ok {
		f, err := strconv.ParseFloat(share, 32)
		switch {
		case err != nil:
			return err
		case f < 0:
			return fmt.Errorf("eviction percentage threshold %v must be >= 0%%: %s", signal, value)
		case f > 100:
			return fmt.Errorf("eviction percentage threshold %v must be <= 100%%: %s", signal, value)
		}
		return nil
	}
	q, err := resource.ParseQuantity(value)
	switch {
	case err != nil:
		return fmt.Errorf("%v: %w", signal, err)
	case q.Sign() < 0 && reclaim:
		return fmt.Errorf("negative eviction minimum reclaim specified for %v", signal)
	case q.Sign() <= 0 && !reclaim:
		return fmt.Errorf("eviction threshold %v must be positive: %s", signal, &q)
	}
	return nil
}

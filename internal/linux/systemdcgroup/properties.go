package systemdcgroup

import (
	"math"
	"strconv"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/gantry-project/gantry/internal/linux/cgroup"
)

func property(name string, value any) systemd.Property {
	return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
}

// creationProperties returns a slice's initial properties: accounting for everything that is
// measured, and no dependency that would stop it at shutdown before its Pods.
func creationProperties(name string, unified bool) []systemd.Property {
	io := "BlockIOAccounting"
	if unified {
		io = "IOAccounting"
	}
	return []systemd.Property{
		property("Description", "Pods of Gantry in "+name), property("Wants", []string{parentOf(name)}),
		property("DefaultDependencies", false),
		property("CPUAccounting", true), property("MemoryAccounting", true), property("TasksAccounting", true),
		property(io, true),
	}
}

// properties returns the values as systemd properties. systemd.resource-control(5)
func (m *Manager) properties(v cgroup.Values) []systemd.Property {
	var out []systemd.Property
	add := func(name string, n uint64) { out = append(out, property(name, n)) }
	if v.Shares != nil {
		if m.opts.Unified {
			add("CPUWeight", cgroup.Weight(*v.Shares))
		} else {
			add("CPUShares", *v.Shares)
		}
	}
	if v.Quota != nil {
		period := uint64(100000)
		if v.Period != nil {
			period = *v.Period
		}
		if m.opts.Unified {
			add("CPUQuotaPeriodUSec", period)
		}
		add("CPUQuotaPerSecUSec", perSecond(*v.Quota, period))
	}
	if v.Memory != nil {
		name := "MemoryLimit"
		if m.opts.Unified {
			name = "MemoryMax"
		}
		add(name, orInfinity(*v.Memory))
	}
	if v.Pids != nil {
		add("TasksMax", orInfinity(*v.Pids))
	}
	for _, x := range []struct{ file, name string }{{"memory.min", "MemoryMin"}, {"memory.low", "MemoryLow"},
		{"memory.high", "MemoryHigh"}, {"memory.swap.max", "MemorySwapMax"}} {
		if n, ok := parseNumber(v.Unified[x.file]); ok {
			add(x.name, n)
		}
	}
	return out
}

// perSecond returns a quota as systemd expresses it, in µs of CPU time per second, rounded to 10
// ms; infinity is no limit.
func perSecond(quota int64, period uint64) uint64 {
	if quota <= 0 || period == 0 {
		return math.MaxUint64
	}
	const step = 10000
	n := uint64(quota) * 1000000 / period
	return (n + step - 1) / step * step
}

func orInfinity(n int64) uint64 {
	if n < 0 {
		return math.MaxUint64
	}
	return uint64(n)
}

// parseNumber reads a file's value; "max" is infinity.
func parseNumber(s string) (uint64, bool) {
	if s == "max" {
		return math.MaxUint64, true
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

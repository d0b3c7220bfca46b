package sizing

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Policy is how usage becomes requests and limits.
type Policy struct {
	MemoryHeadroom float64 // of the memory limit over the most that was seen
	CPULimitRatio  float64 // of the CPU limit to the request; 0: no CPU limit
	MaxRatio       float64 // of a limit to its request, above which is a warning
	FewSamples     int     // fewer say little about a 95th percentile
}

// DefaultPolicy has no CPU limits: a container at its limit is slowed down while CPUs lie idle.
func DefaultPolicy() Policy { return Policy{MemoryHeadroom: 1.2, MaxRatio: 2, FewSamples: 100} }

// Steps that requests are rounded up to.
const (
	cpuStep    = 10       // millicores
	memoryStep = 1 << 20  // bytes
	minMemory  = 4 << 20  // bytes; a container with less does not start
	limitStep  = 16 << 20 // bytes
)

// Advice is what a container should request.
type Advice struct {
	Key
	CPU      Stats     `json:"cpu"`    // cores
	Memory   Stats     `json:"memory"` // bytes
	Request  Resources `json:"requests"`
	Limit    Resources `json:"limits"`
	Ratio    Ratio     `json:"limitToRequest"`
	Warnings []string  `json:"warnings,omitempty"`
}

// Ratio is limit to request; 0: no limit.
type Ratio struct {
	CPU    float64 `json:"cpu,omitempty"`
	Memory float64 `json:"memory,omitempty"`
}

// Containers advises on each container.
func Containers(s Series, p Policy) []Advice {
	var out []Advice
	for _, k := range s.Keys() {
		out = append(out, container(k, s[k], p))
	}
	return out
}

func container(k Key, u *Usage, p Policy) Advice {
	a := Advice{Key: k, CPU: StatsOf(u.CPU), Memory: StatsOf(u.Memory)}
	if a.CPU.Samples > 0 {
		milli := max(cpuStep, up(a.CPU.P95*1000, cpuStep))
		a.Request.CPU = resource.NewMilliQuantity(milli, resource.DecimalSI)
		if p.CPULimitRatio > 0 {
			a.Limit.CPU = resource.NewMilliQuantity(up(float64(milli)*p.CPULimitRatio, cpuStep), resource.DecimalSI)
		}
	}
	if a.Memory.Samples > 0 {
		bytes := max(minMemory, up(a.Memory.P95, memoryStep))
		a.Request.Memory = resource.NewQuantity(bytes, resource.BinarySI)
		a.Limit.Memory = resource.NewQuantity(max(up(a.Memory.Max*p.MemoryHeadroom, limitStep), bytes),
			resource.BinarySI)
	}
	a.Ratio = Ratio{ratio(a.Limit.CPU, a.Request.CPU), ratio(a.Limit.Memory, a.Request.Memory)}
	a.warn(u, p)
	return a
}

// up rounds up to a step.
func up(v float64, step int64) int64 { return int64(math.Ceil(v/float64(step)-1e-9)) * step }

func ratio(limit, request *resource.Quantity) float64 {
	if limit == nil || request == nil || request.IsZero() {
		return 0
	}
	return math.Round(100*limit.AsApproximateFloat64()/request.AsApproximateFloat64()) / 100
}

func (a *Advice) warn(u *Usage, p Policy) {
	say := func(format string, args ...any) { a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...)) }
	for _, x := range []struct {
		name  string
		stats Stats
		ratio float64
	}{{"cpu", a.CPU, a.Ratio.CPU}, {"memory", a.Memory, a.Ratio.Memory}} {
		switch {
		case x.stats.Samples == 0:
			say("%s: nothing was measured, so nothing is advised", x.name)
			continue
		case x.stats.Samples < p.FewSamples:
			say("%s: %d samples say little about a 95th percentile; measure longer, over a busy day",
				x.name, x.stats.Samples)
		}
		if x.stats.Average > 0 && x.stats.P95 > 2*x.stats.Average {
			say("%s: its 95th percentile is %.1f times its average: a request of the average would be too little "+
				"when it is busy", x.name, x.stats.P95/x.stats.Average)
		}
		if x.ratio > p.MaxRatio {
			say("%s: the limit is %.2f times the request (more than %g): a node filled by requests has not so much "+
				"when several take their limit", x.name, x.ratio, p.MaxRatio)
		}
	}
	a.warnCurrent(u, p, say)
}

// warnCurrent compares with what the container has now.
func (a *Advice) warnCurrent(u *Usage, p Policy, say func(string, ...any)) {
	above := func(s Stats, q *resource.Quantity) bool {
		return q != nil && s.Samples > 0 && s.P95 > q.AsApproximateFloat64()
	}
	if u.Request != nil && above(a.Memory, u.Request.Memory) {
		say("memory: it requests %s now and takes more 5%% of the time or longer: above its request it is evicted "+
			"first",
			u.Request.Memory)
	}
	if u.Request != nil && above(a.CPU, u.Request.CPU) {
		say("cpu: it requests %s now and takes more 5%% of the time or longer: it has that only while others leave it",
			u.Request.CPU)
	}
	if u.Limit == nil {
		return
	}
	if m := u.Limit.Memory; m != nil && a.Memory.Max > m.AsApproximateFloat64()*0.9 {
		say("memory: it came within 10%% of its limit of %s: the kernel kills it there", m)
	}
	if u.Request != nil {
		if now := ratio(u.Limit.Memory, u.Request.Memory); now > p.MaxRatio {
			say("memory: its limit now is %.2f times its request (more than %g)", now, p.MaxRatio)
		}
		if now := ratio(u.Limit.CPU, u.Request.CPU); now > 4*p.MaxRatio {
			say("cpu: its limit now is %.2f times its request (more than %g)", now, 4*p.MaxRatio)
		}
	}
}

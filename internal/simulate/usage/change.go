package usage

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Change says how the load of a workload changes: by a factor, or to an amount for each Pod.
type Change struct {
	Factor      float64 // of what is taken now; 0 with one of the others
	CPU, Memory int64   // of each Pod that is ready, thousandths of a core and bytes; 0: as it was
	Text        string  // as a person wrote it
}

// Bounds, so that figures stay numbers.
const (
	mostFactor   = 1e6
	mostMilliCPU = 1e9  // of each Pod
	mostMemory   = 1e15 // bytes of each Pod
)

// Parse reads +50%, -30%, 2x, 800m (cores of each Pod) or 512Mi (memory of each Pod).
func Parse(s string) (Change, error) {
	c := Change{Text: s}
	wrong := fmt.Errorf("%q: write +50%%, -30%%, 2x, an amount of cores for each Pod such as 800m or of memory such "+
		"as 512Mi", s)
	number := func(text string) (float64, bool) {
		f, err := strconv.ParseFloat(text, 64)
		return f, err == nil && !math.IsNaN(f) && math.Abs(f) <= mostFactor
	}
	switch {
	case strings.HasSuffix(s, "%") && (strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-")):
		f, ok := number(strings.TrimSuffix(s, "%"))
		if !ok || f <= -100 {
			return c, wrong
		}
		c.Factor = 1 + f/100
	case strings.HasSuffix(s, "x"):
		f, ok := number(strings.TrimSuffix(s, "x"))
		if !ok || f <= 0 {
			return c, wrong
		}
		c.Factor = f
	default:
		q, err := resource.ParseQuantity(s)
		switch {
		case err != nil || q.Sign() <= 0 || q.CmpInt64(mostMemory) > 0:
			return c, wrong
		case strings.HasSuffix(s, "i"):
			c.Memory = q.Value()
		case strings.Trim(strings.TrimSuffix(s, "m"), "0123456789.") != "" || q.CmpInt64(mostMilliCPU/1000) > 0:
			return c, fmt.Errorf("%q is no amount of cores: write memory as 512Mi", s)
		default:
			c.CPU = q.MilliValue()
		}
	}
	return c, nil
}

// of is what the containers of one name take together after the change. An amount is divided among
// a Pod's containers as what they took together was; equally when that was nothing.
func (c Change) of(a, all Amounts, pods int64, containers int) Amounts {
	if c.Factor > 0 {
		return a.times(c.Factor)
	}
	share := func(now, sum, want int64) int64 {
		part := 1 / float64(containers)
		if sum > 0 {
			part = float64(now) / float64(sum)
		}
		return saturated(float64(want) * float64(pods) * part)
	}
	if c.CPU > 0 {
		a.CPU = share(a.CPU, all.CPU, c.CPU)
	}
	if c.Memory > 0 {
		a.Memory = share(a.Memory, all.Memory, c.Memory)
	}
	return a
}

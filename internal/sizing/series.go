package sizing

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Key names a container of a workload.
type Key struct {
	Namespace string `json:"namespace,omitempty"`
	Workload  string `json:"workload"`
	Container string `json:"container"`
}

// String is NAMESPACE/WORKLOAD/CONTAINER.
func (k Key) String() string {
	s := k.Workload + "/" + k.Container
	if k.Namespace != "" {
		s = k.Namespace + "/" + s
	}
	return s
}

// Usage is what was measured of the containers with one key, in any order.
type Usage struct {
	CPU    []float64 // cores
	Memory []float64 // bytes, working set
	// what they have now; nil: not known
	Request, Limit *Resources
}

// Resources are an amount of CPU and of memory; nil parts are not set.
type Resources struct {
	CPU    *resource.Quantity `json:"cpu,omitempty"`
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// Series are the usages by container.
type Series map[Key]*Usage

// Of is the usage of a container, made when there is none.
func (s Series) Of(k Key) *Usage {
	u := s[k]
	if u == nil {
		u = &Usage{}
		s[k] = u
	}
	return u
}

// Keys are the containers by name.
func (s Series) Keys() []Key {
	out := make([]Key, 0, len(s))
	for k := range s {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload),
			cmp.Compare(a.Container, b.Container))
	})
	return out
}

var (
	// generated parts of names have no vowels and none of 0, 1 and 3
	deploymentPod = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	ordinalPod    = regexp.MustCompile(`^(.+)-[0-9]+$`)
	generatedPod  = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
)

// Workload is the name of what made a Pod, by the Pod's name: those of one Deployment, StatefulSet
// or DaemonSet are sized together.
func Workload(pod string) string {
	for _, r := range []*regexp.Regexp{deploymentPod, ordinalPod, generatedPod} {
		if m := r.FindStringSubmatch(pod); m != nil {
			return m[1]
		}
	}
	return pod
}

// InputError is a place of a file that cannot be used.
type InputError struct {
	Field string // line 3: memory, data.result[0].metric.__name__, …
	Err   error
}

// Error is FIELD: what is wrong.
func (e *InputError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap is what is wrong.
func (e *InputError) Unwrap() error { return e.Err }

func wrong(field, format string, args ...any) error {
	return &InputError{field, fmt.Errorf(format, args...)}
}

// point is one value of a counter or gauge.
type point struct {
	at    time.Time
	value float64
}

// rates turns a counter of seconds into cores; a counter that falls began anew.
func rates(points []point) []float64 {
	slices.SortFunc(points, func(a, b point) int { return a.at.Compare(b.at) })
	var out []float64
	for i := 1; i < len(points); i++ {
		seconds := points[i].at.Sub(points[i-1].at).Seconds()
		if more := points[i].value - points[i-1].value; seconds > 0 && more >= 0 {
			out = append(out, more/seconds)
		}
	}
	return out
}

// Stats are the figures of a series.
type Stats struct {
	Samples int     `json:"samples"`
	Average float64 `json:"average"`
	P50     float64 `json:"p50"`
	P95     float64 `json:"p95"`
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
}

// StatsOf counts; percentiles are the smallest value that at least so many of the values reach
// (nearest rank).
func StatsOf(values []float64) Stats {
	if len(values) == 0 {
		return Stats{}
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := func(percent int) float64 { return sorted[max(0, (len(sorted)*percent+99)/100-1)] }
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	return Stats{len(sorted), sum / float64(len(sorted)), rank(50), rank(95), rank(99), sorted[len(sorted)-1]}
}

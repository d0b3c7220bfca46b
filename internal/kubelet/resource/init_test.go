package resource_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	r "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/pod"
)

// row: ISE-14
func TestTheLargestInitContainerCounts(t *testing.T) {
	o := r.Options{CFSQuota: true}
	limit := func(name, cpu string) v1.Container {
		if cpu == "" {
			return container(name, nil, nil)
		}
		memory := strings.TrimSuffix(cpu, "m") + "Mi" // as many
		return container(name, list("cpu", cpu, "memory", memory), list("cpu", cpu, "memory", memory))
	}
	for name, x := range map[string]struct {
		inits    []string
		app      string
		requests int64  // milli-CPUs
		quota    *int64 // µs in 100 ms; nil: none
	}{
		"the larger of two":           {[]string{"100m", "300m"}, "200m", 300, ptr(int64(30000))},
		"not their sum":               {[]string{"150m", "150m"}, "200m", 200, ptr(int64(20000))},
		"the app's when that is more": {[]string{"100m", "300m"}, "700m", 700, ptr(int64(70000))},
		"none is the highest limit":   {[]string{"100m", ""}, "200m", 200, nil},
		"the first of three":          {[]string{"500m", "100m", "300m"}, "200m", 500, ptr(int64(50000))},
		"none, first of two":          {[]string{"", "300m"}, "200m", 300, nil},
	} {
		p := podOf(limit("app", x.app))
		for i, cpu := range x.inits {
			p.Spec.InitContainers = append(p.Spec.InitContainers, limit(string(rune('a'+i)), cpu))
		}
		requests := pod.Requests(p)
		if got := requests.Cpu().MilliValue(); got != x.requests {
			t.Errorf("%s: requests %dm, want %dm", name, got, x.requests)
		}
		if got := requests.Memory().Value(); got != x.requests<<20 {
			t.Errorf("%s: requests %d bytes, want %d Mi", name, got, x.requests)
		}
		v := r.ForPod(p, o)
		if (v.Quota == nil) != (x.quota == nil) || v.Quota != nil && *v.Quota != *x.quota ||
			*v.Shares != r.Shares(x.requests) {
			t.Errorf("%s: quota %v, shares %d", name, v.Quota, *v.Shares)
		}
		if (v.Memory == nil) != (x.quota == nil) || v.Memory != nil && *v.Memory != x.requests<<20 {
			t.Errorf("%s: memory %v, want %d Mi, or none where there is no quota", name, v.Memory, x.requests)
		}
	}
}

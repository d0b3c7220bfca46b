package resource

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Lower QoS classes are limited to what is left of the node's memory without the reserved share of
// what higher ones request.
func TestMemoryIsReservedForHigherClasses(t *testing.T) {
	list := func(memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory), v1.ResourceCPU: resource.MustParse("1")}
	}
	pod := func(requests, limits v1.ResourceList) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{
			Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}}}}
	}
	pods := []*v1.Pod{pod(list("2Gi"), list("2Gi")), pod(list("1Gi"), nil), pod(nil, nil)}
	const gi = 1 << 30
	for _, c := range []struct {
		share                 *int64
		burstable, bestEffort int64 // 0: no limit is written
	}{{nil, 0, 0}, {new(int64(0)), 8 * gi, 8 * gi}, {new(int64(50)), 7 * gi, 7*gi - gi/2},
		{new(int64(100)), 6 * gi, 5 * gi}} {
		got := ForTiers(pods, list("8Gi"), Options{MemoryReserved: c.share})
		for name, x := range map[string]struct {
			is   *int64
			want int64
		}{"burstable": {got.Burstable.Memory, c.burstable}, "besteffort": {got.BestEffort.Memory, c.bestEffort}} {
			if x.want == 0 && x.is != nil || x.want != 0 && (x.is == nil || *x.is != x.want) {
				t.Errorf("share %v, %s: got the limit %v, want %d", c.share, name, x.is, x.want)
			}
		}
		if got.Burstable.Shares == nil || got.BestEffort.Shares == nil {
			t.Errorf("share %v: got no cpu shares", c.share)
		}
	}
	if got := ForTiers(pods, nil, Options{MemoryReserved: new(int64(50))}); got.Burstable.Memory != nil {
		t.Errorf("got the limit %d of a node whose memory is not known, want none", *got.Burstable.Memory)
	}
}

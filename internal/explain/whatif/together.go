package whatif

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// maxTogether bounds how many Pods of a template are placed to say for how many a remedy is enough.
const maxTogether = 20

// describeForGroup says of remedies that are not enough for all Pods that wait together for how
// many they are. Beside a lower request that is not, the one with which all fit is put first.
func (s *search) describeForGroup(list []Remedy) []Remedy {
	if len(s.in.Together) == 0 || len(s.in.Together) >= maxTogether {
		return list
	}
	all := append([]*v1.Pod{s.in.Pod}, s.in.Together...)
	request := -1
	for i := range list {
		n := s.placed(list[i].state, all)
		if n >= len(all) {
			continue
		}
		list[i].Description += fmt.Sprintf("; that is enough for %d of the %d that wait", n, len(all))
		if list[i].Kind == "request" && request < 0 {
			request = i
		}
	}
	if request < 0 {
		return list
	}
	g, err := PlaceGroup(s.ctx, s.in, all)
	if err != nil || g.Unschedulable == nil {
		return list
	}
	if r, ok := lowerAllRequests(s.ctx, s.in, all, g); ok {
		list = slices.Insert(list, request, r)
	}
	return list
}

// placed is how many of these Pods find a node, one after the other, changed as the Pod of a state.
func (s *search) placed(st searchState, all []*v1.Pod) int {
	plugins := s.in.Plugins
	if deletedPods := st.deletedPods(); len(deletedPods) > 0 && s.in.WithoutPods != nil {
		plugins = s.in.WithoutPods(deletedPods)
	}
	w := st.snapshot
	for n, x := range all {
		p := st.pod.DeepCopy()
		p.Name, p.UID = x.Name, x.UID
		r := schedule.SchedulePod(s.ctx, schedule.Input{Pod: p, Snapshot: w, Plugins: plugins})
		if !r.Scheduled() {
			return n
		}
		p.Spec.NodeName = r.SuggestedHost
		info, err := snapshot.NewPodInfo(p)
		if err != nil {
			return n
		}
		if w, err = w.WithPod(info, r.SuggestedHost); err != nil {
			return n
		}
	}
	return len(all)
}

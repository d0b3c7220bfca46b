package prober

import "github.com/gantry-project/gantry/internal/kubelet/probe"

// WorkerCount is how many probes ask, by kind.
func (a *Manager) WorkerCount() map[probe.Kind]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := map[probe.Kind]int{}
	for _, pod := range a.pods {
		for k, w := range pod {
			if w.ctx.Err() == nil {
				n[k.Kind]++
			}
		}
	}
	return n
}

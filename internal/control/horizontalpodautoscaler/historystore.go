package horizontalpodautoscaler

import (
	"maps"
	"slices"
	"strings"
	"sync"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// historyStore is what the controller remembers between syncs, by key NAMESPACE/NAME. It is safe
// for concurrent use.
type historyStore struct {
	mu        sync.Mutex
	histories map[string]History
	selectors map[string]map[string]labels.Selector // of targets, by namespace and key
	statuses  map[string]version                    // as written last
}

type version struct {
	uid             types.UID
	resourceVersion string
}

func newHistoryStore() *historyStore {
	return &historyStore{histories: map[string]History{}, selectors: map[string]map[string]labels.Selector{},
		statuses: map[string]version{}}
}

func (m *historyStore) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.histories, key)
	delete(m.statuses, key)
	ns := namespaceOf(key)
	delete(m.selectors[ns], key)
	if len(m.selectors[ns]) == 0 {
		delete(m.selectors, ns)
	}
}

func namespaceOf(key string) string { ns, _, _ := strings.Cut(key, "/"); return ns }

func (m *historyStore) history(key string) History {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.histories[key]
}

func (m *historyStore) recordHistory(key string, h History) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.histories[key] = h
}

func (m *historyStore) recordStatus(key string, h *autoscalingv2.HorizontalPodAutoscaler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.statuses[key] = version{h.UID, h.ResourceVersion}
}

// isStale tells whether h is older than the status that was written last.
func (m *historyStore) isStale(key string, h *autoscalingv2.HorizontalPodAutoscaler) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.statuses[key]
	if !ok || last.uid != h.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(h.ResourceVersion, last.resourceVersion)
	return err == nil && order < 0
}

// selecting notes the selector of key's target and returns the first two autoscalers of its
// namespace whose targets' selectors select one of pods.
func (m *historyStore) selecting(key string, selector labels.Selector, pods []*corev1.Pod) (out []string) {
	different := map[string]labels.Set{} // Pods of one template have the same labels
	for _, p := range pods {
		different[labels.Set(p.Labels).String()] = p.Labels
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ns := namespaceOf(key)
	if m.selectors[ns] == nil {
		m.selectors[ns] = map[string]labels.Selector{}
	}
	m.selectors[ns][key] = selector
	for _, other := range slices.Sorted(maps.Keys(m.selectors[ns])) {
		for _, set := range different {
			if m.selectors[ns][other].Matches(set) {
				out = append(out, other)
				break
			}
		}
		if len(out) == 2 {
			break
		}
	}
	return out
}

package podsource

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Sources, strongest first.
const (
	File = "file"
	HTTP = "http"
	API  = "api"
)

var sourceRank = map[string]int{File: 0, HTTP: 1, API: 2}

// PodUpdate is one thing a source said.
type PodUpdate struct {
	Source  string
	Pod     *v1.Pod // for Gone the last that was known
	Removed bool
	Forced  bool // gone by a deletion without grace
}

// PodConfig makes one ordered stream of several sources.
type PodConfig struct {
	onUpdate func(PodUpdate)

	mu             sync.Mutex
	owner          map[types.UID]string // which source a Pod is taken from
	pendingSources map[string]bool      // sources that have not said what they have
	synced         chan struct{}
}

// NewPodConfig returns a PodConfig of the named sources; to is called for one change at a time.
func NewPodConfig(to func(PodUpdate), sources ...string) *PodConfig {
	m := &PodConfig{onUpdate: to, owner: map[types.UID]string{}, pendingSources: map[string]bool{},
		synced: make(chan struct{})}
	for _, s := range sources {
		m.pendingSources[s] = true
	}
	if len(sources) == 0 {
		close(m.synced)
	}
	return m
}

// Synced is closed when every source has said what it has.
func (m *PodConfig) Synced() <-chan struct{} { return m.synced }

// Put says that a source has a Pod.
func (m *PodConfig) Put(source string, pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o, has := m.owner[pod.UID]; has && o != source && sourceRank[o] < sourceRank[source] {
		return // a stronger source has this uid
	}
	m.owner[pod.UID] = source
	m.onUpdate(PodUpdate{Source: source, Pod: pod})
}

// Remove says that a source does not have a Pod any more.
func (m *PodConfig) Remove(source string, pod *v1.Pod, forced bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owner[pod.UID] != source {
		return
	}
	delete(m.owner, pod.UID)
	m.onUpdate(PodUpdate{Source: source, Pod: pod, Removed: true, Forced: forced})
}

// Complete says that a source has said what it has.
func (m *PodConfig) Complete(source string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.pendingSources[source] {
		return
	}
	delete(m.pendingSources, source)
	if len(m.pendingSources) == 0 {
		close(m.synced)
	}
}

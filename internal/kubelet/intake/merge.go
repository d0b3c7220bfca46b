package intake

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

var rank = map[string]int{File: 0, HTTP: 1, API: 2}

// Change is one thing a source said.
type Change struct {
	Source string
	Pod    *v1.Pod // for Gone the last that was known
	Gone   bool
	Forced bool // gone by a deletion without grace
}

// Merge makes one ordered stream of several sources.
type Merge struct {
	to func(Change)

	mu      sync.Mutex
	owner   map[types.UID]string // which source a Pod is taken from
	waiting map[string]bool      // sources that have not said what they have
	synced  chan struct{}
}

// NewMerge returns a Merge of the named sources; to is called for one change at a time.
func NewMerge(to func(Change), sources ...string) *Merge {
	m := &Merge{to: to, owner: map[types.UID]string{}, waiting: map[string]bool{}, synced: make(chan struct{})}
	for _, s := range sources {
		m.waiting[s] = true
	}
	if len(sources) == 0 {
		close(m.synced)
	}
	return m
}

// Synced is closed when every source has said what it has.
func (m *Merge) Synced() <-chan struct{} { return m.synced }

// Put says that a source has a Pod.
func (m *Merge) Put(source string, pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o, has := m.owner[pod.UID]; has && o != source && rank[o] < rank[source] {
		return // a stronger source has this uid
	}
	m.owner[pod.UID] = source
	m.to(Change{Source: source, Pod: pod})
}

// Gone says that a source does not have a Pod any more.
func (m *Merge) Gone(source string, pod *v1.Pod, forced bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owner[pod.UID] != source {
		return
	}
	delete(m.owner, pod.UID)
	m.to(Change{Source: source, Pod: pod, Gone: true, Forced: forced})
}

// Complete says that a source has said what it has.
func (m *Merge) Complete(source string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.waiting[source] {
		return
	}
	delete(m.waiting, source)
	if len(m.waiting) == 0 {
		close(m.synced)
	}
}

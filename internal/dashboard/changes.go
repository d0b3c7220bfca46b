package dashboard

import (
	"encoding/json"
	"sync"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// changes collects what a client was not sent yet: of each object the newest state only, so that a
// slow client costs no more than one copy of the cluster. Safe for concurrent use.
type changes struct {
	wake chan struct{}

	mu       sync.Mutex
	byKind   map[string]*kindChanges
	kinds    []string // in the order of their first change
	refusals map[string]failure
	values   map[string]any
}

// kindChanges are the changes of one kind. Full: they are all there is.
type kindChanges struct {
	Full bool           `json:"full,omitempty"`
	Set  map[string]any `json:"set"` // nil: gone
}

func newChanges() *changes {
	return &changes{wake: make(chan struct{}, 1), byKind: map[string]*kindChanges{}, refusals: map[string]failure{},
		values: map[string]any{}}
}

func (c *changes) change(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *changes) set(kind, key string, shown any) {
	c.change(func() {
		if c.byKind[kind] == nil {
			c.byKind[kind] = &kindChanges{Set: map[string]any{}}
			c.kinds = append(c.kinds, kind)
		}
		if k := c.byKind[kind]; k.Full && shown == nil {
			delete(k.Set, key)
		} else {
			k.Set[key] = shown
		}
	})
}

func (c *changes) replace(kind string, items map[string]any) {
	c.change(func() {
		if c.byKind[kind] == nil {
			c.kinds = append(c.kinds, kind)
		}
		c.byKind[kind] = &kindChanges{Full: true, Set: items}
		delete(c.refusals, kind)
	})
}

func (c *changes) put(name string, value any) { c.change(func() { c.values[name] = value }) }

func (c *changes) deny(what string, f failure) { c.change(func() { c.refusals[what] = f }) }

// batch is one event of the stream.
type batch struct {
	event string
	data  any
}

// take returns what is to be sent, and forgets it.
func (c *changes) take() []batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []batch
	for _, kind := range c.kinds {
		out = append(out, batch{kind, c.byKind[kind]})
	}
	for what, f := range c.refusals {
		out = append(out, batch{"denied", struct {
			What string `json:"what"`
			failure
		}{what, f}})
	}
	for name, value := range c.values {
		out = append(out, batch{name, value})
	}
	c.byKind, c.kinds, c.refusals, c.values = map[string]*kindChanges{}, nil, map[string]failure{}, map[string]any{}
	return out
}

// add takes over what a kubelet's summary says.
func (u *used) add(node string, summary []byte) {
	var s statsapi.Summary
	if json.Unmarshal(summary, &s) != nil {
		return
	}
	u.Nodes[node] = usageOf(s.Node.CPU, s.Node.Memory)
	for _, p := range s.Pods {
		u.Pods[p.PodRef.Namespace+"/"+p.PodRef.Name] = usageOf(p.CPU, p.Memory)
	}
}

func usageOf(cpu *statsapi.CPUStats, memory *statsapi.MemoryStats) usage {
	var out usage
	if cpu != nil && cpu.UsageNanoCores != nil {
		out.CPU = int64(*cpu.UsageNanoCores / 1_000_000)
	}
	if memory != nil && memory.WorkingSetBytes != nil {
		out.Memory = int64(*memory.WorkingSetBytes)
	}
	return out
}

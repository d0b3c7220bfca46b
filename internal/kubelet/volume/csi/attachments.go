package csi

import (
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// NodeAttachments follows the node's own object: which volumes it has in use, and which are
// attached.
type NodeAttachments struct {
	mu       sync.Mutex
	staged   []v1.UniqueVolumeName // by an earlier kubelet
	inUse    map[v1.UniqueVolumeName]bool
	reported map[v1.UniqueVolumeName]bool // in the object's volumesInUse
	attached map[v1.UniqueVolumeName]bool // in its volumesAttached
	changed  chan struct{}                // closed and replaced by each change of the object
	known    bool                         // the object was seen: inUse is whole
	report   func()                       // has the status written; must not block
}

var _ Attachments = (*NodeAttachments)(nil)

// NewNodeAttachments returns what is attached; report is called when volumes in use are others.
func NewNodeAttachments(report func()) *NodeAttachments {
	return &NodeAttachments{inUse: map[v1.UniqueVolumeName]bool{}, changed: make(chan struct{}), report: report}
}

// Restore tells which volumes an earlier kubelet left staged. It is called before NodeChanged.
func (a *NodeAttachments) Restore(staged []v1.UniqueVolumeName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.staged = staged
}

// InUse is what the node's status has to say under volumesInUse, sorted; false as long as it has to
// stay as it is, because it is not known what an earlier kubelet said.
func (a *NodeAttachments) InUse() ([]v1.UniqueVolumeName, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []v1.UniqueVolumeName
	for name := range a.inUse {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, a.known
}

// NodeChanged tells of a new version of the node's object.
func (a *NodeAttachments) NodeChanged(n *v1.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reported, a.attached = map[v1.UniqueVolumeName]bool{}, map[v1.UniqueVolumeName]bool{}
	for _, name := range n.Status.VolumesInUse {
		a.reported[name] = true
	}
	for i := range n.Status.VolumesAttached {
		a.attached[n.Status.VolumesAttached[i].Name] = true
	}
	if !a.known {
		a.known = true
		for _, name := range a.staged { // those not reported need no attaching
			if a.reported[name] {
				a.inUse[name] = true
			}
		}
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// Using has the volume among those in use: it is mounted, or about to be.
func (a *NodeAttachments) Using(name v1.UniqueVolumeName) {
	a.mu.Lock()
	was := a.inUse[name]
	a.inUse[name] = true
	a.mu.Unlock()
	if !was {
		a.report()
	}
}

// Unused takes the volume off those in use.
func (a *NodeAttachments) Unused(name v1.UniqueVolumeName) {
	a.mu.Lock()
	was := a.inUse[name]
	delete(a.inUse, name)
	a.mu.Unlock()
	if was {
		a.report()
	}
}

// WaitAttached has the volume among those in use and waits until the node's object has it among
// volumesInUse and volumesAttached.
func (a *NodeAttachments) WaitAttached(ctx context.Context, name v1.UniqueVolumeName) error {
	a.Using(name)
	for {
		a.mu.Lock()
		ready, changed := a.reported[name] && a.attached[name], a.changed
		a.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

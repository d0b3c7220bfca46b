package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Observed is what the runtime has of one Pod at one instant.
type Observed struct {
	At         time.Time
	Sandboxes  []Sandbox   // newest first
	Containers []Container // by name, newest first within one name
}

// Sandbox is one pod sandbox.
type Sandbox struct {
	ID      string
	Attempt uint32
	Ready   bool
	Created time.Time
	IPs     []string // empty on the host's network
}

// State is a container's state in the runtime.
type State int

// States of a container.
const (
	Created State = iota
	Running
	Exited
	Unknown
)

// Container is one container in the runtime.
type Container struct {
	ID      string
	Name    string
	Sandbox string
	Attempt int // 0 for the first start; the restart count
	State   State

	Created, Started, Finished time.Time // zero when it has not happened

	Exit Exit // when Exited
	// it was stopped because its sandbox had died: it is started again in a new one however it
	// ended
	Restarting  bool
	Image       Image        // as the runtime reports it
	Annotations Annotations  // what the kubelet wrote onto it
	Usage       RuntimeUsage // what it runs with
}

// Exit is how a container ended.
type Exit struct {
	Code    int32
	Reason  string // Completed, Error, OOMKilled, StartError, …
	Message string // termination message, or what the runtime says
}

// Image is the image a container was made from.
type Image struct{ Name, Ref string }

// Annotations are the annotations and labels of a container that decisions read.
type Annotations struct {
	Hash       string        // of name and image, to see a changed definition
	CrashDelay time.Duration // how long to wait after this container has ended; negative when the note is missing
}

// RuntimeUsage is what the runtime says a container runs with; nil fields were not reported.
type RuntimeUsage struct {
	Resources  *v1.ResourceRequirements
	User       *v1.ContainerUser
	StopSignal string // that ends it, like SIGTERM; empty when the runtime does not say
}

// Latest is the newest container of that name, whichever its sandbox; nil when there is none.
func (o Observed) Latest(name string) *Container {
	for i := range o.Containers {
		if o.Containers[i].Name == name {
			return &o.Containers[i]
		}
	}
	return nil
}

// Previous is the newest container of that name before the given one; nil when there is none.
func (o Observed) Previous(c *Container) *Container {
	for i := range o.Containers {
		if p := &o.Containers[i]; p.Name == c.Name && p.Attempt < c.Attempt {
			return p
		}
	}
	return nil
}

// othersChanged tells whether a container of another name has started or ended since the Pod was
// looked at.
func (o Observed) othersChanged(name string, since time.Time) bool {
	return slices.ContainsFunc(o.Containers, func(c Container) bool {
		return c.Name != name && (!c.Started.Before(since) || c.Finished.After(since))
	})
}

// In is the newest container of that name in the sandbox; nil when there is none.
func (o Observed) In(sandbox, name string) *Container {
	for i := range o.Containers {
		if c := &o.Containers[i]; c.Name == name && c.Sandbox == sandbox {
			return c
		}
	}
	return nil
}

// Sandbox is the newest sandbox; nil when there is none.
func (o Observed) Sandbox() *Sandbox {
	if len(o.Sandboxes) == 0 {
		return nil
	}
	return &o.Sandboxes[0]
}

// Alive tells whether anything of the Pod may still run: a container that has not ended, or a ready
// sandbox.
func (o Observed) Alive() bool {
	return slices.ContainsFunc(o.Containers, Container.alive) || slices.ContainsFunc(o.Sandboxes,
		func(s Sandbox) bool { return s.Ready })
}

// alive tells whether the container has or may have processes.
func (c Container) alive() bool { return c.State == Running || c.State == Unknown }

// Sort brings sandboxes and containers into the order that the methods rely on.
func (o *Observed) Sort() {
	slices.SortStableFunc(o.Sandboxes, func(a, b Sandbox) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return int(b.Attempt) - int(a.Attempt)
	})
	slices.SortStableFunc(o.Containers, func(a, b Container) int {
		switch {
		case a.Name != b.Name && a.Name < b.Name:
			return -1
		case a.Name != b.Name:
			return 1
		case a.Attempt != b.Attempt:
			return b.Attempt - a.Attempt
		}
		return b.Created.Compare(a.Created)
	})
}

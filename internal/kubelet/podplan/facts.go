package podplan

import "time"

// Facts is when things became true of one Pod on this node; the zero time means not yet. A
// restarted kubelet learns them again from the runtime and the API.
type Facts struct {
	Accepted          time.Time // admission let it in
	Refused           time.Time // admission did not
	VolumesReady      time.Time // this kubelet made cgroup, directories and volumes ready
	StopRequested     time.Time // somebody or its own end asked for its stop
	ContainersStopped time.Time // nothing runs any more and nothing will
	Released          time.Time // volumes, cgroup and directories are gone
	Removed           time.Time // containers and sandboxes are gone from the runtime

	UncertainSandbox UncertainSandbox // of a sandbox that may still come
}

// Stage is where a Pod is in its life on the node; stages only grow.
//
//	Waiting -> Preparing -> Active -> Stopping -> Stopped -> Gone
//	   |           '-----------------^             ^
//	   '-- refused by admission -------------------'
type Stage int

// Stages of a Pod's life on the node.
const (
	Waiting   Stage = iota // not admitted: an older Pod of the same name is not released yet
	Preparing              // admitted, cgroup and volumes not ready
	Active                 // containers are started and kept
	Stopping               // nothing is started any more
	Stopped                // nothing runs
	Gone                   // nothing is left on the node
)

// Stage derives the stage.
func (f Facts) Stage() Stage {
	switch {
	case !f.Released.IsZero() && !f.Removed.IsZero():
		return Gone
	case !f.ContainersStopped.IsZero(), !f.Refused.IsZero():
		return Stopped
	case !f.StopRequested.IsZero():
		return Stopping
	case !f.VolumesReady.IsZero():
		return Active
	case !f.Accepted.IsZero():
		return Preparing
	}
	return Waiting
}

// String is the stage's name.
func (s Stage) String() string {
	return [...]string{"Waiting", "Preparing", "Active", "Stopping", "Stopped", "Gone"}[s]
}

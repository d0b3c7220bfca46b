package state

import (
	"encoding/json"
	"maps"

	"k8s.io/utils/cpuset"
)

// Assignments are exclusive CPUs by Pod uid and container.
type Assignments map[string]map[string]cpuset.CPUSet

// State is which CPUs belong to whom.
type State struct {
	Default     cpuset.CPUSet // the shared pool
	Assignments Assignments
	Pods        map[string]cpuset.CPUSet // of Pods that were given CPUs as a whole
}

// Clone is a copy that shares nothing.
func (s State) Clone() State {
	out := State{Default: s.Default, Assignments: Assignments{}, Pods: maps.Clone(s.Pods)}
	for uid, containers := range s.Assignments {
		out.Assignments[uid] = maps.Clone(containers)
	}
	return out
}

// Set gives a container its CPUs.
func (s *State) Set(uid, container string, set cpuset.CPUSet) {
	if s.Assignments == nil {
		s.Assignments = Assignments{}
	}
	if s.Assignments[uid] == nil {
		s.Assignments[uid] = map[string]cpuset.CPUSet{}
	}
	s.Assignments[uid][container] = set
}

// Delete forgets a container.
func (s *State) Delete(uid, container string) {
	delete(s.Assignments[uid], container)
	if len(s.Assignments[uid]) == 0 {
		delete(s.Assignments, uid)
	}
}

// Exclusive are the CPUs of a container; ok is false when it runs in the shared pool.
func (s State) Exclusive(uid, container string) (set cpuset.CPUSet, ok bool) {
	set, ok = s.Assignments[uid][container]
	return set, ok
}

// All are the CPUs that all containers of all Pods have.
func (s State) All() cpuset.CPUSet {
	out := cpuset.New()
	for _, containers := range s.Assignments {
		for _, set := range containers {
			out = out.Union(set)
		}
	}
	return out
}

// PodEntry is what a Pod was given as a whole, as a checkpoint has it.
type PodEntry struct {
	CPUSet string `json:"cpuSet,omitempty"`
}

// UnmarshalJSON refuses CPUs that do not read.
func (p *PodEntry) UnmarshalJSON(raw []byte) error {
	var text struct {
		CPUSet string `json:"cpuSet"`
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	p.CPUSet = text.CPUSet
	_, err := cpuset.Parse(text.CPUSet)
	return err
}

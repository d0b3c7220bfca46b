package state

import (
	"encoding/json"
	"fmt"

	"github.com/gantry-project/gantry/internal/kubelet/checkpointmanager"
	"github.com/gantry-project/gantry/internal/kubelet/checkpointmanager/checksum"
)

// MemoryManagerCheckpointV1 is the part of the file that kubelets before v1.36 read.
type MemoryManagerCheckpointV1 struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	Checksum     checksum.Checksum          `json:"checksum"`
}

// MemoryManagerCheckpointV2 is a whole file of a kubelet v1.36.
type MemoryManagerCheckpointV2 struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	PodEntries   PodMemoryAssignments       `json:"podEntries,omitempty"`
	Checksum     checksum.Checksum          `json:"checksum"`
}

// checkpointData is what the file says of record, as text within it.
type checkpointData struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	PodEntries   PodMemoryAssignments       `json:"podEntries,omitempty"`
}

// checkpointFile is the whole file, version 3.
type checkpointFile struct {
	MemoryManagerCheckpointV1
	Data         string            `json:"data"`
	DataChecksum checksum.Checksum `json:"dataChecksum"`
}

// Marshal is the file's content for a state.
func Marshal(policy string, s State) ([]byte, error) {
	s = s.Clone() // without nil maps
	data, err := json.Marshal(checkpointData{PolicyName: policy, MachineState: s.Machine, Entries: s.Assignments,
		PodEntries: s.Pods})
	if err != nil {
		return nil, err
	}
	f := checkpointFile{Data: string(data), DataChecksum: checksum.New(string(data)),
		MemoryManagerCheckpointV1: MemoryManagerCheckpointV1{PolicyName: policy, MachineState: s.Machine,
			Entries: s.Assignments}}
	f.Checksum = checksum.OfRenamed(&f.MemoryManagerCheckpointV1, "MemoryManagerCheckpointV1", legacyName)
	return json.Marshal(f)
}

// legacyName is what earlier kubelets called the types of their checkpoints.
const legacyName = "MemoryManagerCheckpoint"

// Unmarshal reads the file's content, of this or an earlier kubelet. policy is the one in force: a
// file of another is an error, and so is one that was changed by hand. Errors are upstream's.
func Unmarshal(blob []byte, policy string) (State, error) {
	d, err := read(blob)
	if err != nil {
		return State{}, err
	}
	if d.PolicyName != policy {
		return State{}, fmt.Errorf("[memorymanager] configured policy %q differs from state checkpoint policy %q",
			policy,
			d.PolicyName)
	}
	s := State{Machine: d.MachineState, Assignments: d.Entries, Pods: d.PodEntries}
	for id, n := range s.Machine {
		if n == nil {
			return State{}, fmt.Errorf("could not read machine state: NUMA node %d is empty", id)
		}
		for name, t := range n.MemoryMap {
			if t == nil {
				return State{}, fmt.Errorf("could not read machine state: %s of NUMA node %d is empty", name, id)
			}
		}
	}
	return s.Clone(), nil
}

// read takes the newest form that the file has.
func read(blob []byte) (checkpointData, error) {
	var f checkpointFile
	if err := json.Unmarshal(blob, &f); err != nil {
		return checkpointData{}, fmt.Errorf("could not load v3 checkpoint: %w", err)
	}
	var d checkpointData
	if f.Data != "" || f.DataChecksum != 0 {
		if err := json.Unmarshal([]byte(f.Data), &d); err != nil {
			return d, fmt.Errorf("could not load v3 checkpoint: failed to deserialize memory manager checkpoint "+
				"data: %w",
				err)
		}
		if f.DataChecksum != checksum.New(f.Data) {
			return d, fmt.Errorf("could not load v3 checkpoint: %w", checkpointmanager.ErrCorrupt)
		}
		return d, nil
	}
	v2 := MemoryManagerCheckpointV2{MachineState: NUMANodeMap{}, Entries: ContainerMemoryAssignments{},
		PodEntries: PodMemoryAssignments{}}
	if err := json.Unmarshal(blob, &v2); err != nil {
		return d, err
	}
	sum := v2.Checksum
	v2.Checksum = 0
	v1 := MemoryManagerCheckpointV1{PolicyName: v2.PolicyName, MachineState: v2.MachineState, Entries: v2.Entries}
	if sum != 0 && sum != checksum.OfRenamed(&v2, "MemoryManagerCheckpointV2", legacyName) &&
		sum != checksum.OfRenamed(&v1, "MemoryManagerCheckpointV1", legacyName) {
		return d, checkpointmanager.ErrCorrupt
	}
	return checkpointData{PolicyName: v2.PolicyName, MachineState: v2.MachineState, Entries: v2.Entries,
		PodEntries: v2.PodEntries}, nil
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"

	"github.com/gantry-project/gantry/test/numascenario"
)

// writeCheckpoints writes the checkpoints at the end of a scenario, as this and as earlier kubelets
// write them.
func writeCheckpoints(seed int64, dir string) error {
	s := numascenario.Random(seed)
	if err := answerIn(context.Background(), &s, dir); err != nil {
		return err
	}
	cpu, memory := &cpustate.CPUManagerCheckpoint{}, &memorystate.MemoryManagerCheckpoint{}
	for name, c := range map[string]checkpointmanager.Checkpoint{"cpu_manager_state": cpu,
		"memory_manager_state": memory} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := c.UnmarshalCheckpoint(raw); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	c, m := cpu.CheckpointData, memory.CheckpointData
	if c.PodEntries == nil {
		c.PodEntries = cpustate.PodCPUAssignments{}
	}
	if m.PodEntries == nil {
		m.PodEntries = memorystate.PodMemoryAssignments{}
	}
	for name, old := range map[string]checkpointmanager.Checkpoint{
		"cpu_manager_state.v2": &cpustate.CPUManagerCheckpointV2{PolicyName: c.PolicyName,
			DefaultCPUSet: c.DefaultCPUSet,
			Entries:       c.Entries},
		"cpu_manager_state.v3": &cpustate.CPUManagerCheckpointV3{PolicyName: c.PolicyName,
			DefaultCPUSet: c.DefaultCPUSet,
			Entries:       c.Entries, PodEntries: c.PodEntries},
		"memory_manager_state.v1": &memorystate.MemoryManagerCheckpointV1{PolicyName: m.PolicyName,
			MachineState: m.MachineState, Entries: m.Entries},
		"memory_manager_state.v2": &memorystate.MemoryManagerCheckpointV2{PolicyName: m.PolicyName,
			MachineState: m.MachineState, Entries: m.Entries, PodEntries: m.PodEntries},
	} {
		raw, err := old.MarshalCheckpoint()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			return err
		}
	}
	return nil
}

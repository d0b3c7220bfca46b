package state

import (
	"encoding/json"
	"fmt"

	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/kubelet/checkpointmanager"
	"github.com/gantry-project/gantry/internal/kubelet/checkpointmanager/checksum"
)

// CPUManagerCheckpointV2 is the part of the file that kubelets before v1.36 read.
type CPUManagerCheckpointV2 struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	Checksum      checksum.Checksum            `json:"checksum"`
}

// PodCPUAssignments are CPUs of Pods as a whole, by uid.
type PodCPUAssignments map[string]PodEntry

// CPUManagerCheckpointV3 is a whole file of a kubelet v1.36.
type CPUManagerCheckpointV3 struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	PodEntries    PodCPUAssignments            `json:"podEntries,omitempty"`
	Checksum      checksum.Checksum            `json:"checksum"`
}

// checkpointData is what the file says of record, as text within it.
type checkpointData struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	PodEntries    map[string]PodEntry          `json:"podEntries,omitempty"`
}

// checkpointFile is the whole file, version 4; version 3 has no data, and podEntries instead.
type checkpointFile struct {
	CPUManagerCheckpointV2
	Data         string            `json:"data"`
	DataChecksum checksum.Checksum `json:"dataChecksum"`
}

// Marshal is the file's content for a state.
func Marshal(policy string, s State) ([]byte, error) {
	d := checkpointData{PolicyName: policy, DefaultCPUSet: s.Default.String(),
		Entries: map[string]map[string]string{}, PodEntries: map[string]PodEntry{}}
	for uid, containers := range s.Assignments {
		d.Entries[uid] = map[string]string{}
		for name, set := range containers {
			d.Entries[uid][name] = set.String()
		}
	}
	for uid, set := range s.Pods {
		d.PodEntries[uid] = PodEntry{CPUSet: set.String()}
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	f := checkpointFile{Data: string(data), DataChecksum: checksum.New(string(data)),
		CPUManagerCheckpointV2: CPUManagerCheckpointV2{PolicyName: policy, DefaultCPUSet: d.DefaultCPUSet,
			Entries: d.Entries}}
	f.Checksum = f.sum()
	return json.Marshal(f)
}

// sum is the checksum of the part for earlier kubelets, which knew it by another name.
func (c CPUManagerCheckpointV2) sum() checksum.Checksum {
	c.Checksum = 0
	if c.Entries == nil {
		c.Entries = map[string]map[string]string{} // a missing map and an empty one are summed up alike
	}
	return checksum.OfRenamed(&c, "CPUManagerCheckpointV2", "CPUManagerCheckpoint")
}

// Unmarshal reads the file's content, of this or an earlier kubelet. policy is the one in force: a
// file of another is an error, and so is one that was changed by hand. Errors are upstream's.
func Unmarshal(blob []byte, policy string) (State, error) {
	d, err := read(blob)
	if err != nil {
		return State{}, err
	}
	if d.PolicyName != policy {
		return State{}, fmt.Errorf("configured policy %q differs from state checkpoint policy %q", policy, d.PolicyName)
	}
	s := State{Assignments: Assignments{}, Pods: map[string]cpuset.CPUSet{}}
	if s.Default, err = cpuset.Parse(d.DefaultCPUSet); err != nil {
		return State{}, fmt.Errorf("could not parse default CPU set %q: %w", d.DefaultCPUSet, err)
	}
	for uid, containers := range d.Entries {
		for name, text := range containers {
			set, err := cpuset.Parse(text)
			if err != nil {
				return State{}, fmt.Errorf("could not parse cpuset %q for container %q in pod %q: %w", text, name, uid,
					err)
			}
			s.Set(uid, name, set)
		}
	}
	for uid, e := range d.PodEntries {
		if s.Pods[uid], err = cpuset.Parse(e.CPUSet); err != nil {
			return State{}, fmt.Errorf("failed to parse cpuset: %w", err)
		}
	}
	return s, nil
}

// read takes the newest form that the file has.
func read(blob []byte) (checkpointData, error) {
	var f checkpointFile
	if err := json.Unmarshal(blob, &f); err != nil {
		return checkpointData{}, fmt.Errorf("could not load v4 checkpoint: %w", err)
	}
	var d checkpointData
	if f.Data != "" || f.DataChecksum != 0 {
		if err := json.Unmarshal([]byte(f.Data), &d); err != nil {
			return d, fmt.Errorf("could not load v4 checkpoint: failed to deserialize cpu manager checkpoint data: %w",
				err)
		}
		if f.DataChecksum != checksum.New(f.Data) {
			return d, fmt.Errorf("could not load v4 checkpoint: %w", checkpointmanager.ErrCorrupt)
		}
		return d, nil
	}
	if err := json.Unmarshal(blob, &d); err != nil {
		return d, err
	}
	// Pods given CPUs as a whole are summed up in a way of their own (version 3): that sum is not
	// checked, the content is when it is used.
	if len(d.PodEntries) == 0 && f.Checksum != 0 && f.Checksum != f.sum() && f.Checksum != sumV3(f) {
		return d, checkpointmanager.ErrCorrupt
	}
	return d, nil
}

// sumV3 is the checksum of a version 3 file without Pods that were given CPUs as a whole.
func sumV3(f checkpointFile) checksum.Checksum {
	c := CPUManagerCheckpointV3{PolicyName: f.PolicyName, DefaultCPUSet: f.DefaultCPUSet, Entries: f.Entries,
		PodEntries: PodCPUAssignments{}}
	if c.Entries == nil {
		c.Entries = map[string]map[string]string{}
	}
	return checksum.OfRenamed(&c, "CPUManagerCheckpointV3", "CPUManagerCheckpoint")
}

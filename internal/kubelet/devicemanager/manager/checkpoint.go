package manager

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/checkpointmanager"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/checkpoint"
)

// writeCheckpoint writes what is known, whole or not at all; nothing when the file says it already.
func (m *Manager) writeCheckpoint() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	raw, err := m.snapshot()
	if err == nil && string(raw) != m.written {
		if err = checkpointmanager.Write(m.d.Dir, checkpoint.File, raw); err == nil {
			m.written = string(raw)
		}
	}
	if err != nil {
		return fmt.Errorf("failed to write checkpoint file %q: %w", checkpoint.File, err)
	}
	return nil
}

// snapshot is the checkpoint's content.
func (m *Manager) snapshot() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var entries []checkpoint.PodDevicesEntry
	for _, uid := range slices.Sorted(maps.Keys(m.pods)) {
		for _, container := range slices.Sorted(maps.Keys(m.pods[uid])) {
			resources := settled(m.pods[uid][container])
			for _, name := range slices.Sorted(maps.Keys(resources)) {
				response, err := proto.MarshalOptions{Deterministic: true}.Marshal(resources[name].Response)
				if err != nil {
					return nil, err
				}
				entries = append(entries, checkpoint.PodDevicesEntry{PodUID: string(uid), ContainerName: container,
					ResourceName: name, DeviceIDs: resources[name].DeviceIDs, AllocResp: response})
			}
		}
	}
	registered := map[string][]string{}
	for name, r := range m.inventory {
		registered[name] = r.HealthyIDs()
	}
	return checkpoint.Marshal(entries, registered)
}

// readCheckpoint takes over what an earlier kubelet knew. Resources have no devices until their
// plugins register again.
func (m *Manager) readCheckpoint(now time.Time) error {
	raw, found, err := checkpointmanager.Read(m.d.Dir, checkpoint.File)
	if err != nil || !found {
		return err
	}
	entries, registered, err := checkpoint.Unmarshal(raw)
	if err != nil {
		return err
	}
	for name := range registered {
		m.inventory[name] = devicemanager.Resource{Stopped: now}
	}
	for _, e := range entries {
		response := &pluginapi.ContainerAllocateResponse{}
		if err := proto.Unmarshal(e.AllocResp, response); err != nil {
			klog.ErrorS(err, "Can't unmarshal allocResp", "podUID", e.PodUID, "containerName", e.ContainerName,
				"resourceName", e.ResourceName)
			continue
		}
		m.pods.Insert(types.UID(e.PodUID), e.ContainerName, e.ResourceName,
			devicemanager.Allocation{DeviceIDs: e.DeviceIDs, Response: response})
	}
	return nil
}

// Package checkpoint is the file kubelet_internal_checkpoint, in which the device manager keeps
// over restarts which devices containers have. Its format, checksum included, is upstream's: a
// kubelet of either kind reads what the other wrote. The checksum covers the names of this package
// and of its types, so these cannot change.
//
// In: entries and the registered devices. Out: bytes, and the same read again. Bytes that are not a
// checkpoint are an error.
package checkpoint

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	"k8s.io/utils/dump"
)

// File is the name of the file, in the directory of the plugins' sockets.
const File = "kubelet_internal_checkpoint"

// DevicesPerNUMA are device ids by the NUMA node of their devices, -1 for those of none. A device
// of several nodes is there several times.
type DevicesPerNUMA map[int64][]string

// Devices are all ids, each once, in order.
func (dev DevicesPerNUMA) Devices() []string {
	var out []string
	for _, ids := range dev {
		out = append(out, ids...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// PodDevicesEntry is what one container has of one resource.
type PodDevicesEntry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     DevicesPerNUMA
	AllocResp     []byte // a ContainerAllocateResponse in protobuf
}

type checkpointData struct {
	PodDeviceEntries  []PodDevicesEntry
	RegisteredDevices map[string][]string
}

// Data is the content of the file.
type Data struct {
	Data     checkpointData
	Checksum uint64
}

// Marshal makes the file's content. registered are the healthy devices of each resource.
func Marshal(entries []PodDevicesEntry, registered map[string][]string) ([]byte, error) {
	cp := Data{Data: checkpointData{PodDeviceEntries: entries, RegisteredDevices: registered}}
	cp.Checksum = checksum(cp.Data)
	return json.Marshal(cp)
}

// Unmarshal reads the file's content.
func Unmarshal(raw []byte) (entries []PodDevicesEntry, registered map[string][]string, err error) {
	var cp Data
	if err := json.Unmarshal(raw, &cp); err != nil {
		return nil, nil, fmt.Errorf("not a checkpoint: %w", err)
	}
	if sum := checksum(cp.Data); sum != cp.Checksum {
		return nil, nil, fmt.Errorf("checkpoint is corrupted: its checksum is %d, its content has %d", cp.Checksum, sum)
	}
	return cp.Data.PodDeviceEntries, cp.Data.RegisteredDevices, nil
}

func checksum(d checkpointData) uint64 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(d))
	return uint64(h.Sum32())
}

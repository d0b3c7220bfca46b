// Package state is the file dra_manager_state, in which the kubelet keeps over restarts which
// resource claims it has prepared, for which Pods, and what drivers answered. Its format, checksum
// included, is upstream's.
//
// In: claims. Out: bytes, and the same read again. Bytes that are not a checkpoint are an error.
package state

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// File is the name of the file, in the kubelet's directory.
const File = "dra_manager_state"

const (
	kind       = "DRACheckpoint"
	apiVersion = "checkpoint.dra.kubelet.k8s.io/v1"
)

// ClaimInfoState is one claim.
type ClaimInfoState struct {
	ClaimUID    types.UID
	ClaimName   string
	Namespace   string
	PodUIDs     sets.Set[string]       // Pods on this node that use it
	DriverState map[string]DriverState // by driver: all that have allocated devices in the claim
}

// DriverState is what one driver gave for a claim.
type DriverState struct {
	Devices []Device
	// calls that all allocated devices of the driver can do without
	SkipNodeOperations []resourceapi.SkipNodeOperation `json:"skipNodeOperations,omitempty"`
}

// Skips tells whether a driver need not be called for an operation.
func (s DriverState) Skips(op resourceapi.SkipNodeOperation) bool {
	return slices.Contains(s.SkipNodeOperations, resourceapi.SkipNodeOperationAll) ||
		slices.Contains(s.SkipNodeOperations, op)
}

// Device is one prepared device.
type Device struct {
	PoolName     string
	DeviceName   string
	ShareID      *types.UID
	RequestNames []string // of the claim that it serves; none: all
	CDIDeviceIDs []string
}

type checkpoint struct {
	Data     string // a checkpointData as JSON
	Checksum uint32 // CRC-32 (IEEE) of Data
}

type checkpointData struct {
	metav1.TypeMeta
	ClaimInfoStateList []ClaimInfoState
}

// Marshal makes the file's content.
func Marshal(claims []ClaimInfoState) ([]byte, error) {
	data, err := json.Marshal(checkpointData{metav1.TypeMeta{Kind: kind, APIVersion: apiVersion}, claims})
	if err != nil {
		return nil, err
	}
	return json.Marshal(checkpoint{string(data), crc32.ChecksumIEEE(data)})
}

// Unmarshal reads the file's content.
func Unmarshal(raw []byte) ([]ClaimInfoState, error) {
	var cp checkpoint
	if err := json.Unmarshal(raw, &cp); err != nil {
		return nil, fmt.Errorf("not a checkpoint: %w", err)
	}
	if sum := crc32.ChecksumIEEE([]byte(cp.Data)); sum != cp.Checksum {
		return nil, fmt.Errorf("checkpoint is corrupted: its checksum is %d, its content has %d", cp.Checksum, sum)
	}
	var data checkpointData
	if err := json.Unmarshal([]byte(cp.Data), &data); err != nil {
		return nil, fmt.Errorf("not a checkpoint: %w", err)
	}
	return data.ClaimInfoStateList, nil
}

package podactions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/pod"
)

// AllocationRecord is what a Pod has been given by resizes: what the node granted, and what of it
// is in force. It outlives the kubelet in a file of the Pod's directory.
type AllocationRecord struct {
	Allocated  pod.Allocation  `json:"allocated"`
	Applied    podplan.Applied `json:"applied,omitempty"`
	Generation int64           `json:"generation"` // of the spec that was granted
}

// AllocationStore keeps grants below the kubelet's directory of Pods. Pods that were never resized
// have none.
type AllocationStore struct{ Root string }

func (l AllocationStore) path(uid types.UID) string {
	return filepath.Join(l.Root, "pods", string(uid), "resources.json")
}

// Load reads a Pod's grant; ok is false when there is none.
func (l AllocationStore) Load(uid types.UID) (g AllocationRecord, ok bool, err error) {
	raw, err := os.ReadFile(l.path(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return g, false, nil
	}
	if err != nil {
		return g, false, fmt.Errorf("read the Pod's grant: %w", err)
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		return AllocationRecord{}, false, fmt.Errorf("%s is not a grant: %w", l.path(uid), err)
	}
	return g, true, nil
}

// Save writes a Pod's grant whole or not at all.
func (l AllocationStore) Save(uid types.UID, g AllocationRecord) error {
	raw, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("encode the Pod's grant: %w", err)
	}
	at := l.path(uid)
	if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
		return fmt.Errorf("directory of the Pod: %w", err)
	}
	if err := os.WriteFile(at+".new", raw, 0o600); err != nil {
		return fmt.Errorf("write the Pod's grant: %w", err)
	}
	if err := os.Rename(at+".new", at); err != nil {
		return fmt.Errorf("write the Pod's grant: %w", err)
	}
	return nil
}

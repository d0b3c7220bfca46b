package userns

import (
	"encoding/json"
	"errors"
	"fmt"
)

// record is the file that upstream's kubelet keeps in a Pod's directory, so that either can take
// over from the other.
type record struct {
	UIDMappings []mapping `json:"uidMappings"`
	GIDMappings []mapping `json:"gidMappings"`
}

type mapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

// Format writes a Pod's range as its file has it.
func Format(r Range) []byte {
	m := []mapping{{HostID: r.First, Length: r.Length}}
	raw, err := json.Marshal(record{m, m})
	if err != nil {
		return nil // numbers always marshal
	}
	return raw
}

// Parse reads a Pod's file and checks it for damage.
func Parse(raw []byte) (Range, error) {
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return Range{}, fmt.Errorf("invalid user namespace configuration: %w", err)
	}
	bad := func(cause string) (Range, error) {
		return Range{}, errors.New("invalid user namespace configuration: " + cause)
	}
	switch {
	case len(r.UIDMappings) != 1 || len(r.GIDMappings) != 1:
		return bad("no more than one mapping allowed, and one is needed")
	case r.UIDMappings[0] != r.GIDMappings[0]:
		return bad("GID and UID mappings should be identical")
	}
	switch m := r.UIDMappings[0]; {
	case m.ContainerID != 0:
		return bad("UID 0 must be mapped")
	case m.HostID%Unit != 0 || m.HostID < Unit:
		return bad(fmt.Sprintf("first id %d is not a multiple of %d above 0", m.HostID, Unit))
	case m.Length%Unit != 0 || m.Length == 0:
		return bad(fmt.Sprintf("wrong length %d: must be a multiple of %d above 0", m.Length, Unit))
	case uint64(m.HostID)+uint64(m.Length) > 1<<32:
		return bad("the ids do not fit into 32 bits")
	default:
		return Range{m.HostID, m.Length}, nil
	}
}

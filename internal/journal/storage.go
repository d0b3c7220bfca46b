package journal

import (
	"fmt"
	"strings"
)

// StorageExceeded says that a Pod takes more of its node's local storage than its own limits allow, with what its message leaves out. Sizes are in bytes.
type StorageExceeded struct {
	Of    string        `json:"of"`             // whose limit: OfVolume, OfPod, OfContainer
	Name  string        `json:"name,omitempty"` // the volume's or container's
	Used  int64         `json:"used"`
	Limit int64         `json:"limit"`
	Parts []StoragePart `json:"parts,omitempty"` // what Used is the sum of, most first; none when it is one thing
}

// Whose limit of local storage there is.
const (
	OfVolume    = "volume"    // sizeLimit of an emptyDir
	OfPod       = "pod"       // all ephemeral-storage limits of containers together
	OfContainer = "container" // the ephemeral-storage limit of one: its writable layer and logs
)

// StoragePart is what one kind of thing takes.
type StoragePart struct {
	What  string `json:"what"`           // volume, writable layers, logs
	Name  string `json:"name,omitempty"` // the volume's
	Bytes int64  `json:"bytes"`
}

// String is the part with its size.
func (p StoragePart) String() string {
	return strings.Join(strings.Fields(p.What+" "+p.Name+" "+Size(p.Bytes)), " ")
}

// Line prints use and limit, and what took how much.
func (f StorageExceeded) Line() string {
	s := fmt.Sprintf("takes %s of local storage, ", Size(f.Used))
	switch f.Of {
	case OfVolume:
		s += fmt.Sprintf("sizeLimit of volume %s is %s", f.Name, Size(f.Limit))
	case OfContainer:
		s += fmt.Sprintf("the ephemeral-storage limit of container %s is %s", f.Name, Size(f.Limit))
	default:
		s += fmt.Sprintf("the ephemeral-storage limits of its containers are %s in all", Size(f.Limit))
	}
	for i, p := range f.Parts {
		s += map[bool]string{true: ": ", false: ", "}[i == 0] + p.String()
	}
	return s
}

// Size prints bytes as a person reads them: 812, 24Ki, 3.5Mi, 150Mi.
func Size(n int64) string {
	const ki, mi = 1 << 10, 1 << 20
	switch {
	case n < ki:
		return fmt.Sprint(n)
	case n < mi:
		return fmt.Sprintf("%dKi", n/ki)
	case n < 10*mi:
		return fmt.Sprintf("%.1fMi", float64(n)/mi)
	}
	return fmt.Sprintf("%dMi", n/mi)
}

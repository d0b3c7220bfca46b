package journal

import (
	"fmt"
	"strconv"
	"strings"
)

// StorageExceeded says that a Pod exceeds its own limits of local ephemeral storage, with details
// that the eviction message lacks. Sizes are in bytes.
type StorageExceeded struct {
	Of    string        `json:"of"`             // kind of limit: OfVolume, OfPod, OfContainer
	Name  string        `json:"name,omitempty"` // name of the volume or container
	Used  int64         `json:"used"`
	Limit int64         `json:"limit"`
	Parts []StoragePart `json:"parts,omitempty"` // summands of Used, largest first; none if it has only one
}

// Kinds of limits of local storage.
const (
	OfVolume    = "volume"    // sizeLimit of an emptyDir
	OfPod       = "pod"       // sum of the containers' ephemeral-storage limits
	OfContainer = "container" // ephemeral-storage limit of one container: its writable layer and logs
)

// StoragePart is the use of one kind of storage.
type StoragePart struct {
	What  string `json:"what"`           // volume, writable layers, logs
	Name  string `json:"name,omitempty"` // name of the volume
	Bytes int64  `json:"bytes"`
}

// String returns the part with its size.
func (p StoragePart) String() string {
	return strings.Join(strings.Fields(p.What+" "+p.Name+" "+Size(p.Bytes)), " ")
}

// Line prints use, limit and parts.
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

// Size formats bytes for people: exactly if a unit needs few digits (812, 24Ki, 1536Mi, 16Gi), else
// to three digits with "about" (about 2.7Gi).
func Size(n int64) string {
	units := []struct {
		shift int
		name  string
	}{{40, "Ti"}, {30, "Gi"}, {20, "Mi"}, {10, "Ki"}}
	const few = 10_000 // more than four digits are hard to read
	if -few < n && n < few {
		return fmt.Sprint(n)
	}
	for _, u := range units {
		if n%(1<<u.shift) == 0 && n>>u.shift < few {
			return fmt.Sprintf("%d%s", n>>u.shift, u.name)
		}
	}
	for _, u := range units {
		v := float64(n) / float64(int64(1)<<u.shift)
		switch {
		case v < 1:
		case v < 10:
			return "about " + formatFloat(v, 2) + u.name
		case v < 100:
			return "about " + formatFloat(v, 1) + u.name
		default:
			return "about " + formatFloat(v, 0) + u.name
		}
	}
	return fmt.Sprint(n)
}

// formatFloat formats v with at most the given number of digits after the point.
func formatFloat(v float64, digits int) string {
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

package behavior

import (
	"fmt"
	"hash/fnv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Span is a time as it is spread: half of all take at most P50, 99 of 100 at most P99.
type Span struct {
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
}

// Fixed is a Span without spread.
func Fixed(d time.Duration) Span { return Span{P50: d, P99: d} }

// at returns the time at a place from 0 to 1: linear from half the median over the median to the
// 99th percentile, which is the longest.
func (s Span) at(place float64) time.Duration {
	switch {
	case s.P99 <= s.P50:
		return s.P50
	case place <= 0.5:
		return s.P50/2 + time.Duration(place*float64(s.P50))
	}
	return s.P50 + time.Duration((place-0.5)*2*float64(s.P99-s.P50))
}

// Times are the spans of one kind of Pod.
type Times struct {
	Start Span `json:"start"` // from binding until its containers run, images and volumes included
	Ready Span `json:"ready"` // from then until a container is ready
	Stop  Span `json:"stop"`  // from TERM until the containers have ended; the grace period bounds it
	Run   Span `json:"run"`   // how long a container runs that ends by itself
	// ExitCode is what it ends with; Ends: it does so whatever the Pod's restart policy
	ExitCode int32 `json:"exitCode,omitempty"`
	Ends     bool  `json:"ends,omitempty"`
	// Memory is the most that a whole Pod took, in bytes; 0: nothing tells
	Memory int64 `json:"memory,omitempty"`
	// Samples is how many Pods were measured; 0: the times were given or assumed
	Samples int `json:"samples"`
}

// Assumed are the times of Pods of which nothing is known.
func Assumed() Times {
	return Times{Start: Fixed(2 * time.Second), Ready: Fixed(time.Second), Stop: Fixed(time.Second),
		Run: Fixed(30 * time.Second)}
}

// Drawn are the times of one Pod; ExitCode and Ends are those of Times.
type Drawn struct {
	Start, Ready, Stop, Run time.Duration

	ExitCode int32
	Ends     bool
}

// Model knows the times of all Pods.
type Model struct {
	Default Times
	ByOwner map[string]Times // by OwnerKey
	// Seed selects one of many equally likely runs; 0: every Pod takes the median
	Seed uint64
}

// OwnerKey names the kind of a Pod: its namespace, and the name of the controller without the hash
// of a revision; empty for a Pod without controller.
func OwnerKey(p *v1.Pod) string {
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return ""
	}
	name := owner.Name
	if hash := p.Labels["pod-template-hash"]; owner.Kind == "ReplicaSet" && hash != "" &&
		len(name) > len(hash)+1 && name[len(name)-len(hash):] == hash {
		return p.Namespace + "/Deployment/" + name[:len(name)-len(hash)-1]
	}
	return p.Namespace + "/" + owner.Kind + "/" + name
}

// Of returns the times of a Pod.
func (m Model) Of(p *v1.Pod) Drawn {
	t, known := m.ByOwner[OwnerKey(p)]
	if !known {
		t = m.Default
	}
	return Drawn{Start: m.draw(p, "start", t.Start), Ready: m.draw(p, "ready", t.Ready),
		Stop: m.draw(p, "stop", t.Stop), Run: m.draw(p, "run", t.Run), ExitCode: t.ExitCode, Ends: t.Ends}
}

// MemoryOf is the most memory that Pods like this one took, in bytes; 0: nothing tells.
func (m Model) MemoryOf(p *v1.Pod) int64 { return m.ByOwner[OwnerKey(p)].Memory }

func (m Model) draw(p *v1.Pod, what string, s Span) time.Duration {
	if m.Seed == 0 {
		return s.P50
	}
	h := fnv.New64a()
	fmt.Fprint(h, m.Seed, p.Namespace, p.Name, p.UID, what)
	// the low bits of a short FNV hash are not spread well
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return s.at(float64(x%10000) / 9999)
}

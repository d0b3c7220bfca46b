package journal

import (
	"fmt"
	"time"
)

// Evicted says that a Pod has to go because its node runs short, with what decided its place among
// the node's Pods. Amounts are in the unit of the signal: bytes, inodes, process ids.
type Evicted struct {
	Signal    string `json:"signal"`    // memory.available, …
	Threshold string `json:"threshold"` // as configured: 100Mi, 10%
	Available int64  `json:"available"`
	Place     int    `json:"place"` // 1 is the first to go
	Of        int    `json:"of"`
	Measured  bool   `json:"measured"` // Use is known
	Use       int64  `json:"use"`      // of the Pod
	Request   int64  `json:"request"`
	Priority  int32  `json:"priority"`
	Grace     Took   `json:"grace"` // for its containers to end
}

// Line prints the signal, the Pod's place and what it takes.
func (f Evicted) Line() string {
	takes := "its use is not known"
	if f.Measured {
		takes = fmt.Sprintf("takes %s, requests %s", Size(f.Use), Size(f.Request))
	}
	return fmt.Sprintf("evicted for %s (%s left, threshold %s): place %d of %d, %s, priority %d; %s to end", f.Signal,
		Size(f.Available), f.Threshold, f.Place, f.Of, takes, f.Priority, f.Grace)
}

// EvictionThresholdMet says that a node acts on a threshold.
type EvictionThresholdMet struct {
	Signal    string    `json:"signal"`
	Threshold string    `json:"threshold"`
	Available int64     `json:"available"`
	Since     time.Time `json:"since"` // when it was first met
}

// Line prints what is left and since when it is too little.
func (f EvictionThresholdMet) Line() string {
	return fmt.Sprintf("%s: %s left, threshold %s met since %s", f.Signal, Size(f.Available), f.Threshold,
		f.Since.UTC().Format(time.RFC3339))
}

// EvictionsFruitless says that a node stopped to evict for a signal, because evictions bring
// nothing.
type EvictionsFruitless struct {
	Signal    string    `json:"signal"`
	Evictions int       `json:"evictions"` // in a row
	Until     time.Time `json:"until"`     // when one more Pod goes
}

// Line prints how many evictions brought nothing.
func (f EvictionsFruitless) Line() string {
	return fmt.Sprintf("%d evictions in a row for %s brought nothing; none before %s", f.Evictions, f.Signal,
		f.Until.UTC().Format(time.RFC3339))
}

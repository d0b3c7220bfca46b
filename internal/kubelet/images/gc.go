package images

import (
	"cmp"
	"slices"
	"time"
)

// StoredImage is an image on the node.
type StoredImage struct {
	ID            string
	Bytes         int64
	Pinned        bool      // the runtime keeps it for itself
	FirstDetected time.Time // when it was first seen
	LastUsed      time.Time // when a container last ran from it; zero if never seen used
}

// Disk is the file system images are on.
type Disk struct{ Capacity, Available int64 } // bytes

// GCPolicy say when to collect: start above High percent of use, go down to Low, and leave images
// younger than MinAge alone; remove those unused for MaxAge whatever the disk says (0: never).
type GCPolicy struct {
	High, Low      int // percent; 85 and 80 upstream
	MinAge, MaxAge time.Duration
}

// GCPlan is which images to remove, in order, and how much it should free.
type GCPlan struct {
	Remove []StoredImage
	Bytes  int64 // of Remove
	Wanted int64 // to be freed to come down to Low; more than Bytes means that it will not be reached
}

// GCState is what there is to choose from.
type GCState struct {
	Disk   Disk
	Images []StoredImage
	InUse  func(id string) bool // tells whether a container uses the image
}

// PlanGC chooses images to remove (upstream: imageGCManager.GarbageCollect, from
// HighThresholdPercent down to LowThresholdPercent): unused, not pinned, the least recently used
// first, then the longest known.
func PlanGC(now time.Time, store GCState, t GCPolicy) GCPlan {
	var c GCPlan
	if disk := store.Disk; disk.Capacity > 0 {
		if used := 100 - int(disk.Available*100/disk.Capacity); used >= t.High {
			c.Wanted = max(disk.Capacity*int64(100-t.Low)/100-disk.Available, 0)
		}
	}
	free := slices.DeleteFunc(slices.Clone(store.Images),
		func(s StoredImage) bool { return s.Pinned || store.InUse(s.ID) })
	slices.SortStableFunc(free, func(a, b StoredImage) int {
		return cmp.Or(a.LastUsed.Compare(b.LastUsed), a.FirstDetected.Compare(b.FirstDetected), cmp.Compare(a.ID, b.ID))
	})
	for _, s := range free {
		since := s.LastUsed
		if since.IsZero() {
			since = s.FirstDetected
		}
		old := t.MaxAge > 0 && now.Sub(since) > t.MaxAge
		young := now.Sub(s.FirstDetected) < t.MinAge || s.LastUsed.Equal(now)
		if old || !young && c.Bytes < c.Wanted {
			c.Remove, c.Bytes = append(c.Remove, s), c.Bytes+s.Bytes
		}
	}
	return c
}

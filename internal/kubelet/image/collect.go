package image

import (
	"cmp"
	"slices"
	"time"
)

// Stored is an image on the node.
type Stored struct {
	ID       string
	Bytes    int64
	Pinned   bool      // the runtime keeps it for itself
	Detected time.Time // when it was first seen
	LastUsed time.Time // when a container last ran from it; zero if never seen used
}

// Disk is the file system images are on.
type Disk struct{ Capacity, Available int64 } // bytes

// Thresholds say when to collect: start above High percent of use, go down to Low, and leave images younger than MinAge alone; remove those unused for MaxAge whatever
// the disk says (0: never).
type Thresholds struct {
	High, Low      int // percent; 85 and 80 upstream
	MinAge, MaxAge time.Duration
}

// Collection is which images to remove, in order, and how much it should free.
type Collection struct {
	Remove []Stored
	Bytes  int64 // of Remove
	Wanted int64 // to be freed to come down to Low; more than Bytes means that it will not be reached
}

// Store is what there is to choose from.
type Store struct {
	Disk   Disk
	Images []Stored
	InUse  func(id string) bool // tells whether a container uses the image
}

// Collect chooses images to remove: unused, not pinned, the least recently used first, then the longest known.
func Collect(now time.Time, store Store, t Thresholds) Collection {
	var c Collection
	if disk := store.Disk; disk.Capacity > 0 {
		if used := 100 - int(disk.Available*100/disk.Capacity); used >= t.High {
			c.Wanted = max(disk.Capacity*int64(100-t.Low)/100-disk.Available, 0)
		}
	}
	free := slices.DeleteFunc(slices.Clone(store.Images), func(s Stored) bool { return s.Pinned || store.InUse(s.ID) })
	slices.SortStableFunc(free, func(a, b Stored) int {
		return cmp.Or(a.LastUsed.Compare(b.LastUsed), a.Detected.Compare(b.Detected), cmp.Compare(a.ID, b.ID))
	})
	for _, s := range free {
		since := s.LastUsed
		if since.IsZero() {
			since = s.Detected
		}
		old := t.MaxAge > 0 && now.Sub(since) > t.MaxAge
		young := now.Sub(s.Detected) < t.MinAge || s.LastUsed.Equal(now)
		if old || !young && c.Bytes < c.Wanted {
			c.Remove, c.Bytes = append(c.Remove, s), c.Bytes+s.Bytes
		}
	}
	return c
}

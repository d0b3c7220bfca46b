package doctor

import (
	"fmt"
	"strconv"
)

// Machine is the machine that doctor runs on.
type Machine struct {
	Unified bool // cgroup v2
	Disks   []Disk
}

// Disk is the file system of a path.
type Disk struct {
	Path                string
	Contents            string // what is stored there
	Capacity, Available uint64 // bytes
	Inodes, InodesFree  uint64
	Err                 error
}

// Shares of a disk, after nodefs.available and imagefs.available in KubeletConfiguration: Pods are
// evicted below 10 % available, images are collected from 85 % used.
const (
	evictionThreshold = 10
	imageGCThreshold  = 15
	inodesThreshold   = 5
)

func cgroups(f Facts) []Finding {
	switch {
	case f.Machine == nil:
		return nil
	case f.Machine.Unified:
		return []Finding{{Text: "cgroup v2"}}
	}
	return []Finding{{
		Level: Note,
		Text: "this kernel runs cgroup v1: no memory.high, no pressure figures, no kill of a whole container at " +
			"out-of-memory",
		Fix: "boot with systemd.unified_cgroup_hierarchy=1",
	}}
}

func disks(f Facts) []Finding {
	if f.Machine == nil {
		return nil
	}
	var out []Finding
	for _, d := range f.Machine.Disks {
		out = append(out, disk(d))
	}
	return out
}

func disk(d Disk) Finding {
	f := Finding{About: d.Path}
	if d.Err != nil {
		f.Level, f.Text, f.Fix = Problem, fmt.Sprintf("cannot be measured: %v", d.Err),
			"mount it, or name another directory"
		return f
	}
	space, inodes := percent(d.Available, d.Capacity), percent(d.InodesFree, d.Inodes)
	f.Text = fmt.Sprintf("%s: %d %% free (%s of %s)", d.Contents, space, bytes(d.Available), bytes(d.Capacity))
	switch {
	case d.Capacity == 0:
		f.Level, f.Text = Note, d.Contents+": the file system does not say how big it is"
	case space < evictionThreshold:
		f.Level, f.Fix = Problem,
			fmt.Sprintf("below %d %% Pods are evicted: remove files there, or give it a bigger disk", evictionThreshold)
	case d.Inodes > 0 && inodes < inodesThreshold:
		f.Level, f.Text = Problem, fmt.Sprintf("%s: %d %% of inodes free (%d of %d)", d.Contents, inodes, d.InodesFree,
			d.Inodes)
		f.Fix = fmt.Sprintf("below %d %% Pods are evicted: find what keeps many small files (du --inodes)",
			inodesThreshold)
	case space < imageGCThreshold:
		f.Level, f.Fix = Warning,
			fmt.Sprintf(
				"below %d %% images that no Pod uses are removed: make room, or set imageGCHighThresholdPercent",
				imageGCThreshold)
	}
	return f
}

func percent(part, whole uint64) uint64 {
	if whole == 0 {
		return 0
	}
	return uint64(float64(part) / float64(whole) * 100)
}

// bytes formats a number of bytes for people.
func bytes(n uint64) string {
	const unit = 1024
	v, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for v >= unit && i < len(units)-1 {
		v, i = v/unit, i+1
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + units[i]
}

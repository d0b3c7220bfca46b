package usage

import "time"

// Cgroup is what one cgroup and everything below it uses. What a kernel does not tell is zero.
type Cgroup struct {
	At        time.Time // when it was read
	Created   time.Time // when the cgroup was made, as its directory says
	CPU       CPU
	Memory    Memory
	Limits    Limits
	Devices   []Device
	Pressure  Pressure
	Processes uint64
	Threads   uint64
}

// CPU is processor time. Nanoseconds count from the cgroup's making.
type CPU struct {
	Nanos, UserNanos, SystemNanos uint64
	Periods, ThrottledPeriods     uint64
	ThrottledNanos                uint64
	Shares                        uint64 // as of version 1; version 2's weight is converted
	QuotaMicros                   int64  // -1: no quota
	PeriodMicros                  uint64
}

// Memory is in bytes, but for the counts.
type Memory struct {
	Bytes        uint64 // all that is charged, page cache included
	WorkingSet   uint64 // without inactive page cache: what cannot be freed easily
	RSS          uint64 // anonymous
	Cache        uint64 // page cache
	Mapped       uint64
	Swap         uint64
	Kernel       uint64
	Peak         uint64
	ActiveFile   uint64
	InactiveFile uint64
	Faults       uint64 // count
	MajorFaults  uint64 // count
	LimitHits    uint64 // count
	OOMKills     uint64 // count
}

// MemoryUse is what matters of a cgroup's memory when memory runs short, in bytes.
type MemoryUse struct {
	Bytes      uint64 // all that is charged, page cache included
	WorkingSet uint64 // without inactive page cache
	Limit      uint64 // 0 is none
}

// Limits are the bounds of a cgroup; 0 is none.
type Limits struct {
	Memory, Swap, Reservation uint64 // bytes; Swap is what may be swapped out beyond Memory, known only with HasSwap
	HasSwap                   bool
	Threads                   uint64
}

// Device is what was read from and written to one block device.
type Device struct {
	Major, Minor          uint64
	Name                  string // /dev/sda; empty when the kernel does not tell
	ReadBytes, WriteBytes uint64
	Reads, Writes         uint64
}

// Pressure is the share of time in which tasks waited (PSI); nil where the kernel does not count
// it.
type Pressure struct{ CPU, Memory, IO *Stalls }

// Stalls are the two lines of a pressure file.
type Stalls struct{ Some, Full Stall }

// Stall is one of them: averages in percent, the total in µs.
type Stall struct {
	Avg10, Avg60, Avg300 float64
	TotalMicros          uint64
}

// NetworkInterface is what a network interface has carried.
type NetworkInterface struct {
	Name                                    string
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
}

// Disk is one file system.
type Disk struct {
	Capacity, Available, Used uint64 // bytes
	Inodes, InodesFree        uint64
}

// Space is what a directory and everything below it takes.
type Space struct{ Bytes, Inodes uint64 }

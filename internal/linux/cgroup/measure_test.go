package cgroup_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

const psi = "some avg10=1.50 avg60=0.25 avg300=0.00 total=4200\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=17\n"

func stalls() *usage.Stalls {
	return &usage.Stalls{Some: usage.Stall{Avg10: 1.5, Avg60: 0.25, TotalMicros: 4200},
		Full: usage.Stall{Avg10: 0.5, TotalMicros: 17}}
}

func measured(t *testing.T, files map[string]string, path string) usage.Cgroup {
	t.Helper()
	tree, err := cgroup.Open(cgroup.Options{Mount: fixture(t, files), Root: "/g"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := tree.Measure(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := []bool{got.At.IsZero(), got.Created.IsZero()}, []bool{false, false}; !slices.Equal(got, want) {
		t.Errorf("not dated: got %v, want %v", got, want)
	}
	got.At, got.Created = time.Time{}, time.Time{}
	for i := range got.Devices {
		got.Devices[i].Name = ""
	}
	return got
}

func TestMeasureVersion2(t *testing.T) {
	got := measured(t, map[string]string{
		"cgroup.controllers": "cpu memory io pids",
		"g/cgroup.procs":     "",
		"g/p/cgroup.procs":   "",
		"g/p/c/cgroup.procs": "41\n42\n",
		"g/p/cpu.stat": "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 9\nnr_throttled " +
			"2\nthrottled_usec 30\n",
		"g/p/cpu.max":             "50000 100000\n",
		"g/p/cpu.weight":          "100\n",
		"g/p/memory.current":      "1000\n",
		"g/p/memory.peak":         "2000\n",
		"g/p/memory.swap.current": "5\n",
		"g/p/memory.swap.max":     "70\n",
		"g/p/memory.max":          "4096\n",
		"g/p/memory.low":          "0\n",
		"g/p/memory.stat": "anon 300\nfile 600\nkernel 90\nfile_mapped 11\nactive_file 200\ninactive_file " +
			"400\npgfault 7\npgmajfault 1\n",
		"g/p/memory.events":   "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n",
		"g/p/pids.current":    "6\n",
		"g/p/pids.max":        "max\n",
		"g/p/io.stat":         "8:0 rbytes=4096 wbytes=512 rios=2 wios=1 dbytes=0 dios=0\n",
		"g/p/cpu.pressure":    psi,
		"g/p/memory.pressure": psi,
		"g/p/io.pressure":     psi,
	}, "/g/p")
	want := usage.Cgroup{
		CPU: usage.CPU{Nanos: 1500000, UserNanos: 1000000, SystemNanos: 500000, Periods: 9, ThrottledPeriods: 2,
			ThrottledNanos: 30000, Shares: 1024, QuotaMicros: 50000, PeriodMicros: 100000},
		Memory: usage.Memory{
			Bytes: 1000, WorkingSet: 600, RSS: 300, Cache: 600, Mapped: 11, Swap: 5, Kernel: 90, Peak: 2000,
			ActiveFile: 200, InactiveFile: 400,
			Faults: 7, MajorFaults: 1, LimitHits: 3, OOMKills: 1,
		},
		Limits:   usage.Limits{Memory: 4096, Swap: 70, HasSwap: true},
		Devices:  []usage.Device{{Major: 8, ReadBytes: 4096, WriteBytes: 512, Reads: 2, Writes: 1}},
		Pressure: usage.Pressure{CPU: stalls(), Memory: stalls(), IO: stalls()}, Processes: 2, Threads: 6,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
}

func TestMeasureVersion1(t *testing.T) {
	got := measured(t, map[string]string{
		"cpuset/cgroup.procs":                "",
		"cpu,cpuacct/cgroup.procs":           "",
		"cpu,cpuacct/g/p/cpuacct.usage":      "1500\n",
		"cpu,cpuacct/g/p/cpuacct.usage_user": "1000\n",
		"cpu,cpuacct/g/p/cpuacct.usage_sys":  "500\n",
		"cpu,cpuacct/g/p/cpu.stat":           "nr_periods 9\nnr_throttled 2\nthrottled_time 30\n",
		"cpu,cpuacct/g/p/cpu.shares":         "512\n",
		"cpu,cpuacct/g/p/cpu.cfs_period_us":  "100000\n",
		"cpu,cpuacct/g/p/cpu.cfs_quota_us":   "-1\n",
		"memory/cgroup.procs":                "",
		"memory/g/cgroup.procs":              "",
		"memory/g/p/cgroup.procs":            "41\n",
		"memory/g/p/memory.usage_in_bytes":   "1000\n",
		"memory/g/p/memory.limit_in_bytes":   "9223372036854771712\n",
		"memory/g/p/memory.failcnt":          "4\n",
		"memory/g/p/memory.oom_control":      "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		"memory/g/p/memory.stat": "total_rss 300\ntotal_cache 600\ntotal_inactive_file 1200\ntotal_active_file " +
			"1\ntotal_pgfault 7\n",
		"pids/cgroup.procs":     "",
		"pids/g/p/pids.current": "6\n",
		"pids/g/p/pids.max":     "100\n",
		"blkio/cgroup.procs":    "",
		"blkio/g/p/blkio.throttle.io_service_bytes_recursive": "8:16 Read 4096\n8:16 Write 512\n8:16 Total " +
			"4608\nTotal 4608\n",
		"blkio/g/p/blkio.throttle.io_serviced_recursive": "8:16 Read 2\n8:16 Write 1\nTotal 3\n",
		"unified/cgroup.procs":                           "",
		"unified/g/p/cpu.pressure":                       psi,
	}, "/g/p")
	want := usage.Cgroup{
		CPU: usage.CPU{Nanos: 1500, UserNanos: 1000, SystemNanos: 500, Periods: 9, ThrottledPeriods: 2,
			ThrottledNanos: 30, Shares: 512, QuotaMicros: -1, PeriodMicros: 100000},
		Memory: usage.Memory{Bytes: 1000, RSS: 300, Cache: 600, ActiveFile: 1, InactiveFile: 1200, Faults: 7,
			LimitHits: 4, OOMKills: 2},
		Limits:   usage.Limits{Threads: 100},
		Devices:  []usage.Device{{Major: 8, Minor: 16, ReadBytes: 4096, WriteBytes: 512, Reads: 2, Writes: 1}},
		Pressure: usage.Pressure{CPU: stalls()}, Processes: 1, Threads: 6,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
}

func TestMeasureNothing(t *testing.T) {
	tree, err := cgroup.Open(cgroup.Options{Mount: fixture(t, map[string]string{"cgroup.controllers": ""}), Root: "/g"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Measure("/g/none"); err == nil {
		t.Error("a cgroup that is not there was measured")
	}
}

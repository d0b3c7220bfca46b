package proc_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/linux/proc"
)

func tree(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRead(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/meminfo": "MemTotal:       16384 kB\nMemFree:  100 kB" +
			"\nSwapTotal: 8 kB\nHugePages_Total:       3\n",
		"sys/devices/system/cpu/online":  "0-3,6\n",
		"proc/sys/kernel/random/boot_id": "b00t\n", "proc/sys/kernel/osrelease": "6.1.0-13-amd64\n",
		"etc/machine-id": "machine\n",
		"etc/os-release": "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "4\n",
		"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
	})
	got, err := proc.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	want := proc.Machine{
		CPUs: 5, MemoryBytes: 16 << 20, SwapBytes: 8 << 10, HugePages: map[string]int64{"2Mi": 8 << 20, "1Gi": 0},
		MachineID: "machine", SystemUUID: "machine",
		BootID: "b00t", KernelVersion: "6.1.0-13-amd64", OSImage: "Debian GNU/Linux 12 (bookworm)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
}

// A process is in a user namespace where users are not all mapped to themselves; without a map
// there are no such namespaces.
func TestUserNamespacesAreSeen(t *testing.T) {
	for uidMap, want := range map[string]bool{
		"": false, "         0          0 4294967295\n": false, "0 100000 65536\n": true,
		"0 0 65536\n": true, "0 1000 1\n1 100000 65536\n": true,
	} {
		files := map[string]string{"proc/meminfo": "MemTotal: 16384 kB\n", "sys/devices/system/cpu/online": "0\n"}
		if uidMap != "" {
			files["proc/self/uid_map"] = uidMap
		}
		m, err := proc.Read(tree(t, files))
		if err != nil {
			t.Fatal(err)
		}
		if m.UserNamespace != want {
			t.Errorf("%q: got %t, want %t", uidMap, m.UserNamespace, want)
		}
	}
}

func TestReadNeedsMemory(t *testing.T) {
	if _, err := proc.Read(tree(t, map[string]string{"proc/meminfo": "x\n"})); err == nil {
		t.Error("a machine without MemTotal is accepted")
	}
}

func TestSample(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/meminfo": "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 600 kB\nAnonPages: 50 kB\nHugetlb: 64 kB\n",
		"proc/stat":    "cpu  100 10 50 900 30 5 5 0 7 0\ncpu0 1\n", "proc/loadavg": "0.20 0.18 0.12 1/80 11206\n",
		"proc/sys/kernel/pid_max": "4194304\n",
	})
	u, err := proc.Sample(root)
	if err != nil {
		t.Fatal(err)
	}
	if u.CPUNanoseconds != 170*1e7 || u.MemoryWorkingSet != 336<<10 || u.MemoryUsed != 636<<10 ||
		u.MemoryRSS != 50<<10 || u.Processes != 80 || u.MaxProcesses != 4194304 {
		t.Errorf("got %+v, want CPUNanoseconds %v, MemoryWorkingSet %v, MemoryUsed %v, MemoryRSS %v, Processes 80 "+
			"and MaxProcesses 4194304", u, 170*1e7, 336<<10, 636<<10, 50<<10)
	}
}

func TestThisMachine(t *testing.T) {
	m, err := proc.Read("/")
	if err != nil {
		t.Fatal(err)
	}
	if m.CPUs < 1 || m.MemoryBytes == 0 || m.KernelVersion == "" || m.BootID == "" {
		t.Errorf("got %+v, want CPUs at least 1, MemoryBytes other than 0, KernelVersion other than empty and BootID "+
			"other than empty", m)
	}
	if _, err := proc.Sample("/"); err != nil {
		t.Error(err)
	}
	if d, err := proc.StatFS(t.TempDir()); err != nil || d.CapacityBytes == 0 {
		t.Errorf("got %v, %v, want no error and CapacityBytes other than 0", d, err)
	}
}

// row: EVC-15
func TestTasks(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := proc.Tasks(root); err == nil {
		t.Error("nothing to read: got no error")
	}
	put("proc/loadavg", "0.20 0.18 0.12 1/700 11206\n")
	if _, _, err := proc.Tasks(root); err == nil {
		t.Error("no limit to read: got no error")
	}
	put("proc/sys/kernel/pid_max", "32768\n")
	put("proc/sys/kernel/threads-max", "100000\n")
	if running, most, err := proc.Tasks(root); err != nil || running != 700 || most != 32768 {
		t.Errorf("got %d of %d, %v, want 700 of 32768", running, most, err)
	}
	put("proc/sys/kernel/threads-max", "5000\n")
	if _, most, err := proc.Tasks(root); err != nil || most != 5000 {
		t.Errorf("got at most %d, %v, want the lower limit 5000", most, err)
	}
}

package machine_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/kubelet/machine"
	"github.com/gantry-project/gantry/internal/kubelet/machine/machinetest"
)

func TestParse(t *testing.T) {
	for name, shape := range machinetest.Shapes() {
		t.Run(name, func(t *testing.T) {
			want := shape.Machine()
			got, err := machine.Parse(machinetest.Sys(want), 0)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			top := got.Topology()
			nodes := shape.Sockets * shape.NodesPerSocket
			if top.NumNodes != nodes || top.NumSockets != shape.Sockets || top.NumCores != nodes*shape.CoresPerNode ||
				top.NumCPUs != nodes*shape.CoresPerNode*shape.Threads || top.CPUsPerCore() != shape.Threads {
				t.Errorf("counts: got %d nodes, %d sockets, %d cores, %d CPUs, want those of %+v", top.NumNodes,
					top.NumSockets, top.NumCores, top.NumCPUs, shape)
			}
		})
	}
}

// TestThisMachine reads the machine that the test runs on, whatever it is.
func TestThisMachine(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/cpu"); err != nil {
		t.Skip("no /sys here")
	}
	got, err := machine.Parse(os.DirFS("/sys"), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if top := got.Topology(); top.NumCPUs == 0 || top.NumCores == 0 || top.NumSockets == 0 || got.Nodes[0].Memory == 0 {
		t.Errorf("got %+v, want CPUs, cores, sockets and memory", got)
	}
}

func TestParseWithoutNUMA(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	sys := fstest.MapFS{}
	for _, cpu := range []string{"0", "1", "2", "3"} {
		sys["devices/system/cpu/cpu"+cpu+"/topology/core_id"] = file(cpu)
		sys["devices/system/cpu/cpu"+cpu+"/topology/physical_package_id"] = file("0")
	}
	sys["devices/system/cpu/online"] = file("0-2")
	sys["kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"] = file("3")
	got, err := machine.Parse(sys, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Nodes) != 1 || got.Nodes[0].Memory != 4096 || got.Topology().NumCPUs != 3 ||
		!reflect.DeepEqual(got.Nodes[0].HugePages, []machine.HugePages{{PageSize: 2048, Count: 3}}) {
		t.Errorf("got %+v, want one node with 3 CPUs, 4096 bytes and 3 huge pages", got)
	}
}

// TestFilesThatDoNotRead: a machine is described or an error names the file; nothing crashes.
func TestFilesThatDoNotRead(t *testing.T) {
	for file, content := range map[string]string{
		"devices/system/cpu/online":                                       "0-",
		"devices/system/node/node0/cpulist":                               "all",
		"devices/system/node/node0/meminfo":                               "Node 0 MemTotal: lots kB",
		"devices/system/node/node0/distance":                              "10 far",
		"devices/system/node/node0/hugepages/hugepages-xkB/nr_hugepages":  "1",
		"devices/system/node/node0/hugepages/hugepages-64kB/nr_hugepages": "",
		"devices/system/cpu/cpu0/topology/core_id":                        "x",
	} {
		sys := machinetest.Sys(machinetest.Shapes()["2 nodes in 2 sockets"].Machine()).(fstest.MapFS)
		sys[file] = &fstest.MapFile{Data: []byte(content)}
		want := file
		if strings.Contains(file, "hugepages-") {
			want = "hugepages-"
		}
		if got, err := machine.Parse(sys, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s with %q: got %+v and error %v, want an error that names the file", file, content, got, err)
		}
	}
	if _, err := machine.Parse(fstest.MapFS{}, 0); err == nil || err.Error() != "could not detect number of cpus" {
		t.Errorf("no files: got error %v, want could not detect number of cpus", err)
	}
}

func TestTopologySets(t *testing.T) {
	top := machinetest.Shapes()["8 nodes, uncore caches"].Machine().Topology()
	if got := top.InNodes(top.All(), 1).String(); got != "16-31,144-159" {
		t.Errorf("CPUs of node 1: got %s, want 16-31,144-159", got)
	}
	if got := top.SocketsOf(3, 4); !reflect.DeepEqual(got, []int{0, 1}) {
		t.Errorf("sockets of nodes 3 and 4: got %v, want 0 and 1", got)
	}
	if got := top.WholeCores(cpuset.New(0, 130)).String(); got != "0,2,128,130" {
		t.Errorf("whole cores of 0 and 130: got %s, want 0,2,128,130", got)
	}
	if got, want := []bool{
		top.SharesUncore(cpuset.New(0, 7, 135)), top.SharesUncore(cpuset.New(7, 8)),
	}, []bool{true, false}; !slices.Equal(got, want) {
		t.Errorf("SharesUncore: got another answer than the caches of 8 cores give: got %v, want %v", got, want)
	}
}

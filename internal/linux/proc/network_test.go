package proc_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/linux/proc"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestNetworkDevices(t *testing.T) {
	root := t.TempDir()
	table, err := os.ReadFile("testdata/net-dev.txt")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(root, "proc/77/net/dev"), string(table))
	got, err := proc.NetworkInterfaces(root, 77)
	if err != nil {
		t.Fatal(err)
	}
	want := []usage.NetworkInterface{{Name: "eth0", RxBytes: 1000, RxPackets: 10, RxErrors: 1, RxDropped: 2,
		TxBytes: 2000, TxPackets: 20, TxErrors: 3, TxDropped: 4}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
	put(t, filepath.Join(root, "proc/self/net/route"),
		"Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"+
			"ens3\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n")
	if got := proc.DefaultInterface(root); got != "ens3" {
		t.Errorf("default card %q, want ens3", got)
	}
}

func TestSpaceCountsHardLinksOnce(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a/one"), string(make([]byte, 10000)))
	if err := os.Link(filepath.Join(dir, "a/one"), filepath.Join(dir, "two")); err != nil {
		t.Fatal(err)
	}
	s, err := proc.Space(dir)
	if err != nil || s.Inodes != 3 || s.Bytes < 10000 || s.Bytes > 60000 {
		t.Errorf("%+v, %v: a file of 10 kB with two names, in two directories", s, err)
	}
	if s, err := proc.Space(filepath.Join(dir, "gone")); err != nil || s.Inodes != 0 {
		t.Errorf("nothing: %+v, %v", s, err)
	}
	if n, err := proc.BlockSize(filepath.Join(dir, "two")); err != nil || n != 10000 {
		t.Errorf("what is opened as a device holds %d bytes, %v, want no error, 10000", n, err)
	}
}

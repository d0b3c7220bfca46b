package proc

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

func TestDisksAreReadWhole(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"proc", "sys/block/vda", "sys/block/loop0", "sys/block/zram0"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const text = " 254       0 vda 10 1 200 5 30 2 40 9 0 0 0 0 0 0 0 0 0\n 254       1 vda1 10 1 200 5 30 2 40 9 0 " +
		"0 0\n   7       0 loop0 1 1 1 1 1 1 1 1 1 1 1\n 253 0 zram0 1 1 1 1 1 1 1 1 1 1 1\n  8 0 cut\n"
	if err := os.WriteFile(filepath.Join(root, "proc/diskstats"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []usage.Device{{Major: 254, Name: "/dev/vda", Reads: 10, ReadBytes: 200 * 512, Writes: 30,
		WriteBytes: 40 * 512}}
	if got := Disks(root); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if Disks(filepath.Join(root, "none")) != nil {
		t.Error("a machine that does not tell has disks")
	}
}

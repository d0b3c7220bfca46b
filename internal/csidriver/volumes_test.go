package csidriver_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-project/gantry/internal/csidriver"
)

var capability = &csipb.VolumeCapability{
	AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}}}

// newDriver is a driver that is called without its socket, over the directory of one that runs.
func newDriver(t *testing.T) (*csidriver.Driver, csidriver.Options) {
	t.Helper()
	o := start(t)
	d, err := csidriver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d, o
}

func create(t *testing.T, d *csidriver.Driver, bytes int64) (string, error) {
	t.Helper()
	v, err := d.CreateVolume(t.Context(), &csipb.CreateVolumeRequest{Name: t.Name(),
		VolumeCapabilities: []*csipb.VolumeCapability{capability},
		CapacityRange:      &csipb.CapacityRange{RequiredBytes: bytes}})
	return v.GetVolume().GetVolumeId(), err
}

// TestNoVolumeIsTooBigToBeRefused: sizes that a step more would wrap around are refused.
func TestNoVolumeIsTooBigToBeRefused(t *testing.T) {
	d, _ := newDriver(t)
	for _, bytes := range []int64{math.MaxInt64, math.MaxInt64 - 1} {
		if id, err := create(t, d, bytes); status.Code(err) != codes.OutOfRange {
			t.Errorf("%d bytes: got volume %q and error %v, want OutOfRange", bytes, id, err)
		}
	}
}

// TestDataOutlivesAnOldRecord: a volume whose record was written before its file system, as after a
// power cut or in a copy made meanwhile, keeps its files.
func TestDataOutlivesAnOldRecord(t *testing.T) {
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("no mkfs.ext4")
	}
	d, o := newDriver(t)
	id, err := create(t, d, 32<<20)
	if err != nil {
		t.Fatal(err)
	}
	staged := filepath.Join(filepath.Dir(o.Dir), "staged")
	stage := func() {
		t.Helper()
		if _, err := d.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{VolumeId: id,
			StagingTargetPath: staged, VolumeCapability: capability}); err != nil {
			t.Fatal(err)
		}
	}
	unstage := func() {
		t.Helper()
		if _, err := d.NodeUnstageVolume(t.Context(), &csipb.NodeUnstageVolumeRequest{VolumeId: id,
			StagingTargetPath: staged}); err != nil {
			t.Fatal(err)
		}
	}
	stage()
	if err := os.WriteFile(filepath.Join(staged, "kept"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	unstage()
	record := filepath.Join(o.Dir, "volumes", id, "volume.json")
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	old := regexp.MustCompile(`"fsType":"ext4",?`).ReplaceAll(text, nil)
	if string(old) == string(text) {
		t.Fatalf("got the record %s, want a file system in it", text)
	}
	if err := os.WriteFile(record, old, 0o600); err != nil {
		t.Fatal(err)
	}
	stage()
	defer unstage()
	if got, err := os.ReadFile(filepath.Join(staged, "kept")); string(got) != "kept" {
		t.Errorf("got %q and error %v, want the file as it was", got, err)
	}
}

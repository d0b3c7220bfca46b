package csidriver

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-project/gantry/test/expect"
)

// memoryQuotas keep what they are told.
type memoryQuotas struct {
	limits, has map[uint32]int64
	assigned    []uint32
	full        bool // no limit is taken
}

func (q *memoryQuotas) assign(dir string, project uint32) error {
	entries, err := os.ReadDir(dir)
	if len(entries) > 0 {
		return errors.New("what is in the directory already does not count")
	}
	q.assigned = append(q.assigned, project)
	return err
}

func (q *memoryQuotas) limit(project uint32, bytes int64) error {
	if q.full {
		return errors.New("no limit is taken")
	}
	if q.limits[project] = bytes; bytes == 0 {
		delete(q.limits, project)
	}
	return nil
}

func (q *memoryQuotas) used(project uint32) (int64, error) { return q.has[project], nil }

func driverWithQuotas(t *testing.T) (*Driver, *memoryQuotas) {
	t.Helper()
	d, err := New(Options{Dir: t.TempDir(), NodeID: "node-1", Endpoint: "/none"})
	expect.NoError(t, err)
	q := &memoryQuotas{limits: map[uint32]int64{}, has: map[uint32]int64{}}
	d.store.quotas = q
	return d, q
}

func (d *Driver) createDirectory(t *testing.T, name, source string, bytes int64) error {
	t.Helper()
	r := &csipb.CreateVolumeRequest{Name: name, Parameters: map[string]string{"type": "directory"},
		CapacityRange: &csipb.CapacityRange{RequiredBytes: bytes},
		VolumeCapabilities: []*csipb.VolumeCapability{{AccessMode: &csipb.VolumeCapability_AccessMode{
			Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}}}}}
	if source != "" {
		r.VolumeContentSource = &csipb.VolumeContentSource{Type: &csipb.VolumeContentSource_Volume{
			Volume: &csipb.VolumeContentSource_VolumeSource{VolumeId: source}}}
	}
	_, err := d.CreateVolume(t.Context(), r)
	return err
}

// A directory on a file system with project quotas is a project of its own with a limit: its size,
// also when it grows, and when it is a copy. What it may still take is promised to no other volume.
// The limit goes with it.
func TestADirectoryHasALimit(t *testing.T) {
	d, q := driverWithQuotas(t)
	free := func() int64 {
		t.Helper()
		got, err := d.GetCapacity(t.Context(), &csipb.GetCapacityRequest{})
		expect.NoError(t, err)
		return got.GetAvailableCapacity()
	}
	before := free()
	expect.NoError(t, d.createDirectory(t, "a", "", 1<<30))
	v, err := d.store.volumes.get("a")
	expect.NoError(t, err)
	if want := map[uint32]int64{v.Project: 1 << 30}; v.Project < firstProject || !maps.Equal(q.limits, want) ||
		!slices.Equal(q.assigned, []uint32{v.Project}) {
		t.Errorf("project %d: limits %v, assigned %v; want %v", v.Project, q.limits, q.assigned, want)
	}
	const slack = 512 << 20 // others write to the disk meanwhile
	if taken := before - free(); taken < 1<<30-slack || taken > 1<<30+slack {
		t.Errorf("an empty volume of 1 GiB takes %d bytes of what can be promised, want about all of it", taken)
	}
	q.has[v.Project] = 1 << 30 // which the disk would not have free
	if taken := before - free(); taken > slack {
		t.Errorf("a full volume takes %d bytes of what is free, want none", taken)
	}
	expect.NoError(t, os.WriteFile(filepath.Join(d.store.volumes.dataDir("a"), "kept"), []byte("kept"), 0o600))
	expect.NoError(t, d.createDirectory(t, "copy", "a", 2<<30))
	c, err := d.store.volumes.get("copy")
	expect.NoError(t, err)
	if q.limits[c.Project] != 2<<30 || c.Project == v.Project {
		t.Errorf("the copy: project %d with limit %d, want another than %d with 2 GiB", c.Project, q.limits[c.Project],
			v.Project)
	}
	if text, err := os.ReadFile(filepath.Join(d.store.volumes.dataDir("copy"), "kept")); string(text) != "kept" {
		t.Errorf("the copy has %q (%v), want what its source had", text, err)
	}
	_, err = d.ControllerExpandVolume(t.Context(), &csipb.ControllerExpandVolumeRequest{VolumeId: "a",
		CapacityRange: &csipb.CapacityRange{RequiredBytes: 3 << 30}})
	expect.NoError(t, err)
	if q.limits[v.Project] != 3<<30 {
		t.Errorf("grown: got the limit %d, want 3 GiB", q.limits[v.Project])
	}
	for _, id := range []string{"a", "copy"} {
		_, err := d.DeleteVolume(t.Context(), &csipb.DeleteVolumeRequest{VolumeId: id})
		expect.NoError(t, err)
	}
	if len(q.limits) > 0 {
		t.Errorf("left limits: %v, want none", q.limits)
	}
}

// A volume that cannot be limited is not made; projects that others count are not taken.
func TestLimitsThatCannotBe(t *testing.T) {
	d, q := driverWithQuotas(t)
	q.full = true
	if err := d.createDirectory(t, "a", "", 1<<30); err == nil {
		t.Error("got a volume without its limit, want an error")
	}
	if v, err := d.store.volumes.get("a"); v != nil || err != nil {
		t.Errorf("got %+v (%v), want no volume", v, err)
	}
	q.full = false
	first, err := d.store.chooseProject("a")
	expect.NoError(t, err)
	q.has[first] = 4096
	expect.NoError(t, d.createDirectory(t, "a", "", 1<<30))
	if v, err := d.store.volumes.get("a"); err != nil || v.Project == first || v.Project == 0 {
		t.Errorf("got %+v (%v), want another project than %d, which has files", v, err, first)
	}
	if err := d.createDirectory(t, "huge", "", 1<<60); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("more than the disk has: got %v, want ResourceExhausted", err)
	}
}

// What the kernel says of quotas decides whether there are limits, and why not.
func TestDetectionOfProjectQuotas(t *testing.T) {
	for flags, want := range map[uint16]string{
		0:           "has quotas, but none of projects (prjquota)",
		1<<0 | 1<<1: "has quotas, but none of projects (prjquota)", // of users
		projectCounted: "counts what projects have, and does not limit it " +
			"(prjquota, not pqnoenforce)",
		projectCounted | projectEnforced:  "",
		1<<0 | projectCounted | 1<<5 | 12: "",
	} {
		if got := missingQuota(flags); got != want {
			t.Errorf("flags %#x: got %q, want %q", flags, got, want)
		}
	}
	for _, dir := range []string{"/proc", t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if q, why := detectQuotas(dir); (q == nil) != (why != "") || dir == "/proc" && q != nil {
			t.Errorf("%s: got quotas %v and the reason %q, want one of them", dir, q, why)
		}
	}
}

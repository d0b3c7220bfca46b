package csidriver_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-project/gantry/internal/csidriver"
	"github.com/gantry-project/gantry/test/expect"
)

const size = 32 << 20

func createNamed(ctx context.Context, d *csidriver.Driver, name, from string) error {
	r := &csipb.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csipb.VolumeCapability{capability},
		CapacityRange: &csipb.CapacityRange{RequiredBytes: size}}
	if from != "" {
		r.VolumeContentSource = &csipb.VolumeContentSource{Type: &csipb.VolumeContentSource_Volume{
			Volume: &csipb.VolumeContentSource_VolumeSource{VolumeId: from}}}
	}
	_, err := d.CreateVolume(ctx, r)
	return err
}

func stageAt(t *testing.T, d *csidriver.Driver, id, at string) {
	t.Helper()
	if _, err := d.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: at,
		VolumeCapability: capability}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := d.NodeUnstageVolume(context.Background(), &csipb.NodeUnstageVolumeRequest{VolumeId: id,
			StagingTargetPath: at}); err != nil {
			t.Error(err)
		}
	})
}

// slowCopies has copies wait until goOn is called; started waits for one and is its process.
func slowCopies(t *testing.T) (started func() (pid string), goOn func()) {
	t.Helper()
	cp, err := exec.LookPath("cp")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	gate, ready := filepath.Join(dir, "gate"), filepath.Join(dir, "ready")
	for _, p := range []string{gate, ready} {
		if err := unix.Mkfifo(p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := "#!/bin/sh\necho $$ > " + ready + "\nread x < " + gate + "\nexec " + cp + ` "$@"` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "cp"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() string {
			text, err := os.ReadFile(ready)
			if err != nil {
				t.Error(err)
			}
			return strings.TrimSpace(string(text))
		}, func() {
			if err := os.WriteFile(gate, []byte("\n"), 0o600); err != nil {
				t.Error(err)
			}
		}
}

func free(t *testing.T, d *csidriver.Driver) int64 {
	t.Helper()
	got, err := d.GetCapacity(t.Context(), &csipb.GetCapacityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetAvailableCapacity()
}

// While a volume is copied, others are made and used, what the copy will take is promised, and the
// copy goes on when its caller does not wait for it.
func TestACopyKeepsNobody(t *testing.T) {
	d, o := newDriver(t)
	if err := createNamed(t.Context(), d, "source", ""); err != nil {
		t.Fatal(err)
	}
	before := free(t, d)
	started, goOn := slowCopies(t)
	impatient, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- createNamed(impatient, d, "clone", "source") }()
	started()
	if after := free(t, d); after > before-size*3/4 { // other programs write to this disk too
		t.Errorf("%d bytes can be promised, %d before the clone of %d was begun", after, before, size)
	}
	if err := createNamed(t.Context(), d, "other", ""); err != nil {
		t.Errorf("another volume beside the copy: %v", err)
	}
	stageAt(t, d, "other", filepath.Join(filepath.Dir(o.Dir), "other"))
	leave()
	asked, cancel := context.WithCancel(t.Context())
	cancel()
	if err := createNamed(asked, d, "clone", "source"); status.Code(err) != codes.Aborted {
		t.Errorf("asked again meanwhile: %v, want Aborted", err)
	}
	goOn()
	if err := <-done; err != nil {
		t.Errorf("the copy ended with its caller: %v", err)
	}
	if err := createNamed(t.Context(), d, "clone", "source"); err != nil {
		t.Errorf("asked again afterwards: %v", err)
	}
}

// A driver that was killed while it copied left a file system frozen and a half copy: the next one
// thaws and removes them. Two drivers never run over one directory.
func TestADriverEndsWhatAKilledOneBegan(t *testing.T) {
	if _, err := exec.LookPath("fsfreeze"); err != nil {
		t.Skip("no fsfreeze")
	}
	o := newOptions(t)
	stop := run(t, o)
	d, err := csidriver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another driver runs over "+o.Dir) {
		t.Errorf("a second driver over the directory: %v", err)
	}
	if err := createNamed(t.Context(), d, "v", ""); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(filepath.Dir(o.Dir), "v")
	stageAt(t, d, "v", at)
	stop()
	half := filepath.Join(o.Dir, "volumes/.new-clone")
	if err := os.Mkdir(half, 0o750); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(o.Dir, "volumes/v/frozen")
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("fsfreeze", "-f", at).CombinedOutput(); err != nil {
		t.Fatalf("fsfreeze: got %v, want no error: %s", err, out)
	}
	thaw := time.AfterFunc(time.Minute, func() { _ = exec.Command("fsfreeze", "-u", at).Run() }) // else the write hangs
	defer thaw.Stop()
	run(t, o)
	if err := os.WriteFile(filepath.Join(at, "f"), []byte("goes on"), 0o600); err != nil || !thaw.Stop() {
		t.Errorf("the file system stands still: %v", err)
	}
	for _, path := range []string{half, mark} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: %v, want it gone", path, err)
		}
	}
}

func copyOf(name, from string, c *csipb.VolumeCapability) *csipb.CreateVolumeRequest {
	r := &csipb.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csipb.VolumeCapability{c},
		CapacityRange: &csipb.CapacityRange{RequiredBytes: size}, Parameters: map[string]string{}}
	if from != "" {
		r.VolumeContentSource = &csipb.VolumeContentSource{Type: &csipb.VolumeContentSource_Volume{
			Volume: &csipb.VolumeContentSource_VolumeSource{VolumeId: from}}}
	}
	return r
}

// sharesBlocks tells whether files of the directory's file system are cloned in one step.
func sharesBlocks(t *testing.T, dir string) bool {
	t.Helper()
	from := filepath.Join(dir, "from")
	if err := os.WriteFile(from, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.Command("cp", "--reflink=always", from, filepath.Join(dir, "to")).Run() == nil
}

// A directory or raw device that is in use, whose copy could be torn, is not copied: neither as a
// clone nor as a snapshot. A raw device is where the disk clones it in one step. Once nobody uses
// it, both are copied.
func TestVolumesInUseAreNotCopied(t *testing.T) {
	d, o := newDriver(t)
	raw := &csipb.VolumeCapability{AccessMode: capability.AccessMode,
		AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}}
	for kind, c := range map[string]*csipb.VolumeCapability{"directory": capability, "raw": raw} {
		in := codes.FailedPrecondition
		if kind == "raw" && sharesBlocks(t, filepath.Dir(o.Dir)) {
			in = codes.OK
		}
		made := copyOf(kind, "", c)
		if kind == "directory" {
			made.Parameters["type"] = kind
		}
		if _, err := d.CreateVolume(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(filepath.Dir(o.Dir), kind)
		if _, err := d.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{VolumeId: kind,
			StagingTargetPath: at, VolumeCapability: c}); err != nil {
			t.Fatal(err)
		}
		clone := func() error { _, err := d.CreateVolume(t.Context(), copyOf(kind+"-clone", kind, c)); return err }
		snapshot := func() error {
			_, err := d.CreateSnapshot(t.Context(), &csipb.CreateSnapshotRequest{Name: kind + "-snapshot",
				SourceVolumeId: kind})
			return err
		}
		for what, ask := range map[string]func() error{"a clone": clone, "a snapshot": snapshot} {
			if err := ask(); status.Code(err) != in {
				t.Errorf("%s of a %s volume in use: %v, want %s", what, kind, err, in)
			}
		}
		if _, err := d.NodeUnstageVolume(t.Context(), &csipb.NodeUnstageVolumeRequest{VolumeId: kind,
			StagingTargetPath: at}); err != nil {
			t.Fatal(err)
		}
		for what, ask := range map[string]func() error{"a clone": clone, "a snapshot": snapshot} {
			if err := ask(); err != nil {
				t.Errorf("%s of a %s volume that nobody uses: %v", what, kind, err)
			}
		}
	}
}

// killedDriver names the directory of the driver that the test's second process is.
const killedDriver = "GANTRY_TEST_KILLED_DRIVER"

// A program that copies ends with a driver that is killed, so that it does not write beside the
// next one.
func TestACopyEndsWithAKilledDriver(t *testing.T) {
	if dir := os.Getenv(killedDriver); dir != "" {
		d, err := csidriver.New(csidriver.Options{Dir: dir, NodeID: "node-1", Endpoint: dir + ".sock"})
		if err != nil {
			t.Fatal(err)
		}
		t.Fatal(createNamed(t.Context(), d, "clone", "source")) // it is killed before
	}
	d, o := newDriver(t)
	if err := createNamed(t.Context(), d, "source", ""); err != nil {
		t.Fatal(err)
	}
	started, _ := slowCopies(t)
	other := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	other.Env = append(os.Environ(), killedDriver+"="+o.Dir)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	pid := started()
	if err := other.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = other.Wait() // says that it was killed
	expect.Eventually(t, "process "+pid+" ends with its driver", func() bool { return !isRunning(pid) })
}

// isRunning tells whether a process is there and is no zombie.
func isRunning(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(text), ") Z ")
}

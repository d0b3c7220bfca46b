package vm_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gantry-project/gantry/test/binaries"
)

// notHere is the exit code of hack/vm where no machine can be had.
const notHere = 4

func TestANodeShortOfMemoryEvictsThePodThatEatsIt(t *testing.T) {
	if os.Getenv("GANTRY_VM") == "" {
		t.Skip("GANTRY_VM=1 runs it: an emulated machine beside the other tests takes too long; or make vm")
	}
	bin := binaries.Programs(t)
	t.Parallel()
	program := filepath.Join(t.TempDir(), "vm")
	build := exec.Command("go", "build", "-o", program, "./hack/vm")
	build.Dir = binaries.Root()
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build ./hack/vm: %v\n%s", err, said)
	}
	cmd := exec.CommandContext(t.Context(), program, "-bin", bin, "-out", t.TempDir(),
		"-timeout", "40m", "memory")
	cmd.Dir = build.Dir
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == notHere {
		t.Skip(said.String())
	}
	t.Log("\n" + said.String())
	if err != nil {
		t.Errorf("got error %v, want the machine's expectations to hold", err)
	}
}

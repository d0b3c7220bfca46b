package cgroup_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/test/expect"
)

const (
	signalledPod       = "/kubepods/pod1"
	signalledContainer = "0123456789abcdef"
)

// container runs a shell script in a PID namespace of its own, or not, as the container of a Pod in
// a tree of files; it has begun when it says so.
func container(t *testing.T, script string, own bool) (*cgroup.Tree, *exec.Cmd) {
	t.Helper()
	if own && os.Geteuid() != 0 {
		t.Skip("a PID namespace needs root")
	}
	cmd := exec.Command("sh", "-c", script)
	if own {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	out, err := cmd.StdoutPipe()
	expect.NoError(t, err)
	if err := cmd.Start(); err != nil {
		t.Skipf("no process in a PID namespace here: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	at := "kubepods/pod1/cri-containerd-" + signalledContainer + ".scope/cgroup.procs"
	tree, err := cgroup.Open(cgroup.Options{Root: "/kubepods", Mount: fixture(t, map[string]string{
		"cgroup.controllers": "cpu memory", at: strconv.Itoa(cmd.Process.Pid) + "\n"})})
	expect.NoError(t, err)
	return tree, cmd
}

const traps = `trap "exit 7" TERM; echo ready; while :; do sleep 0.05; done`

func TestSignalToTheFirstProcessOfAContainer(t *testing.T) {
	tree, cmd := container(t, traps, true)
	if _, err := tree.SignalInit(t.Context(), signalledPod, "ffff", unix.SIGTERM); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another container: got %v, want os.ErrNotExist", err)
	}
	ended, err := tree.SignalInit(t.Context(), signalledPod, signalledContainer, unix.SIGTERM)
	expect.NoError(t, err)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("got exit code %d, want 7 of the trap for TERM", code)
	}
	select {
	case <-ended:
	case <-t.Context().Done():
		t.Error("the process has ended, want that to be told")
	}
}

// A container in the PID namespace of others has no process that is told apart.
//
// row: EVC-09
func TestNoSignalWhereTheFirstProcessIsNotKnown(t *testing.T) {
	tree, cmd := container(t, traps, false)
	if _, err := tree.SignalInit(t.Context(), signalledPod, signalledContainer, unix.SIGTERM); !errors.Is(err,
		cgroup.ErrNoInit) {
		t.Errorf("got %v, want ErrNoInit", err)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("got %v, want the process to live on", err)
	}
}

func TestKillContainer(t *testing.T) {
	tree, cmd := container(t, `trap "" TERM; echo ready; while :; do sleep 0.05; done`, true)
	if err := tree.KillContainer(signalledPod, "ffff"); err != nil {
		t.Errorf("a container that is gone: got %v, want no error", err)
	}
	expect.NoError(t, tree.KillContainer(signalledPod, signalledContainer))
	_ = cmd.Wait()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Errorf("got %v, want SIGKILL", cmd.ProcessState)
	}
	if err := tree.KillContainer("/system", signalledContainer); !errors.Is(err, cgroup.ErrOutside) {
		t.Errorf("outside the tree: got %v, want ErrOutside", err)
	}
}

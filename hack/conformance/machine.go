package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// kubeletRoot is upstream's directory of the kubelet; tests look into it.
const kubeletRoot = "/var/lib/kubelet"

// machine is mounts and process ids of a node's own, as a machine has them: tests enter those of
// process 1, and each node has a directory kubeletRoot.
type machine struct {
	first *exec.Cmd // its process 1, with which all others end
}

// beginMachine has all that runs on the node from now on run in a machine of its own. It ends with
// the calling thread. Mounts made elsewhere later are not seen in it.
func (n *node) beginMachine() error {
	root := n.in("kubelet-root")
	for _, dir := range []string{root, kubeletRoot} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	const script = `mount --make-rprivate /; mount -t proc proc /proc; mount --make-rshared /
mount --bind "$0" "$1"; echo ready
while :; do sleep 3600 & wait $!; done` // it waits for whoever has lost its parent too
	cmd := exec.Command("nsenter", "--net="+n.netns(), "--", "sh", "-euc", script, root, kubeletRoot)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.machine = &machine{first: cmd}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return fmt.Errorf("machine of %s: %q: %w", n.name, line, err)
	}
	return nil
}

// end ends every process of the machine; its mounts go with them.
func (m *machine) end() {
	if m != nil {
		_ = m.first.Process.Kill()
		_ = m.first.Wait()
	}
}

// inside returns a command on the node: in its machine if it has one, else in its network namespace
// alone.
func (n *node) inside(ctx context.Context, program string, args ...string) *exec.Cmd {
	if n.machine == nil {
		return n.command(ctx, program, args...)
	}
	return exec.CommandContext(ctx, "nsenter", append([]string{"--target=" + strconv.Itoa(n.machine.first.Process.Pid),
		"--mount", "--pid", "--net=" + n.netns(), "--wd=/work/main", "--", program}, args...)...)
}

// kubeletDir is the directory of the node's kubelet, as seen on the node.
func (n *node) kubeletDir() string {
	if n.machine == nil {
		return n.in("kubelet")
	}
	return kubeletRoot
}

// rootFlags are the flags that say it.
func (n *node) rootFlags() []string {
	if n.machine == nil {
		return nil
	}
	return []string{"--root-dir", kubeletRoot}
}

// pid is that of the program itself: nsenter stays its parent when it enters process ids.
func (p *process) pid() int {
	if p.machine {
		for _, child := range childrenOf(p.cmd.Process.Pid) {
			return child
		}
	}
	return p.cmd.Process.Pid
}

// childrenOf are the processes whose parent is pid.
func childrenOf(pid int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var out []int
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// the name, in parentheses, may have spaces
		rest := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(rest) > 1 && rest[1] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

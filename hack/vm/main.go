package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-project/gantry/hack/bench/result"
)

// notHere is the exit code that tells that this host can have no such machine.
const notHere = 4

// unavailableError is why not.
type unavailableError struct{ why string }

func (e unavailableError) Error() string { return "no virtual machine can be had here: " + e.why }

func main() {
	bin := flag.String("bin", "build/bin", "directory of gantry and what containers need beside it")
	out := flag.String("out", "build/vm", "directory for the disks and the machine's console")
	timeout := flag.Duration("timeout", time.Hour, "when the machine is ended in any case")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	err := run(ctx, *bin, *out, flag.Args())
	cancel()
	stop()
	var unavailable unavailableError
	switch {
	case errors.As(err, &unavailable):
		fmt.Fprintln(os.Stderr, "vm:", err)
		os.Exit(notHere)
	case err != nil:
		fmt.Fprintln(os.Stderr, "vm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, out string, scenarios []string) error {
	if err := available(); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	make := exec.CommandContext(ctx, "hack/vm/image.sh")
	make.Stderr = os.Stderr
	dir, err := make.Output()
	if err != nil {
		return fmt.Errorf("hack/vm/image.sh: %w", err)
	}
	dir = []byte(strings.TrimSpace(string(dir)))
	payload, err := programs(ctx, bin, out, slices.Contains(scenarios, "upstream"))
	if err != nil {
		return err
	}
	defer os.Remove(payload)
	swap := filepath.Join(out, "swap")
	defer os.Remove(swap)
	if err := sparse(swap, 512<<20); err != nil {
		return err
	}
	run := result.Here("vm", filepath.Join(bin, "gantry"))
	run.Machine += ", in it an emulated one of 4 cores, 1.5 GiB, cgroup v2"
	run.Command = strings.TrimSpace("make vm SCENARIO=" + strings.Join(scenarios, ","))
	run.Figures, err = boot(ctx, machine{dir: string(dir), payload: payload, swap: swap,
		console: filepath.Join(out, "console.log"), scenarios: scenarios})
	return errors.Join(err, run.Write(filepath.Join(out, "vm.json")))
}

// available tells why this host can have no machine.
func available() error {
	if runtime.GOARCH != "amd64" {
		return unavailableError{"its programs are made for amd64"}
	}
	if os.Geteuid() != 0 {
		return unavailableError{"its files belong to root: sudo make vm"}
	}
	for program, from := range map[string]string{"qemu-system-x86_64": "qemu-system-x86", "apt-get": "apt",
		"mke2fs": "e2fsprogs", "busybox": "busybox-static"} {
		if _, err := exec.LookPath(program); err != nil {
			return unavailableError{program + " is missing (Debian: apt-get install --no-install-recommends " +
				from + ")"}
		}
	}
	return nil
}

func sparse(file string, size int64) error {
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// machine is a virtual machine that was not started yet.
type machine struct {
	dir, payload, swap string // of image.sh; disks
	console            string // file for what the kernel says, and logs of what failed
	scenarios          []string
}

// cores and memory: two NUMA nodes of two cores and 768 MiB each.
func (m machine) args() []string {
	kernel := "console=ttyS0 panic=-1 quiet cgroup_no_v1=all psi=1 mitigations=off systemd.show_status=0 " +
		"systemd.unit=gantry-vm.target vm.scenarios=" + strings.Join(m.scenarios, ",")
	disk := func(file, more string) string { return "file=" + file + ",format=raw,if=virtio" + more }
	return []string{
		"-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "4", "-m", "1536", "-nodefaults", "-display", "none",
		"-no-reboot",
		"-object", "memory-backend-ram,id=m0,size=768M", "-numa", "node,nodeid=0,cpus=0-1,memdev=m0",
		"-object", "memory-backend-ram,id=m1,size=768M", "-numa", "node,nodeid=1,cpus=2-3,memdev=m1",
		"-kernel", m.dir + "/vmlinuz", "-initrd", m.dir + "/initrd", "-append", kernel,
		"-drive", disk(m.dir+"/root.ext4", ",snapshot=on"), "-drive", disk(m.payload, ",readonly=on"),
		"-drive", disk(m.swap, ""), "-serial", "file:" + m.console, "-serial", "stdio",
	}
}

// boot runs the machine until it powers off, shows its time line, and returns its figures and how
// that ended.
func boot(ctx context.Context, m machine) ([]result.Figure, error) {
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", m.args()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	figures, last, err := show(lines)
	if err = errors.Join(err, cmd.Wait(), ctx.Err()); err != nil {
		return figures, fmt.Errorf("the machine: %w (%s)", err, m.console)
	}
	if last != "all expectations hold" {
		return figures, fmt.Errorf("%s (%s)", last, m.console)
	}
	return figures, nil
}

// show prints lines as they come; it returns the figures among them and the last line.
func show(r io.Reader) (figures []result.Figure, last string, err error) {
	last = "the machine said nothing"
	s := bufio.NewScanner(r)
	for s.Scan() {
		text := strings.TrimRight(s.Text(), "\r")
		if raw, ok := strings.CutPrefix(text, "figure "); ok {
			var f result.Figure
			if err := json.Unmarshal([]byte(raw), &f); err != nil {
				return figures, last, fmt.Errorf("figure %s: %w", raw, err)
			}
			figures = append(figures, f)
			continue
		}
		if text != "" {
			fmt.Println(text)
			last = strings.TrimSpace(text)
		}
	}
	return figures, last, s.Err()
}

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long the machine waits for one thing to come: emulated cores are slow, and
// shared with others.
const patience = 8 * time.Minute

func main() {
	out, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		out = os.Stderr
	}
	t := &timeline{out: out}
	if err := run(context.Background(), t); err != nil {
		t.expect(false, "%v", err)
	}
	if t.failed > 0 {
		dumpLogs()
		fmt.Fprintf(out, "%d expectations do not hold\n", t.failed)
	} else {
		fmt.Fprintln(out, "all expectations hold")
	}
	_ = unix.IoctlSetInt(int(out.Fd()), unix.TCSBRK, 1) // waits until all was sent
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run(ctx context.Context, t *timeline) error {
	chosen, err := choose(chosenNames())
	if err != nil {
		return err
	}
	if err := describeMachine(t); err != nil {
		return err
	}
	n, err := startNode(ctx, t)
	if err != nil {
		return err
	}
	defer func() { _ = n.gantry.Process.Kill() }() // before the machine loses its disks
	for _, s := range chosen {
		t.heading(s.name + ": " + s.shows)
		if err := s.run(ctx, n); err != nil {
			t.expect(false, "%s: %v", s.name, err)
			dumpNode(ctx, n)
		}
		if err := n.waitQuiet(ctx); err != nil {
			return fmt.Errorf("after %s: %w", s.name, err)
		}
	}
	t.heading("the end")
	return n.stop()
}

// chosenNames are the scenarios of the kernel's command line; none means all.
func chosenNames() []string {
	line, _ := os.ReadFile("/proc/cmdline")
	for f := range strings.FieldsSeq(string(line)) {
		if names, ok := strings.CutPrefix(f, "vm.scenarios="); ok && names != "" {
			return strings.Split(names, ",")
		}
	}
	return nil
}

// describeMachine says what the machine is, and refuses one that shows nothing.
func describeMachine(t *timeline) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	m := readMeminfo()
	t.say("Linux %s, process 1 is %s, %d MiB of memory, NUMA nodes %s, cores %s", unix.ByteSliceToString(u.Release[:]),
		contents("/proc/1/comm"), m["MemTotal"]>>20, contents("/sys/devices/system/node/online"),
		contents("/sys/devices/system/cpu/online"))
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		return fmt.Errorf("no cgroup v2: %w", err)
	}
	t.say("cgroup v2 with %s", contents("/sys/fs/cgroup/cgroup.controllers"))
	return nil
}

// contents is a file's text without the newline at its end; empty when it cannot be read.
func contents(file string) string {
	text, _ := os.ReadFile(file)
	return strings.TrimSpace(string(text))
}

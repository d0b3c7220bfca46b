package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var past = time.Unix(1, 0)

// ErrNoInit is returned for a container whose first process cannot be told from the others.
var ErrNoInit = errors.New("no process is the first of a PID namespace that all of the container are in")

// SignalInit sends a signal to the first process of the container id below the Pod's cgroup, as its
// runtime would: to process 1 of the PID namespace that all processes of the container are in.
// ended is closed when that process has ended, or when ctx has. After an error nothing was sent.
func (t *Tree) SignalInit(ctx context.Context, pod, id string, s unix.Signal) (ended <-chan struct{}, err error) {
	at, err := t.container(pod, id)
	if err != nil {
		return nil, err
	}
	pid, err := t.init(at)
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", at, err)
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	// The number may have gone to another process before the descriptor was there, never after.
	if again, err := t.init(at); err != nil || again != pid {
		return nil, errors.Join(fmt.Errorf("cgroup %s: process %d has ended", at, pid), err, unix.Close(fd))
	}
	if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("signal %d to process %d: %w", s, pid, err), unix.Close(fd))
	}
	return whenReadable(ctx, os.NewFile(uintptr(fd), "pidfd")), nil
}

// whenReadable closes the channel when f can be read or ctx ends, and then f.
func whenReadable(ctx context.Context, f *os.File) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer f.Close()
		stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(past) })
		defer stop()
		raw, err := f.SyscallConn()
		if err != nil {
			return
		}
		_ = raw.Read(func(fd uintptr) bool {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0
		})
	}()
	return done
}

// KillContainer sends KILL to all processes of the container id below the Pod's cgroup, frozen ones
// too. It succeeds if there are none.
func (t *Tree) KillContainer(pod, id string) error {
	at, err := t.container(pod, id)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, root := range t.hierarchy.roots() {
		if err := t.hierarchy.kill(filepath.Join(root, at)); err != nil {
			errs = append(errs, fmt.Errorf("cgroup %s: %w", at, err))
		}
	}
	return errors.Join(errs...)
}

// container finds the cgroup of a container, which bears its id (cri-containerd-ID.scope with
// systemd).
func (t *Tree) container(pod, id string) (string, error) {
	pod, err := t.absolutePath(pod)
	if err != nil {
		return "", err
	}
	children, err := t.List(pod)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(children, func(name string) bool { return id != "" && strings.Contains(name, id) })
	if i < 0 {
		return "", fmt.Errorf("container %s in cgroup %s: %w", id, pod, os.ErrNotExist)
	}
	return path.Join(pod, children[i]), nil
}

// init finds the process of a cgroup that is process 1 of the outermost PID namespace there; a
// container in the PID namespace of its Pod or of the machine has none.
func (t *Tree) init(at string) (pid int, err error) {
	pids, err := t.Processes(at)
	if err != nil {
		return 0, err
	}
	var outermost int
	for _, p := range pids {
		ids := namespacedIDs(p)
		if len(ids) == 0 { // it has ended
			continue
		}
		if outermost == 0 || len(ids) < outermost {
			outermost, pid = len(ids), 0
		}
		if len(ids) == outermost && len(ids) > 1 && ids[len(ids)-1] == "1" {
			pid = p
		}
	}
	if pid == 0 {
		return 0, ErrNoInit
	}
	return pid, nil
}

// namespacedIDs are the numbers that a process has in the PID namespaces it is in, ours first.
func namespacedIDs(pid int) []string {
	raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	for line := range strings.Lines(string(raw)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return strings.Fields(ids)
		}
	}
	return nil
}

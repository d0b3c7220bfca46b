package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoUsageNotice is returned where the kernel tells of no amount of use: on version 2.
var ErrNoUsageNotice = errors.New("cgroup v2 tells of no amount of memory in use")

// Notifier tells of something that the kernel sees. It costs no thread and no polling. Close it
// once; Wait may be called by one goroutine at a time.
type Notifier struct {
	epoll   *os.File // readable when the kernel has something to tell
	watched *os.File
	consume func() // takes what was told, so that it is told once
	closed  atomic.Bool
}

// NotifyUsage tells whenever the memory in use (page cache included) of the cgroup at p crosses a
// number of bytes, in either direction. Version 1 only; "/" is the node.
func (t *Tree) NotifyUsage(p string, bytes uint64) (*Notifier, error) {
	if t.hierarchy.version() != 1 {
		return nil, ErrNoUsageNotice
	}
	dir := t.hierarchy.mainDir(clean(p))
	usage, err := os.Open(filepath.Join(dir, "memory.usage_in_bytes"))
	if err != nil {
		return nil, err
	}
	defer usage.Close() // the kernel keeps what it needs
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	event := os.NewFile(uintptr(fd), "eventfd")
	if err := write(dir, "cgroup.event_control", fmt.Sprintf("%d %d %d", fd, usage.Fd(), bytes)); err != nil {
		return nil, errors.Join(err, event.Close())
	}
	raw, err := event.SyscallConn() // Close waits for a read: the number is nobody else's meanwhile
	if err != nil {
		return nil, errors.Join(err, event.Close())
	}
	return newNotifier(event, fd, unix.EPOLLIN, func() {
		_ = raw.Read(func(fd uintptr) bool {
			var count [8]byte
			_, _ = unix.Read(int(fd), count[:]) // nothing there: somebody else took it
			return true
		})
	})
}

// PressureNotifier tells of tasks that wait. A Wait costs a thread: the kernel tells each time
// once, to the first poll that asks, so that an epoll inside the Go runtime's would take it away.
// Close it once; Wait may be called by one goroutine at a time.
type PressureNotifier struct {
	file, end *os.File // end is readable once Close was called
}

// NotifyPressure tells whenever tasks waited for longer than stall within window. file is
// /proc/pressure/memory or the like, or a cgroup's memory.pressure; the kernel may know none.
func NotifyPressure(file string, stall, window time.Duration) (*PressureNotifier, error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(f, "some %d %d\x00", stall.Microseconds(), window.Microseconds()); err != nil {
		return nil, errors.Join(fmt.Errorf("trigger of %s: %w", file, err), f.Close())
	}
	end, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("eventfd: %w", err), f.Close())
	}
	return &PressureNotifier{f, os.NewFile(uintptr(end), "eventfd")}, nil
}

// Wait comes back when tasks have waited. The error is os.ErrClosed after Close, or that the cgroup
// is gone.
func (n *PressureNotifier) Wait() error {
	for {
		fds := []unix.PollFd{{Fd: int32(n.file.Fd()), Events: unix.POLLPRI},
			{Fd: int32(n.end.Fd()), Events: unix.POLLIN}}
		switch _, err := unix.Poll(fds, -1); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("poll of %s: %w", n.file.Name(), err)
		case fds[1].Revents != 0:
			return errors.Join(os.ErrClosed, n.file.Close(), n.end.Close())
		case fds[0].Revents&unix.POLLERR != 0:
			return fmt.Errorf("%s: the kernel watches it no more", n.file.Name())
		case fds[0].Revents&unix.POLLPRI != 0:
			return nil
		}
	}
}

// Close ends a Wait, or the next one, which gives the files back.
func (n *PressureNotifier) Close() error {
	_, err := n.end.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	return err
}

// NotifyEvents tells whenever a counter of memory.events of the cgroup at p, or of one below it,
// grows. Version 2 only.
func (t *Tree) NotifyEvents(p string) (*Notifier, error) {
	f, err := os.Open(filepath.Join(t.hierarchy.mainDir(clean(p)), "memory.events"))
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, 4096)
	read := func() { _, _ = f.ReadAt(buffer, 0) } // tells the kernel what was seen
	read()
	return newNotifier(f, int(f.Fd()), unix.EPOLLPRI, read)
}

func newNotifier(watched *os.File, fd int, events uint32, consume func()) (*Notifier, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("epoll: %w", err), watched.Close())
	}
	err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Fd: int32(fd), Events: events | unix.EPOLLET})
	if err == nil {
		err = unix.SetNonblock(epoll, true) // so that the Go runtime waits for it
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("epoll of %s: %w", watched.Name(), err), unix.Close(epoll), watched.Close())
	}
	return &Notifier{epoll: os.NewFile(uintptr(epoll), "epoll"), watched: watched, consume: consume}, nil
}

// Wait comes back when the kernel tells of something. The error is os.ErrClosed after Close, or
// that the cgroup is gone.
func (n *Notifier) Wait() error {
	raw, err := n.epoll.SyscallConn()
	if err != nil {
		return err
	}
	var told [1]unix.EpollEvent
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		count, err := unix.EpollWait(int(fd), told[:], 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			failed = err
		}
		return count > 0 || failed != nil
	})
	if err = errors.Join(err, failed); n.closed.Load() {
		return os.ErrClosed
	} else if err != nil {
		return err
	}
	if told[0].Events&unix.EPOLLERR != 0 && told[0].Events&unix.EPOLLPRI == 0 {
		return fmt.Errorf("%s: the kernel watches it no more", n.watched.Name())
	}
	n.consume()
	return nil
}

// Close ends a Wait and forgets the notice.
func (n *Notifier) Close() error {
	n.closed.Store(true)
	return errors.Join(n.epoll.Close(), n.watched.Close())
}

package containerd

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// dirWatch signals when a file of a directory may be complete. The directory need not exist, and
// may be removed and created again; its parent must exist.
type dirWatch struct {
	dir       string
	file      *os.File
	changed   chan error // nil: scan now; an error: the watch has ended; capacity 1
	closeOnce sync.Once

	selfWatch, parentWatch int // watch descriptors; selfWatch is -1 while the directory does not exist
}

// writeCompleteMask are the events after which a file may be complete. IN_CREATE is for links; a
// file being written ends with IN_CLOSE_WRITE.
const writeCompleteMask = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_CREATE | unix.IN_ATTRIB

func newDirWatch(dir string) (*dirWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &dirWatch{dir: filepath.Clean(dir), file: os.NewFile(uintptr(fd), "inotify"), changed: make(chan error, 1)}
	if w.parentWatch, err = unix.InotifyAddWatch(fd, filepath.Dir(w.dir), unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		w.close()
		return nil, os.NewSyscallError("inotify_add_watch "+filepath.Dir(w.dir), err)
	}
	w.addWatch(fd)
	go w.read(fd)
	return w, nil
}

func (w *dirWatch) close() { w.closeOnce.Do(func() { _ = w.file.Close() }) }

// addWatch watches the directory itself, if it exists.
func (w *dirWatch) addWatch(fd int) {
	own, err := unix.InotifyAddWatch(fd, w.dir, writeCompleteMask|unix.IN_ONLYDIR)
	if err != nil {
		own = -1
	}
	w.selfWatch = own
}

func (w *dirWatch) read(fd int) {
	defer close(w.changed)
	buffer := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				w.changed <- err
			}
			return
		}
		if w.handleEvents(fd, buffer[:n]) {
			select {
			case w.changed <- nil:
			default: // a scan is requested already
			}
		}
	}
}

// handleEvents decodes events and returns whether one of them requests a scan.
func (w *dirWatch) handleEvents(fd int, raw []byte) (look bool) {
	for len(raw) >= unix.SizeofInotifyEvent {
		watch, mask := int(int32(binary.NativeEndian.Uint32(raw))), binary.NativeEndian.Uint32(raw[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(raw[12:]))
		name := strings.TrimRight(string(raw[unix.SizeofInotifyEvent:min(end, len(raw))]), "\x00")
		raw = raw[min(end, len(raw)):]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			look = true
		case watch == w.parentWatch && name == filepath.Base(w.dir):
			w.addWatch(fd)
			look = true
		case watch == w.selfWatch && mask&unix.IN_IGNORED != 0:
			w.selfWatch = -1
		case watch == w.selfWatch && isArchive(name):
			look = true
		}
	}
	return look
}

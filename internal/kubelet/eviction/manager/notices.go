package manager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

// ThresholdNotifier is something that the kernel tells of; cgroup.Notifier is one. Close ends a
// Wait.
type ThresholdNotifier interface {
	Wait() error
	Close() error
}

// Kernel tells when to look at memory at once, beside what the Watcher reads itself. A nil field
// tells nothing.
type Kernel struct {
	// Usage tells when a cgroup's memory in use crosses a number of bytes
	// (kernelMemcgNotification, cgroup v1)
	Usage func(path string, bytes uint64) (ThresholdNotifier, error)
	// Others are what tells by itself, with their names: pressure of the machine, limits of the
	// Pods' cgroup that were hit. Opening one of something that is not there (fs.ErrNotExist) is
	// tried again
	Others map[string]func() (ThresholdNotifier, error)
}

// noticeInterval is the least time between two looks that the kernel asks for.
const noticeInterval = 100 * time.Millisecond

// Watcher turns what the kernel tells into looks at the node.
type Watcher struct {
	Kernel     Kernel
	Observer   *Observer
	Thresholds []eviction.Threshold
	notices    chan string
}

// NewWatcher returns a Watcher; Run has it work.
func NewWatcher(k Kernel, o *Observer, thresholds []eviction.Threshold) *Watcher {
	return &Watcher{Kernel: k, Observer: o, Thresholds: thresholds, notices: make(chan string, 1)}
}

// Notices is where a look is asked for; one that was not taken yet is not asked for again.
func (w *Watcher) Notices() <-chan string { return w.notices }

// Run listens until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	var all sync.WaitGroup
	for name, open := range w.Kernel.Others {
		all.Go(func() { w.keepOpen(ctx, name, open) })
	}
	for _, t := range w.Thresholds {
		at, memory := w.cgroup(t.Signal)
		if memory {
			all.Go(func() { w.readUsage(ctx, at, t) })
		}
		if memory && w.Kernel.Usage != nil {
			all.Go(func() { w.followUsage(ctx, at, t) })
		}
	}
	all.Wait()
}

// cgroup is where a signal of memory is read.
func (w *Watcher) cgroup(s eviction.Signal) (path string, memory bool) {
	switch s {
	case eviction.MemoryAvailable:
		return "/", true
	case eviction.AllocatableMemoryAvailable:
		return w.Observer.PodsPath, true
	}
	return "", false
}

// keepOpen listens to a notice until ctx ends. One of a cgroup that is not there yet, or is made
// anew, is opened again each Period; one that the kernel does not have is given up.
func (w *Watcher) keepOpen(ctx context.Context, name string, open func() (ThresholdNotifier, error)) {
	log := klog.FromContext(ctx).V(2)
	said := false
	for {
		n, err := open()
		if err == nil {
			err = w.listen(ctx, name, n)
		} else if !errors.Is(err, fs.ErrNotExist) {
			log.Info("Eviction manager: the kernel does not tell", "of", name, "err", err)
			return
		}
		if err != nil && !said {
			said = true
			log.Info("Eviction manager: the kernel does not tell, trying again", "of", name, "every", Period,
				"err", err)
		}
		select {
		case <-time.After(Period):
		case <-ctx.Done():
			return
		}
	}
}

// listen asks for a look whenever the kernel tells, until ctx ends or the notice does, which is an
// error.
func (w *Watcher) listen(ctx context.Context, name string, n ThresholdNotifier) error {
	stop := context.AfterFunc(ctx, func() { _ = n.Close() })
	defer func() {
		if stop() {
			_ = n.Close()
		}
	}()
	for {
		if err := n.Wait(); err != nil {
			if ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
				return nil
			}
			return err
		}
		w.triggerSync(name)
		select {
		case <-time.After(noticeInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

// triggerSync asks for a look, unless one is asked for already.
func (w *Watcher) triggerSync(why string) {
	select {
	case w.notices <- why:
	default:
	}
}

// followUsage keeps a notice at the use of memory at which a threshold is met. The page cache,
// which counts as use but not as working set, moves it.
func (w *Watcher) followUsage(ctx context.Context, at string, t eviction.Threshold) {
	name := crossed(t)
	failed := false
	for ctx.Err() == nil {
		round, cancel := context.WithTimeout(ctx, Period)
		if bytes, ok := w.usageThreshold(at, t); ok {
			n, err := w.Kernel.Usage(at, bytes)
			if err == nil {
				err = w.listen(round, name, n)
			}
			if err != nil && !failed {
				failed = true
				klog.FromContext(ctx).Info("Eviction manager: failed to create memory threshold notifier", "of", name,
					"err", err)
			}
		}
		<-round.Done()
		cancel()
	}
}

// crossed names what is told of a threshold.
func crossed(t eviction.Threshold) string { return string(t.Signal) + " crossed " + t.Value.String() }

// Bounds of readUsage.
const (
	fastestUse      = 4                     // bytes a nanosecond: a node's memory is taken no faster
	readingInterval = 50 * time.Millisecond // the least time between two readings
	metInterval     = time.Second           // the same while the threshold is met
)

// NextReading is after what time memory is read again when that many bytes are left above a
// threshold: before they can be gone, but neither all the time nor later than the next pass.
func NextReading(left int64) time.Duration {
	if left < 0 {
		return metInterval
	}
	return min(max(time.Duration(left/fastestUse), readingInterval), Period)
}

// readUsage asks for a look whenever the use of memory comes to a threshold. It reads more often
// the closer that is: cgroup v2 tells of no amount of use, and what version 1 tells of counts page
// cache, which comes and goes meanwhile.
func (w *Watcher) readUsage(ctx context.Context, at string, t eviction.Threshold) {
	met := false
	for {
		next := Period
		if _, left, ok := w.left(at, t); ok {
			next = NextReading(left)
			if is := left < 0; is != met {
				if met = is; met {
					w.triggerSync(crossed(t))
				}
			}
		}
		select {
		case <-time.After(next):
		case <-ctx.Done():
			return
		}
	}
}

// usageThreshold is the use of memory, page cache included, at which the threshold is met.
func (w *Watcher) usageThreshold(at string, t eviction.Threshold) (bytes uint64, ok bool) {
	use, left, ok := w.left(at, t)
	return uint64(int64(use.Bytes) + left), ok
}

// left is the use of memory, and how much more of it there may be before the threshold is met; less
// than 0 when it is.
func (w *Watcher) left(at string, t eviction.Threshold) (use usage.MemoryUse, left int64, ok bool) {
	u, err := w.Observer.Cgroups.MemoryUse(at)
	if err != nil {
		return u, 0, false
	}
	if t.Signal == eviction.MemoryAvailable {
		u.Limit = uint64(w.Observer.MemoryBytes)
	}
	least := t.Value.Of(int64(u.Limit))
	if u.Limit == 0 || uint64(least.Value()) > u.Limit {
		return u, 0, false
	}
	return u, int64(u.Limit) - least.Value() - int64(u.WorkingSet), true
}

package manager_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/eviction/manager"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

// growing is a node of 64Gi whose working set grows by so many bytes a second.
type growing struct {
	startedAt time.Time
	rate      int64
	reads     int
	broken    bool
}

func (g *growing) WorkingSet(p string) (uint64, error) {
	u, err := g.MemoryUse(p)
	return u.WorkingSet, err
}

func (g *growing) MemoryUse(string) (usage.MemoryUse, error) {
	g.reads++
	if g.broken {
		return usage.MemoryUse{}, errors.New("no cgroups")
	}
	set := uint64(int64(time.Since(g.startedAt)) / int64(time.Millisecond) * g.rate / 1000)
	return usage.MemoryUse{Bytes: set + gi, WorkingSet: set}, nil
}
func (*growing) Processes(string) ([]int, error) { return nil, nil }
func (*growing) List(string) ([]string, error)   { return nil, nil }

// silentNotice never tells, as one of an amount of use that page cache has left behind.
type silentNotice chan struct{}

func (n silentNotice) Wait() error {
	<-n
	return fs.ErrClosed
}

func (n silentNotice) Close() error {
	close(n)
	return nil
}

// The use is read, whether the kernel tells of an amount of it or not: soon enough to see that a
// threshold is met within a tenth of a second, seldom while much is left, and once for each time it
// is met.
//
// row: EVC-13
func TestAMemoryThresholdIsSeenWithoutTheKernel(t *testing.T) {
	list, errs := eviction.Thresholds(eviction.Settings{Hard: map[string]string{"memory.available": "4Gi"}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, c := range []struct {
		rate   int64
		broken bool
		silent bool          // the kernel has a notice of the use, and does not tell
		asked  time.Duration // when; 0: not within ten minutes
		reads  int           // at most, until then
	}{
		{rate: 3 * gi, asked: 20 * time.Second, reads: 30},
		{rate: gi, asked: time.Minute, reads: 40},
		{rate: gi, silent: true, asked: time.Minute, reads: 50},
		{rate: 100 * mi, asked: 614400 * time.Millisecond, reads: 300},
		{rate: mi, reads: 65},
		{rate: gi, broken: true, reads: 65},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &growing{startedAt: time.Now(), rate: c.rate, broken: c.broken}
			var k manager.Kernel
			if c.silent {
				k.Usage = func(string, uint64) (manager.ThresholdNotifier, error) { return make(silentNotice), nil }
			}
			w := manager.NewWatcher(k, &manager.Observer{Cgroups: g, MemoryBytes: 64 * gi}, list)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
			defer cancel()
			go w.Run(ctx)
			asked := time.Duration(0)
			select {
			case why := <-w.Notices():
				asked = time.Since(g.startedAt)
				if why != "memory.available crossed 4Gi" {
					t.Errorf("got %q, want the signal and the threshold", why)
				}
			case <-time.After(10*time.Minute + 30*time.Second):
			}
			if late := asked - c.asked; late < 0 || late > 100*time.Millisecond {
				t.Errorf("%d bytes a second: asked for a look after %s, want %s", c.rate, asked, c.asked)
			}
			if g.reads > c.reads {
				t.Errorf("%d bytes a second: got %d readings, want at most %d", c.rate, g.reads, c.reads)
			}
			time.Sleep(time.Minute)
			select {
			case <-w.Notices():
				t.Errorf("%d bytes a second: asked again for what is met still", c.rate)
			default:
			}
			cancel()
			synctest.Wait()
		})
	}
}

// briefNotice tells once, and then that what it watched is gone.
type briefNotice struct{ ended bool }

func (n *briefNotice) Wait() error {
	if n.ended {
		return errors.New("the cgroup is gone")
	}
	n.ended = true
	return nil
}
func (*briefNotice) Close() error { return nil }

// What tells of a cgroup is opened again when the cgroup is not there yet, and when it went; what
// the kernel does not have is given up.
func TestANoticeIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		startedAt, opened, tried := time.Now(), 0, 0
		w := manager.NewWatcher(manager.Kernel{Others: map[string]func() (manager.ThresholdNotifier, error){
			"pods": func() (manager.ThresholdNotifier, error) {
				if opened++; opened <= 2 {
					return nil, &fs.PathError{Op: "open", Path: "memory.events", Err: fs.ErrNotExist}
				}
				return &briefNotice{}, nil
			},
			"pressure": func() (manager.ThresholdNotifier, error) { tried++; return nil, errors.ErrUnsupported },
		}}, &manager.Observer{}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.Run(ctx)
		for i, want := range []time.Duration{2 * manager.Period, 3 * manager.Period} {
			why := <-w.Notices()
			if at := time.Since(startedAt); why != "pods" || at < want || at > want+time.Second {
				t.Errorf("look %d: asked for by %q after %s, want pods after %s", i, why, at, want)
			}
		}
		cancel()
		synctest.Wait()
		if opened != 4 || tried != 1 {
			t.Errorf("got %d and %d openings, want 4 of what comes and 1 of what is not served", opened, tried)
		}
	})
}

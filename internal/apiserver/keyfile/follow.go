package keyfile

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
)

// Period is how often files are looked at.
const Period = 5 * time.Second

// follower reads files again when they change.
type follower struct {
	name  string
	files []string
	load  func() (changed bool, err error)

	mu        sync.Mutex
	seen      []os.FileInfo
	listeners []dynamiccertificates.Listener
}

// Name says what for and which file.
func (f *follower) Name() string { return f.name }

// AddListener has l told when the content changes.
func (f *follower) AddListener(l dynamiccertificates.Listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners = append(f.listeners, l)
}

// RunOnce reads the files if they changed.
func (f *follower) RunOnce(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := make([]os.FileInfo, len(f.files))
	same := f.seen != nil
	for i, path := range f.files {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		now[i] = info
		same = same && os.SameFile(info, f.seen[i]) && info.ModTime().Equal(f.seen[i].ModTime()) && info.Size() == f.seen[i].Size()
	}
	if same {
		return nil
	}
	changed, err := f.load()
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	f.seen = now
	if changed {
		for _, l := range f.listeners {
			l.Enqueue()
		}
	}
	return nil
}

// Run follows the files until ctx ends. The number is the library's and means nothing here.
func (f *follower) Run(ctx context.Context, _ int) {
	timer := time.NewTimer(untilNext(time.Now()))
	defer timer.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		text := ""
		if err := f.RunOnce(ctx); err != nil {
			if text = err.Error(); text != said {
				klog.FromContext(ctx).Error(err, "Certificates cannot be read again; those read before stay in force")
			}
		}
		said = text
		timer.Reset(untilNext(time.Now()))
	}
}

// untilNext is the time to the next point of a raster that all followers share, so that they wake together.
func untilNext(now time.Time) time.Duration { return now.Truncate(Period).Add(Period).Sub(now) }

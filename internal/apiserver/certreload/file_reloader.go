package certreload

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
)

// PollPeriod is how often files are looked at.
const PollPeriod = 5 * time.Second

// fileReloader reads files again when they change.
type fileReloader struct {
	name  string
	files []string
	load  func() (changed bool, err error)

	mu        sync.Mutex
	fileInfos []os.FileInfo
	listeners []dynamiccertificates.Listener
}

// Name says what for and which file.
func (f *fileReloader) Name() string { return f.name }

// AddListener has l told when the content changes.
func (f *fileReloader) AddListener(l dynamiccertificates.Listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners = append(f.listeners, l)
}

// RunOnce reads the files if they changed.
func (f *fileReloader) RunOnce(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := make([]os.FileInfo, len(f.files))
	same := f.fileInfos != nil
	for i, path := range f.files {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		now[i] = info
		same = same && os.SameFile(info, f.fileInfos[i]) && info.ModTime().Equal(f.fileInfos[i].ModTime()) &&
			info.Size() == f.fileInfos[i].Size()
	}
	if same {
		return nil
	}
	changed, err := f.load()
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	f.fileInfos = now
	if changed {
		for _, l := range f.listeners {
			l.Enqueue()
		}
	}
	return nil
}

// Run follows the files until ctx ends. The number is the library's and means nothing here.
func (f *fileReloader) Run(ctx context.Context, _ int) {
	timer := time.NewTimer(untilNextPoll(time.Now()))
	defer timer.Stop()
	lastError := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		text := ""
		if err := f.RunOnce(ctx); err != nil {
			if text = err.Error(); text != lastError {
				klog.FromContext(ctx).Error(err, "Certificates cannot be read again; those read before stay in force")
			}
		}
		lastError = text
		timer.Reset(untilNextPoll(time.Now()))
	}
}

// untilNextPoll is the time to the next point of a raster that all followers share, so that they
// wake together.
func untilNextPoll(now time.Time) time.Duration {
	return now.Truncate(PollPeriod).Add(PollPeriod).Sub(now)
}

package podsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
)

// StaticOptions is what sources of static Pods share.
type StaticOptions struct {
	Receiver Receiver
	Node     string // name of this node
	Rules    static.Rules
	Interval time.Duration // how often the source is read without a sign of change; 20 s when 0
	Reporter Reporter      // nil tells nobody
}

// Receiver takes what sources say; PodConfig is one.
type Receiver interface {
	Put(source string, pod *v1.Pod)
	Remove(source string, pod *v1.Pod, forced bool)
	Complete(source string)
}

// Reporter makes known what a source has that cannot be run.
type Reporter interface {
	Refused(place string, err error)             // a manifest is bad
	DuplicateName(source string, pod *v1.Pod)    // another Pod of this source has its name
	UnknownFields(place string, fields []string) // a manifest has fields that no Pod has
}

const defaultInterval = 20 * time.Second

// settleDelay is how long a directory has to be quiet before it is read after a sign of change:
// writers that do not rename leave half a file for a moment.
const settleDelay = 50 * time.Millisecond

// maxManifest bounds what is read of one file or answer.
const maxManifest = 10 << 20

// WatchFiles puts the static Pods of a directory, or of one file, into a Receiver until ctx ends.
// Changes are seen by inotify and, in any case, at each period. A file that turns bad keeps its Pod
// until the next periodic reading, so that a writer who is half way through does no harm.
func WatchFiles(ctx context.Context, path string, s StaticOptions) {
	f := &fileSource{staticSource: staticSource{StaticOptions: s, source: File}, path: path,
		cache: map[string]cachedManifest{}}
	if f.Interval <= 0 {
		f.Interval = defaultInterval
	}
	log := klog.FromContext(ctx).WithValues("path", path)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Error(err, "Changes of static Pods are only seen periodically", "every", f.Interval)
		w = &fsnotify.Watcher{}
	} else {
		defer w.Close()
	}
	tick := time.NewTicker(f.Interval)
	defer tick.Stop()
	settleTimer := time.NewTimer(settleDelay)
	settleTimer.Stop()
	for periodic := true; ctx.Err() == nil; {
		if err == nil {
			f.watch(w)
		}
		f.poll(ctx, periodic)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			periodic = true
			continue
		case <-w.Events:
			settleTimer.Reset(settleDelay)
		case e := <-w.Errors:
			log.V(1).Info("Signs of changes were lost, reading all", "err", e)
			settleTimer.Reset(0)
		}
		if !f.waitQuiet(ctx, w, settleTimer) {
			return
		}
		periodic = false
	}
}

// waitQuiet waits until no sign of change has come for a moment, a second at most; false when ctx
// ended.
func (f *fileSource) waitQuiet(ctx context.Context, w *fsnotify.Watcher, settleTimer *time.Timer) bool {
	latest := time.NewTimer(time.Second)
	defer latest.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-settleTimer.C:
			return true
		case <-latest.C:
			return true
		case <-w.Events:
			settleTimer.Reset(settleDelay)
		}
	}
}

// fileSource is a directory or file of manifests.
type fileSource struct {
	staticSource
	path  string
	cache map[string]cachedManifest // by path
}

// cachedManifest is the last reading of a file.
type cachedManifest struct {
	size     int64
	changed  time.Time
	manifest *static.Manifest // nil when the file is bad
	err      error
}

// watch asks for signs of change. A directory that is made again has to be asked for again.
func (f *fileSource) watch(w *fsnotify.Watcher) {
	if len(w.WatchList()) > 0 {
		return
	}
	place := f.path
	if info, err := os.Stat(place); err == nil && !info.IsDir() {
		place = filepath.Dir(place) // the file itself may be replaced
	}
	_ = w.Add(place) // not there: the next periodic look finds it
}

// poll reads everything and tells what changed.
func (f *fileSource) poll(ctx context.Context, periodic bool) {
	names, err := f.names()
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Unable to read config path", "path", f.path)
		}
		return
	}
	seen := map[string]bool{}
	var found []static.Manifest
	for _, name := range names {
		seen[name] = true
		if m := f.readCached(ctx, name, periodic); m != nil {
			found = append(found, *m)
		}
	}
	for name := range f.cache {
		if !seen[name] {
			delete(f.cache, name)
		}
	}
	f.publish(found)
}

// names lists the manifests; none when the path is not there.
func (f *fileSource) names() ([]string, error) {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.IsDir():
		return []string{f.path}, nil
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !isTemporary(e.Name()) {
			out = append(out, filepath.Join(f.path, e.Name()))
		}
	}
	return out, nil
}

// isTemporary tells whether a name is that of a hidden file or of a copy that editors and package
// tools keep beside a file.
func isTemporary(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") ||
		strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") || name == "4913" {
		return true
	}
	switch filepath.Ext(name) {
	case ".swp", ".swx", ".swo", ".tmp", ".bak", ".orig", ".rpmsave", ".rpmnew", ".dpkg-new", ".dpkg-old", ".dpkg-tmp",
		".dpkg-dist":
		return true
	}
	return false
}

// readCached reads one file unless it is as it was; nil when it has no Pod. A bad file is told of
// once.
func (f *fileSource) readCached(ctx context.Context, name string, periodic bool) *static.Manifest {
	last, known := f.cache[name]
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err == nil && known && last.err == nil && info.Size() == last.size && info.ModTime().Equal(last.changed) &&
		!periodic {
		return last.manifest
	}
	var raw []byte
	if err == nil {
		raw, err = readFile(name)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil // gone between listing and reading
	}
	now := cachedManifest{manifest: last.manifest}
	if info != nil {
		now.size, now.changed = info.Size(), info.ModTime()
	}
	if err == nil {
		m, bad := static.ParsePod(raw, static.Origin{Source: File, Location: name, Node: f.Node}, f.Rules, time.Now())
		if err = bad; err == nil {
			now.manifest = &m
			if !known || last.manifest == nil || last.manifest.Hash != m.Hash {
				f.reportUnknown(name, m)
			}
		} else {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	if now.err = err; err != nil {
		if last.err == nil || last.err.Error() != err.Error() {
			klog.FromContext(ctx).Error(err, "Could not process manifest file", "path", name)
			f.reportRefused(name, err)
		}
		if periodic && last.err != nil {
			now.manifest = nil
		}
	}
	f.cache[name] = now
	return now.manifest
}

func readFile(name string) ([]byte, error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	raw, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if err == nil && len(raw) > maxManifest {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxManifest)
	}
	return raw, err
}

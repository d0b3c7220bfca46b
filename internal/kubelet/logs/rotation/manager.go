package rotation

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
)

// Runtime is the part of CRI that rotating needs; internalapi.RuntimeService is one.
type Runtime interface {
	ReopenContainerLog(ctx context.Context, id string) error
	ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
}

// Deps are what a Manager stands on.
type Deps struct {
	Pods    func() []*v1.Pod // of the node, with the newest status
	Runtime Runtime
	Dir     string // of Pods' logs: podLogsDir
	Links   string // directory of links, /var/log/containers upstream; empty makes none
	Policy  Policy
}

// Manager keeps the logs of a node's containers.
type Manager struct {
	d      Deps
	starts chan runningContainer

	mu   sync.Mutex
	logs map[string]logState // by container id
}

// logState is what is known of a container's log.
type logState struct {
	path    string
	linked  bool
	cleaned bool
}

// runningContainer is a container that runs.
type runningContainer struct {
	namespace, pod, uid, name string
	id                        string
	attempt                   int
}

// New returns a Manager; Run makes it work.
func New(d Deps) *Manager {
	return &Manager{d: d, starts: make(chan runningContainer, 256), logs: map[string]logState{}}
}

// Sink has the Manager told of each started container, on the facts' way to next.
func (k *Manager) Sink(next journal.Sink) journal.Sink { return sink{k, next} }

type sink struct {
	manager *Manager
	next    journal.Sink
}

// Put notes starts and passes on. When there are more than can be noted, the next round finds them.
func (s sink) Put(ref journal.Ref, fact journal.Fact) {
	if f, ok := fact.(journal.ContainerStarted); ok {
		select {
		case s.manager.starts <- runningContainer{ref.Namespace, ref.Name, ref.UID, f.Container, f.ID, f.Restart}:
		default:
		}
	}
	s.next.Put(ref, fact)
}

// Run keeps logs until ctx ends.
func (k *Manager) Run(ctx context.Context) error {
	tick := time.NewTicker(k.d.Policy.MonitorInterval)
	defer tick.Stop()
	if k.d.Links != "" {
		if err := os.MkdirAll(k.d.Links, 0o755); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot make the directory of links to containers' logs", "dir", k.d.Links)
		}
	}
	for {
		k.RotateAll(ctx)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case c := <-k.starts:
				k.track(ctx, c)
			case <-tick.C:
				waiting = false
			}
		}
	}
}

// RotateAll looks at every running container's log once, and at the links (upstream:
// containerLogManager.rotateLogs).
func (k *Manager) RotateAll(ctx context.Context) {
	all := k.running()
	var wg sync.WaitGroup
	turn := make(chan struct{}, max(1, k.d.Policy.Workers))
	for _, c := range all {
		path := k.track(ctx, c)
		if path == "" || !k.needsRotation(ctx, c.id, path) {
			continue
		}
		wg.Add(1)
		turn <- struct{}{}
		go func() {
			defer func() { <-turn; wg.Done() }()
			if err := k.rotate(ctx, c.id, path, time.Now()); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Failed to rotate log for container",
					"pod", klog.KRef(c.namespace, c.pod), "containerName", c.name, "path", path)
			}
		}()
	}
	wg.Wait()
	k.forgetStopped(all)
	k.unlink(ctx)
}

// running lists the containers that the Pods' statuses say run.
func (k *Manager) running() []runningContainer {
	var out []runningContainer
	for _, p := range k.d.Pods() {
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
			p.Status.EphemeralContainerStatuses) {
			if s.State.Running == nil || s.ContainerID == "" {
				continue
			}
			_, id, found := strings.Cut(s.ContainerID, "://")
			if !found {
				id = s.ContainerID
			}
			out = append(out, runningContainer{p.Namespace, p.Name, string(p.UID), s.Name, id, int(s.RestartCount)})
		}
	}
	return out
}

func (k *Manager) dir(c runningContainer) string {
	return filepath.Join(k.d.Dir, c.namespace+"_"+c.pod+"_"+c.uid, c.name)
}

// track finds the container's log, links it, and removes what its earlier runs left. The path is
// empty when the log cannot be found.
func (k *Manager) track(ctx context.Context, c runningContainer) string {
	k.mu.Lock()
	s := k.logs[c.id]
	k.mu.Unlock()
	if s.path == "" {
		s.path = k.findLog(ctx, c)
	}
	if s.path == "" {
		return ""
	}
	if !s.linked {
		s.linked = k.link(ctx, c, s.path)
	}
	if !s.cleaned {
		s.cleaned = true
		k.removeUnreachable(ctx, c)
	}
	k.mu.Lock()
	k.logs[c.id] = s
	k.mu.Unlock()
	return s.path
}

// findLog is where the kubelet had the runtime log to; when nothing is there, what the runtime
// says, which is then asked to write again.
func (k *Manager) findLog(ctx context.Context, c runningContainer) string {
	path := filepath.Join(k.dir(c), strconv.Itoa(c.attempt)+".log")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	r, err := k.d.Runtime.ContainerStatus(ctx, c.id, false)
	if err != nil || r.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING ||
		r.GetStatus().GetLogPath() == "" {
		return "" // it has ended meanwhile
	}
	path = r.GetStatus().GetLogPath()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := k.d.Runtime.ReopenContainerLog(ctx, c.id); err != nil {
			klog.FromContext(ctx).Error(err, "Container log doesn't exist, reopen container log failed",
				"containerID", c.id, "path", path)
			return ""
		}
	}
	return path
}

// needsRotation tells whether the log must be rotated; a log that somebody took away is written
// anew.
func (k *Manager) needsRotation(ctx context.Context, id, path string) bool {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := k.d.Runtime.ReopenContainerLog(ctx, id); err != nil {
			klog.FromContext(ctx).V(2).Info("Container log doesn't exist, reopen container log failed",
				"containerID", id, "path", path, "err", err)
		}
		return false
	case err != nil:
		klog.FromContext(ctx).Error(err, "Failed to stat container log", "containerID", id, "path", path)
		return false
	}
	return k.d.Policy.MaxSize >= 0 && info.Size() >= k.d.Policy.MaxSize
}

// removeUnreachable removes the logs of runs that nobody can ask for.
func (k *Manager) removeUnreachable(ctx context.Context, c runningContainer) {
	entries, err := os.ReadDir(k.dir(c))
	if err != nil {
		return
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, name := range unreachable(names, c.attempt) {
		if err := os.Remove(filepath.Join(k.dir(c), name)); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot remove an old container's log")
		}
	}
}

// forgetStopped drops containers that run no more.
func (k *Manager) forgetStopped(all []runningContainer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	alive := map[string]bool{}
	for _, c := range all {
		alive[c.id] = true
	}
	for id := range k.logs {
		if !alive[id] {
			delete(k.logs, id)
		}
	}
}

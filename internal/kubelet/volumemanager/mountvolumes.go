package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// MountVolumes makes the volumes that the Pod's containers mount ready and returns them by name.
// Those made ready by an earlier call are not looked at again. The error is a *reason.Refusal
// FailedMount that names what is missing, in upstream's words; volumes that can be made are made
// nevertheless.
func (f *Manager) MountVolumes(ctx context.Context, pod *v1.Pod) (map[string]Mounted, error) {
	return f.reconcile(ctx, pod, func(t volume.Plugin, s *podVolumes, name string) bool {
		_, done := s.ready[name]
		return !done
	})
}

// RefreshVolumes brings volumes whose content follows API objects, the Pod or time up to date, each
// at once for its readers.
func (f *Manager) RefreshVolumes(ctx context.Context, pod *v1.Pod) error {
	_, err := f.reconcile(ctx, pod, func(t volume.Plugin, s *podVolumes, name string) bool {
		_, done := s.ready[name]
		return !done || t.RequiresRemount()
	})
	return err
}

// ObjectsPresent tells whether the ConfigMaps and Secrets are there without which the Pod's volumes
// cannot be made.
func (f *Manager) ObjectsPresent(ctx context.Context, pod *v1.Pod) bool {
	f.d.Objects.RegisterPod(pod)
	for ref := range volume.RequiredRefs(pod) {
		var err error
		switch ref.Kind {
		case volume.ConfigMap:
			_, err = f.d.Objects.GetConfigMap(ctx, ref.Namespace, ref.Name)
		case volume.Secret:
			_, err = f.d.Objects.GetSecret(ctx, ref.Namespace, ref.Name)
		}
		if err != nil {
			return false
		}
	}
	return true
}

func (f *Manager) reconcile(ctx context.Context, pod *v1.Pod,
	due func(volume.Plugin, *podVolumes, string) bool) (map[string]Mounted, error) {
	f.d.Objects.RegisterPod(pod)
	s := f.volumesOf(pod)
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	type result struct {
		ready map[string]Mounted
		err   error
	}
	done := make(chan result, 1)
	go func() { // the kernel may keep a step for ever: then the caller leaves, and the lock goes with the step
		defer s.unlock()
		ready, err := f.reconcileLocked(ctx, pod, s, due)
		done <- result{ready, err}
	}()
	select {
	case r := <-done:
		return r.ready, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *Manager) reconcileLocked(ctx context.Context, pod *v1.Pod, s *podVolumes,
	due func(volume.Plugin, *podVolumes, string) bool) (map[string]Mounted, error) {
	have, err := f.onDisk(pod)
	if err != nil {
		return nil, &reason.Refusal{Code: reason.FailedMount, By: "kubelet/volume", Detail: err.Error(),
			Fix: "look at the kubelet's directory on the node", Err: err}
	}
	var bad *reason.Refusal
	var unprocessed []failure
	for _, step := range volume.Plan(pod, have, f.pluginDir) {
		var err error
		startedAt := time.Now()
		switch step.Verb {
		case volume.TearDown:
			delete(s.ready, step.Name)
			dir := f.dir(pod, step.Plugin, step.Name)
			err = f.withHangReport(s.ref, "tear down of volume "+step.Name, dir, func() error {
				meta := filepath.Join(f.podDir(pod.UID), metaDir, step.Plugin, step.Name)
				return errors.Join(f.tearDown(ctx, dir, step.Plugin), os.RemoveAll(meta))
			})
		case volume.SetUp:
			if t := f.pluginFor(step.Volume); t == nil || due(t, s, step.Name) {
				err = f.setUp(ctx, pod, step.Volume, s)
			}
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("volume %q: %w", step.Name, ctx.Err())
		}
		switch b := (failure{step, err, time.Since(startedAt)}); {
		case err == nil:
		case errors.As(err, &volume.Unprocessed{}):
			unprocessed = append(unprocessed, b)
			f.recordFailure(pod, s, b)
		default:
			bad = merge(bad, f.failureRefusal(pod, s, b))
		}
	}
	f.publish(s)
	f.scheduleRefresh(pod, s)
	if bad = f.summarize(pod, s, bad, unprocessed); bad != nil {
		return nil, bad
	}
	out := make(map[string]Mounted, len(s.ready))
	for name, m := range s.ready {
		out[name] = m
	}
	return out, nil
}

func (f *Manager) setUp(ctx context.Context, pod *v1.Pod, v *v1.Volume, s *podVolumes) error {
	t := f.pluginFor(v)
	if t == nil {
		return volume.CheckSupported(v)
	}
	startedAt := time.Now()
	var m volume.Mounted
	args := volume.MounterArgs{
		Pod: pod, Volume: v, Dir: f.dir(pod, t.Dir(), v.Name), Node: f.d.Node(pod),
		MetaDir: filepath.Join(f.podDir(pod.UID), metaDir, t.Dir(), v.Name),
		Event: func(why, message string) {
			f.d.Recorder.Event(events.RefOf(pod, ""), v1.EventTypeWarning, why, message)
		},
	}
	err := f.withHangReport(s.ref, "set-up of volume "+v.Name, args.Dir, func() (err error) {
		m, err = t.SetUp(ctx, args)
		return err
	})
	if err != nil {
		return err
	}
	if _, before := s.ready[v.Name]; !before {
		f.put(pod, journal.VolumeReady{Volume: v.Name, Type: t.Name(), Took: journal.Took(time.Since(startedAt))})
	}
	s.ready[v.Name] = m
	delete(s.reported, v.Name)
	return nil
}

// retryRefresh is how soon a volume is looked at again that was due and could not be brought up to
// date.
const retryRefresh = 30 * time.Second

// scheduleRefresh sets the timer for the volume that grows old first.
func (f *Manager) scheduleRefresh(pod *v1.Pod, s *podVolumes) {
	if s.refreshTimer != nil {
		s.refreshTimer.Stop()
		s.refreshTimer = nil
	}
	var at time.Time
	for _, m := range s.ready {
		if !m.RefreshAt.IsZero() && (at.IsZero() || m.RefreshAt.Before(at)) {
			at = m.RefreshAt
		}
	}
	if uid := pod.UID; !at.IsZero() {
		in := time.Until(at)
		if in <= 0 { // it keeps the time of its last success: asking at once would be asking without end
			in = retryRefresh
		}
		s.refreshTimer = time.AfterFunc(in, func() { f.d.Changed(uid) })
	}
}

func (f *Manager) volumesOf(p *v1.Pod) *podVolumes {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.pods[p.UID]
	if s == nil {
		s = &podVolumes{ready: map[string]volume.Mounted{}, reported: map[string]string{}, ref: pod.Ref(p),
			locked: make(chan struct{}, 1)}
		f.pods[p.UID] = s
	}
	return s
}

func (f *Manager) pluginFor(v *v1.Volume) volume.Plugin {
	for _, t := range f.d.Plugins {
		if t.CanSupport(v) {
			return t
		}
	}
	return nil
}

// pluginDir is the directory of the volume's type, empty when it keeps none.
func (f *Manager) pluginDir(v *v1.Volume) string {
	if t := f.pluginFor(v); t != nil {
		return t.Dir()
	}
	return ""
}

func (f *Manager) dir(pod *v1.Pod, plugin, name string) string {
	return filepath.Join(f.podDir(pod.UID), volumesDir, plugin, name)
}

// onDisk lists the volume directories below the Pod's.
func (f *Manager) onDisk(pod *v1.Pod) ([]volume.DirOnDisk, error) {
	return listVolumeDirs(f.podDir(pod.UID))
}

func listVolumeDirs(podDir string) ([]volume.DirOnDisk, error) {
	var out []volume.DirOnDisk
	plugins, err := os.ReadDir(filepath.Join(podDir, volumesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, p := range plugins {
		volumes, err := os.ReadDir(filepath.Join(podDir, volumesDir, p.Name()))
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			out = append(out, volume.DirOnDisk{Plugin: p.Name(), Name: v.Name()})
		}
	}
	return out, nil
}

func (f *Manager) put(p *v1.Pod, fact journal.Fact) { f.d.Journal.Put(pod.Ref(p), fact) }

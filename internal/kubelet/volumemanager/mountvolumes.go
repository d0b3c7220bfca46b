package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/fsgroup"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// MountVolumes makes the volumes that the Pod's containers mount ready and returns them by name.
// Those made ready by an earlier call are not looked at again. The error is a *reason.Refusal
// FailedMount that names what is missing, in upstream's words; volumes that can be made are made
// nevertheless.
func (f *Manager) MountVolumes(ctx context.Context, pod *v1.Pod) (map[string]Mounted, error) {
	return f.reconcile(ctx, pod, func(mountedVolume) bool { return false })
}

// RefreshVolumes brings volumes whose content follows API objects, the Pod or time up to date, each
// at once for its readers.
func (f *Manager) RefreshVolumes(ctx context.Context, pod *v1.Pod) error {
	_, err := f.reconcile(ctx, pod, func(m mountedVolume) bool {
		return m.requiresRemount || m.expands && !time.Now().Before(m.RefreshAt)
	})
	if err != nil {
		f.retryLater(ctx, pod)
	}
	return err
}

// retryLater has the Pod's volumes refreshed once more: one could not be brought up to date, or its
// driver has not registered again since the kubelet started.
func (f *Manager) retryLater(ctx context.Context, pod *v1.Pod) {
	s, uid := f.volumesOf(pod), pod.UID
	if s.lock(ctx) != nil {
		return // the Pod ends
	}
	defer s.unlock()
	if s.refreshTimer != nil {
		s.refreshTimer.Stop()
	}
	s.refreshTimer = time.AfterFunc(retryRefresh, func() { f.d.Changed(uid) })
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
	due func(mountedVolume) bool) (map[string]Mounted, error) {
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

// reconcileLocked takes the Pod's volumes down the left side of this drawing, UnmountVolumes and
// CleanupOrphans take them further. The left is one Pod's (podVolumes, <root>/pods/<uid>), the
// right the node's (actualState, <root>/plugins/kubernetes.io); CSI's words stand in brackets.
//
//	wanted by the Pod's spec
//	   | createVolumeSpec: claim -> PersistentVolume
//	   | FindPluginBySpec: the row that serves it
//	   v
//	vol_data.json is stored ---- mountDevice ----> a Pod more uses it; vol_data.json is stored
//	   |                                              | MountDevice [NodeStageVolume], unless done
//	   |                                              v
//	   | <----------------------------------------- staged at the global mount path, for all Pods
//	   | SetUp [NodePublishVolume], and mapDevice     |
//	   | of a raw volume                              |
//	   v                                              |
//	ready ---+ SetUp again when content changes       |
//	   | ^---+ (RequiresRemount)                      |
//	   |                                              |
//	   | unmapDevice, TearDown [NodeUnpublishVolume]  |
//	   v                                              v
//	vol_data.json is removed -- releaseDevice ---> a Pod less uses it
//	   |                                              | after the last: UnmountDevice
//	   v                                              |   [NodeUnstageVolume]
//	the Pod's directory is removed                    v
//	                                               its directory is removed
//
// A step that fails leaves the volume where it is: the Pod tries again, or CleanupOrphans does when
// there is no Pod. After a restart of the kubelet the files say where each volume is. A type that
// is no DeviceMountableVolumePlugin has the left side only; one without a directory of its own
// (hostPath, image) has nothing but SetUp.
func (f *Manager) reconcileLocked(ctx context.Context, pod *v1.Pod, s *podVolumes,
	due func(mountedVolume) bool) (map[string]Mounted, error) {
	have, err := f.volumesOnDisk(pod.UID)
	if err != nil {
		return nil, &reason.Refusal{Code: reason.FailedMount, By: "kubelet/volume", Detail: err.Error(),
			Fix: "look at the kubelet's directory on the node", Err: err}
	}
	var bad *reason.Refusal
	var unprocessed []failure
	var full []string // volumes that the node cannot have beside what is attached
	for _, step := range volume.Plan(pod, have, f.d.Plugins.MayBe) {
		var err error
		startedAt := time.Now()
		switch step.Verb {
		case volume.TearDown:
			delete(s.ready, step.Name)
			f.dropAttempt(s, step.Name)
			dir := f.dir(pod.UID, step.Dir.Plugin, step.Dir.Name)
			stored, _ := readVolumeData(f.metaDir(pod.UID, step.Dir.Plugin, step.Dir.Name)) // tearDown says why not
			hang := slowStep{"tear down of volume " + step.Name, dir, csiDriver(stored)}
			err = f.withHangReport(s.ref, hang, func() error {
				return f.tearDown(ctx, s.ref, pod.UID, step.Dir)
			})
		case volume.SetUp:
			if m, ready := s.ready[step.Name]; !ready || due(m) {
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
			if errors.As(err, &volume.AttachLimitExceeded{}) {
				full = append(full, step.Name)
			}
			bad = merge(bad, f.failureRefusal(pod, s, b))
		}
	}
	f.publish(s)
	f.scheduleRefresh(pod, s)
	f.rejectIfFull(pod, s, full)
	if bad = f.summarize(pod, s, bad, unprocessed); bad != nil {
		return nil, bad
	}
	return s.mounted(), nil
}

// setUp makes one volume of the Pod ready, or brings one that is ready up to date. Once it is known
// what is behind a claim, errors are a specError.
func (f *Manager) setUp(ctx context.Context, pod *v1.Pod, v *v1.Volume, s *podVolumes) error {
	spec, err := f.createVolumeSpec(ctx, pod, v)
	if err != nil {
		return err
	}
	row, err := f.d.Plugins.FindPluginBySpec(pod, spec)
	if err != nil {
		return err
	}
	args := f.mounterArgs(pod, spec, row)
	wantedAt, known := s.wanted[v.Name]
	if !known {
		wantedAt = time.Now()
		s.wanted[v.Name] = wantedAt
	}
	m := f.measure(row.Plugin, spec, wantedAt)
	args.Began = m.begin
	if !known && !waitsForAttach(row.Plugin, spec) {
		args.Begin(volume.OperationVerifyAttached)(nil)
	}
	if err := f.setUpSpec(ctx, args, row.Plugin, s); err != nil {
		f.recordMismatch(spec.PersistentVolume, err)
		return specError{spec.Name(), spec.Block(), err}
	}
	return nil
}

// waitsForAttach tells whether the volume's plugin looks whether it is attached, each time it is
// staged. Others have nothing to wait for: upstream notes that as verified, once.
func waitsForAttach(t volume.Plugin, s volume.Spec) bool {
	m, ok := t.(volume.DeviceMountableVolumePlugin)
	return ok && m.CanDeviceMount(s)
}

func (f *Manager) setUpSpec(ctx context.Context, args volume.MounterArgs, t volume.Plugin, s *podVolumes) (err error) {
	startedAt := time.Now()
	pod, spec, v := args.Pod, args.Spec, args.Spec.Volume
	var m volume.Mounted
	before, again := s.ready[v.Name]
	args.Data = before.data
	expander, expands := t.(volume.NodeExpandableVolumePlugin)
	if expands = expands && spec.PersistentVolume != nil; expands && again && !before.requiresRemount {
		before.RefreshAt, err = expander.NodeExpand(ctx, args, before.Mounted)
		if err != nil {
			return volume.PartError{Part: volume.ExpandInUse, Err: err}
		}
		s.ready[v.Name] = before
		return nil
	}
	operation := volume.OperationMount
	if spec.Block() {
		operation = volume.OperationMap
	}
	end := args.Begin(operation)
	defer func() { end(err) }()
	if !again {
		if err := f.prepare(ctx, t, &args); err != nil {
			return err
		}
	}
	args.Attempted = func(path string) { f.attempt(pod.UID, spec, args.Data, path) }
	block, blocks := t.(volume.BlockVolumePlugin)
	hang := slowStep{"set-up of volume " + v.Name, args.Dir, csiDriver(args.Data)}
	err = f.withHangReport(s.ref, hang, func() (err error) {
		if m, err = t.SetUp(ctx, args); err == nil && blocks && spec.Block() {
			m.MapPath, err = f.mapDevice(block, pod.UID, spec.Name(), m.Path)
		}
		return err
	})
	if err != nil {
		return err
	}
	m.Name, m.Type = v.Name, t.Name()
	if spec.PersistentVolume != nil {
		m.Type = typeOf(v)
	}
	if !again && m.MapPath != "" {
		f.recordMapped(pod, block, spec.Name())
	}
	if !again {
		f.put(pod, journal.VolumeReady{Volume: v.Name, Type: m.Type, Took: journal.Took(time.Since(startedAt))})
	}
	s.ready[v.Name] = mountedVolume{m, t.RequiresRemount(spec), expands, args.Data}
	delete(s.reported, v.Name)
	return nil
}

// typeOf is how a volume with a PersistentVolume is called: by its source, of claims by all alike.
func typeOf(v *v1.Volume) string {
	if pod.IsClaim(v) {
		return "persistentVolumeClaim"
	}
	return volume.Kind(v)
}

// createVolumeSpec is the volume with what is behind its claim.
func (f *Manager) createVolumeSpec(ctx context.Context, pod *v1.Pod, v *v1.Volume) (volume.Spec, error) {
	if f.d.Specs == nil {
		return volume.Spec{Volume: v}, nil
	}
	return f.d.Specs.CreateVolumeSpec(ctx, pod, v)
}

// mounterArgs is what the row's plugin is told of the volume.
func (f *Manager) mounterArgs(pod *v1.Pod, spec volume.Spec, row volume.PluginRow) volume.MounterArgs {
	plugin, name := row.Plugin.Dir(), spec.Volume.Name
	if _, ok := row.Plugin.(volume.DeviceMountableVolumePlugin); ok {
		name = spec.Name() // as upstream has it
	}
	a := volume.MounterArgs{
		Pod: pod, Spec: spec, Dir: f.dir(pod.UID, plugin, name), Node: f.d.Node(pod),
		MetaDir: f.metaDir(pod.UID, plugin, name),
		Event: func(why, message string) {
			f.d.Recorder.Event(events.RefOf(pod, ""), v1.EventTypeWarning, why, message)
		},
		Record: func(kind, why, message string, c *v1.PersistentVolumeClaim) {
			f.d.Recorder.Event(events.RefOf(pod, ""), kind, why, message)
			if c != nil {
				f.d.Recorder.Event(c, kind, why, message)
			}
		},
	}
	if row.FSGroup {
		a.FSGroup = fsgroup.FSGroup(pod)
	}
	if row.MountOptions && spec.PersistentVolume != nil {
		a.MountOptions = volume.MountOptions(spec.PersistentVolume)
	}
	return a
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
		s = &podVolumes{ready: map[string]mountedVolume{}, reported: map[string]string{}, ref: pod.Ref(p),
			locked: make(chan struct{}, 1),
			wanted: map[string]time.Time{}}
		f.pods[p.UID] = s
	}
	return s
}

func (f *Manager) dir(uid types.UID, plugin, name string) string {
	return filepath.Join(f.podDir(uid), volumesDir, plugin, name)
}

// metaDir is where the type of a volume keeps what it has to know after a restart.
func (f *Manager) metaDir(uid types.UID, plugin, name string) string {
	return filepath.Join(f.podDir(uid), pluginsDir, plugin, name)
}

func (f *Manager) put(p *v1.Pod, fact journal.Fact) { f.d.Journal.Put(pod.Ref(p), fact) }

package furnish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// Ensure makes the volumes that the Pod's containers mount ready and returns them by name. Those made ready by an earlier call are not looked at again. The error is a
// *reason.Refusal FailedMount that names what is missing, in upstream's words; volumes that can be made are made nevertheless.
func (f *Furnisher) Ensure(ctx context.Context, pod *v1.Pod) (map[string]Mounted, error) {
	return f.bring(ctx, pod, func(t volume.Type, s *state, name string) bool {
		_, done := s.ready[name]
		return !done
	})
}

// Refresh brings volumes whose content follows API objects, the Pod or time up to date, each at once for its readers.
func (f *Furnisher) Refresh(ctx context.Context, pod *v1.Pod) error {
	_, err := f.bring(ctx, pod, func(t volume.Type, s *state, name string) bool {
		_, done := s.ready[name]
		return !done || t.Refreshes()
	})
	return err
}

func (f *Furnisher) bring(ctx context.Context, pod *v1.Pod, due func(volume.Type, *state, string) bool) (map[string]Mounted, error) {
	f.d.Objects.Hold(pod)
	s := f.state(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	have, err := f.onDisk(pod)
	if err != nil {
		return nil, &reason.Refusal{Code: reason.FailedMount, By: "kubelet/volume", Detail: err.Error(), Fix: "look at the kubelet's directory on the node", Err: err}
	}
	var failed []*reason.Refusal
	for _, step := range volume.Plan(pod, have, f.plugin) {
		var err error
		switch step.Verb {
		case volume.TearDown:
			delete(s.ready, step.Name)
			err = f.tearDown(ctx, f.dir(pod, step.Plugin, step.Name), step.Plugin)
		case volume.SetUp:
			if t := f.typeOf(step.Volume); t == nil || due(t, s, step.Name) {
				err = f.setUp(ctx, pod, step.Volume, s)
			}
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("volume %q: %w", step.Name, ctx.Err())
		}
		if err != nil {
			failed = append(failed, f.complain(pod, step, s, err))
		}
	}
	f.remind(pod, s)
	if len(failed) > 0 {
		return nil, merge(failed)
	}
	out := make(map[string]Mounted, len(s.ready))
	for name, m := range s.ready {
		out[name] = m
	}
	return out, nil
}

func (f *Furnisher) setUp(ctx context.Context, pod *v1.Pod, v *v1.Volume, s *state) error {
	t := f.typeOf(v)
	if t == nil {
		return fmt.Errorf("no volume type of this node serves it")
	}
	begun := time.Now()
	m, err := t.SetUp(ctx, volume.Ask{Pod: pod, Volume: v, Dir: f.dir(pod, t.Dir(), v.Name), Node: f.d.Node(pod)})
	if err != nil {
		return err
	}
	if _, before := s.ready[v.Name]; !before {
		f.put(pod, journal.VolumeReady{Volume: v.Name, Type: t.Name(), Took: journal.Took(time.Since(begun))})
	}
	s.ready[v.Name] = m
	delete(s.told, v.Name)
	return nil
}

// complain words a failure: an event each time, a fact when it says something new.
func (f *Furnisher) complain(pod *v1.Pod, step volume.Step, s *state, err error) *reason.Refusal {
	what, kind := "MountVolume.SetUp", "unknown"
	if step.Verb == volume.TearDown {
		what = "UnmountVolume.TearDown"
	} else if t := f.typeOf(step.Volume); t != nil {
		kind = t.Name()
	}
	text := fmt.Sprintf("%s failed for volume %q : %v", what, step.Name, err)
	f.d.Recorder.Event(events.RefOf(pod, ""), v1.EventTypeWarning, string(reason.FailedMount), text)
	if s.told[step.Name] != text {
		s.told[step.Name] = text
		f.put(pod, journal.VolumeWaiting{Volume: step.Name, Type: kind, Message: err.Error()})
	}
	return &reason.Refusal{Code: reason.FailedMount, By: "kubelet/volume", Detail: text, Fix: fix(step.Volume, err)}
}

func fix(v *v1.Volume, err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "non-existent"):
		return "add the key to the object, or correct the volume's items, or mark it optional"
	case strings.HasSuffix(text, "not found") && v != nil && v.HostPath == nil:
		return "create the object in the Pod's namespace, or mark the volume optional"
	case v != nil && v.HostPath != nil:
		return "create the path on the node, or correct path and type"
	}
	return ""
}

func merge(failed []*reason.Refusal) *reason.Refusal {
	first := *failed[0]
	for _, r := range failed[1:] {
		first.Detail += "; " + r.Detail
	}
	return &first
}

// remind sets the timer for the volume that grows old first.
func (f *Furnisher) remind(pod *v1.Pod, s *state) {
	if s.again != nil {
		s.again.Stop()
		s.again = nil
	}
	var at time.Time
	for _, m := range s.ready {
		if !m.Again.IsZero() && (at.IsZero() || m.Again.Before(at)) {
			at = m.Again
		}
	}
	if uid := pod.UID; !at.IsZero() {
		s.again = time.AfterFunc(time.Until(at), func() { f.d.Changed(uid) })
	}
}

func (f *Furnisher) state(pod *v1.Pod) *state {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.pods[pod.UID]
	if s == nil {
		s = &state{ready: map[string]volume.Mounted{}, told: map[string]string{}}
		f.pods[pod.UID] = s
	}
	return s
}

func (f *Furnisher) typeOf(v *v1.Volume) volume.Type {
	for _, t := range f.d.Types {
		if t.Owns(v) {
			return t
		}
	}
	return nil
}

// plugin is the directory of the volume's type, empty when it keeps none.
func (f *Furnisher) plugin(v *v1.Volume) string {
	if t := f.typeOf(v); t != nil {
		return t.Dir()
	}
	return ""
}

func (f *Furnisher) dir(pod *v1.Pod, plugin, name string) string {
	return filepath.Join(f.podDir(pod.UID), volumesDir, plugin, name)
}

// onDisk lists the volume directories below the Pod's.
func (f *Furnisher) onDisk(pod *v1.Pod) ([]volume.Have, error) { return list(f.podDir(pod.UID)) }

func list(podDir string) ([]volume.Have, error) {
	var out []volume.Have
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
			out = append(out, volume.Have{Plugin: p.Name(), Name: v.Name()})
		}
	}
	return out, nil
}

func (f *Furnisher) put(p *v1.Pod, fact journal.Fact) { f.d.Journal.Put(pod.Ref(p), fact) }

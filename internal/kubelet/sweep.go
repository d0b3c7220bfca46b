package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/intake"
	"github.com/gantry-project/gantry/internal/kubelet/intake/static"
	"github.com/gantry-project/gantry/internal/kubelet/observe"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podworker"
)

// sweep ends Pods that only the runtime has.
func (k *Kubelet) sweep(ctx context.Context) error {
	found, err := k.watcher.Found(ctx)
	if err != nil {
		return err
	}
	k.pool.Vanished(func(uid types.UID) bool {
		return slices.ContainsFunc(found, func(f observe.Found) bool { return f.UID == uid })
	})
	for _, f := range found {
		if k.pool.Known(f.UID) {
			continue
		}
		pod := orphan(f)
		klog.FromContext(ctx).Info("Ending a Pod that no source has", "pod", klog.KObj(pod), "podUID", pod.UID)
		k.o.Ports.Meter.Orphaned()
		k.pool.Tell(podworker.Wish{
			Pod: pod, Source: podworker.SourceRuntime, Gone: true,
			End: &podplan.End{Cause: "no source has it any more", Asked: time.Now(), Grace: podplan.Grace(pod)},
		})
	}
	return nil
}

const adoptEvery = 10 * time.Second

// adopt sees to it that the Pods which an earlier kubelet left keep their names: a source may have another Pod of such a name, which must not run beside it. false
// when ctx ended before the runtime answered.
func (k *Kubelet) adopt(ctx context.Context) bool {
	look := func() ([]observe.Found, error) {
		ctx, cancel := context.WithTimeout(ctx, adoptEvery) // all Pods wait for it: a call that hangs is made again sooner than others
		defer cancel()
		return k.watcher.Found(ctx)
	}
	for {
		found, err := look()
		if err == nil {
			k.keepNames(found)
			return true
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot see what the runtime has, trying again")
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return false
		}
	}
}

func (k *Kubelet) keepNames(found []observe.Found) {
	for _, f := range found {
		source := f.Annotations[static.SourceNote]
		if source == "" {
			source = intake.API
		}
		k.pool.Left(orphan(f), source)
	}
	logs, _ := os.ReadDir(k.o.LogDir) // made before the sandbox is; none: nobody was here before
	for _, e := range logs {
		if f, ok := ofLogDir(e); ok {
			k.pool.MayCome(orphan(f))
		}
	}
}

// ofLogDir reads whose logs a directory has.
func ofLogDir(e os.DirEntry) (f observe.Found, ok bool) {
	parts := strings.Split(e.Name(), "_") // namespace_name_uid
	if len(parts) != 3 || !e.IsDir() {
		return f, false
	}
	return observe.Found{UID: types.UID(parts[2]), Namespace: parts[0], Name: parts[1]}, true
}

// tidy removes volumes, cgroups and logs that no Pod owns.
func (k *Kubelet) tidy(ctx context.Context) error {
	_, errVolumes := k.volumes.Orphans(ctx, k.pool.Known)
	return errors.Join(errVolumes, k.sweepCgroups(), k.sweepLogs())
}

func (k *Kubelet) sweepCgroups() error {
	var errs []error
	for _, parent := range k.o.Resources.Tree() {
		names, err := k.o.Ports.Cgroups.List(parent)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, name := range names {
			if uid, ours := k.o.Resources.UIDOf(name); ours && !k.pool.Known(uid) {
				errs = append(errs, k.o.Ports.Cgroups.Remove(filepath.Join(parent, filepath.Base(name))))
			}
		}
	}
	return errors.Join(errs...)
}

func (k *Kubelet) sweepLogs() error {
	entries, err := os.ReadDir(k.o.LogDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range entries {
		if f, ok := ofLogDir(e); ok && !k.pool.Known(f.UID) {
			errs = append(errs, os.RemoveAll(filepath.Join(k.o.LogDir, e.Name())))
		}
	}
	return errors.Join(append(errs, err)...)
}

// remembered is a container as far as its end needs it: its preStop hook, and the ports that the hook may name. Notes that cannot be read are left out.
func remembered(f observe.FoundContainer) v1.Container {
	c := v1.Container{Name: f.Name}
	hook := v1.LifecycleHandler{}
	if err := json.Unmarshal([]byte(f.Annotations[podplan.PreStopNote]), &hook); err == nil {
		c.Lifecycle = &v1.Lifecycle{PreStop: &hook}
	}
	_ = json.Unmarshal([]byte(f.Annotations[podplan.PortsNote]), &c.Ports)
	return c
}

// orphan rebuilds, from what the kubelet wrote into the runtime, as much of a Pod as ending it needs.
func orphan(f observe.Found) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.Name, UID: f.UID}}
	seen := map[string]bool{}
	for _, c := range f.Containers {
		if seen[c.Name] {
			continue
		}
		seen[c.Name] = true
		pod.Spec.Containers = append(pod.Spec.Containers, remembered(c))
		if n, err := strconv.ParseInt(c.Annotations[podplan.PodGraceNote], 10, 64); err == nil {
			pod.Spec.TerminationGracePeriodSeconds = &n
		}
	}
	return pod
}

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

	"github.com/gantry-project/gantry/internal/kubelet/pleg"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podsource"
	"github.com/gantry-project/gantry/internal/kubelet/podworker"
	podspec "github.com/gantry-project/gantry/internal/pod"
)

// terminateOrphanedPods ends Pods that only the runtime has.
func (k *Kubelet) terminateOrphanedPods(ctx context.Context) error {
	found, err := k.pleg.ListPods(ctx)
	if err != nil {
		return err
	}
	k.podWorkers.ReleaseVanishedNames(func(uid types.UID) bool {
		return slices.ContainsFunc(found, func(f pleg.RuntimePod) bool { return f.UID == uid })
	})
	for _, f := range found {
		if k.podWorkers.IsKnown(f.UID) {
			continue
		}
		pod := orphanPod(f)
		klog.FromContext(ctx).Info("Ending a Pod that no source has", "pod", klog.KObj(pod), "podUID", pod.UID)
		k.opts.Dependencies.Metrics.Orphaned()
		k.podWorkers.UpdatePod(podworker.UpdatePodOptions{
			Pod: pod, Source: podworker.SourceRuntime, Gone: true,
			Termination: &podplan.Termination{Cause: "no source has it any more", RequestedAt: time.Now(),
				Grace: podspec.GracePeriod(&pod.Spec)},
		})
	}
	k.orphansKnown.Store(true)
	return nil
}

const adoptInterval = 10 * time.Second

// adoptPods sees to it that the Pods which an earlier kubelet left keep their names: a source may
// have another Pod of such a name, which must not run beside it. false when ctx ended before the
// runtime answered.
func (k *Kubelet) adoptPods(ctx context.Context) bool {
	look := func() ([]pleg.RuntimePod, error) {
		// all Pods wait for it: a call that hangs is made again sooner than others
		ctx, cancel := context.WithTimeout(ctx, adoptInterval)
		defer cancel()
		return k.pleg.ListPods(ctx)
	}
	for {
		found, err := look()
		if err == nil {
			k.reserveNames(found)
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

func (k *Kubelet) reserveNames(found []pleg.RuntimePod) {
	for _, f := range found {
		source := f.Annotations[podspec.SourceAnnotation]
		if source == "" {
			source = podsource.API
		}
		k.podWorkers.ReserveName(orphanPod(f), source)
	}
	logs, _ := os.ReadDir(k.opts.LogDir) // made before the sandbox is; none: nobody was here before
	for _, e := range logs {
		if f, ok := podOfLogDir(e); ok {
			k.podWorkers.ReserveNameForUncertainSandbox(orphanPod(f))
		}
	}
}

// podOfLogDir reads whose logs a directory has.
func podOfLogDir(e os.DirEntry) (f pleg.RuntimePod, ok bool) {
	parts := strings.Split(e.Name(), "_") // namespace_name_uid
	if len(parts) != 3 || !e.IsDir() {
		return f, false
	}
	return pleg.RuntimePod{UID: types.UID(parts[2]), Namespace: parts[0], Name: parts[1]}, true
}

// cleanupOrphanedResources removes volumes, cgroups and logs that no Pod owns.
func (k *Kubelet) cleanupOrphanedResources(ctx context.Context) error {
	_, errVolumes := k.volumeManager.CleanupOrphans(ctx,
		func(uid types.UID) bool { return !k.podWorkers.ShouldPodContentBeRemoved(uid) })
	return errors.Join(errVolumes, k.cleanupOrphanedPodCgroups(), k.cleanupOrphanedPodLogs())
}

func (k *Kubelet) cleanupOrphanedPodCgroups() error {
	var errs []error
	for _, parent := range k.opts.Resources.Tree() {
		names, err := k.opts.Dependencies.Cgroups.List(parent)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, name := range names {
			if uid, ownedByPod := k.opts.Resources.UIDOf(name); ownedByPod && k.podWorkers.ShouldPodContentBeRemoved(
				uid) {
				errs = append(errs, k.opts.Dependencies.Cgroups.Remove(filepath.Join(parent, filepath.Base(name))))
			}
		}
	}
	return errors.Join(errs...)
}

// leftLogsError is that logs of containers cannot be removed.
type leftLogsError struct{ error }

func (k *Kubelet) cleanupOrphanedPodLogs() error {
	entries, err := os.ReadDir(k.opts.LogDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range entries {
		if f, ok := podOfLogDir(e); ok && k.podWorkers.ShouldPodContentBeRemoved(f.UID) {
			errs = append(errs, os.RemoveAll(filepath.Join(k.opts.LogDir, e.Name())))
		}
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return leftLogsError{err}
	}
	return nil
}

// orphanContainer is a container as far as its end needs it: its preStop hook, and the ports that
// the hook may name. Notes that cannot be read are left out.
func orphanContainer(f pleg.RuntimePodContainer) v1.Container {
	c := v1.Container{Name: f.Name}
	hook := v1.LifecycleHandler{}
	if err := json.Unmarshal([]byte(f.Annotations[podplan.PreStopAnnotation]), &hook); err == nil {
		c.Lifecycle = &v1.Lifecycle{PreStop: &hook}
	}
	_ = json.Unmarshal([]byte(f.Annotations[podplan.PortsAnnotation]), &c.Ports)
	return c
}

// orphanPod rebuilds, from what the kubelet wrote into the runtime, as much of a Pod as ending it
// needs.
func orphanPod(f pleg.RuntimePod) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.Name, UID: f.UID}}
	seen := map[string]bool{}
	for _, c := range f.Containers {
		if seen[c.Name] {
			continue
		}
		seen[c.Name] = true
		pod.Spec.Containers = append(pod.Spec.Containers, orphanContainer(c))
		if n, err := strconv.ParseInt(c.Annotations[podplan.PodGraceAnnotation], 10, 64); err == nil {
			pod.Spec.TerminationGracePeriodSeconds = &n
		}
	}
	return pod
}

package kubelet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

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
	for _, f := range found {
		if k.pool.Known(f.UID) {
			continue
		}
		pod := orphan(f)
		klog.FromContext(ctx).Info("Ending a Pod that no source has", "pod", klog.KObj(pod), "podUID", pod.UID)
		k.pool.Tell(podworker.Wish{
			Pod: pod, Source: podworker.SourceRuntime, Gone: true,
			End: &podplan.End{Cause: "no source has it any more", Asked: time.Now(), Grace: podplan.Grace(pod)},
		})
	}
	return nil
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
		parts := strings.Split(e.Name(), "_") // namespace_name_uid
		if len(parts) == 3 && e.IsDir() && !k.pool.Known(types.UID(parts[2])) {
			errs = append(errs, os.RemoveAll(filepath.Join(k.o.LogDir, e.Name())))
		}
	}
	return errors.Join(append(errs, err)...)
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
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name})
		if n, err := strconv.ParseInt(c.Annotations[podplan.PodGraceNote], 10, 64); err == nil {
			pod.Spec.TerminationGracePeriodSeconds = &n
		}
	}
	return pod
}

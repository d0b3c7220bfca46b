package gather

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/explain/workload"
	"github.com/gantry-project/gantry/internal/node"
)

// demand says which lists of the whole cluster a question needs that are as long as the cluster is
// large.
type demand struct{ storage, devices bool }

// everything is the demand of a question that may be about any Pod.
var everything = demand{storage: true, devices: true}

// storageKinds are read when volumes are in question.
var storageKinds = []string{"PersistentVolume", "CSIDriver", "CSINode", "VolumeAttachment"}

// wants reports whether a kind is read for the question; kinds that are not as many as nodes or
// volumes are wanted always.
func (d demand) wants(kind string) bool {
	return (d.storage || !slices.Contains(storageKinds, kind)) && (d.devices || kind != "ResourceSlice")
}

// covers reports whether what was read for one question is enough for another.
func (d demand) covers(of demand) bool {
	return (d.storage || !of.storage) && (d.devices || !of.devices)
}

// demandOf is what a Pod's spec needs: lists of volumes when it has some that a driver mounts, of
// devices when it asks for some.
func demandOf(s *corev1.PodSpec) demand {
	var d demand
	for i := range s.Volumes {
		v := &s.Volumes[i].VolumeSource
		local := v.EmptyDir != nil || v.HostPath != nil || v.ConfigMap != nil || v.Secret != nil ||
			v.DownwardAPI != nil || v.Projected != nil || v.Image != nil
		d.storage = d.storage || !local
	}
	d.devices = len(s.ResourceClaims) > 0
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for name := range list {
				d.devices = d.devices || strings.Contains(string(name), "/") // a class may have that name
			}
		}
	}
	return d
}

// demandOfObject is what an object's Pods need; everything where they are not all of one template.
func demandOfObject(o runtime.Object) demand {
	switch o.(type) {
	case *appsv1.StatefulSet, *batchv1.CronJob: // claims of their own, Jobs of older templates
		return everything
	}
	if t := workload.Template(o); t != nil {
		return demandOf(&t.Spec)
	}
	return everything
}

// allReady reports whether no node says that it is not ready.
func allReady(nodes []*corev1.Node) bool {
	return !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return node.NotReadyCondition(n) != nil })
}

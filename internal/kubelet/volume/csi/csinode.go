package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/pod/csimigration"
)

// What the API says of a node's drivers beside its CSINode.
const (
	nodeIDAnnotation   = "csi.volume.kubernetes.io/nodeid"
	migratedAnnotation = "storage.alpha.kubernetes.io/migrated-plugins"
)

// NodeInfoManager keeps this node's CSINode, upstream's nodeinfomanager.
type NodeInfoManager struct {
	Client   kubernetes.Interface
	NodeName string

	mu sync.Mutex // one write at a time: they would only conflict
}

// Initialize makes the CSINode object, trying again until it is there or ctx ends. Drivers of an
// earlier kubelet stay in it: they register anew.
func (m *NodeInfoManager) Initialize(ctx context.Context) {
	for delay := 100 * time.Millisecond; ctx.Err() == nil; delay = min(2*delay, 10*time.Second) {
		err := m.update(ctx, func(*storagev1.CSINode) bool { return false })
		if err == nil {
			return
		}
		klog.FromContext(ctx).V(2).Info("CSINode is not yet initialized", "err", err)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
}

// InstallCSIDriver tells the API of a driver of this node.
func (m *NodeInfoManager) InstallCSIDriver(ctx context.Context, name string, info *csipb.NodeGetInfoResponse) error {
	err := m.updateNode(ctx, func(n *v1.Node) error {
		ids := nodeIDs(n)
		ids[name] = info.GetNodeId()
		if err := setNodeIDs(n, ids); err != nil {
			return err
		}
		return addTopology(n, name, info.GetAccessibleTopology().GetSegments())
	})
	if err != nil {
		return fmt.Errorf("error updating Node object with CSI driver node info: %w", err)
	}
	return m.UpdateCSIDriver(ctx, name, info)
}

// UpdateCSIDriver writes what the driver says into the CSINode.
func (m *NodeInfoManager) UpdateCSIDriver(ctx context.Context, name string, info *csipb.NodeGetInfoResponse) error {
	err := m.update(ctx, func(o *storagev1.CSINode) bool { return setDriver(o, csiNodeDriver(name, info)) })
	if err != nil {
		return fmt.Errorf("error updating CSINode object with CSI driver node info: %w", err)
	}
	return nil
}

// UninstallCSIDriver takes the driver back; its topology labels stay, as upstream.
func (m *NodeInfoManager) UninstallCSIDriver(ctx context.Context, name string) error {
	err := m.update(ctx, func(o *storagev1.CSINode) bool {
		was := len(o.Spec.Drivers)
		o.Spec.Drivers = slices.DeleteFunc(o.Spec.Drivers,
			func(d storagev1.CSINodeDriver) bool { return d.Name == name })
		return len(o.Spec.Drivers) != was
	})
	if err != nil {
		return fmt.Errorf("error uninstalling CSI driver from CSINode object %w", err)
	}
	return m.updateNode(ctx, func(n *v1.Node) error {
		ids := nodeIDs(n)
		delete(ids, name)
		return setNodeIDs(n, ids)
	})
}

// UpdateStorageHealth writes what a driver says of its storage into the CSINode's status, unless it
// says the same as there: messages alone make no difference, as upstream.
func (m *NodeInfoManager) UpdateStorageHealth(ctx context.Context, name string,
	conditions []storagev1.StorageHealthCondition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	api := m.Client.StorageV1().CSINodes()
	return retry.OnError(retry.DefaultRetry, conflicts, func() error {
		o, err := api.Get(ctx, m.NodeName, metav1.GetOptions{})
		if err != nil || !setStorageHealth(o, name, conditions) {
			return err
		}
		_, err = api.UpdateStatus(ctx, o, metav1.UpdateOptions{})
		return err
	})
}

// setStorageHealth puts a driver's conditions in; false when it has the same.
func setStorageHealth(o *storagev1.CSINode, name string, conditions []storagev1.StorageHealthCondition) bool {
	var rest []storagev1.StorageHealth
	var old []storagev1.StorageHealthCondition
	for _, h := range o.Status.StorageHealth {
		if h.Name == name {
			old = h.HealthConditions
		} else {
			rest = append(rest, h)
		}
	}
	if maps.Equal(identities(old), identities(conditions)) {
		return false
	}
	if len(conditions) > 0 {
		rest = append(rest, storagev1.StorageHealth{Name: name, HealthConditions: conditions})
	}
	o.Status.StorageHealth = rest
	return true
}

// identities tell conditions apart: status, reason, and what they are about.
func identities(list []storagev1.StorageHealthCondition) map[[4]string]bool {
	out := map[[4]string]bool{}
	for _, c := range list {
		id := [4]string{string(c.Status), c.Reason}
		if c.AccessMode != nil {
			id[2] = string(*c.AccessMode)
		}
		if c.VolumeMode != nil {
			id[3] = string(*c.VolumeMode)
		}
		out[id] = true
	}
	return out
}

func csiNodeDriver(name string, info *csipb.NodeGetInfoResponse) storagev1.CSINodeDriver {
	d := storagev1.CSINodeDriver{Name: name, NodeID: info.GetNodeId(),
		TopologyKeys: slices.Sorted(maps.Keys(info.GetAccessibleTopology().GetSegments()))}
	if n := info.GetMaxVolumesPerNode(); n > 0 {
		count := int32(min(n, int64(1<<31-1)))
		d.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
	}
	return d
}

// setDriver puts the driver in; false when it is there and the same.
func setDriver(o *storagev1.CSINode, d storagev1.CSINodeDriver) bool {
	i := slices.IndexFunc(o.Spec.Drivers, func(old storagev1.CSINodeDriver) bool { return old.Name == d.Name })
	if i < 0 {
		o.Spec.Drivers = append(o.Spec.Drivers, d)
		return true
	}
	old := o.Spec.Drivers[i]
	same := old.NodeID == d.NodeID && slices.Equal(old.TopologyKeys, d.TopologyKeys) &&
		allocatableCount(old) == allocatableCount(d)
	o.Spec.Drivers[i] = d
	return !same
}

// allocatableCount is -1 when there is no limit.
func allocatableCount(d storagev1.CSINodeDriver) int32 {
	if d.Allocatable == nil || d.Allocatable.Count == nil {
		return -1
	}
	return *d.Allocatable.Count
}

// update changes the CSINode, which is made when it is missing.
func (m *NodeInfoManager) update(ctx context.Context, change func(*storagev1.CSINode) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	api := m.Client.StorageV1().CSINodes()
	return retry.OnError(retry.DefaultRetry, conflicts, func() error {
		o, err := api.Get(ctx, m.NodeName, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		if missing {
			o, err = m.newCSINode(ctx)
		}
		if err != nil {
			return err
		}
		changed := change(o)
		if migrated := strings.Join(csimigration.Plugins(), ","); o.Annotations[migratedAnnotation] != migrated {
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, migratedAnnotation, migrated)
			changed = true
		}
		switch {
		case missing:
			_, err = api.Create(ctx, o, metav1.CreateOptions{})
		case changed:
			_, err = api.Update(ctx, o, metav1.UpdateOptions{})
		}
		return err
	})
}

func conflicts(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// newCSINode is a CSINode that goes with the node.
func (m *NodeInfoManager) newCSINode(ctx context.Context) (*storagev1.CSINode, error) {
	n, err := m.Client.CoreV1().Nodes().Get(ctx, m.NodeName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: m.NodeName,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{}}}, nil
}

// updateNode patches the labels and annotations that change makes.
func (m *NodeInfoManager) updateNode(ctx context.Context, change func(*v1.Node) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return retry.OnError(retry.DefaultRetry, conflicts, func() error {
		old, err := m.Client.CoreV1().Nodes().Get(ctx, m.NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n := old.DeepCopy()
		if err := change(n); err != nil {
			return err
		}
		if maps.Equal(old.Labels, n.Labels) && maps.Equal(old.Annotations, n.Annotations) {
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": old.ResourceVersion, "labels": changes(old.Labels, n.Labels),
			"annotations": changes(old.Annotations, n.Annotations)}})
		if err != nil {
			return err
		}
		_, err = m.Client.CoreV1().Nodes().Patch(ctx, m.NodeName, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// changes is the merge patch from one map to another.
func changes(old, now map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range now {
		if was, ok := old[k]; !ok || was != v {
			out[k] = v
		}
	}
	for k := range old {
		if _, ok := now[k]; !ok {
			out[k] = nil
		}
	}
	return out
}

func nodeIDs(n *v1.Node) map[string]string {
	ids := map[string]string{}
	if err := json.Unmarshal([]byte(n.Annotations[nodeIDAnnotation]), &ids); err != nil {
		return map[string]string{} // whoever wrote that: it is the kubelet's
	}
	return ids
}

func setNodeIDs(n *v1.Node, ids map[string]string) error {
	if len(ids) == 0 {
		delete(n.Annotations, nodeIDAnnotation)
		return nil
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, nodeIDAnnotation, string(text))
	return nil
}

// addTopology labels the node with where the driver says that it is.
func addTopology(n *v1.Node, driver string, segments map[string]string) error {
	for key, value := range segments {
		if old, ok := n.Labels[key]; ok && old != value {
			return fmt.Errorf("detected topology value collision: driver reported %q:%q but existing label is %q:%q "+
				"(driver %s)", key, value, key, old, driver)
		}
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[key] = value
	}
	return nil
}

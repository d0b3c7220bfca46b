package provisioner

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Of CSIStorageCapacities: where they are, and the labels that the external-provisioner uses too.
const (
	capacityNamespace = metav1.NamespaceSystem
	driverLabel       = "csi.storage.k8s.io/drivername"
	managedByLabel    = "csi.storage.k8s.io/managed-by"
	managedBy         = "gantry"
	capacityInterval  = time.Minute // others fill the disk too, and snapshots do
)

// capacities keeps the node's CSIStorageCapacities, one of each StorageClass of the driver, by
// which the scheduler leaves nodes out that have no room for a claim.
type capacities struct {
	o      Options
	driver csipb.ControllerClient
	wake   chan struct{}
}

func newCapacities(o Options, driver csipb.ControllerClient) *capacities {
	return &capacities{o: o, driver: driver, wake: make(chan struct{}, 1)}
}

// changed says that a volume was made, grew or went.
func (c *capacities) changed() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run reports until ctx ends, after each change and each minute; soon again when it fails.
func (c *capacities) run(ctx context.Context) {
	for delay := time.Second; ; {
		next := capacityInterval
		if err := c.report(ctx); err != nil && ctx.Err() == nil {
			next, delay = delay, min(2*delay, capacityInterval)
			klog.FromContext(ctx).V(2).Info("The node's storage capacity is not reported yet", "driver", c.o.Driver,
				"err", err)
		} else {
			delay = time.Second
		}
		select {
		case <-time.After(next):
		case <-c.wake:
		case <-ctx.Done():
			return
		}
	}
}

// report brings the objects to what the driver says now.
func (c *capacities) report(ctx context.Context) error {
	node, err := c.o.Client.CoreV1().Nodes().Get(ctx, c.o.NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	classes, err := c.o.Client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	all, err := c.o.Client.StorageV1().CSIStorageCapacities(capacityNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: driverLabel + "=" + c.o.Driver + "," + managedByLabel + "=" + managedBy})
	if err != nil {
		return err
	}
	var want []*storagev1.CSIStorageCapacity
	for i := range classes.Items {
		if class := &classes.Items[i]; class.Provisioner == c.o.Driver {
			free, err := c.ask(ctx, class)
			if err != nil {
				return err
			}
			want = append(want, c.object(node, class.Name, free))
		}
	}
	return c.write(ctx, decideCapacities(c.o, all.Items, want))
}

// ask is how many bytes volumes of a class can still get.
func (c *capacities) ask(ctx context.Context, class *storagev1.StorageClass) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	params := map[string]string{}
	for key, value := range class.Parameters {
		if driversOwn(key) {
			params[key] = value
		}
	}
	got, err := c.driver.GetCapacity(ctx, &csipb.GetCapacityRequest{Parameters: params,
		AccessibleTopology: &csipb.Topology{Segments: map[string]string{c.o.TopologyKey: c.o.NodeName}}})
	return got.GetAvailableCapacity(), err
}

// object is the node's capacity for a class. It goes with the Node.
func (c *capacities) object(node *v1.Node, class string, bytes int64) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: capacityNamespace,
			Name:   fmt.Sprintf("csisc-%x", sha256.Sum256([]byte(c.o.Driver+"/"+c.o.NodeName+"/"+class)))[:26],
			Labels: map[string]string{driverLabel: c.o.Driver, managedByLabel: managedBy},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name,
				UID: node.UID}}},
		NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{c.o.TopologyKey: c.o.NodeName}},
		StorageClassName: class, Capacity: resource.NewQuantity(bytes, resource.BinarySI)}
}

// capacityPlan is what is written of a node's capacities.
type capacityPlan struct {
	create, update, remove []*storagev1.CSIStorageCapacity
}

// decideCapacities compares what there is with what is wanted. Other nodes' stay.
func decideCapacities(o Options, all []storagev1.CSIStorageCapacity,
	want []*storagev1.CSIStorageCapacity) (p capacityPlan) {
	wanted := map[string]*storagev1.CSIStorageCapacity{}
	for _, w := range want {
		wanted[w.Name] = w
	}
	for i := range all {
		is := &all[i]
		if is.NodeTopology == nil || is.NodeTopology.MatchLabels[o.TopologyKey] != o.NodeName {
			continue
		}
		w := wanted[is.Name]
		delete(wanted, is.Name)
		switch {
		case w == nil:
			p.remove = append(p.remove, is)
		case is.Capacity == nil || worthTelling(is.Capacity.Value(), w.Capacity.Value()) ||
			len(is.OwnerReferences) != 1 || is.OwnerReferences[0].UID != w.OwnerReferences[0].UID:
			is = is.DeepCopy()
			is.Capacity, is.OwnerReferences = w.Capacity, w.OwnerReferences
			p.update = append(p.update, is)
		}
	}
	for _, w := range want {
		if wanted[w.Name] != nil {
			p.create = append(p.create, w)
		}
	}
	return p
}

// worthTelling tells whether the bytes changed by more than what logs and images move on any disk:
// a hundredth.
func worthTelling(before, now int64) bool {
	return max(before-now, now-before) > before/100
}

func (c *capacities) write(ctx context.Context, p capacityPlan) error {
	api := c.o.Client.StorageV1().CSIStorageCapacities(capacityNamespace)
	var failed []error
	for _, one := range p.create {
		if _, err := api.Create(ctx, one, metav1.CreateOptions{}); err != nil {
			failed = append(failed, err)
		}
	}
	for _, one := range p.update {
		if _, err := api.Update(ctx, one, metav1.UpdateOptions{}); err != nil {
			failed = append(failed, err)
		}
	}
	for _, one := range p.remove {
		if err := api.Delete(ctx, one.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

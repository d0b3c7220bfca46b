package schedulers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	wants              = "example.com/claims" // annotation: what a Pod's own claims ask for, as class=size by commas
	counted            = "counted"            // a StorageClass whose driver reports its capacity
	anywhere           = "anywhere"           // one whose driver does not
	driver             = "csi.example.com"
	volumeClusterLabel = "example.com/shelf" // label of what belongs to one cluster
)

// volumeRequest are claims of a Pod's own, which are bound while it is scheduled.
func (d objectGenerator) volumeRequest() string {
	var all []string
	for range 1 + d.IntN(3) {
		all = append(all, pick(d, waiting, waiting, counted, counted, anywhere)+"="+d.size())
	}
	return strings.Join(all, ",")
}

func (d objectGenerator) size() string { return pick(d, "1Gi", "1500Mi", "2Gi", "3Gi", "7Gi") }

// freeVolumes are free volumes on nodes, and how much room there is for more.
func (d objectGenerator) freeVolumes(nodes int) (vols []*v1.PersistentVolume, rooms []*storagev1.CSIStorageCapacity) {
	for i := range d.IntN(3 * nodes) {
		v := localVolume(fmt.Sprintf("disk-%d", i), pick(d, d.size(), "10Gi", "40Gi"), waiting,
			v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn,
				Values: []string{fmt.Sprintf("n%d", d.IntN(nodes))}})
		v.Labels, v.Status.Phase = singleLabel(volumeClusterLabel, "yes"), v1.VolumeAvailable
		vols = append(vols, v)
	}
	for i := range nodes {
		if d.oneIn(5) {
			continue
		}
		c := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("room-%d", i),
			Namespace: namespaces[0], Labels: singleLabel(volumeClusterLabel, "yes")}, StorageClassName: counted,
			NodeTopology: &metav1.LabelSelector{MatchLabels: singleLabel(v1.LabelHostname, fmt.Sprintf("n%d", i))},
			Capacity:     new(resource.MustParse(pick(d, d.size(), "10Gi", "20Gi", "100Gi")))}
		if d.oneIn(4) {
			c.MaximumVolumeSize = new(resource.MustParse(d.size()))
		}
		rooms = append(rooms, c)
	}
	return vols, rooms
}

// drive makes the classes, and the driver that counts.
func (b *comparison) drive(ctx context.Context) error {
	yes, no, mode := true, false, storagev1.VolumeBindingWaitForFirstConsumer
	_, err := b.client.StorageV1().CSIDrivers().Create(ctx,
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver},
			Spec: storagev1.CSIDriverSpec{StorageCapacity: &yes, AttachRequired: &no}}, metav1.CreateOptions{})
	failed := []error{err}
	for name, by := range map[string]string{counted: driver, anywhere: "other.example.com"} {
		_, err := b.client.StorageV1().StorageClasses().Create(ctx,
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: by,
				VolumeBindingMode: &mode}, metav1.CreateOptions{})
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (b *comparison) stock(ctx context.Context, d objectGenerator, nodes int) error {
	vols, rooms := d.freeVolumes(nodes)
	for _, v := range vols {
		if err := b.place(ctx, v); err != nil {
			return err
		}
	}
	for _, c := range rooms {
		if _, err := b.client.StorageV1().CSIStorageCapacities(c.Namespace).Create(ctx, c,
			metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// place makes a volume with its status.
func (b *comparison) place(ctx context.Context, v *v1.PersistentVolume) error {
	was := v.Status
	made, err := b.client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status = was
	_, err = b.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

func (b *comparison) unstock(ctx context.Context) error {
	list, err := b.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{LabelSelector: volumeClusterLabel})
	if err != nil {
		return err
	}
	for _, v := range list.Items {
		err = errors.Join(err, b.discard(ctx, v.Name))
	}
	return errors.Join(err, b.client.StorageV1().CSIStorageCapacities(namespaces[0]).DeleteCollection(ctx,
		metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: volumeClusterLabel}))
}

// unguarded takes the finalizers off, as controllers would that do not run here.
var unguarded = []byte(`{"metadata":{"finalizers":null}}`)

func (b *comparison) discard(ctx context.Context, volume string) error {
	_, err := b.client.CoreV1().PersistentVolumes().Patch(ctx, volume, types.MergePatchType, unguarded,
		metav1.PatchOptions{})
	return errors.Join(err, b.client.CoreV1().PersistentVolumes().Delete(ctx, volume, metav1.DeleteOptions{}))
}

// claim makes the claims that a Pod wants for itself.
func (b *comparison) claim(ctx context.Context, p *v1.Pod) (names []string, err error) {
	if p.Annotations[wants] == "" {
		return nil, nil
	}
	for i, one := range strings.Split(p.Annotations[wants], ",") {
		class, size, _ := strings.Cut(one, "=")
		c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", p.Name, i),
			Namespace: p.Namespace}, Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class,
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}}}}
		if _, err := b.client.CoreV1().PersistentVolumeClaims(p.Namespace).Create(ctx, c,
			metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		names = append(names, c.Name)
		p.Spec.Volumes = append(p.Spec.Volumes,
			v1.Volume{Name: fmt.Sprintf("own-%d", i),
				VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
					ClaimName: c.Name}}})
	}
	return names, nil
}

// control binds claims to the volumes that a scheduler gave them, or to volumes made for the node
// it chose, as controllers do that do not run here.
func (b *comparison) control(ctx context.Context, ns string, claims []string) error {
	if len(claims) == 0 {
		return nil
	}
	given, err := b.volumesByClaim(ctx)
	if err != nil {
		return err
	}
	for _, name := range claims {
		c, err := b.client.CoreV1().PersistentVolumeClaims(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c.Spec.VolumeName != "" {
			continue
		}
		v := given[ns+"/"+name]
		if node := c.Annotations["volume.kubernetes.io/selected-node"]; v == nil && node != "" {
			v = localVolume("made-"+name, c.Spec.Resources.Requests.Storage().String(), *c.Spec.StorageClassName,
				v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn,
					Values: []string{node}})
			v.Labels, v.Status.Phase = singleLabel(volumeClusterLabel, "yes"), v1.VolumeBound
			v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: ns, Name: name, UID: c.UID}
			if err := b.place(ctx, v); err != nil {
				return err
			}
		}
		if v == nil {
			continue
		}
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations["pv.kubernetes.io/bind-completed"], c.Spec.VolumeName = "yes", v.Name
		if c, err = b.client.CoreV1().PersistentVolumeClaims(ns).Update(ctx, c, metav1.UpdateOptions{}); err != nil {
			return err
		}
		c.Status.Phase = v1.ClaimBound
		if _, err = b.client.CoreV1().PersistentVolumeClaims(ns).UpdateStatus(ctx, c, metav1.UpdateOptions{}); err !=
			nil {
			return err
		}
	}
	return nil
}

// volumesByClaim are the volumes by the claim they were given to.
func (b *comparison) volumesByClaim(ctx context.Context) (map[string]*v1.PersistentVolume, error) {
	list, err := b.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]*v1.PersistentVolume{}
	for i := range list.Items {
		if r := list.Items[i].Spec.ClaimRef; r != nil {
			out[r.Namespace+"/"+r.Name] = &list.Items[i]
		}
	}
	return out, nil
}

// release removes a Pod's own claims and says how large the volumes were that they had (of equal
// ones it is anybody's guess); these are free again, and what was made for them is gone.
func (b *comparison) release(ctx context.Context, ns string, claims []string) (had []string, err error) {
	if len(claims) == 0 {
		return nil, nil
	}
	given, err := b.volumesByClaim(ctx)
	for i, name := range claims {
		_, patched := b.client.CoreV1().PersistentVolumeClaims(ns).Patch(ctx, name, types.MergePatchType, unguarded,
			metav1.PatchOptions{})
		deleted := b.client.CoreV1().PersistentVolumeClaims(ns).Delete(ctx, name, metav1.DeleteOptions{})
		if err = errors.Join(err, patched, deleted); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		v := given[ns+"/"+name]
		if v == nil {
			continue
		}
		if err := b.discard(ctx, v.Name); err != nil {
			return nil, err
		}
		if strings.HasPrefix(v.Name, "made-") {
			had = append(had, fmt.Sprintf("%d made", i))
			continue
		}
		had = append(had, fmt.Sprintf("%d of %s", i, v.Spec.Capacity.Storage()))
		v.ObjectMeta, v.Spec.ClaimRef, v.Status.Phase = metav1.ObjectMeta{Name: v.Name, Labels: v.Labels}, nil,
			v1.VolumeAvailable
		if err := b.place(ctx, v); err != nil {
			return nil, err
		}
	}
	return had, nil
}

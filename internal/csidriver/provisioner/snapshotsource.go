package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

const snapshotGroup = "snapshot.storage.k8s.io"

// volumeSnapshot is what is read of a VolumeSnapshot.
type volumeSnapshot struct {
	Metadata struct {
		UID               string  `json:"uid"`
		DeletionTimestamp *string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Status struct {
		Content     string             `json:"boundVolumeSnapshotContentName"`
		ReadyToUse  bool               `json:"readyToUse"`
		RestoreSize *resource.Quantity `json:"restoreSize"`
	} `json:"status"`
}

// volumeSnapshotContent is what is read of a VolumeSnapshotContent.
type volumeSnapshotContent struct {
	Spec struct {
		Driver      string `json:"driver"`
		SnapshotRef struct {
			UID string `json:"uid"`
		} `json:"volumeSnapshotRef"`
		SourceMode *v1.PersistentVolumeMode `json:"sourceVolumeMode"`
	} `json:"spec"`
	Status struct {
		Handle string `json:"snapshotHandle"`
	} `json:"status"`
}

// addSnapshot has the volume made from a VolumeSnapshot.
func (p *Provisioner) addSnapshot(ctx context.Context, c *v1.PersistentVolumeClaim, from types.NamespacedName,
	r *csipb.CreateVolumeRequest) error {
	var s volumeSnapshot
	if err := p.read(ctx, &s, "namespaces", from.Namespace, "volumesnapshots", from.Name); err != nil {
		return fmt.Errorf("snapshot %s: %w", from, err)
	}
	var content volumeSnapshotContent
	if s.Status.Content != "" {
		if err := p.read(ctx, &content, "volumesnapshotcontents", s.Status.Content); err != nil {
			return fmt.Errorf("content of snapshot %s: %w", from, err)
		}
	}
	source, err := p.snapshotSource(c, &s, &content)
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", from, err)
	}
	r.VolumeContentSource = source
	return nil
}

// snapshotSource decides whether a snapshot can be restored into a claim.
func (p *Provisioner) snapshotSource(c *v1.PersistentVolumeClaim, s *volumeSnapshot,
	content *volumeSnapshotContent) (*csipb.VolumeContentSource, error) {
	size := c.Spec.Resources.Requests[v1.ResourceStorage]
	mode := content.Spec.SourceMode
	switch {
	case s.Metadata.DeletionTimestamp != nil:
		return nil, errors.New("it is being deleted")
	case !s.Status.ReadyToUse, s.Status.Content == "", content.Status.Handle == "":
		return nil, errors.New("it is not ready to use")
	case content.Spec.SnapshotRef.UID != s.Metadata.UID:
		return nil, fmt.Errorf("its content %s is bound to another snapshot", s.Status.Content)
	case content.Spec.Driver != p.o.Driver:
		return nil, fmt.Errorf("it is of driver %s, the claim's class of %s", content.Spec.Driver, p.o.Driver)
	case s.Status.RestoreSize != nil && s.Status.RestoreSize.Cmp(size) > 0:
		return nil, fmt.Errorf("it has %s, the claim asks for %s", s.Status.RestoreSize, &size)
	case mode != nil && (*mode == v1.PersistentVolumeBlock) != block(c):
		return nil, fmt.Errorf("its volume mode is %s, the claim's another", *mode)
	}
	return &csipb.VolumeContentSource{Type: &csipb.VolumeContentSource_Snapshot{
		Snapshot: &csipb.VolumeContentSource_SnapshotSource{SnapshotId: content.Status.Handle}}}, nil
}

// read reads an object of the snapshot API, whose kinds are custom resources.
func (p *Provisioner) read(ctx context.Context, into any, path ...string) error {
	raw, err := p.o.Client.Discovery().RESTClient().Get().
		AbsPath(append([]string{"/apis", snapshotGroup, "v1"}, path...)...).Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// managedBySnapshotterLabel names the node whose csi-snapshotter serves a VolumeSnapshotContent,
// where the external-snapshotter runs on every node. Its controller sets it for those that it makes
// itself; for those that an administrator makes of a snapshot that is there, the node that has it
// does.
const managedBySnapshotterLabel = "snapshot.storage.kubernetes.io/managed-by"

const (
	labelRetry = 5 * time.Second
	kindsRetry = time.Minute // the kinds of snapshots are custom resources, and may be made later
)

// snapshotContent is what is read of a VolumeSnapshotContent that somebody else made.
type snapshotContent struct {
	Metadata struct {
		Name              string            `json:"name"`
		ResourceVersion   string            `json:"resourceVersion"`
		DeletionTimestamp *string           `json:"deletionTimestamp"`
		Labels            map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Driver string `json:"driver"`
		Source struct {
			Handle string `json:"snapshotHandle"`
		} `json:"source"`
	} `json:"spec"`
}

// unclaimed tells whether the content is of a snapshot that is there already, of the driver, and no
// node's yet.
func (c *snapshotContent) unclaimed(driver string) bool {
	return c.Spec.Driver == driver && c.Spec.Source.Handle != "" && c.Metadata.DeletionTimestamp == nil &&
		c.Metadata.Labels[managedBySnapshotterLabel] == ""
}

// labelSnapshots labels the contents whose snapshot is on this node, until ctx ends.
func (p *Provisioner) labelSnapshots(ctx context.Context) {
	for ctx.Err() == nil {
		wait := labelRetry
		switch err := p.followContents(ctx); {
		case apierrors.IsNotFound(err):
			wait = kindsRetry
		case err != nil && ctx.Err() == nil:
			klog.FromContext(ctx).V(2).Info("VolumeSnapshotContents are not followed, trying again", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// followContents labels what there is, and then what comes, until the server ends the watch.
func (p *Provisioner) followContents(ctx context.Context) error {
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []snapshotContent `json:"items"`
	}
	if err := p.read(ctx, &list, contentsPath); err != nil {
		return err
	}
	for i := range list.Items {
		p.labelOrLog(ctx, &list.Items[i])
	}
	stream, err := p.o.Client.Discovery().RESTClient().Get().AbsPath("/apis", snapshotGroup, "v1", contentsPath).
		Param("watch", "true").Param("resourceVersion", list.Metadata.ResourceVersion).Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	for events := json.NewDecoder(stream); ; {
		var e struct {
			Type   string          `json:"type"`
			Object snapshotContent `json:"object"`
		}
		if err := events.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch e.Type {
		case "ADDED", "MODIFIED":
			p.labelOrLog(ctx, &e.Object)
		case "ERROR":
			return errors.New("the watch of VolumeSnapshotContents ended")
		}
	}
}

const contentsPath = "volumesnapshotcontents"

// labelOrLog labels a content; one that cannot be labelled keeps no other, and its next change or
// the next list tries again.
func (p *Provisioner) labelOrLog(ctx context.Context, c *snapshotContent) {
	if err := p.labelContent(ctx, c); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "A VolumeSnapshotContent of a snapshot on this node cannot be labelled",
			"content", c.Metadata.Name)
	}
}

// labelContent makes a content this node's if the snapshot that it names is here.
func (p *Provisioner) labelContent(ctx context.Context, c *snapshotContent) error {
	if !c.unclaimed(p.o.Driver) {
		return nil
	}
	found, err := p.driver.ListSnapshots(ctx, &csipb.ListSnapshotsRequest{SnapshotId: c.Spec.Source.Handle})
	if err != nil || len(found.GetEntries()) == 0 {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": c.Metadata.ResourceVersion,
		"labels":          map[string]string{managedBySnapshotterLabel: p.o.NodeName}}})
	if err != nil {
		return err
	}
	err = p.o.Client.Discovery().RESTClient().Patch(types.MergePatchType).
		AbsPath("/apis", snapshotGroup, "v1", contentsPath, c.Metadata.Name).Body(patch).Do(ctx).Error()
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the watch brings what it is now
	}
	return err
}

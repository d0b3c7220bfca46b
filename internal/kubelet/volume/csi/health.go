package csi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Bounds of what the API takes of a driver's report.
const (
	maxHealthConditions = 16
	maxHealthReason     = 256  // bytes
	maxHealthMessage    = 1024 // bytes
)

// VolumeHealth asks a driver about a volume, as far as it knows on this node; no condition is a
// volume that is well. says is false when the driver does not serve that. An answer that the API
// would refuse, with which the Pod's whole status could not be written, is an error.
func (d *Drivers) VolumeHealth(ctx context.Context, v volume.VolumeToHealthCheck) (out []v1.VolumeHealthCondition,
	says bool, err error) {
	x, err := d.find(v.Driver)
	if err != nil {
		return nil, false, err
	}
	if says, err = x.can(ctx, csipb.NodeServiceCapability_RPC_GET_VOLUME_HEALTH); err != nil || !says {
		return nil, false, err
	}
	got, err := x.node.NodeGetVolumeHealth(ctx, &csipb.NodeGetVolumeHealthRequest{VolumeId: v.Handle,
		StagingTargetPath: v.StagingPath, VolumePublishPath: v.PublishPath})
	if err != nil {
		return nil, true, err
	}
	out, err = VolumeConditions("NodeGetVolumeHealth", got.GetVolumeHealth().GetHealthStatuses())
	return out, true, err
}

// VolumeConditions are the conditions that a driver told of in the answer to a method; those of a
// kind that this version does not know are left out, as upstream does. A report that the API would
// refuse is an error.
func VolumeConditions(method string,
	entries []*csipb.VolumeHealth_VolumeHealthEntry) (out []v1.VolumeHealthCondition, err error) {
	kinds := map[csipb.VolumeHealthErrorType]v1.VolumeHealthStatusType{
		csipb.VolumeHealthErrorType_INACCESSIBLE: v1.VolumeHealthInaccessible,
		csipb.VolumeHealthErrorType_DATA_LOSS:    v1.VolumeHealthDataLoss,
		csipb.VolumeHealthErrorType_DEGRADED:     v1.VolumeHealthDegraded,
	}
	if err := checkReport(method, len(entries), func(i int) (string, string) {
		return entries[i].GetStatus().String(), entries[i].GetReason()
	}); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if kind, known := kinds[e.GetStatus()]; known {
			out = append(out, v1.VolumeHealthCondition{Status: kind, Reason: e.GetReason(),
				Message: shortened(e.GetMessage())})
		}
	}
	return out, nil
}

// StorageHealth asks a driver how its storage is, as far as it knows on this node.
func (d *Drivers) StorageHealth(ctx context.Context, name string) (out []storagev1.StorageHealthCondition, says bool,
	err error) {
	x, err := d.find(name)
	if err != nil {
		return nil, false, err
	}
	if says, err = x.can(ctx, csipb.NodeServiceCapability_RPC_GET_STORAGE_HEALTH); err != nil || !says {
		return nil, false, err
	}
	got, err := x.node.NodeGetStorageHealth(ctx, &csipb.NodeGetStorageHealthRequest{})
	if err != nil {
		return nil, true, err
	}
	out, err = storageConditions(got.GetBackendHealth())
	return out, true, err
}

func storageConditions(entries []*csipb.NodeGetStorageHealthResponse_StorageBackendHealth) (
	out []storagev1.StorageHealthCondition, err error) {
	kinds := map[csipb.StorageHealthErrorType]storagev1.StorageHealthStatusType{
		csipb.StorageHealthErrorType_STORAGE_UNREACHABLE: storagev1.StorageUnreachable,
		csipb.StorageHealthErrorType_STORAGE_DEGRADED:    storagev1.StorageDegraded,
	}
	if err := checkReport("NodeGetStorageHealth", len(entries), func(i int) (string, string) {
		return entries[i].GetStatus().String() + " " + entries[i].GetVolumeCapability().String(), entries[i].GetReason()
	}); err != nil {
		return nil, err
	}
	for i, e := range entries {
		kind, known := kinds[e.GetStatus()]
		if !known {
			continue
		}
		c := storagev1.StorageHealthCondition{Status: kind, Reason: e.GetReason(), Message: shortened(e.GetMessage())}
		if u := e.GetVolumeCapability(); u != nil {
			access, mode, err := modesOf(u)
			if err != nil {
				return nil, fmt.Errorf("NodeGetStorageHealth condition %d has invalid volume capability: %w", i, err)
			}
			c.AccessMode, c.VolumeMode = &access, &mode
		}
		out = append(out, c)
	}
	return out, nil
}

// checkReport refuses what the API would: too many conditions, one twice, a reason that is none.
func checkReport(method string, n int, at func(i int) (kind, why string)) error {
	if n > maxHealthConditions {
		return fmt.Errorf("%s returned %d conditions, maximum is %d", method, n, maxHealthConditions)
	}
	seen := map[[2]string]bool{}
	for i := range n {
		kind, why := at(i)
		switch bad := metav1validation.IsValidConditionReason(why); {
		case len(bad) > 0:
			return fmt.Errorf("%s returned the reason %q: %s", method, why, strings.Join(bad, ", "))
		case len(why) > maxHealthReason:
			return fmt.Errorf("%s returned a reason of %d bytes, maximum is %d", method, len(why), maxHealthReason)
		case seen[[2]string{kind, why}]:
			return fmt.Errorf("%s returned %s %s twice", method, kind, why)
		}
		seen[[2]string{kind, why}] = true
	}
	return nil
}

// shortened is a message that the API takes.
func shortened(text string) string {
	if len(text) <= maxHealthMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxHealthMessage-3], "") + "..."
}

// modesOf are access mode and volume mode of what a condition is about.
func modesOf(c *csipb.VolumeCapability) (v1.PersistentVolumeAccessMode, v1.PersistentVolumeMode, error) {
	mode := v1.PersistentVolumeFilesystem
	switch {
	case c.GetBlock() != nil:
		mode = v1.PersistentVolumeBlock
	case c.GetMount() == nil:
		return "", "", errors.New("access type is required")
	}
	if c.GetAccessMode() == nil {
		return "", "", errors.New("access mode is required")
	}
	switch m := c.GetAccessMode().GetMode(); m {
	case csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
		csipb.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
		csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		return v1.ReadWriteOnce, mode, nil
	case csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER:
		return v1.ReadWriteOncePod, mode, nil
	case csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:
		return v1.ReadOnlyMany, mode, nil
	case csipb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return v1.ReadWriteMany, mode, nil
	default:
		return "", "", fmt.Errorf("unsupported access mode %q", m)
	}
}

package csi_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi"
)

func entry(t csipb.VolumeHealthErrorType, why, text string) *csipb.VolumeHealth_VolumeHealthEntry {
	return &csipb.VolumeHealth_VolumeHealthEntry{Status: t, Reason: why, Message: text}
}

// A driver is asked about a volume that it was asked to publish, with the paths that it was told,
// and also about one that it refused; what it says is taken as upstream takes it, and nothing that
// would spoil the Pod's status.
func TestADriverSaysHowAVolumeIs(t *testing.T) {
	r := newRig(t, csipb.NodeServiceCapability_RPC_GET_VOLUME_HEALTH)
	if got := r.VolumesToReportHealth(); len(got) != 0 {
		t.Errorf("before anything was mounted %v can be asked about", got)
	}
	r.driver.Fail("NodeStageVolume", status.Error(codes.Internal, "no such disk"))
	pod := claiming("a")
	if _, err := r.MountVolumes(t.Context(), pod); err == nil {
		t.Fatal("got no error of a volume that cannot be staged")
	}
	want := volume.VolumeToHealthCheck{PodUID: pod.UID, Name: "data", Driver: "disk.example.com", Handle: handle}
	got := r.VolumesToReportHealth()
	if len(got) != 1 || !strings.HasSuffix(got[0].StagingPath, "/globalmount") {
		t.Fatalf("got %+v, want the volume that could not be staged", got)
	}
	want.Name, want.StagingPath = got[0].Name, got[0].StagingPath
	if got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
	r.driver.ClearFaults("NodeStageVolume")
	m := r.mount(pod)
	want.PublishPath = m.Path
	if got := r.VolumesToReportHealth(); !slices.Equal(got, []volume.VolumeToHealthCheck{want}) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	r.driver.SetVolumeHealth(handle, entry(csipb.VolumeHealthErrorType_INACCESSIBLE, "DiskGone", "no disk"),
		entry(csipb.VolumeHealthErrorType_DATA_LOSS, "DiskGone", ""),
		entry(csipb.VolumeHealthErrorType_DEGRADED, "Slow", strings.Repeat("x", 2000)),
		entry(csipb.VolumeHealthErrorType(77), "FromTheFuture", ""))
	conditions, says, err := r.drivers.VolumeHealth(t.Context(), want)
	wantConditions := []v1.VolumeHealthCondition{
		{Status: v1.VolumeHealthInaccessible, Reason: "DiskGone", Message: "no disk"},
		{Status: v1.VolumeHealthDataLoss, Reason: "DiskGone"},
		{Status: v1.VolumeHealthDegraded, Reason: "Slow", Message: strings.Repeat("x", 1021) + "..."}}
	if !says || err != nil || !cmp.Equal(conditions, wantConditions) {
		t.Errorf("says %t, %v: %s", says, err, cmp.Diff(wantConditions, conditions))
	}
	asked := r.driver.Request("NodeGetVolumeHealth").(*csipb.NodeGetVolumeHealthRequest)
	if asked.GetVolumeId() != handle || asked.GetVolumePublishPath() != m.Path ||
		asked.GetStagingTargetPath() != want.StagingPath {
		t.Errorf("the driver was asked about %v, want %+v", asked, want)
	}

	seventeen := slices.Repeat([]*csipb.VolumeHealth_VolumeHealthEntry{entry(1, "A", "")}, 17)
	for name, lie := range map[string][]*csipb.VolumeHealth_VolumeHealthEntry{
		"maximum is 16": seventeen, "twice": seventeen[:2], "the reason \"\"": {entry(1, "", "")},
		"the reason \"no reason\"": {entry(1, "no reason", "")},
		"maximum is 256":           {entry(1, strings.Repeat("A", 257), "")},
	} {
		r.driver.SetVolumeHealth(handle, lie...)
		got, _, err := r.drivers.VolumeHealth(t.Context(), want)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a driver that lies: got %v, %v, want %q", got, err, name)
		}
	}
	r.driver.SetVolumeHealth(handle)
	if got, says, err := r.drivers.VolumeHealth(t.Context(), want); len(got) > 0 || !says || err != nil {
		t.Errorf("a volume that is well again: got %v, %t, %v", got, says, err)
	}
	if err := r.UnmountVolumes(t.Context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	if got := r.VolumesToReportHealth(); len(got) != 0 {
		t.Errorf("after the Pod %v can be asked about", got)
	}
}

// A driver that does not say how volumes are is not asked, nor about inline volumes, as upstream.
func TestDriversThatDoNotSayAreNotAsked(t *testing.T) {
	r := newRig(t)
	m := r.mount(claiming("a"))
	_, says, err := r.drivers.VolumeHealth(t.Context(),
		volume.VolumeToHealthCheck{Driver: m.Driver.Name, Handle: handle})
	if says || err != nil || r.driver.Request("NodeGetVolumeHealth") != nil {
		t.Errorf("says %t, %v, and was asked %v", says, err, r.driver.Request("NodeGetVolumeHealth"))
	}
	if _, says, err := r.drivers.StorageHealth(t.Context(), m.Driver.Name); says || err != nil {
		t.Errorf("of its storage: says %t, %v", says, err)
	}
	if _, _, err := r.drivers.StorageHealth(t.Context(), "other.example.com"); err == nil {
		t.Error("a driver that is not registered gives no error")
	}
	if _, _, err := r.drivers.VolumeHealth(t.Context(), volume.VolumeToHealthCheck{Driver: "other"}); err == nil {
		t.Error("a driver that is not registered gives no error")
	}
}

// What a driver says of its storage is in the CSINode's status beside what others say, is not
// written again while only words change, and goes when it is well.
func TestStorageHealthIsInTheCSINode(t *testing.T) {
	r := newRig(t, csipb.NodeServiceCapability_RPC_GET_STORAGE_HEALTH)
	other := storagev1.StorageHealth{Name: "other.example.com",
		HealthConditions: []storagev1.StorageHealthCondition{{Status: storagev1.StorageDegraded, Reason: "Old"}}}
	client := fake.NewClientset(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Status: storagev1.CSINodeStatus{StorageHealth: []storagev1.StorageHealth{other}}})
	info := &csi.NodeInfoManager{Client: client, NodeName: "n"}
	backend := func(why, text string) *csipb.NodeGetStorageHealthResponse_StorageBackendHealth {
		return &csipb.NodeGetStorageHealthResponse_StorageBackendHealth{
			Status: csipb.StorageHealthErrorType_STORAGE_UNREACHABLE, Reason: why, Message: text}
	}
	raw := backend("NoRoute", "raw devices only")
	raw.Status = csipb.StorageHealthErrorType_STORAGE_DEGRADED
	raw.VolumeCapability = &csipb.VolumeCapability{AccessType: &csipb.VolumeCapability_Block{
		Block: &csipb.VolumeCapability_BlockVolume{}}, AccessMode: &csipb.VolumeCapability_AccessMode{
		Mode: csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER}}
	unknown := backend("FromTheFuture", "")
	unknown.Status = 99
	report := func(said ...*csipb.NodeGetStorageHealthResponse_StorageBackendHealth) []storagev1.StorageHealth {
		t.Helper()
		r.driver.SetStorageHealth(said...)
		conditions, says, err := r.drivers.StorageHealth(t.Context(), "disk.example.com")
		if err == nil && says {
			err = info.UpdateStorageHealth(t.Context(), "disk.example.com", conditions)
		}
		if err != nil || !says {
			t.Fatalf("says: got %t: %v, want no error and true", says, err)
		}
		n, err := client.StorageV1().CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n.Status.StorageHealth
	}
	conditions := []storagev1.StorageHealthCondition{
		{Status: storagev1.StorageUnreachable, Reason: "NoRoute", Message: "no way"},
		{Status: storagev1.StorageDegraded, Reason: "NoRoute", Message: "raw devices only",
			AccessMode: new(v1.ReadWriteMany), VolumeMode: new(v1.PersistentVolumeBlock)}}
	want := []storagev1.StorageHealth{other, {Name: "disk.example.com", HealthConditions: conditions}}
	if got := report(backend("NoRoute", "no way"), raw, unknown); !cmp.Equal(got, want) {
		t.Errorf("the CSINode: %s", cmp.Diff(want, got))
	}
	if got := report(backend("NoRoute", "other words"), raw); !cmp.Equal(got, want) {
		t.Errorf("after other words: %s", cmp.Diff(want, got))
	}
	if got := report(); !cmp.Equal(got, want[:1]) {
		t.Errorf("after it is well: %s", cmp.Diff(want[:1], got))
	}
	raw.VolumeCapability.AccessMode = nil
	r.driver.SetStorageHealth(raw)
	if _, _, err := r.drivers.StorageHealth(t.Context(), "disk.example.com"); err == nil ||
		!strings.Contains(err.Error(), "condition 0 has invalid volume capability: access mode is required") {
		t.Errorf("of a capability that is none: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := r.drivers.StorageHealth(gone, "disk.example.com"); err == nil {
		t.Error("a call that is given up has no error")
	}
}

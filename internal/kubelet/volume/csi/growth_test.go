package csi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// growing has the rig's claim, which has 1Gi, ask for 2Gi, which its volume has; how far that is
// its resizer said. what changes the claim.
func growing(t *testing.T, how v1.ClaimResourceStatus, what ...func(*v1.PersistentVolumeClaim)) *rig {
	r := newRig(t, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME)
	one, two := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
		v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
	c := &v1.PersistentVolumeClaim{Status: v1.PersistentVolumeClaimStatus{Capacity: one, AllocatedResources: two}}
	c.Spec.Resources.Requests = two
	if how != "" {
		c.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: how}
	}
	for _, f := range what {
		f(c)
	}
	r.api.claim, r.pv.Spec.Capacity = c, two
	return r
}

// says is what a claim says of its growth.
func says(c *v1.PersistentVolumeClaim) string {
	size := c.Status.Capacity[v1.ResourceStorage]
	out := fmt.Sprint(size.String(), " ", c.Status.AllocatedResourceStatuses[v1.ResourceStorage])
	for _, x := range c.Status.Conditions {
		out += fmt.Sprintf(" %s=%s %s", x.Type, x.Status, x.Message)
	}
	return strings.TrimSpace(out)
}

// A node grows a volume when the claim says that it is the node's turn, or says nothing.
func TestAClaimDecidesWhetherItsVolumeGrows(t *testing.T) {
	other := v1.PersistentVolumeClaimCondition{Type: "Else", Status: v1.ConditionTrue}
	pending := v1.PersistentVolumeClaimCondition{Type: v1.PersistentVolumeClaimFileSystemResizePending,
		Status: v1.ConditionTrue}
	grown := func(c *v1.PersistentVolumeClaim) {
		c.Status.Capacity = c.Status.AllocatedResources
	}
	many := func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	}
	needless := func(c *v1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "volume.kubernetes.io/node-expansion-not-required", "true")
	}
	half := func(c *v1.PersistentVolumeClaim) { // the volume has more than the claim got so far
		c.Status.AllocatedResources = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1536Mi")}
	}
	for name, c := range map[string]struct {
		how  v1.ClaimResourceStatus
		what []func(*v1.PersistentVolumeClaim)
		want string // bytes that the driver is asked for; empty: it is not
		says string
	}{
		"the node's turn": {v1.PersistentVolumeClaimNodeResizePending, []func(*v1.PersistentVolumeClaim){
			func(c *v1.PersistentVolumeClaim) {
				c.Status.Conditions = []v1.PersistentVolumeClaimCondition{other, pending}
			}}, "2147483648", "2Gi  Else=True"},
		"begun by an earlier kubelet": {v1.PersistentVolumeClaimNodeResizeInProgress, nil, "2147483648", "2Gi"},
		"as much as it was given": {v1.PersistentVolumeClaimNodeResizePending, []func(*v1.PersistentVolumeClaim){half},
			"1610612736", "1536Mi"},
		"the controller's turn": {v1.PersistentVolumeClaimControllerResizeInProgress, nil, "",
			"1Gi ControllerResizeInProgress"},
		"cannot be": {v1.PersistentVolumeClaimNodeResizeInfeasible, nil, "", "1Gi NodeResizeInfeasible"},
		"an old resizer": {"", []func(*v1.PersistentVolumeClaim){func(c *v1.PersistentVolumeClaim) {
			c.Status.AllocatedResources = nil
		}}, "2147483648", "2Gi"},
		"another node was first":  {"", []func(*v1.PersistentVolumeClaim){grown}, "", "2Gi"},
		"another node, many have": {"", []func(*v1.PersistentVolumeClaim){grown, many}, "2147483648", "2Gi"},
		"another node, needless":  {"", []func(*v1.PersistentVolumeClaim){grown, many, needless}, "", "2Gi"},
	} {
		r := growing(t, c.how, c.what...)
		r.mount(claiming("a"))
		got := ""
		if q, ok := r.driver.Request("NodeExpandVolume").(*csipb.NodeExpandVolumeRequest); ok {
			got = fmt.Sprint(q.GetCapacityRange().GetRequiredBytes())
		}
		if got != c.want || says(r.api.claim) != c.says {
			t.Errorf("%s: the driver is asked for %q and the claim says %q, want %q and %q", name, got,
				says(r.api.claim), c.want, c.says)
		}
	}
}

// What a driver says last about a growth is in the claim; what may go on yet is not, and a driver
// that does not grow volumes in use keeps no Pod.
func TestAGrowthThatFails(t *testing.T) {
	const pending = v1.PersistentVolumeClaimNodeResizePending
	const text = "failed to expand pvc with Expander.NodeExpand failed to expand the volume : rpc error: code = %s " +
		"desc = no"
	asksForLess := func(c *v1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1536Mi")}
	}
	for name, c := range map[string]struct {
		code   codes.Code
		what   []func(*v1.PersistentVolumeClaim)
		mounts bool
		says   string
		calls  int // in three tries
	}{
		"it may go on": {codes.Unavailable, nil, false, "1Gi NodeResizeInProgress", 3},
		"its last word": {codes.Internal, nil, false,
			"1Gi NodeResizeInProgress NodeResizeError=True " + fmt.Sprintf(text, "Internal"), 3},
		"cannot be": {codes.OutOfRange, nil, true,
			"1Gi NodeResizeInfeasible NodeResizeError=True " + fmt.Sprintf(text, "OutOfRange"), 1},
		"another size is asked for": {codes.Internal, []func(*v1.PersistentVolumeClaim){asksForLess}, true,
			"1Gi NodeResizeInfeasible NodeResizeError=True " + fmt.Sprintf(text, "Internal"), 2},
		"not in use": {codes.FailedPrecondition, nil, true,
			"1Gi NodeResizeInProgress NodeResizeError=True " + fmt.Sprintf(text, "FailedPrecondition"), 1},
	} {
		r := growing(t, pending, c.what...)
		r.driver.Fail("NodeExpandVolume", status.Error(c.code, "no"))
		calls := 0
		r.drivers.Called = func(_, method string, _ error, _ time.Duration) {
			if strings.HasSuffix(method, "/NodeExpandVolume") {
				calls++
			}
		}
		var err error
		for range 3 {
			_, err = r.MountVolumes(t.Context(), claiming("a"))
		}
		if (err == nil) != c.mounts || says(r.api.claim) != c.says || calls != c.calls {
			t.Errorf("%s: mounted %v after %d calls, the claim says %q; want mounted: %t, %d calls, %q", name, err,
				calls, says(r.api.claim), c.mounts, c.calls, c.says)
		}
		want := `FailedMount MountVolume.Setup failed while expanding volume for volume "pv" : Expander.NodeExpand ` +
			"failed to expand the volume : rpc error: code = " + c.code.String() + " desc = no"
		if said := slices.Contains(r.events, want); said != (name != "not in use") {
			t.Errorf("%s: got the events %q, want %q: %t", name, r.events, want, name != "not in use")
		}
	}
}

// A volume that is read only is not grown, which is said; a raw one's events speak of mapping.
func TestEventsOfGrowthAndMapping(t *testing.T) {
	r := growing(t, v1.PersistentVolumeClaimNodeResizePending)
	r.spec.ReadOnly = true
	r.mount(claiming("a"))
	const readOnly = `FileSystemResizeFailed MountVolume.NodeExpandVolume failed for volume "pv" requested read-only ` +
		"file system"
	if want := []string{readOnly, "claim: " + readOnly}; !slices.Equal(r.events, want) {
		t.Errorf("read only: got the events %q, want %q", r.events, want)
	}
	for method, want := range map[string]string{
		"NodeStageVolume":   `MapVolume.SetUpDevice failed for volume "pv" : rpc error: code = Internal desc = no`,
		"NodePublishVolume": `MapVolume.MapPodDevice failed for volume "pv" : rpc error: code = Internal desc = no`,
	} {
		want = "FailedMapVolume " + want
		r := newRig(t)
		r.pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
		pod := claiming("a")
		pod.Spec.Containers[0] = v1.Container{Name: "c", VolumeDevices: []v1.VolumeDevice{{Name: "v"}}}
		r.driver.Fail(method, status.Error(codes.Internal, "no"))
		r.refused(pod)
		if !slices.Contains(r.events, want) {
			t.Errorf("%s: got the events %q, want %q", method, r.events, want)
		}
	}
}

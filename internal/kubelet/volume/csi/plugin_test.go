package csi_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	runtimepkg "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/claim"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
	"github.com/gantry-project/gantry/internal/kubelet/volumemanager"
	"github.com/gantry-project/gantry/internal/linux/mount"
	"github.com/gantry-project/gantry/test/wrappers"
)

// fakeAPI is what the plugin reads of the API.
type fakeAPI struct {
	driver   *storagev1.CSIDriver
	secrets  map[string]string // password by namespace/name
	attached *storagev1.VolumeAttachment
	claim    *v1.PersistentVolumeClaim
	grown    []string // sizes that the claim got
}

func (a *fakeAPI) GetCSIDriver(_ context.Context, name string) (*storagev1.CSIDriver, error) {
	if a.driver == nil {
		return nil, apierrors.NewNotFound(storagev1.Resource("csidrivers"), name)
	}
	return a.driver, nil
}

func (a *fakeAPI) GetSecret(_ context.Context, ns, name string) (*v1.Secret, error) {
	if p, ok := a.secrets[ns+"/"+name]; ok {
		return &v1.Secret{Data: map[string][]byte{"password": []byte(p)}}, nil
	}
	return nil, apierrors.NewNotFound(v1.Resource("secrets"), name)
}

func (a *fakeAPI) GetVolumeAttachment(_ context.Context, name string) (*storagev1.VolumeAttachment, error) {
	if a.attached == nil || a.attached.Name != name {
		return nil, apierrors.NewNotFound(storagev1.Resource("volumeattachments"), name)
	}
	return a.attached, nil
}

func (a *fakeAPI) ChangeClaim(_ context.Context, pv *v1.PersistentVolume,
	change func(*v1.PersistentVolumeClaim) bool) (*v1.PersistentVolumeClaim, error) {
	c := a.claim.DeepCopy()
	if !change(c) {
		return c, nil
	}
	was, is := a.claim.Status.Capacity[v1.ResourceStorage], c.Status.Capacity[v1.ResourceStorage]
	if is.Cmp(was) > 0 {
		a.grown = append(a.grown, pv.Name+" "+is.String())
	}
	a.claim = c
	return c, nil
}

func (a *fakeAPI) CreateToken(_ context.Context, ns, account string,
	r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	r.Status.Token = strings.Join(append([]string{ns, account, string(r.Spec.BoundObjectRef.UID)}, r.Spec.Audiences...),
		"/")
	r.Status.ExpirationTimestamp = metav1.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)
	return r, nil
}

// nodeInfo takes what the API would.
type nodeInfo struct {
	installed []string
	updated   chan string // limits, when somebody listens
}

func (n *nodeInfo) InstallCSIDriver(_ context.Context, name string, i *csipb.NodeGetInfoResponse) error {
	n.installed = append(n.installed, name+" "+i.GetNodeId())
	return nil
}

func (n *nodeInfo) UpdateCSIDriver(_ context.Context, name string, i *csipb.NodeGetInfoResponse) error {
	n.updated <- fmt.Sprintf("%s %d", name, i.GetMaxVolumesPerNode())
	return nil
}

func (n *nodeInfo) UninstallCSIDriver(_ context.Context, name string) error {
	n.installed = append(n.installed, "gone "+name)
	return nil
}

// rig is a volume manager with the plugin, a driver, and one PersistentVolume.
type rig struct {
	*volumemanager.Manager
	t       *testing.T
	root    string
	driver  *csitest.Driver
	drivers *csi.Drivers
	api     *fakeAPI
	info    *nodeInfo
	attach  *csi.NodeAttachments
	waits   csi.Attachments // instead of attach
	pv      *v1.PersistentVolume
	spec    volume.Spec
	events  []string
	facts   chan journal.Fact // when somebody listens
	mounts  []string          // what the kernel has mounted
	selinux bool              // of the node
	hangs   time.Duration     // after which a step is said to hang; 0 is the default
	ended   []string          // Pods that were rejected
	held    fileDevices

	noting     sync.Mutex
	operations []volume.Operation // guarded by noting
	resolver   *claim.Resolver    // instead of spec
}

// kernel is a kernel with the rig's mounts.
type kernel struct {
	mount.DirMounter
	r *rig
}

func (k kernel) MountPoints(dir string) (out []string, err error) {
	for _, at := range k.r.mounts {
		if strings.HasPrefix(at, dir+"/") {
			out = append(out, at)
		}
	}
	return out, nil
}

const handle = "vol/1"

func newRig(t *testing.T, capabilities ...csipb.NodeServiceCapability_RPC_Type) *rig {
	t.Helper()
	no := false
	r := &rig{t: t, root: t.TempDir(), held: fileDevices{}, api: &fakeAPI{claim: &v1.PersistentVolumeClaim{},
		driver: &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{AttachRequired: &no}}}}
	r.driver = (&csitest.Driver{Name: "disk.example.com", Capabilities: append(capabilities,
		csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)}).Start(t)
	r.pv = &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Capacity:    v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "disk.example.com",
			VolumeHandle: handle, FSType: "ext4",
			VolumeAttributes: map[string]string{"tier": "gold"}}}}}
	size := resource.MustParse("1Gi")
	r.spec = volume.Spec{PersistentVolume: r.pv, ClaimSize: &size}
	r.start()
	r.register()
	return r
}

// start takes the place of the kubelet that ran.
func (r *rig) start() {
	r.info = &nodeInfo{}
	r.drivers = csi.NewDrivers(r.t.Context(), r.info)
	r.attach = csi.NewNodeAttachments(func() {})
	attachments := r.waits
	if attachments == nil {
		attachments = r.attach
	}
	p := csi.Plugin{Root: r.root, NodeName: "n1", Drivers: r.drivers, API: r.api, Attach: attachments,
		Mounts: mount.DirMounter{}, SELinux: r.selinux}
	r.Manager = volumemanager.New(volumemanager.Deps{Root: r.root, BootID: "boot", Specs: r,
		Objects: volumetest.NewObjects(),
		Plugins: volume.PluginMgr{{Plugin: p, Inline: true, PersistentVolume: true, MountOptions: true, FSGroup: true}},
		Mounts:  kernel{r: r}, Devices: r.held, Recorder: r, Journal: r, HangThreshold: r.hangs,
		Reject: func(uid types.UID, reason, message string) {
			r.ended = append(r.ended, fmt.Sprint(uid, " ", reason, " ", message))
		},
		Operated: func(o volume.Operation) {
			r.noting.Lock()
			defer r.noting.Unlock()
			r.operations = append(r.operations, o)
		},
		Node: func(*v1.Pod) volume.NodeView { return volume.NodeView{} }})
}

func (r *rig) register() {
	if err := r.drivers.RegisterPlugin(r.driver.Name, r.driver.Endpoint(), nil); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) CreateVolumeSpec(ctx context.Context, pod *v1.Pod, v *v1.Volume) (volume.Spec, error) {
	if r.resolver != nil {
		return r.resolver.CreateVolumeSpec(ctx, pod, v)
	}
	if v.CSI != nil {
		return volume.Spec{Volume: v}, nil
	}
	s := r.spec
	s.Volume = v
	return s, nil
}

func (r *rig) calls(want ...string) {
	r.t.Helper()
	for i := range want {
		want[i] += " " + handle
	}
	if d := cmp.Diff(want, r.driver.Calls()); d != "" {
		r.t.Errorf("calls of the driver (-want +got):\n%s", d)
	}
}

func (r *rig) mount(pod *v1.Pod) volume.Mounted {
	r.t.Helper()
	got, err := r.MountVolumes(r.t.Context(), pod)
	if err != nil {
		r.t.Fatal(err)
	}
	return got["v"]
}

// refused mounts, wants an error, and returns it.
func (r *rig) refused(pod *v1.Pod) string {
	r.t.Helper()
	_, err := r.MountVolumes(r.t.Context(), pod)
	if err == nil {
		r.t.Fatal("the volume is mounted, want a refusal")
	}
	return err.Error()
}

func (r *rig) Event(about runtime.Object, kind, reason, message string) {
	text := reason + " " + message
	if _, claim := about.(*v1.PersistentVolumeClaim); claim {
		text = "claim: " + text
	}
	if kind != v1.EventTypeWarning {
		text = kind + " " + text
	}
	r.events = append(r.events, text)
}

func (r *rig) Put(_ journal.Ref, f journal.Fact) {
	if r.facts != nil {
		r.facts <- f
	}
}

func claiming(uid types.UID) *v1.Pod {
	p := wrappers.MakePod().Namespace("ns").Name("p").UID(string(uid)).
		Containers(v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "v"}}}).
		Volumes(v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}).Obj()
	p.Spec.ServiceAccountName = "robot"
	return p
}

func (r *rig) unmount(uid types.UID) {
	r.t.Helper()
	if err := r.UnmountVolumes(r.t.Context(), uid); err != nil {
		r.t.Fatal(err)
	}
}

const stagingPath = "plugins/kubernetes.io/csi/disk.example.com/%x/globalmount"

// row: CSI-02, CSI-05, CSI-06, CSI-07, CSI-09
func TestOneVolumeOfTwoPods(t *testing.T) {
	r := newRig(t)
	m := r.mount(claiming("a"))
	r.calls("NodeStageVolume", "NodePublishVolume")
	target := filepath.Join(r.root, "pods/a/volumes/kubernetes.io~csi/pv/mount")
	if m.Path != target {
		t.Errorf("mounted at %s, want %s", m.Path, target)
	}
	staging := filepath.Join(r.root, fmt.Sprintf(stagingPath, sha256.Sum256([]byte(handle))))
	stage := r.driver.Request("NodeStageVolume").(*csipb.NodeStageVolumeRequest)
	publish := r.driver.Request("NodePublishVolume").(*csipb.NodePublishVolumeRequest)
	if stage.GetStagingTargetPath() != staging || publish.GetStagingTargetPath() != staging {
		t.Errorf("staged at %s, published from %s, want %s", stage.GetStagingTargetPath(),
			publish.GetStagingTargetPath(), staging)
	}
	if publish.GetTargetPath() != target || publish.GetReadonly() {
		t.Errorf("published at %s, read-only %v", publish.GetTargetPath(), publish.GetReadonly())
	}
	for _, c := range []*csipb.VolumeCapability{stage.GetVolumeCapability(), publish.GetVolumeCapability()} {
		if c.GetMount().GetFsType() != "ext4" ||
			c.GetAccessMode().GetMode() != csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER {
			t.Errorf("capability %v, want ext4 for one node", c)
		}
	}
	if got := publish.GetVolumeContext(); got["tier"] != "gold" || len(got) != 1 {
		t.Errorf("volume context %v, want the attributes of the volume", got)
	}
	r.mount(claiming("b"))
	r.calls("NodePublishVolume")
	r.unmount("a")
	r.calls("NodeUnpublishVolume")
	r.unmount("b")
	r.calls("NodeUnpublishVolume", "NodeUnstageVolume")
	if left, _ := filepath.Glob(filepath.Join(r.root, "plugins/kubernetes.io/csi/*/*")); len(left) > 0 {
		t.Errorf("left on the node: %v", left)
	}
}

// Of a driver that has a controller service too the kubelet calls the node service only, on the
// socket that the driver is registered with: to make and attach volumes is not its work.
//
// row: CSI-01
func TestTheKubeletCallsTheNodeServiceAlone(t *testing.T) {
	r := newRig(t)
	r.driver.Stop()
	r.driver = (&csitest.Driver{Name: "disk.example.com", Controls: []csipb.ControllerServiceCapability_RPC_Type{
		csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME},
		Capabilities: []csipb.NodeServiceCapability_RPC_Type{
			csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}}).Start(t)
	r.start()
	r.register()
	made, err := r.driver.CreateVolume(t.Context(), &csipb.CreateVolumeRequest{Name: "1",
		VolumeCapabilities: []*csipb.VolumeCapability{{}}})
	if err != nil {
		t.Fatal(err)
	}
	id := made.GetVolume().GetVolumeId()
	r.pv.Spec.CSI.VolumeHandle = id
	_ = r.driver.Calls()
	r.mount(claiming("a"))
	r.unmount("a")
	want := []string{"NodeStageVolume " + id, "NodePublishVolume " + id, "NodeUnpublishVolume " + id,
		"NodeUnstageVolume " + id}
	if d := cmp.Diff(want, r.driver.Calls()); d != "" {
		t.Errorf("calls of the driver (-want +got):\n%s", d)
	}
}

// row: CSI-08
func TestARestartedKubeletStagesNothingAgain(t *testing.T) {
	r := newRig(t)
	r.mount(claiming("a"))
	r.calls("NodeStageVolume", "NodePublishVolume")
	r.start()
	r.register()
	r.mount(claiming("a"))
	r.calls("NodePublishVolume")
	r.start() // a kubelet that never saw the Pod, and whose driver comes late
	if err := r.UnmountVolumes(t.Context(), "a"); err == nil ||
		!strings.Contains(err.Error(), "driver name disk.example.com not found in the list of registered CSI drivers") {
		t.Errorf("unmounted without the driver: %v", err)
	}
	r.register()
	r.unmount("a")
	r.calls("NodeUnpublishVolume", "NodeUnstageVolume")
}

// row: CSI-10, CSI-12
func TestADriverThatHangsKeepsItsOwnPodOnly(t *testing.T) {
	r := newRig(t)
	r.mount(claiming("a"))
	until := make(chan struct{})
	r.driver.Hang("NodeUnpublishVolume", until)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.UnmountVolumes(ctx, "a") }()
	got := r.drivers.PendingCalls()
	for ; len(got) == 0; got = r.drivers.PendingCalls() {
		runtimepkg.Gosched()
	}
	if got[0].Method != "NodeUnpublishVolume" || got[0].Driver != "disk.example.com" {
		t.Errorf("pending calls %v, want NodeUnpublishVolume of disk.example.com", got)
	}
	other := claiming("b")
	other.Spec.Volumes, other.Spec.Containers[0].VolumeMounts = nil, nil
	if _, err := r.MountVolumes(t.Context(), other); err != nil {
		t.Errorf("a Pod without volumes: %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the Pod is released while its volume is published: %v", err)
	}
	close(until)
	r.driver.Fail("NodeUnpublishVolume", status.Error(codes.Internal, "still open"))
	if err := r.UnmountVolumes(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "still open") {
		t.Errorf("the driver unpublishes nothing: got a Pod released with error %v, want still open", err)
	}
	r.driver.ClearFaults("NodeUnpublishVolume")
	r.unmount("a")
}

// An attachment that is not attached, or is another node's, is none: nothing is staged.
//
// row: CSI-02, CSI-04
func TestNothingIsStagedWithoutItsAttachment(t *testing.T) {
	name := csi.UniqueVolumeName("disk.example.com", handle)
	for what, c := range map[string]struct {
		node   string
		status storagev1.VolumeAttachmentStatus
		says   string
	}{
		"not attached": {"n1", storagev1.VolumeAttachmentStatus{}, "is not attached"},
		"cannot be attached": {"n1", storagev1.VolumeAttachmentStatus{
			AttachError: &storagev1.VolumeError{Message: "no such disk"}}, "no such disk"},
		"another node's": {"n2", storagev1.VolumeAttachmentStatus{Attached: true}, "GET error"},
	} {
		r := newRig(t)
		r.api.driver = nil
		r.api.attached = &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+"disk.example.com"+c.node)))}, Status: c.status}
		n := &v1.Node{}
		n.Status.VolumesInUse = []v1.UniqueVolumeName{name}
		n.Status.VolumesAttached = []v1.AttachedVolume{{Name: name}}
		r.attach.NodeChanged(n)
		if got := r.refused(claiming("a")); !strings.Contains(got, c.says) {
			t.Errorf("%s: got %s, want %s", what, got, c.says)
		}
		r.calls()
		if r.driver.Request("NodeStageVolume") != nil {
			t.Errorf("%s: staged", what)
		}
	}
}

// row: CSI-04
func TestStagingWaitsUntilTheVolumeIsAttached(t *testing.T) {
	r := newRig(t)
	r.api.driver = nil // a driver without an object is attached
	name := csi.UniqueVolumeName("disk.example.com", handle)
	if want := v1.UniqueVolumeName("kubernetes.io/csi/disk.example.com^vol/1"); name != want {
		t.Fatalf("the volume is called %s, want %s", name, want)
	}
	r.api.attached = &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+"disk.example.comn1")))},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"lun": "7"}}}
	done := make(chan error, 1)
	go func() { _, err := r.MountVolumes(t.Context(), claiming("a")); done <- err }()
	inUse := func(n *v1.Node) { n.Status.VolumesInUse = []v1.UniqueVolumeName{name} }
	attached := func(n *v1.Node) { n.Status.VolumesAttached = []v1.AttachedVolume{{Name: name}} }
	for _, parts := range [][]func(*v1.Node){{}, {inUse}, {attached}} {
		n := &v1.Node{}
		for _, p := range parts {
			p(n)
		}
		r.attach.NodeChanged(n)
	}
	for { // the volume is reported before anything is waited for
		if names, known := r.attach.InUse(); known && slices.Contains(names, name) {
			break
		}
		runtimepkg.Gosched()
	}
	select {
	case err := <-done:
		t.Fatalf("mounted (%v) before the node has the volume in use and attached", err)
	default:
	}
	r.calls()
	both := &v1.Node{}
	inUse(both)
	attached(both)
	r.attach.NodeChanged(both)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"NodeStageVolume", "NodePublishVolume"} {
		got := r.driver.Request(method).(interface{ GetPublishContext() map[string]string }).GetPublishContext()
		if got["lun"] != "7" {
			t.Errorf("%s got the publish context %v, want the attachment's metadata", method, got)
		}
	}
	r.unmount("a")
	if names, _ := r.attach.InUse(); len(names) > 0 {
		t.Errorf("still in use: %v", names)
	}
}

func TestCSIDriverDecidesWhatPublishGets(t *testing.T) {
	r := newRig(t, csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
	yes := true
	r.api.driver.Spec.PodInfoOnMount, r.api.driver.Spec.RequiresRepublish = &yes, &yes
	r.api.driver.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
	r.api.secrets = map[string]string{"sec/stage": "one", "sec/publish": "two"}
	c := r.pv.Spec.CSI
	c.NodeStageSecretRef = &v1.SecretReference{Namespace: "sec", Name: "stage"}
	c.NodePublishSecretRef = &v1.SecretReference{Namespace: "sec", Name: "publish"}
	r.pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	r.pv.Spec.MountOptions = []string{"noatime"}
	m := r.mount(claiming("a"))
	if m.RefreshAt.IsZero() || time.Until(m.RefreshAt) > time.Minute {
		t.Errorf("published again at %v, want within a minute", m.RefreshAt)
	}
	stage := r.driver.Request("NodeStageVolume").(*csipb.NodeStageVolumeRequest)
	publish := r.driver.Request("NodePublishVolume").(*csipb.NodePublishVolumeRequest)
	if a, b := stage.GetSecrets()["password"], publish.GetSecrets()["password"]; a != "one" || b != "two" {
		t.Errorf("secrets %q and %q, want one and two", a, b)
	}
	if got := publish.GetVolumeCapability(); got.GetAccessMode().GetMode() !=
		csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER ||
		!slices.Equal(got.GetMount().GetMountFlags(), []string{"noatime"}) {
		t.Errorf("capability %v, want a single writer with noatime", got)
	}
	want := map[string]string{"tier": "gold", "csi.storage.k8s.io/pod.name": "p",
		"csi.storage.k8s.io/pod.namespace": "ns", "csi.storage.k8s.io/pod.uid": "a",
		"csi.storage.k8s.io/serviceAccount.name": "robot", "csi.storage.k8s.io/ephemeral": "false",
		"csi.storage.k8s.io/serviceAccount.tokens": `{"vault":{"token":"ns/robot/a/vault",` +
			`"expirationTimestamp":"2099-01-02T03:04:05Z"}}`}
	if d := cmp.Diff(want, publish.GetVolumeContext()); d != "" {
		t.Errorf("volume context (-want +got):\n%s", d)
	}
	if got := stage.GetVolumeContext(); len(got) != 1 {
		t.Errorf("staged with %v, want the volume's attributes alone", got)
	}
	r.driver.Calls()
	if err := r.RefreshVolumes(t.Context(), claiming("a")); err != nil {
		t.Fatal(err)
	}
	r.calls("NodePublishVolume")
}

func TestFSGroup(t *testing.T) {
	group := int64(3000)
	pod := claiming("a")
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	r := newRig(t, csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
	r.mount(pod)
	for _, method := range []string{"NodeStageVolume", "NodePublishVolume"} {
		got := r.driver.Request(method).(interface {
			GetVolumeCapability() *csipb.VolumeCapability
		}).GetVolumeCapability().GetMount().GetVolumeMountGroup()
		if got != "3000" {
			t.Errorf("%s: group %q, want 3000", method, got)
		}
	}
	none, file := storagev1.NoneFSGroupPolicy, storagev1.FileFSGroupPolicy
	rwx := []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	for name, c := range map[string]struct {
		policy *storagev1.FSGroupPolicy
		fs     string
		modes  []v1.PersistentVolumeAccessMode
		want   bool
	}{
		"one node, file system named": {fs: "ext4", want: true},
		"no file system named":        {},
		"many nodes":                  {fs: "ext4", modes: rwx},
		"policy None":                 {policy: &none, fs: "ext4"},
		"policy File":                 {policy: &file, modes: rwx, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.api.driver.Spec.FSGroupPolicy, r.pv.Spec.CSI.FSType = c.policy, c.fs
			if c.modes != nil {
				r.pv.Spec.AccessModes = c.modes
			}
			info, err := os.Stat(r.mount(pod).Path)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode()&os.ModeSetgid != 0; got != c.want {
				t.Errorf("given to the group: %v, want %v", got, c.want)
			}
		})
	}
}

func TestInlineVolume(t *testing.T) {
	r := newRig(t)
	pod := claiming("a")
	pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "disk.example.com"}}
	want := `volume mode "Ephemeral" not supported by driver disk.example.com (only supports ["Persistent"])`
	if got := r.refused(pod); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	yes := true
	r.api.driver.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
	r.api.driver.Spec.PodInfoOnMount = &yes
	r.mount(pod)
	publish := r.driver.Request("NodePublishVolume").(*csipb.NodePublishVolumeRequest)
	id := fmt.Sprintf("csi-%x", sha256.Sum256([]byte("av")))
	if publish.GetVolumeId() != id || publish.GetStagingTargetPath() != "" ||
		publish.GetVolumeContext()["csi.storage.k8s.io/ephemeral"] != "true" {
		t.Errorf("published %v, want the ephemeral volume %s", publish, id)
	}
	r.unmount("a")
	if want, got := []string{"NodePublishVolume " + id, "NodeUnpublishVolume " + id}, r.driver.Calls(); !slices.Equal(
		want, got) {
		t.Errorf("calls %v, want %v", got, want)
	}
}

func TestAVolumeGrows(t *testing.T) {
	r := newRig(t, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME)
	r.mount(claiming("a"))
	r.calls("NodeStageVolume", "NodePublishVolume")
	small := resource.MustParse("512Mi")
	r.spec.ClaimSize = &small
	r.mount(claiming("b"))
	r.calls("NodePublishVolume")
	r.unmount("a")
	r.unmount("b")
	r.driver.Calls()
	m := r.mount(claiming("c"))
	r.calls("NodeStageVolume", "NodePublishVolume", "NodeExpandVolume")
	got := r.driver.Request("NodeExpandVolume").(*csipb.NodeExpandVolumeRequest)
	if got.GetCapacityRange().GetRequiredBytes() != 1<<30 || !slices.Equal(r.api.grown, []string{"pv 1Gi"}) {
		t.Errorf("grown to %v, told %v; want 1Gi, the claim of pv", got.GetCapacityRange(), r.api.grown)
	}
	if got.GetVolumePath() != m.Path || !strings.HasSuffix(got.GetStagingTargetPath(), "/globalmount") {
		t.Errorf("grown at %s, staged at %s, want %s and the global mount", got.GetVolumePath(),
			got.GetStagingTargetPath(), m.Path)
	}
	const said = `FileSystemResizeSuccessful MountVolume.NodeExpandVolume succeeded for volume "pv" n1`
	for _, want := range []string{"Normal " + said, "Normal claim: " + said} {
		if !slices.Contains(r.events, want) {
			t.Errorf("got the events %q, want %q", r.events, want)
		}
	}
}

// row: CSI-13
func TestErrorsNameTheDriver(t *testing.T) {
	r := newRig(t)
	r.driver.Fail("NodeStageVolume", status.Error(codes.Internal, "disk on fire"))
	want := `MountVolume.MountDevice failed for volume "pv" : rpc error: code = Internal desc = disk on fire`
	if got := r.refused(claiming("a")); got != "FailedMount: "+want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !slices.Contains(r.events, "FailedMount "+want) {
		t.Errorf("events %v, want FailedMount %s", r.events, want)
	}
	r.driver.ClearFaults("NodeStageVolume")
	r.drivers.DeRegisterPlugin("disk.example.com", r.driver.Endpoint())
	want = "driver name disk.example.com not found in the list of registered CSI drivers"
	if got := r.refused(claiming("a")); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// row: CSI-03
func TestRegistration(t *testing.T) {
	info := &nodeInfo{}
	drivers := csi.NewDrivers(t.Context(), info)
	for name, versions := range map[string][]string{"a": nil, "b": {"0.3.0"}, "c/d": {"1.0.0"}, "": {"1.0.0"},
		"e": {"2.0.0"}} {
		if err := drivers.ValidatePlugin(name, "/x", versions); err == nil {
			t.Errorf("driver %q with versions %v is taken, want a refusal", name, versions)
		}
	}
	if err := drivers.ValidatePlugin("a", "/x", []string{"0.3.0", "1.2.0"}); err != nil {
		t.Error(err)
	}
	one := (&csitest.Driver{Name: "d"}).Start(t)
	two := (&csitest.Driver{Name: "d"}).Start(t)
	for _, d := range []*csitest.Driver{one, two} {
		if err := drivers.RegisterPlugin("d", d.Endpoint(), nil); err != nil {
			t.Fatal(err)
		}
	}
	drivers.DeRegisterPlugin("d", one.Endpoint()) // the other has taken its place
	if want := []string{"d id-of-node", "d id-of-node"}; !slices.Equal(info.installed, want) {
		t.Errorf("got %v, want %v", info.installed, want)
	}
	drivers.DeRegisterPlugin("d", two.Endpoint())
	two.Info = &csipb.NodeGetInfoResponse{}
	if err := drivers.RegisterPlugin("d", two.Endpoint(), nil); err == nil || len(drivers.Names()) > 0 {
		t.Errorf("a driver without a node id is registered: %v", drivers.Names())
	}
}

// A volume with ReadWriteOncePod is one Pod's: another Pod of the node waits, in upstream's words,
// also of a kubelet that was restarted, and has it once the first has ended.
func TestAVolumeOfOnePod(t *testing.T) {
	r := newRig(t)
	r.pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	r.mount(claiming("a"))
	refused := func(when string) {
		t.Helper()
		const want = `MountVolume.SetUp failed for volume "pv" : volume uses the ReadWriteOncePod access mode and is ` +
			"already in use by another pod"
		if _, err := r.MountVolumes(t.Context(), claiming("b")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the second Pod got %v, want %q", when, err, want)
		}
	}
	refused("at first")
	r.start()
	r.register()
	refused("after a restart")
	r.mount(claiming("a"))
	if err := r.UnmountVolumes(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	r.mount(claiming("b"))
	r.pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	r.mount(claiming("c"))
}

// Drivers find beside a volume what upstream's kubelet writes there: in the Pod's directory all of
// it, beside the staging path the driver and its handle.
func TestDriversFindUpstreamsVolumeData(t *testing.T) {
	r := newRig(t)
	m := r.mount(claiming("a"))
	read := func(file string) map[string]string {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := map[string]string{"specVolID": "pv", "volumeHandle": handle, "driverName": "disk.example.com",
		"nodeName":            "n1",
		"attachmentID":        fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+"disk.example.comn1"))),
		"volumeLifecycleMode": "Persistent"}
	if d := cmp.Diff(want, read(filepath.Join(filepath.Dir(m.Path), "vol_data.json"))); d != "" {
		t.Errorf("beside the Pod's volume (-want +got):\n%s", d)
	}
	staged := r.driver.Request("NodeStageVolume").(*csipb.NodeStageVolumeRequest).GetStagingTargetPath()
	got := read(filepath.Join(filepath.Dir(staged), "vol_data.json"))
	if got["driverName"] != "disk.example.com" || got["volumeHandle"] != handle {
		t.Errorf("beside the staging path: got %v, want the driver and the handle", got)
	}
}

// A driver that asks for its tokens among the secrets finds them there, beside its own, and nowhere
// else; a volume that many may read is called that, and published for reading as the claim says.
func TestTokensAmongSecretsAndVolumesToRead(t *testing.T) {
	r := newRig(t)
	yes := true
	r.api.driver.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
	r.api.driver.Spec.ServiceAccountTokenInSecrets = &yes
	r.api.secrets = map[string]string{"sec/publish": "two", "sec/expand": "three"}
	r.pv.Spec.CSI.NodePublishSecretRef = &v1.SecretReference{Namespace: "sec", Name: "publish"}
	r.pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
	r.spec.ReadOnly = true
	m := r.mount(claiming("a"))
	publish := r.driver.Request("NodePublishVolume").(*csipb.NodePublishVolumeRequest)
	const key = "csi.storage.k8s.io/serviceAccount.tokens"
	secrets := publish.GetSecrets()
	if secrets["password"] != "two" || !strings.Contains(secrets[key], `"token":"ns/robot/a/vault"`) ||
		len(secrets) != 2 {
		t.Errorf("got the secrets %v, want the volume's and the token", secrets)
	}
	if _, public := publish.GetVolumeContext()[key]; public {
		t.Errorf("the volume context has the tokens: %v", publish.GetVolumeContext())
	}
	if mode := publish.GetVolumeCapability().GetAccessMode().GetMode(); !publish.GetReadonly() || !m.ReadOnly ||
		mode != csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY {
		t.Errorf("published as %v, read-only %t, mounted read-only %t, want many readers", mode, publish.GetReadonly(),
			m.ReadOnly)
	}
	grows := newRig(t, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME)
	half := resource.MustParse("512Mi")
	grows.api.secrets, grows.spec.ClaimSize = r.api.secrets, &half
	grows.pv.Spec.CSI.NodeExpandSecretRef = &v1.SecretReference{Namespace: "sec", Name: "expand"}
	grows.mount(claiming("a"))
	expand := grows.driver.Request("NodeExpandVolume").(*csipb.NodeExpandVolumeRequest)
	if got := expand.GetSecrets()["password"]; got != "three" {
		t.Errorf("grown with the secret %q, want three", got)
	}
}

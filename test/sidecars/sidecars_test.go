package sidecars

import (
	"bufio"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/process"
)

// claim is a claim, made from a source unless that is empty.
func claim(name, source string) string {
	return `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ` + name + `}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 32Mi}}
  ` + source + `
---
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: v, persistentVolumeClaim: {claimName: ` + name + `}}]
  containers:
  - name: main
    image: docker.io/library/busybox:1.28
    command: [sleep, "3600"]
    volumeMounts: [{name: v, mountPath: /v}]
`
}

const snapshotClass = `
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: local}
driver: local.csi.gantry.dev
deletionPolicy: Delete
`

const snapshot = `
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: before}
spec: {volumeSnapshotClassName: local, source: {persistentVolumeClaimName: data}}
`

const fromSnapshot = `dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: before}`

// snapshotAndRestore takes a snapshot of a volume that is written to, and restores it.
func (c *cluster) snapshotAndRestore() {
	c.t.Helper()
	c.apply(snapshotClass)
	c.apply(claim("data", ""))
	c.ready("data")
	c.inside("data", "dd if=/dev/urandom of=/v/f bs=1M count=8 2>/dev/null; sync; echo before > /v/when")
	c.apply(snapshot)
	c.eventually("true", "get", "volumesnapshot", "before", "-o", "jsonpath={.status.readyToUse}")
	c.inside("data", "echo after > /v/when")
	c.apply(claim("restored", fromSnapshot))
	c.ready("restored")
	if was, is := c.inside("data", "md5sum /v/f"), c.inside("restored", "md5sum /v/f"); was != is {
		c.t.Errorf("the restored file is %s, want %s", is, was)
	}
	if got := c.inside("restored", "cat /v/when"); got != "before" {
		c.t.Errorf("the restored volume is of %q, want before", got)
	}
	c.apply(strings.Replace(claim("other", fromSnapshot), "32Mi", "16Mi", 1))
	c.until("a claim that is too small for the snapshot is refused", func() (string, bool) {
		out := c.kubectl("get", "events", "--field-selector", "involvedObject.name=other", "-o",
			"jsonpath={.items[*].message}")
		return out, strings.Contains(out, "32Mi") || strings.Contains(out, "33554432")
	})
	c.kubectl("delete", "pod", "other", "data", "restored", "--wait=true")
	c.kubectl("delete", "pvc", "other", "data", "restored", "--wait=true")
	c.kubectl("delete", "volumesnapshot", "before", "--wait=true")
	c.eventually("", "get", "volumesnapshotcontents,pv", "-o", "name")
}

// The external-snapshotter takes snapshots of the driver of `gantry up`, which restores them
// itself.
func TestSnapshotsOfGantryUp(t *testing.T) {
	c := newCluster(t)
	c.snapshots(filepath.Join(c.Dir, "kubelet/plugins/local.csi.gantry.dev/csi.sock"))
	c.snapshotAndRestore()
	for _, kind := range []string{"volumes", "snapshots"} {
		if left, err := filepath.Glob(filepath.Join(c.Dir, "local-storage", kind, "*")); len(left) > 0 {
			t.Errorf("left behind: %v (%v)", left, err)
		}
	}
}

// `gantry csi-driver` serves the external-provisioner, -resizer and -snapshotter: a claim is bound,
// its capacity is told, it grows, is copied and restored.
func TestDriverWithSidecars(t *testing.T) {
	c := newCluster(t, "--local-storage=false")
	volumes := filepath.Join(c.Dir, "volumes")
	driver, err := process.Start(exec.Command(filepath.Join(c.Bin, "gantry"), "csi-driver", "--provision=false",
		"--node-name=node-1", "--kubelet-dir="+filepath.Join(c.Dir, "kubelet"), "--volumes-dir="+volumes))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(driver.Report())
		}
		driver.Kill()
	})
	c.apply(`
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: local.csi.gantry.dev}
spec: {attachRequired: false, storageCapacity: true, fsGroupPolicy: File}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: local.csi.gantry.dev
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
`)
	c.eventually("local.csi.gantry.dev", "get", "csinode", "node-1", "-o", "jsonpath={.spec.drivers[*].name}")
	socket := filepath.Join(c.Dir, "kubelet/plugins/local.csi.gantry.dev/csi.sock")
	c.snapshots(socket)
	c.run("csi-provisioner", "default", "--csi-address="+socket, "--node-deployment=true", "--strict-topology=true",
		"--enable-capacity=true", "--capacity-ownerref-level=-1", "--immediate-topology=false",
		"--capacity-poll-interval=5s")
	c.run("csi-resizer", "default", "--csi-address="+socket)
	c.until("the capacity is told", func() (string, bool) {
		out, err := c.try("", "get", "csistoragecapacities", "-A", "-o", "jsonpath={.items[*].storageClassName}")
		return out, err == nil && out == "local"
	})
	c.apply(claim("grows", ""))
	c.ready("grows")
	c.kubectl("patch", "pvc", "grows", "-p", `{"spec":{"resources":{"requests":{"storage":"64Mi"}}}}`)
	c.until("the external-resizer grows the volume", func() (string, bool) {
		out, err := c.try("", "get", "pv", "-o", "jsonpath={.items[0].spec.capacity.storage}")
		return out, err == nil && out == "64Mi"
	})
	c.kubectl("delete", "pod", "grows", "--wait=true")
	c.apply(strings.Replace(claim("grows", ""), "32Mi", "64Mi", 1))
	c.ready("grows")
	c.eventually("64Mi", "get", "pvc", "grows", "-o", "jsonpath={.status.capacity.storage}")
	if got := c.inside("grows", "df -m /v | awk 'NR==2 {print ($2 > 50)}'"); got != "1" {
		t.Errorf("the file system did not grow: %s", c.inside("grows", "df -m /v"))
	}
	c.kubectl("delete", "pod", "grows", "--wait=true")
	c.kubectl("delete", "pvc", "grows", "--wait=true")
	c.snapshotAndRestore()
}

// The external-attacher attaches what the external-provisioner made and the external-resizer grows,
// with a driver whose volumes are attached.
//
// row: CSI-02, CSI-15
func TestAttachedWithSidecars(t *testing.T) {
	c := newCluster(t)
	driver := (&csitest.Driver{Name: "disk.example.com",
		Info: &csipb.NodeGetInfoResponse{NodeId: "machine-7", MaxVolumesPerNode: 5},
		Capabilities: []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
			csipb.NodeServiceCapability_RPC_EXPAND_VOLUME},
		Controls: []csipb.ControllerServiceCapability_RPC_Type{
			csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
			csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
			csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME,
			csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME}}).Start(t)
	driver.Register(t, filepath.Join(c.Dir, "kubelet/plugins_registry"))
	c.eventually("machine-7", "get", "csinode", "node-1", "-o",
		`jsonpath={.spec.drivers[?(@.name=="disk.example.com")].nodeID}`)
	c.apply(`
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: disk.example.com}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disk}
provisioner: disk.example.com
allowVolumeExpansion: true
`)
	address := "--csi-address=" + driver.Endpoint()
	c.run("csi-provisioner", "default", address)
	c.run("csi-attacher", "default", address)
	c.run("csi-resizer", "default", address)
	c.apply(claim("disk", "storageClassName: disk"))
	c.ready("disk")
	calls := driver.Calls()
	var order []string
	for _, call := range calls {
		order = append(order, strings.Fields(call)[0])
	}
	want := []string{"CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"}
	if !slices.Equal(slices.Compact(order), want) {
		t.Errorf("the driver was called %v, want %v", calls, want)
	}
	if r, ok := driver.Request("NodeStageVolume").(*csipb.NodeStageVolumeRequest); !ok ||
		!strings.HasPrefix(r.GetPublishContext()["device"], "/dev/vol-") {
		t.Errorf("staged with %v, want what the attacher was told", driver.Request("NodeStageVolume"))
	}
	c.kubectl("patch", "pvc", "disk", "-p", `{"spec":{"resources":{"requests":{"storage":"64Mi"}}}}`)
	c.eventually("64Mi", "get", "pvc", "disk", "-o", "jsonpath={.status.capacity.storage}")
	c.eventually("FileSystemResizeSuccessful FileSystemResizeSuccessful", "get", "events", "--field-selector",
		"reason=FileSystemResizeSuccessful", "-o", "jsonpath={.items[*].reason}") // of the Pod and of the claim
	c.modify(driver)
	c.kubectl("delete", "pod", "disk", "--wait=true")
	c.eventually("", "get", "volumeattachments", "-o", "name")
	c.kubectl("delete", "pvc", "disk", "--wait=true")
	c.eventually("", "get", "pv", "-o", "name")
	order = nil
	for _, call := range driver.Calls() {
		order = append(order, strings.Fields(call)[0])
	}
	want = []string{"ControllerExpandVolume", "NodeExpandVolume", "ControllerModifyVolume", "NodeUnpublishVolume",
		"NodeUnstageVolume", "ControllerUnpublishVolume", "DeleteVolume"}
	c.eventually("", "get", "volumeattributesclasses", "-o", "name") // nobody has it any more
	if got := slices.Compact(order); !slices.Equal(got, want) {
		t.Errorf("the driver was called %v, want %v", got, want)
	}
}

// modify gives the claim disk a VolumeAttributesClass: the external-resizer has the driver take
// what it says, and the class, which is deleted meanwhile, stays as long as the claim has it.
func (c *cluster) modify(driver *csitest.Driver) {
	c.t.Helper()
	c.apply(`
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: disk.example.com
parameters: {iops: "9"}
`)
	c.kubectl("patch", "pvc", "disk", "-p", `{"spec":{"volumeAttributesClassName":"gold"}}`)
	c.eventually("gold", "get", "pvc", "disk", "-o", "jsonpath={.status.currentVolumeAttributesClassName}")
	c.eventually("gold", "get", "pv", "-o", "jsonpath={.items[*].spec.volumeAttributesClassName}")
	r, ok := driver.Request("ControllerModifyVolume").(*csipb.ControllerModifyVolumeRequest)
	if !ok || r.GetMutableParameters()["iops"] != "9" {
		c.t.Errorf("modified with %v, want iops 9", driver.Request("ControllerModifyVolume"))
	}
	c.kubectl("delete", "volumeattributesclass", "gold", "--wait=false")
	if got := c.kubectl("get", "volumeattributesclass", "gold", "-o", "name"); got == "" {
		c.t.Error("the class that the claim has is gone")
	}
}

// postgres is a database on a claim of its own, made from a source unless that is empty.
func postgres(name, source string) string {
	return strings.Replace(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 512Mi}}
  `+source+`
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 20
  securityContext: {runAsUser: 65534, runAsGroup: 65534, fsGroup: 65534, fsGroupChangePolicy: OnRootMismatch}
  volumes: [{name: data, persistentVolumeClaim: {claimName: NAME}}]
  containers:
  - name: pg
    image: docker.io/library/postgres:15
    volumeMounts: [{name: data, mountPath: /data}]
    readinessProbe: {exec: {command: [psql, -c, "select 1"]}, periodSeconds: 1}
`, "NAME", name, -1)
}

// A database that is written to is restored from a snapshot of its volume: what it had acknowledged
// before the snapshot was asked for is there.
func TestADatabaseIsRestoredFromASnapshot(t *testing.T) {
	c := newCluster(t)
	img, err := images.Postgres()
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "postgres.tar")
	if err := images.Archive(archive, map[string]images.Make{
		"docker.io/library/postgres:15": func() (v1.Image, error) { return img, nil }}); err != nil {
		t.Fatal(err)
	}
	c.Gantry("image", "import", "--data-dir", c.Dir, archive)
	c.snapshots(filepath.Join(c.Dir, "kubelet/plugins/local.csi.gantry.dev/csi.sock"))
	c.apply(snapshotClass)
	c.apply(postgres("data", ""))
	c.ready("data")
	c.kubectl("exec", "data", "--", "psql", "-c", "create table t (id int primary key)")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const write = `i=0; while i=$((i+1)); do psql -q -c "insert into t values ($i)" && echo $i; done`
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, "gantry"), "kubectl", "--kubeconfig", c.Kubeconfig, "exec",
		"data", "--", "sh", "-c", write)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	rows := bufio.NewScanner(out)
	acknowledged := 0
	for acknowledged < 20 && rows.Scan() {
		acknowledged++
	}
	if acknowledged < 20 {
		t.Fatalf("got %d acknowledged rows, want 20 and more to come", acknowledged)
	}
	c.apply(snapshot)
	c.eventually("true", "get", "volumesnapshot", "before", "-o", "jsonpath={.status.readyToUse}")
	c.apply(postgres("restored", fromSnapshot))
	c.ready("restored")
	cancel()
	_ = cmd.Wait() // cancelled
	got := c.kubectl("exec", "restored", "--", "psql", "-At", "-c", "select count(*) from t where id <= 20")
	if got != "20" {
		t.Errorf("got %s of the 20 rows that were acknowledged before the snapshot, want all", got)
	}
	c.kubectl("delete", "pod", "data", "restored", "--wait=true")
	c.kubectl("delete", "pvc", "data", "restored", "--wait=true")
	c.kubectl("delete", "volumesnapshot", "before", "--wait=true")
}

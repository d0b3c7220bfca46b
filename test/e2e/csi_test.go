package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/gantry-project/gantry/internal/kubelet/volume/csi"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
)

const attachedDisk = `
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: disk.example.com}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-1}
spec:
  storageClassName: ""
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  claimRef: {namespace: default, name: disk}
  csi: {driver: disk.example.com, volumeHandle: vol-1, fsType: ext4}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec:
  storageClassName: ""
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: v, persistentVolumeClaim: {claimName: disk}}]
  containers:
  - name: main
    image: docker.io/library/busybox:1.28
    command: [sleep, "3600"]
    volumeMounts: [{name: v, mountPath: /v}]
---
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  containers:
  - {name: main, image: "docker.io/library/busybox:1.28", command: [sleep, "3600"]}
`

// row: CSI-01, CSI-03, CSI-04, CSI-09, CSI-10, CSI-12, CSI-15
// TestAttachedVolume takes a volume that has to be attached through its life, with a driver in the
// test, and the test as external attacher.
func TestAttachedVolume(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	driver := (&csitest.Driver{Name: "disk.example.com",
		Capabilities: []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
		Info:         &csipb.NodeGetInfoResponse{NodeId: "machine-7", MaxVolumesPerNode: 3}}).Start(t)
	unregister := driver.Register(t, filepath.Join(c.Dir, "kubelet/plugins_registry"))
	csiNode := func(want string) {
		t.Helper()
		const path = `jsonpath={.spec.drivers[?(@.name=="disk.example.com")]}`
		c.eventually(time.Minute, "CSINode says "+want, func() (string, bool) {
			got, _ := c.try("", "get", "csinode", "node-1", "-o", path)
			return got, got == want
		})
	}
	csiNode(`{"allocatable":{"count":3},"name":"disk.example.com","nodeID":"machine-7","topologyKeys":null}`)

	c.apply(attachedDisk)
	va := csi.AttachmentName("vol-1", "disk.example.com", "node-1")
	c.eventually(time.Minute, "a VolumeAttachment", func() (string, bool) {
		got, err := c.try("", "get", "volumeattachment", va, "-o",
			"jsonpath={.spec.attacher} {.spec.nodeName} {.spec.source.persistentVolumeName}")
		return got, err == nil && got == "disk.example.com node-1 disk-1"
	})
	c.waitFor("pod/other", "condition=Ready", time.Minute)
	if calls := driver.Calls(); len(calls) > 0 {
		t.Errorf("calls before the volume is attached: %v", calls)
	}
	c.kubectl("patch", "volumeattachment", va, "--subresource=status", "--type=merge", "-p",
		`{"status":{"attached":true}}`)
	c.waitFor("pod/user", "condition=Ready", time.Minute)
	if want, got := []string{"NodeStageVolume vol-1", "NodePublishVolume vol-1"}, driver.Calls(); !slices.Equal(got,
		want) {
		t.Errorf("calls %v, want %v", got, want)
	}
	const both = "jsonpath={.status.volumesInUse[0]} {.status.volumesAttached[0].name}"
	name := csi.UniqueVolumeName("disk.example.com", "vol-1")
	if got := c.kubectl("get", "node", "node-1", "-o", both); got != fmt.Sprintf("%s %s", name, name) {
		t.Errorf("the node has in use and attached: %q, want %s both times", got, name)
	}

	until := make(chan struct{})
	driver.Hang("NodeUnpublishVolume", until)
	c.kubectl("delete", "pod", "user", "--wait=false")
	c.eventually(time.Minute, "the driver is asked", func() (string, bool) {
		return "", driver.Request("NodeUnpublishVolume") != nil
	})
	if got := c.kubectl("get", "pod", "user", "-o", "name"); !strings.Contains(got, "pod/user") {
		t.Errorf("the Pod is gone (%q) while its volume is published", got)
	}
	if got := c.kubectl("get", "volumeattachment", va, "-o", "name"); !strings.Contains(got, va) {
		t.Errorf("detached (%q) while the volume is published", got)
	}
	close(until)
	c.eventually(time.Minute, "the volume is detached", func() (string, bool) {
		got := c.kubectl("get", "volumeattachment", "-o", "name") +
			c.kubectl("get", "pod", "user", "--ignore-not-found", "-o", "name")
		return got, strings.TrimSpace(got) == ""
	})
	if want, got := []string{"NodeUnpublishVolume vol-1", "NodeUnstageVolume vol-1"}, driver.Calls(); !slices.Equal(
		got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
	if got := strings.TrimSpace(c.kubectl("get", "node", "node-1", "-o", both)); got != "" {
		t.Errorf("the node has still in use or attached: %q, want none", got)
	}
	unregister()
	csiNode("")
}

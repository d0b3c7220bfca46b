package sidecars

import (
	"fmt"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
	"github.com/gantry-project/gantry/test/process"
	"github.com/gantry-project/gantry/test/up"
)

// lateNode is a node without a kubelet, and what its driver calls it.
func lateNode(name, id string) string {
	return `
apiVersion: v1
kind: Node
metadata:
  name: ` + name + `
  annotations: {volumes.kubernetes.io/controller-managed-attach-detach: "true"}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: ` + name + `}
spec: {drivers: [{name: disk.example.com, nodeID: ` + id + `, topologyKeys: []}]}
`
}

func attachedDisk(name string) string {
	return `
apiVersion: v1
kind: PersistentVolume
metadata: {name: ` + name + `}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  claimRef: {namespace: default, name: ` + name + `}
  csi: {driver: disk.example.com, volumeHandle: vol-` + name + `}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ` + name + `}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  volumeName: ` + name + `
  resources: {requests: {storage: 1Gi}}
`
}

func diskUser(pod, claim, node string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: ` + pod + `}
spec:
  nodeName: ` + node + `
  volumes: [{name: v, persistentVolumeClaim: {claimName: ` + claim + `}}]
  containers: [{name: main, image: "docker.io/library/busybox:1.28", volumeMounts: [{name: v, mountPath: /v}]}]
`
}

// kills kills the external-attacher, or Gantry with its attach/detach controller, at a call of the
// driver's.
type kills struct {
	*cluster
	whole    *cluster // of the whole test, which the attacher outlives subtests in
	driver   *csitest.Driver
	attacher *process.Process
}

func (k *kills) startAttacher() {
	k.attacher = k.whole.run("csi-attacher", "default", "--csi-address="+k.driver.Endpoint(),
		"--retry-interval-start=100ms", "--retry-interval-max=1s")
}

// killAt does something, and kills the victim when the driver gets the call for the volume that
// follows from it: before its work, or between it and its answer.
func (k *kills) killAt(method string, worked bool, victim, volume string, do func()) {
	k.t.Helper()
	until := make(chan struct{})
	k.driver.Stall(method, worked, until)
	do()
	k.until(method+" of "+volume, func() (string, bool) {
		r, ok := k.driver.Request(method).(interface{ GetVolumeId() string })
		return fmt.Sprint(k.driver.Request(method)), ok && r.GetVolumeId() == volume
	})
	if victim == "attacher" {
		k.attacher.Kill()
		close(until)
		k.startAttacher()
		return
	}
	k.Kill()
	close(until)
	k.Launch()
	k.WaitOutput(up.NodeReady, 2*time.Minute)
}

// attached waits until the VolumeAttachments are these, as node=attached.
func (k *kills) attached(want string) {
	k.t.Helper()
	k.eventually(want, "get", "volumeattachments", "-o",
		"jsonpath={range .items[*]}{.spec.nodeName}={.status.attached} {end}")
}

// The external-attacher, or Gantry with its attach/detach controller, is killed at each call that
// attaches or detaches a volume, before the call's work or between it and its answer. The volume is
// moved from one node to another: it never is attached to both, and nothing is left.
//
// row: CSI-15
func TestAttachersKilledAtEveryCall(t *testing.T) {
	c := newCluster(t)
	k := &kills{cluster: c, whole: c, driver: (&csitest.Driver{Name: "disk.example.com",
		Controls: []csipb.ControllerServiceCapability_RPC_Type{
			csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
			csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME}}).Start(t)}
	k.driver.AddNodes("machine-1", "machine-2")
	c.apply("apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: disk.example.com}\n")
	c.apply(lateNode("late-1", "machine-1"))
	c.apply(lateNode("late-2", "machine-2"))
	k.startAttacher()
	const attach, detach = "ControllerPublishVolume", "ControllerUnpublishVolume"
	n := 0
	for _, method := range []string{attach, detach} {
		for _, worked := range []bool{false, true} {
			for _, victim := range []string{"attacher", "controller"} {
				n++
				name := fmt.Sprintf("disk-%d", n)
				t.Run(fmt.Sprintf("%s/worked=%t/%s", method, worked, victim), func(t *testing.T) {
					k.cluster = &cluster{c.As(t), t, c.programs}
					k.move(name, func(at string, do func()) {
						if at == method {
							k.killAt(method, worked, victim, "vol-"+name, do)
							return
						}
						do()
					})
				})
				k.cluster = c
			}
		}
	}
}

// move has a volume attached to one node, then to another, then to none; step does each, and says
// which call follows.
func (k *kills) move(name string, step func(call string, do func())) {
	k.t.Helper()
	if _, err := k.driver.CreateVolume(k.t.Context(), &csipb.CreateVolumeRequest{Name: name,
		VolumeCapabilities: []*csipb.VolumeCapability{{}}}); err != nil {
		k.t.Fatal(err)
	}
	k.apply(attachedDisk(name))
	k.eventually("Bound", "get", "pvc", name, "-o", "jsonpath={.status.phase}")
	step("ControllerPublishVolume", func() { k.apply(diskUser("first-"+name, name, "late-1")) })
	k.attached("late-1=true")
	step("ControllerUnpublishVolume", func() {
		k.apply(diskUser("second-"+name, name, "late-2"))
		k.kubectl("delete", "pod", "first-"+name, "--force", "--grace-period=0")
	})
	k.attached("late-2=true")
	nodes, refused := k.driver.Attached()
	if nodes["vol-"+name] != "machine-2" || len(refused) > 0 {
		k.t.Errorf("attached is %v, refused %v, want machine-2 and nothing", nodes, refused)
	}
	k.kubectl("delete", "pod", "second-"+name, "--force", "--grace-period=0")
	k.attached("")
	if nodes, _ := k.driver.Attached(); len(nodes) > 0 {
		k.t.Errorf("left attached: %v", nodes)
	}
	k.eventually("", "get", "node", "late-1", "late-2", "-o", "jsonpath={.items[*].status.volumesAttached}")
	k.kubectl("delete", "pvc,pv", name, "--wait=false")
}

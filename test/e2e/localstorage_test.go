package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const localClaim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: raw}
spec:
  accessModes: [ReadWriteOnce]
  volumeMode: Block
  resources: {requests: {storage: 16Mi}}
`

const localClaimsPod = `
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {fsGroup: 3000}
  volumes:
  - {name: v, persistentVolumeClaim: {claimName: data}}
  - {name: raw, persistentVolumeClaim: {claimName: raw}}
  - name: generic
    ephemeral:
      volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}}
  - name: inline
    csi: {driver: local.csi.gantry.dev, volumeAttributes: {size: 32Mi}}
  containers:
  - name: main
    image: docker.io/library/busybox:1.28
    command: [sleep, "3600"]
    volumeMounts: [{name: v, mountPath: /v}, {name: inline, mountPath: /inline}, {name: generic, mountPath: /generic}]
    volumeDevices: [{name: raw, devicePath: /dev/raw}]
`

// row: CSI-02, CSI-07
// TestLocalStorage takes a claim without a class through its life on the node's disk.
func TestLocalStorage(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.apply(localClaim)
	c.apply(localClaimsPod)
	c.waitFor("pod/writer", "condition=Ready", time.Minute)

	inside := func(command string) string {
		t.Helper()
		return strings.TrimSpace(c.kubectl("exec", "writer", "--", "sh", "-c", command))
	}
	for _, step := range []struct{ command, want string }{ // in this order
		{"df -T /v | awk 'NR==2 {print $2}'", "ext4"},
		{"dd if=/dev/zero of=/v/f bs=1M count=80 2>&1 | grep -c 'No space'", "1"},
		{"rm /v/f; echo kept > /v/kept; stat -c %g /v/kept", "3000"},
		{"dd if=/dev/zero of=/inline/f bs=1M count=40 2>&1 | grep -c 'No space'", "1"},
		{"echo block | dd of=/dev/raw conv=sync 2>/dev/null; dd if=/dev/raw bs=5 count=1 2>/dev/null", "block"},
	} {
		if got := inside(step.command); got != step.want {
			t.Errorf("%s: got %q, want %q", step.command, got, step.want)
		}
	}
	c.refusesTooMuch()
	c.eventually(time.Minute, "the driver's words about the volume", func() (string, bool) {
		out := c.kubectl("get", "--raw", "/api/v1/nodes/node-1/proxy/metrics")
		for line := range strings.Lines(out) {
			if v, is := strings.CutPrefix(line,
				`kubelet_volume_stats_capacity_bytes{namespace="default",persistentvolumeclaim="data"} `); is {
				bytes, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
				return line, err == nil && bytes > 40<<20 && bytes < 64<<20
			}
		}
		return "no such metric", false
	})
	uid := c.kubectl("get", "pod", "writer", "-o", "jsonpath={.metadata.uid}")
	volume := c.kubectl("get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}")
	target := filepath.Join(c.Dir, "kubelet/pods", uid, "volumes/kubernetes.io~csi", volume, "mount/kept")
	if text, err := os.ReadFile(target); string(text) != "kept\n" {
		t.Errorf("%s has %q (%v), want what the container wrote", target, text, err)
	}

	c.rawIsMapped(uid)
	c.kubectl("patch", "pvc", "data", "-p", `{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}`)
	c.Kill()
	c.Start()
	if !mayResizeMounted(t) {
		c.eventually(time.Minute, "the image grows", func() (string, bool) {
			size := c.kubectl("get", "pvc", "data", "-o", "jsonpath={.status.conditions}")
			return size, strings.Contains(size, "FileSystemResizePending")
		})
		c.kubectl("delete", "pod", "writer") // the kernel lets this process resize unmounted file systems only
		c.apply(localClaimsPod)
		c.waitFor("pod/writer", "condition=Ready", time.Minute)
	}
	c.eventually(3*time.Minute, "the volume grows", func() (string, bool) {
		got := inside("df -m /v | awk 'NR==2 {print ($2 > 100)}'")
		size := c.kubectl("get", "pvc", "data", "-o", // whether a Pod names it is told whatever its size is
			`jsonpath={.status.capacity.storage} {.status.conditions[?(@.type!="Unused")]}`)
		return got + " " + size, got == "1" && strings.TrimSpace(size) == "128Mi"
	})
	if got := inside("cat /v/kept"); got != "kept" {
		t.Errorf("after SIGKILL of everything the file has %q, want kept", got)
	}
	c.kubectl("delete", "pod", "writer")
	c.kubectl("delete", "pvc", "data", "raw")
	c.eventually(time.Minute, "the volumes go", func() (string, bool) {
		left, err := os.ReadDir(filepath.Join(c.Dir, "local-storage/volumes"))
		pvs := c.kubectl("get", "pv", "-o", "name")
		return pvs, err == nil && len(left) == 0 && strings.TrimSpace(pvs) == ""
	})
	for _, of := range []string{"*.*/*", "volumeDevices/*/*"} {
		if left, err := filepath.Glob(filepath.Join(c.Dir, "kubelet/plugins/kubernetes.io/csi", of)); len(left) > 0 {
			t.Errorf("left staged: %v (%v)", left, err)
		}
	}
	if held := c.heldOpen(); len(held) > 0 {
		t.Errorf("left open by loop devices: %v", held)
	}
}

// rawIsMapped: the raw volume of a Pod is linked to from the Pod's directory, and kept open by a
// loop device, as two events say.
func (c *cluster) rawIsMapped(uid string) {
	c.t.Helper()
	volume := c.kubectl("get", "pvc", "raw", "-o", "jsonpath={.spec.volumeName}")
	devices := filepath.Join(c.Dir, "kubelet/plugins/kubernetes.io/csi/volumeDevices")
	link := filepath.Join(c.Dir, "kubelet/pods", uid, "volumeDevices/kubernetes.io~csi", volume)
	if to, err := os.Readlink(link); to != filepath.Join(devices, "publish", volume, uid) {
		c.t.Errorf("%s leads to %q (%v), want where the volume is published", link, to, err)
	}
	global := filepath.Join(devices, volume, "dev", uid)
	if held := c.heldOpen(); !slices.Equal(held, []string{global}) {
		c.t.Errorf("kept open by loop devices: %v, want %s", held, global)
	}
	said := c.kubectl("get", "events", "--field-selector", "reason=SuccessfulMountVolume", "-o",
		"jsonpath={.items[*].message}")
	for _, want := range []string{"globalMapPath \"" + filepath.Dir(global), "volumeMapPath \"" + filepath.Dir(link)} {
		if !strings.Contains(said, `MapVolume.MapPodDevice succeeded for volume "`+volume+`" `+want) {
			c.t.Errorf("events: got %s, want one of %s", said, want)
		}
	}
}

// heldOpen are the paths of raw volumes that loop devices keep open.
func (c *cluster) heldOpen() (paths []string) {
	c.t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		path := strings.TrimSpace(string(text))
		if err == nil && strings.HasPrefix(path, filepath.Join(c.Dir, "kubelet")+"/") {
			paths = append(paths, path)
		}
	}
	return paths
}

const greedyPod = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: greedy}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 100Ti}}
---
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  volumes: [{name: v, persistentVolumeClaim: {claimName: greedy}}]
  containers:
  - {name: main, image: "docker.io/library/busybox:1.28", volumeMounts: [{name: v, mountPath: /v}]}
`

// refusesTooMuch: a Pod whose claim is bigger than what the node can still promise is not placed
// there, and nothing is made for it.
func (c *cluster) refusesTooMuch() {
	c.t.Helper()
	c.apply(greedyPod)
	c.eventually(time.Minute, "the scheduler leaves the node out", func() (string, bool) {
		out := c.kubectl("get", "pod", "greedy", "-o", "jsonpath={.status.conditions[*].message}")
		return out, strings.Contains(out, "node(s) did not have enough free storage")
	})
	if got := c.kubectl("get", "pvc", "greedy", "-o", "jsonpath={.metadata.annotations}"); strings.Contains(got,
		"selected-node") {
		c.t.Errorf("the claim was given to a node: %s", got)
	}
	c.kubectl("delete", "pod", "greedy", "--force", "--grace-period=0")
	c.kubectl("delete", "pvc", "greedy")
}

// mayResizeMounted tells whether the kernel lets this process, and its children, resize file
// systems that are mounted: CAP_SYS_RESOURCE.
func mayResizeMounted(t *testing.T) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "CapEff:")
	text, _, _ := strings.Cut(rest, "\n")
	have, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return have&(1<<unix.CAP_SYS_RESOURCE) != 0
}

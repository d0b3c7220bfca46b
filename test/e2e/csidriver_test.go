package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/test/images"
)

const driverImage = "registry.test/gantry-csi-driver:1"

// importDriverImage makes an image of this Gantry with the programs that make file systems.
func (c *cluster) importDriverImage() {
	c.t.Helper()
	program, err := os.ReadFile(filepath.Join(c.Bin, "gantry"))
	if err != nil {
		c.t.Fatal(err)
	}
	img, err := images.Debian("csi-driver", []string{"e2fsprogs", "coreutils"}, nil, v1.Config{
		Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}})
	if err == nil {
		img, err = images.WithLayer(img, []images.File{{Path: "gantry", Mode: 0o755, Body: program}})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.importImage(driverImage, img)
}

// importImage gives the node an image.
func (c *cluster) importImage(ref string, img v1.Image) {
	c.t.Helper()
	archive := filepath.Join(c.t.TempDir(), "image.tar")
	if err := images.Archive(archive, map[string]images.Make{ref: func() (v1.Image, error) { return img, nil }}); err !=
		nil {
		c.t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(c.Bin, "gantry"), "image", "import", "--data-dir", c.Dir,
		archive).CombinedOutput(); err != nil {
		c.t.Fatalf("gantry image import: %v\n%s", err, out)
	}
}

// shareKubeletDir makes the kubelet's directory a mount that is shared with containers, as on a
// machine with systemd everything is.
func (c *cluster) shareKubeletDir() {
	c.t.Helper()
	dir := filepath.Join(c.Dir, "kubelet")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		c.t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		c.t.Fatal(err)
	}
}

// row: CSI-14, CSI-02
// TestDriverAsDaemonSet runs the driver of local volumes as the privileged DaemonSet that `gantry
// manifests csi-driver` prints: what it mounts in its container is there for the node and its Pods,
// also after the driver was killed, and claims get volumes, grow and go.
func TestDriverAsDaemonSet(t *testing.T) {
	c := newCluster(t, "--local-storage=false", "--proxy-healthz-bind-address", "", "--proxy-metrics-bind-address", "",
		"--service-cluster-ip-range", "10.91.0.0/16")
	c.shareKubeletDir()
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.importDriverImage()
	c.apply(c.Gantry("manifests", "csi-driver", "--image", driverImage, "--kubelet-dir",
		filepath.Join(c.Dir, "kubelet"), "--volumes-dir", filepath.Join(c.Dir, "local-storage")))
	c.kubectl("rollout", "status", "-n", "kube-system", "daemonset/gantry-csi-driver", "--timeout=2m")
	c.eventually(time.Minute, "the node's capacity", func() (string, bool) {
		out, err := c.try("", "get", "csistoragecapacities", "-n", "kube-system", "-o",
			"jsonpath={.items[*].nodeTopology.matchLabels}")
		return out, err == nil && strings.Contains(out, `"topology.local.csi.gantry.dev/node":"node-1"`)
	})
	c.apply(localClaim)
	c.apply(localClaimsPod)
	c.waitFor("pod/writer", "condition=Ready", 2*time.Minute)
	inside := func(command string) string {
		t.Helper()
		return strings.TrimSpace(c.kubectl("exec", "writer", "--", "sh", "-c", command))
	}
	inside("echo kept > /v/kept; echo block | dd of=/dev/raw conv=sync 2>/dev/null; sync")
	uid := c.kubectl("get", "pod", "writer", "-o", "jsonpath={.metadata.uid}")
	volume := c.kubectl("get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}")
	at := filepath.Join(c.Dir, "kubelet/pods", uid, "volumes/kubernetes.io~csi", volume, "mount")
	if text, err := os.ReadFile(filepath.Join(at, "kept")); string(text) != "kept\n" {
		t.Errorf("the node has %q (%v) in the Pod's volume, want what the container wrote", text, err)
	}

	before := loops(t, c.Dir)
	c.kubectl("delete", "pod", "-n", "kube-system", "-l", "app.kubernetes.io/name=gantry-csi-driver", "--force",
		"--grace-period=0")
	c.kubectl("rollout", "status", "-n", "kube-system", "daemonset/gantry-csi-driver", "--timeout=2m")
	if got := inside("cat /v/kept"); got != "kept" {
		t.Errorf("after the driver was killed the file has %q, want kept", got)
	}
	c.kubectl("delete", "pod", "writer")
	c.apply(localClaimsPod)
	c.waitFor("pod/writer", "condition=Ready", 2*time.Minute)
	if got := inside("cat /v/kept; dd if=/dev/raw bs=5 count=1 2>/dev/null"); got != "kept\nblock" {
		t.Errorf("the next Pod finds %q, want \"kept\\nblock\"", got)
	}
	if after := loops(t, c.Dir); after > before {
		t.Errorf("%d loop devices, %d before the driver was killed: an image has two", after, before)
	}
	c.kubectl("delete", "pod", "writer")
	c.kubectl("delete", "pvc", "data", "raw")
	c.eventually(time.Minute, "the volumes go", func() (string, bool) {
		pvs := c.kubectl("get", "pv", "-o", "name")
		return pvs, strings.TrimSpace(pvs) == ""
	})
	c.kubectl("delete", "daemonset", "-n", "kube-system", "gantry-csi-driver", "--wait=true")
	c.eventually(time.Minute, "the driver's Pod ends", func() (string, bool) {
		out := c.kubectl("get", "pod", "-n", "kube-system", "-l", "app.kubernetes.io/name=gantry-csi-driver", "-o",
			"name")
		return out, strings.TrimSpace(out) == ""
	})
}

// loops counts the loop devices of images below a directory, whatever path they were attached by.
func loops(t *testing.T, dir string) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	images, err := filepath.Glob(filepath.Join(dir, "local-storage/volumes/*/disk.img"))
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range images {
		out, err := exec.CommandContext(ctx, "losetup", "-j", image).Output()
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(out, []byte("\n"))
	}
	return n
}

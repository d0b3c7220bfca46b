package sidecars

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/images"
)

// driverDaemonSet is the driver with the CSI project's sidecars, as a driver's manifests bring it
// along: one privileged Pod on each node, whose containers share the driver's socket.
const driverDaemonSet = `
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
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: local-driver-resizer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: external-resizer-runner}
subjects: [{kind: ServiceAccount, namespace: default, name: csi-provisioner}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: local-driver-resizer, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: external-resizer-cfg}
subjects: [{kind: ServiceAccount, namespace: default, name: csi-provisioner}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: local-driver, namespace: default}
spec:
  selector: {matchLabels: {app: local-driver}}
  template:
    metadata: {labels: {app: local-driver}}
    spec:
      serviceAccountName: csi-provisioner
      terminationGracePeriodSeconds: 2
      volumes:
      - {name: kubelet, hostPath: {path: KUBELET, type: Directory}}
      - {name: volumes, hostPath: {path: VOLUMES, type: DirectoryOrCreate}}
      - {name: dev, hostPath: {path: /dev, type: Directory}}
      containers:
      - name: driver
        image: registry.test/driver:1
        command: [/gantry, csi-driver, --provision=false, --node-name=$(NODE_NAME), --kubelet-dir=KUBELET,
          --volumes-dir=VOLUMES]
        env: [&node {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        securityContext: {privileged: true}
        volumeMounts:
        - {name: kubelet, mountPath: KUBELET, mountPropagation: Bidirectional}
        - {name: volumes, mountPath: VOLUMES}
        - {name: dev, mountPath: /dev}
      - name: csi-provisioner
        image: registry.test/csi-provisioner:1
        command: [/csi-provisioner, --csi-address=SOCKET, --node-deployment=true, --strict-topology=true,
          --enable-capacity=true, --capacity-ownerref-level=1, --immediate-topology=false, --capacity-poll-interval=5s]
        env:
        - *node
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        volumeMounts: [{name: kubelet, mountPath: KUBELET}]
      - name: csi-resizer
        image: registry.test/csi-resizer:1
        command: [/csi-resizer, --csi-address=SOCKET]
        volumeMounts: [{name: kubelet, mountPath: KUBELET}]
`

// importDriver gives the node the images of the DaemonSet: the driver with the programs that it
// needs, and each sidecar alone.
func (c *cluster) importDriver() {
	c.t.Helper()
	alone := func(base v1.Image, program string) v1.Image {
		c.t.Helper()
		body, err := os.ReadFile(program)
		expect.NoError(c.t, err)
		img, err := images.WithLayer(base, []images.File{{Path: filepath.Base(program), Mode: 0o755, Body: body}})
		expect.NoError(c.t, err)
		img, err = images.WithConfig(img, v1.Config{Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}})
		expect.NoError(c.t, err)
		return img
	}
	base, err := images.Debian("csi-driver", []string{"e2fsprogs", "coreutils"}, nil, v1.Config{})
	expect.NoError(c.t, err)
	all := map[string]images.Make{}
	for name, img := range map[string]v1.Image{"driver": alone(base, filepath.Join(c.Bin, "gantry")),
		"csi-provisioner": alone(empty.Image, filepath.Join(c.programs, "csi-provisioner")),
		"csi-resizer":     alone(empty.Image, filepath.Join(c.programs, "csi-resizer"))} {
		all["registry.test/"+name+":1"] = func() (v1.Image, error) { return img, nil }
	}
	archive := filepath.Join(c.t.TempDir(), "driver.tar")
	expect.NoError(c.t, images.Archive(archive, all))
	c.Gantry("image", "import", "--data-dir", c.Dir, archive)
}

// A DaemonSet with the driver, the external-provisioner and the external-resizer in containers
// serves claims: they are bound, grow and go, also after the Pod was killed.
func TestDaemonSetWithSidecars(t *testing.T) {
	c := newCluster(t, "--local-storage=false")
	kubelet := filepath.Join(c.Dir, "kubelet")
	expect.NoError(t, unix.Mount(kubelet, kubelet, "", unix.MS_BIND, ""))
	expect.NoError(t, unix.Mount("", kubelet, "", unix.MS_SHARED, ""))
	c.importDriver()
	for _, program := range []string{"csi-provisioner", "csi-resizer"} {
		c.kubectl("apply", "-f", filepath.Join(c.programs, "manifests", "rbac-"+program+".yaml"))
	}
	c.apply(strings.NewReplacer("SOCKET", filepath.Join(kubelet, "plugins/local.csi.gantry.dev/csi.sock"), "KUBELET",
		kubelet, "VOLUMES", filepath.Join(c.Dir, "volumes")).Replace(driverDaemonSet))
	started := func() {
		t.Helper()
		c.kubectl("rollout", "status", "daemonset/local-driver", "--timeout=2m")
		c.eventually("local.csi.gantry.dev", "get", "csinode", "node-1", "-o", "jsonpath={.spec.drivers[*].name}")
	}
	started()
	c.until("the capacity is told", func() (string, bool) {
		out, err := c.try("", "get", "csistoragecapacities", "-A", "-o", "jsonpath={.items[*].storageClassName}")
		return out, err == nil && out == "local"
	})
	c.apply(claim("data", ""))
	c.ready("data")
	c.inside("data", "echo kept > /v/kept; sync")
	c.kubectl("delete", "pod", "-l", "app=local-driver", "--force", "--grace-period=0")
	started()
	c.kubectl("patch", "pvc", "data", "-p", `{"spec":{"resources":{"requests":{"storage":"64Mi"}}}}`)
	c.until("the external-resizer grows the volume", func() (string, bool) {
		out, err := c.try("", "get", "pv", "-o", "jsonpath={.items[0].spec.capacity.storage}")
		return out, err == nil && out == "64Mi"
	})
	c.kubectl("delete", "pod", "data", "--wait=true")
	c.apply(strings.Replace(claim("data", ""), "32Mi", "64Mi", 1))
	c.ready("data")
	if got := c.inside("data", "cat /v/kept; df -m /v | awk 'NR==2 {print ($2 > 50)}'"); got != "kept\n1" {
		t.Errorf("the next Pod finds %q, want what was kept on a volume that has grown", got)
	}
	c.kubectl("delete", "pod", "data", "--wait=true")
	c.kubectl("delete", "pvc", "data", "--wait=true")
	c.eventually("", "get", "pv", "-o", "name")
	c.kubectl("delete", "daemonset", "local-driver", "--wait=true")
	c.until("the driver's Pod ends", func() (string, bool) {
		out := c.kubectl("get", "pod", "-l", "app=local-driver", "-o", "name")
		return out, out == ""
	})
}

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	imagev1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gantry-project/gantry/test/images"
)

// Programs of test/deviceprograms, a module of its own.
const (
	samplePlugin = "k8s.io/kubernetes/test/images/sample-device-plugin"
	testDriver   = "k8s.io/kubernetes/test/e2e/dra/test-driver"
)

// importUpstream builds one of upstream's test programs and imports it as an image.
func (c *cluster) importUpstream(program, image string) {
	c.t.Helper()
	out := filepath.Join(c.t.TempDir(), "program")
	build := exec.Command("go", "build", "-p", "2", "-buildvcs=false", "-ldflags", "-s -w", "-o", out, program)
	build.Dir, build.Env = "../deviceprograms", append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if said, err := build.CombinedOutput(); err != nil {
		c.t.Fatalf("build %s: %v\n%s", program, err, said)
	}
	body, err := os.ReadFile(out)
	if err != nil {
		c.t.Fatal(err)
	}
	archive := filepath.Join(c.t.TempDir(), "images.tar")
	err = images.Archive(archive, map[string]images.Make{image: func() (imagev1.Image, error) {
		img, err := images.Busybox()
		if err == nil {
			img, err = images.WithLayer(img, []images.File{{Path: "program", Mode: 0o755, Body: body}})
		}
		if err != nil {
			return nil, err
		}
		return images.WithConfig(img, imagev1.Config{Entrypoint: []string{"/program"}})
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	said, err := exec.Command(filepath.Join(c.Bin, "gantry"), "image", "import", "--data-dir", c.Dir,
		archive).CombinedOutput()
	if err != nil {
		c.t.Fatalf("gantry image import: %v\n%s", err, said)
	}
}

// sampleDaemonSet is upstream's manifest of its sample device plugin, but for the kubelet's
// directory.
const sampleDaemonSet = `
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: sample-device-plugin-beta
  namespace: kube-system
  labels: {k8s-app: sample-device-plugin}
spec:
  selector: {matchLabels: {k8s-app: sample-device-plugin}}
  template:
    metadata: {labels: {k8s-app: sample-device-plugin}}
    spec:
      priorityClassName: system-node-critical
      tolerations:
      - {operator: Exists, effect: NoExecute}
      - {operator: Exists, effect: NoSchedule}
      volumes:
      - {name: device-plugin, hostPath: {path: KUBELET/device-plugins}}
      - {name: plugins-registry-probe-mode, hostPath: {path: KUBELET/plugins_registry}}
      - {name: dev, hostPath: {path: /dev}}
      - {name: cdi-dir, hostPath: {path: /var/run/cdi}}
      containers:
      - name: sample-device-plugin
        image: registry.k8s.io/e2e-test-images/sample-device-plugin:1.8.0
        env: [{name: PLUGIN_SOCK_DIR, value: /var/lib/kubelet/device-plugins}]
        securityContext: {privileged: true}
        volumeMounts:
        - {name: device-plugin, mountPath: /var/lib/kubelet/device-plugins}
        - {name: plugins-registry-probe-mode, mountPath: /var/lib/kubelet/plugins_registry}
        - {name: dev, mountPath: /dev}
        - {name: cdi-dir, mountPath: /var/run/cdi}
  updateStrategy: {type: RollingUpdate}
`

const sampleUser = `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: docker.io/library/busybox:1.28
    command: [sh, -c, 'ls -d /tmp/Dev-*; sleep 3600']
    resources: {limits: {example.com/resource: 1}}
`

// Upstream's sample device plugin, unchanged, in a DaemonSet: its devices reach containers, also
// after kubelet and plugin were killed, and none is given twice.
// row: DEV-01
// row: DEV-05
func TestUpstreamsSampleDevicePlugin(t *testing.T) {
	c := newCluster(t)
	for _, dir := range []string{"/tmp/Dev-1", "/tmp/Dev-2"} { // the runtime makes what the plugin has mounted
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			t.Cleanup(func() { _ = os.Remove(dir) })
		}
	}
	if _, err := os.Stat("/var/run/cdi"); os.IsNotExist(err) {
		t.Cleanup(func() { _ = os.Remove("/var/run/cdi") })
	}
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.importUpstream(samplePlugin, "registry.k8s.io/e2e-test-images/sample-device-plugin:1.8.0")
	c.apply(strings.ReplaceAll(sampleDaemonSet, "KUBELET", filepath.Join(c.Dir, "kubelet")))
	allocatable := func(want string) {
		t.Helper()
		c.eventually(time.Minute, want+" devices are allocatable", func() (string, bool) {
			got := c.field("node/node-1", `{.status.allocatable.example\.com/resource}`)
			return got, got == want
		})
	}
	allocatable("2")
	has := func(pod string) string {
		t.Helper()
		c.waitFor("pod/"+pod, "condition=Ready", time.Minute)
		device := ""
		c.eventually(time.Minute, pod+" has a device", func() (string, bool) {
			device = strings.TrimSpace(c.kubectl("logs", pod))
			return device, strings.HasPrefix(device, "/tmp/Dev-")
		})
		return device
	}
	c.apply(fmt.Sprintf(sampleUser, "first"))
	first := has("first")
	c.Kill()
	c.Start()
	allocatable("2")
	c.kubectl("delete", "pods", "-n", "kube-system", "-l", "k8s-app=sample-device-plugin", "--force",
		"--grace-period=0")
	c.kubectl("rollout", "status", "-n", "kube-system", "daemonset/sample-device-plugin-beta", "--timeout=60s")
	allocatable("2")
	c.apply(fmt.Sprintf(sampleUser, "second"))
	if second := has("second"); second == first {
		t.Errorf("both Pods have %s", first)
	}
	c.apply(fmt.Sprintf(sampleUser, "third"))
	c.eventually(30*time.Second, "the third Pod finds no device", func() (string, bool) {
		got := c.field("pod/third", `{.status.conditions[?(@.type=="PodScheduled")].message}`)
		return got, strings.Contains(got, "Insufficient example.com/resource")
	})
	if got := c.field("pod/first", "{.status.containerStatuses[0].restartCount}"); got != "0" {
		t.Errorf("the first Pod has restarted %s times, want 0", got)
	}
	c.kubectl("delete", "pod", "first")
	if third := has("third"); third != first {
		t.Errorf("the third Pod has %s, want %s, which became free", third, first)
	}
}

// driverManifests are upstream's permissions of its DRA test driver, and the driver in a DaemonSet.
const driverManifests = `
apiVersion: v1
kind: Namespace
metadata: {name: dra}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: plugin, namespace: dra}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: dra-kubelet-plugin}
rules:
- {apiGroups: [resource.k8s.io], resources: [resourceclaims], verbs: [get]}
- {apiGroups: [resource.k8s.io], resources: [resourceclaims/status], verbs: [patch, update]}
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims/driver]
  verbs: ["associated-node:patch", "associated-node:update"]
  resourceNames: [test-driver.cdi.k8s.io]
- {apiGroups: [""], resources: [nodes], verbs: [get]}
- {apiGroups: [resource.k8s.io], resources: [resourceslices], verbs: [get, list, watch, create, update, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: dra-kubelet-plugin}
subjects: [{kind: ServiceAccount, name: plugin, namespace: dra}]
roleRef: {kind: ClusterRole, name: dra-kubelet-plugin, apiGroup: rbac.authorization.k8s.io}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: example}
spec:
  selectors: [{cel: {expression: device.driver == "test-driver.cdi.k8s.io"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: default}
spec:
  spec:
    devices:
      requests: [{name: my-device, exactly: {deviceClassName: example}}]
      config: [{opaque: {driver: test-driver.cdi.k8s.io, parameters: {a: b}}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: driver, namespace: dra}
spec:
  selector: {matchLabels: {app: driver}}
  template:
    metadata: {labels: {app: driver}}
    spec:
      serviceAccountName: plugin
      terminationGracePeriodSeconds: 1
      volumes:
      - {name: plugins, hostPath: {path: KUBELET/plugins/test-driver.cdi.k8s.io, type: DirectoryOrCreate}}
      - {name: registry, hostPath: {path: KUBELET/plugins_registry}}
      - {name: cdi, hostPath: {path: /var/run/cdi, type: DirectoryOrCreate}}
      containers:
      - name: driver
        image: registry.k8s.io/dra-test-driver:v1.37.2
        args: [kubelet-plugin, --node-name=$(NODE), --num-devices=2, --datadir=KUBELET/plugins,
          --plugin-registration-path=KUBELET/plugins_registry]
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        securityContext: {privileged: true}
        volumeMounts:
        - {name: plugins, mountPath: KUBELET/plugins/test-driver.cdi.k8s.io}
        - {name: registry, mountPath: KUBELET/plugins_registry}
        - {name: cdi, mountPath: /var/run/cdi}
`

const claimUser = `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: resource, resourceClaimTemplateName: one}]
  containers:
  - name: with-resource
    image: docker.io/library/busybox:1.28
    command: [sh, -c, 'env | grep -e user_ -e claim_ | sort; echo .; sleep 3600']
    resources: {claims: [{name: resource}]}
  - name: without-resource
    image: docker.io/library/busybox:1.28
    command: [sh, -c, 'env | grep -e user_ -e claim_; echo .; sleep 3600']
`

// Upstream's DRA test driver, made with kubeletplugin, in a DaemonSet: the scheduler allocates, the
// kubelet prepares and brings what the driver says into the containers that have the claim, also
// after kubelet and driver were killed; what ended Pods held is given back.
func TestUpstreamsDRADriver(t *testing.T) {
	c := newCluster(t, "--proxy-healthz-bind-address", "", "--proxy-metrics-bind-address", "",
		"--dns-metrics-bind-address", "", "--service-cluster-ip-range", "10.86.0.0/16")
	if _, err := os.Stat("/var/run/cdi"); os.IsNotExist(err) {
		t.Cleanup(func() { _ = os.Remove("/var/run/cdi") })
	}
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.importUpstream(testDriver, "registry.k8s.io/dra-test-driver:v1.37.2")
	c.apply(strings.ReplaceAll(driverManifests, "KUBELET", filepath.Join(c.Dir, "kubelet")))
	c.eventually(time.Minute, "the driver publishes two devices", func() (string, bool) {
		got := c.field("resourceslices", "{.items[*].spec.devices[*].name}")
		logs, _ := c.try("", "logs", "-n", "dra", "-l", "app=driver", "--tail=20")
		return got + c.kubectl("get", "pods", "-n", "dra") + logs, got == "device-00 device-01"
	})
	has := func(pod string) {
		t.Helper()
		c.waitFor("pod/"+pod, "condition=Ready", time.Minute)
		c.eventually(time.Minute, pod+" has what the driver says", func() (string, bool) {
			with, without := c.kubectl("logs", pod, "-c", "with-resource"), c.kubectl("logs", pod, "-c",
				"without-resource")
			return with + without, strings.Contains(with, "user_a=b\n") && strings.Contains(with, "claim_") &&
				without == ".\n"
		})
	}
	c.apply(fmt.Sprintf(claimUser, "first"))
	has("first")
	firstClaim := c.field("resourceclaims", "{.items[0].metadata.uid}")
	t.Cleanup(func() {
		_ = os.Remove("/var/run/cdi/test-driver.cdi.k8s.io-" + firstClaim + "-my-device.json")
	})
	c.Kill()
	c.Start()
	c.kubectl("delete", "pods", "-n", "dra", "-l", "app=driver", "--force", "--grace-period=0")
	c.apply(fmt.Sprintf(claimUser, "second"))
	has("second")
	both := strings.Fields(c.field("resourceclaims", "{.items[*].status.allocation.devices.results[0].device}"))
	if len(both) != 2 || both[0] == both[1] {
		t.Errorf("the claims have devices %v, want two", both)
	}
	if got := c.field("pod/first", "{.status.containerStatuses[*].restartCount}"); got != "0 0" {
		t.Errorf("the first Pod's containers have restarted %s times, want 0", got)
	}
	c.apply(fmt.Sprintf(claimUser, "third"))
	c.eventually(30*time.Second, "the third Pod finds no device", func() (string, bool) {
		got := c.field("pod/third", `{.status.conditions[?(@.type=="PodScheduled")].message}`)
		return got, strings.Contains(got, "cannot allocate all claims")
	})
	c.kubectl("delete", "pod", "first")
	has("third")
	c.kubectl("delete", "pod", "second", "third")
	c.eventually(time.Minute, "the claims are gone", func() (string, bool) {
		got := c.field("resourceclaims", "{.items[*].metadata.name}")
		return got, got == ""
	})
	// the driver knows in memory alone what it prepared: what its first process did stays
	c.eventually(30*time.Second, "the driver has unprepared what it knows", func() (string, bool) {
		left, err := filepath.Glob("/var/run/cdi/test-driver.cdi.k8s.io-*.json")
		left = slices.DeleteFunc(left, func(path string) bool { return strings.Contains(path, firstClaim) })
		return fmt.Sprint(left, err), err == nil && len(left) == 0
	})
}

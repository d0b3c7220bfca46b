package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/test/up"
)

// Every kind of volume a node serves without drivers, as containers find it, and what is refused,
// in upstream's words.
func TestVolumes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.kubectl("create", "configmap", "cfg", "--from-literal=a=1", "--from-literal=b=2")
	c.kubectl("create", "secret", "generic", "login", "--from-literal=password=hunter2")
	host := hostSide(t)
	persistent(c, host)
	pods := append(madeVolumes(), hostVolumes(host)...)
	c.applyAll(append(append(pods, claims()...), refusedVolumes()...))
	c.leftByAnEarlierKubelet()
}

// hostSide makes what hostPath volumes show: a directory whose mounts propagate, with a mount in
// it.
func hostSide(t *testing.T) string {
	t.Helper()
	host, err := os.MkdirTemp("/tmp", "gantry-e2e-host-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, dir := range []string{"late", "inner", ""} {
			_ = unix.Unmount(filepath.Join(host, dir), unix.MNT_DETACH) // what was not mounted need not be unmounted
		}
		if err := os.RemoveAll(host); err != nil {
			t.Error(err)
		}
	})
	mount := func(dir string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(host, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", filepath.Join(host, dir), "tmpfs", 0, "mode=0755"); err != nil {
			t.Fatal(err)
		}
	}
	mount("")
	if err := unix.Mount("", host, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	mount("inner")
	for _, dir := range []string{"late", "data"} {
		if err := os.Mkdir(filepath.Join(host, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(host, "data", "file"), []byte("of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	return host
}

func madeVolumes() []aPod {
	return []aPod{
		{
			name: "memory", spec: "volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 4Mi}}]",
			container: "volumeMounts: [{name: v, mountPath: /v}]",
			runs: map[string]string{
				"df -T /v | awk 'NR==2 {print $2, $3}'":                                "tmpfs 4096",
				"dd if=/dev/zero of=/v/f bs=1M count=6 2>&1 | grep -c 'No space left'": "1",
			},
		},
		{
			name: "group",
			spec: "securityContext: {fsGroup: 3000, fsGroupChangePolicy: OnRootMismatch}\nvolumes: [{name: v, " +
				"emptyDir: {}}]", container: "volumeMounts: [{name: v, mountPath: /v}]",
			runs: map[string]string{"stat -c '%g %a' /v": "3000 2777", "touch /v/f && stat -c %g /v/f": "3000"},
		},
		{
			name: "projected", container: "volumeMounts: [{name: v, mountPath: /v}]",
			spec: `volumes:
- name: v
  projected:
    defaultMode: 0440
    sources:
    - configMap: {name: cfg, items: [{key: a, path: deep/a}]}
    - secret: {name: login, items: [{key: password, path: password, mode: 0400}]}
    - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
    - serviceAccountToken: {path: token, audience: vault, expirationSeconds: 600}`,
			runs: map[string]string{
				"cat /v/deep/a /v/password /v/name": "1hunter2projected", "stat -L -c %a /v/deep/a": "440",
				"stat -L -c %a /v/password": "400",
				"cut -d. -f2 /v/token | tr _- /+ | base64 -d 2>/dev/null | grep -c '\"aud\":\\[\"vault\"\\]'": "1",
			},
		},
		{
			name: "subpath", spec: "volumes: [{name: v, emptyDir: {}}]",
			container: `env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
volumeMounts:
- {name: v, mountPath: /all}
- {name: v, mountPath: /sub, subPath: a/b}
- {name: v, mountPath: /expr, subPathExpr: $(NAME)}`,
			runs: map[string]string{"echo x > /sub/f; cat /all/a/b/f": "x",
				"echo y > /expr/f; cat /all/subpath/f": "y"},
		},
		{
			name: "subpath-escape", spec: `initContainers:
- name: evil
  image: busybox:1.28
  command: [sh, -c, "ln -s / /v/out"]
  volumeMounts: [{name: v, mountPath: /v}]
volumes: [{name: v, emptyDir: {}}]`,
			container:      "volumeMounts: [{name: v, mountPath: /etc2, subPath: out/etc}]",
			expectedOutput: `Failed: Error: failed to prepare subPath for volumeMount "v" of container "c"`,
		},
		{
			name: "image", spec: "volumes: [{name: v, image: {reference: \"busybox:1.28\", pullPolicy: IfNotPresent}}]",
			container: "volumeMounts: [{name: v, mountPath: /img}, {name: v, mountPath: /bin2, subPath: bin}]",
			runs: map[string]string{"ls /img/bin/busybox /bin2/busybox": "/bin2/busybox\n/img/bin/busybox",
				"touch /img/x": "touch: /img/x: Read-only file system"},
		},
	}
}

func hostVolumes(host string) []aPod {
	v := func(path, kind string) string {
		return fmt.Sprintf("volumes: [{name: v, hostPath: {path: %s, type: %q}}]", path, kind)
	}
	in := func(name string) string { return filepath.Join(host, name) }
	const mount = "volumeMounts: [{name: v, mountPath: /v}]"
	return []aPod{
		{name: "host-directory", spec: v(in("data"), "Directory"), container: mount,
			runs: map[string]string{"cat /v/file": "of the host"}},
		{name: "host-makes-directory", spec: v(in("new/dir"), "DirectoryOrCreate"), container: mount,
			runs: map[string]string{"stat -c '%F %a' /v": "directory 755"}},
		{name: "host-makes-file", spec: v(in("newfile"), "FileOrCreate"), container: mount,
			runs: map[string]string{"stat -c '%F %a' /v": "regular empty file 644"}},
		{name: "host-char", spec: v("/dev/null", "CharDevice"), container: mount,
			runs: map[string]string{"test -c /v && echo yes": "yes"}},
		{
			name: "host-not-a-directory", spec: v(in("data/file"), "Directory"), container: mount,
			expectedOutput: `FailedMount: MountVolume.SetUp failed for volume "v" : hostPath type check failed: ` +
				in("data/file") + " is not a directory", why: []string{"is not a directory"},
		},
		{
			name: "host-not-a-socket", spec: v(in("data/file"), "Socket"), container: mount,
			expectedOutput: `FailedMount: MountVolume.SetUp failed for volume "v" : hostPath type check failed: ` +
				in("data/file") + " is not a socket file",
		},
		{
			name: "read-only", spec: v(host, "Directory"),
			container: "volumeMounts: [{name: v, mountPath: /v, readOnly: true}]",
			runs: map[string]string{"touch /v/x": "touch: /v/x: Read-only file system",
				"touch /v/inner/x && echo written": "written"},
		},
		{
			name: "read-only-all", spec: v(host, "Directory"),
			container: "volumeMounts: [{name: v, mountPath: /v, readOnly: true, recursiveReadOnly: Enabled}]",
			runs:      map[string]string{"touch /v/inner/y": "touch: /v/inner/y: Read-only file system"},
		},
		{
			name: "propagated", spec: v(host, "Directory"),
			container: "securityContext: {privileged: true}\nvolumeMounts: [{name: v, mountPath: /v, " +
				"mountPropagation: Bidirectional}]",
			runs: map[string]string{"mount -t tmpfs none /v/late && echo here > /v/late/f && cat /v/late/f && umount " +
				"/v/late": "here"},
		},
	}
}

// persistent makes volumes and claims that are bound to each other.
func persistent(c *cluster, host string) {
	for _, pv := range []struct{ name, source, mode string }{
		{"local", fmt.Sprintf("local: {path: %s}", filepath.Join(host, "data")), "Filesystem"},
		{"hostpath", fmt.Sprintf("hostPath: {path: %s}", filepath.Join(host, "data")), "Filesystem"},
		{"elsewhere", fmt.Sprintf("local: {path: %s}", host), "Filesystem"},
		{"disks", "iscsi: {targetPortal: \"127.0.0.1:3260\", iqn: \"iqn.2001-04.com.example:storage\", lun: 0}",
			"Filesystem"},
	} {
		node := "node-1"
		if pv.name == "elsewhere" {
			node = "node-2"
		}
		c.apply(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: %[1]s, volumeMode: %[3]s,
  resources: {requests: {storage: 1Gi}}}`, pv.name, pv.source, pv.mode))
		c.apply(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  volumeMode: %[3]s
  claimRef: {namespace: default, name: %[1]s, uid: %[5]s}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In,
    values: [%[4]s]}]}]}}
  %[2]s`, pv.name, pv.source, pv.mode, node, c.field("pvc/"+pv.name, "{.metadata.uid}")))
		c.kubectl("patch", "pvc", pv.name, "--subresource=status", "-p", `{"status":{"phase":"Bound"}}`)
		c.kubectl("patch", "pv", pv.name, "--subresource=status", "-p", `{"status":{"phase":"Bound"}}`)
	}
}

// Pods are put on the node by name: what the scheduler thinks of their claims is not asked here.
func claims() []aPod {
	of := func(claim string) string {
		return "nodeName: node-1\nvolumes: [{name: v, persistentVolumeClaim: {claimName: " + claim + "}}]"
	}
	const mount = "volumeMounts: [{name: v, mountPath: /v}]"
	const refused = `FailedMount: MountVolume.SetUp failed for volume "v" : `
	return []aPod{
		{name: "claim-local", spec: "securityContext: {fsGroup: 3000}\n" + of("local"), container: mount,
			runs: map[string]string{"cat /v/file": "of the host", "stat -c '%g %a' /v/file": "3000 660"}},
		{name: "claim-hostpath", spec: of("hostpath"), container: mount,
			runs: map[string]string{"cat /v/file": "of the host"}},
		{
			name: "claim-elsewhere", spec: of("elsewhere"), container: mount,
			expectedOutput: refused +
				`storage node affinity check failed for volume "elsewhere" : no matching NodeSelectorTerms`,
			why: []string{"elsewhere"},
		},
		{name: "claim-iscsi", spec: of("disks"), container: mount,
			expectedOutput: refused + "volume disks of claim default/disks: volumes of type iscsi are not served by " +
				"this node", why: []string{"iscsi", "local PersistentVolume"}},
		{
			name: "claim-missing", spec: of("nope"), container: mount,
			expectedOutput: `FailedMount: Unable to attach or mount volumes: unmounted volumes=[v], unattached ` +
				`volumes=[], failed to process volumes=[v]: ` +
				`error processing PVC default/nope: failed to fetch PVC from API server: persistentvolumeclaims "nope"`,
			why: []string{"nope"},
		},
	}
}

func refusedVolumes() []aPod {
	const mount = "volumeMounts: [{name: v, mountPath: /v}]"
	const refused = `FailedMount: MountVolume.SetUp failed for volume "v" : `
	return []aPod{
		{name: "no-configmap", spec: "volumes: [{name: v, configMap: {name: nope}}]", container: mount,
			expectedOutput: refused + `configmap "nope" not found`, why: []string{"nope"}},
		{name: "no-key", spec: "volumes: [{name: v, configMap: {name: cfg, items: [{key: nokey, path: x}]}}]",
			container: mount, expectedOutput: refused + "configmap references non-existent config key: nokey"},
		{name: "no-server", spec: "volumes: [{name: v, nfs: {server: 127.0.0.1, path: /x}}]", container: mount,
			expectedOutput: refused + "mount failed: "},
		{
			name: "fibre", spec: "volumes: [{name: v, fc: {targetWWNs: [\"50060e801049cfd1\"], lun: 0}}]",
			container:      mount,
			expectedOutput: refused + "volumes of type fc are not served by this node",
			why:            []string{"fc", "local PersistentVolume"},
		},
		{
			name: "no-huge-pages", spec: "volumes: [{name: v, emptyDir: {medium: HugePages}}]",
			container: mount + "\nresources: {requests: {cpu: 10m}}",
			expectedOutput: refused + "medium HugePages: hugePages storage requested, but there is no resource " +
				"request for huge pages",
		},
	}
}

// leftByAnEarlierKubelet: what a killed kubelet has left mounted for a Pod that nobody knows any
// more is unmounted and removed by the next one.
func (c *cluster) leftByAnEarlierKubelet() {
	c.Kill()
	pod := filepath.Join(c.Dir, "kubelet", "pods", "11111111-2222-3333-4444-555555555555")
	at := filepath.Join(pod, "volumes", "kubernetes.io~empty-dir", "v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
		c.t.Fatal(err)
	}
	c.Launch()
	c.WaitOutput(up.NodeReady, time.Minute)
	c.eventually(time.Minute, "removal of an unknown Pod's directory", func() (string, bool) {
		_, err := os.Stat(pod)
		raw, _ := os.ReadFile("/proc/self/mountinfo")
		return fmt.Sprint(err), os.IsNotExist(err) && !strings.Contains(string(raw), pod)
	})
}

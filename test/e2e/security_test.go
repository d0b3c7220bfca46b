package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/up"
)

const noMkdir = `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],` +
	`"action":"SCMP_ACT_ERRNO"}]}`

// What a Pod's security context asks for is what its processes meet, and what cannot be had is
// refused in upstream's words.
func TestSecurity(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	profiles := filepath.Join(c.Dir, "kubelet", "seccomp")
	if err := os.MkdirAll(profiles, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(profiles, "nomkdir.json"), []byte(noMkdir), 0o600); err != nil {
		t.Fatal(err)
	}
	c.importMade("example.test/named-user:1", ggcr.Config{User: "app"})
	c.kubectl("create", "secret", "generic", "login", "--from-literal=password=hunter2")
	t.Run("contexts", func(t *testing.T) { c.forSubtest(t).applyAll(contexts(c)) })
	t.Run("user namespaces", func(t *testing.T) { userNamespaces(c.forSubtest(t)) })
}

// importMade brings busybox in under another name and with another configuration.
func (c *cluster) importMade(name string, config ggcr.Config) {
	c.t.Helper()
	archive := filepath.Join(c.t.TempDir(), "image.tar")
	made := func() (ggcr.Image, error) {
		img, err := images.Busybox()
		if err != nil {
			return nil, err
		}
		return images.WithConfig(img, config)
	}
	if err := images.Archive(archive, map[string]images.Make{name: made}); err != nil {
		c.t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(c.Bin, "gantry"), "image", "import", "--data-dir", c.Dir,
		archive).CombinedOutput(); err != nil {
		c.t.Fatalf("gantry image import: %v\n%s", err, out)
	}
}

func contexts(c *cluster) []aPod {
	pods := []aPod{
		// row: SEC-01
		{
			name: "drop-all", container: "securityContext: {capabilities: {drop: [ALL]}}",
			runs: map[string]string{"grep CapEff /proc/self/status | cut -f2": "0000000000000000"},
		},
		{
			name: "add-one", container: "securityContext: {capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}",
			runs: map[string]string{"grep CapEff /proc/self/status | cut -f2": "0000000000000400"},
		},
		// row: SEC-02
		{
			name: "ids",
			spec: "securityContext: {runAsUser: 1001, runAsGroup: 1002, fsGroup: 1003, supplementalGroups: [1004], " +
				"runAsNonRoot: true}",
			runs: map[string]string{"id -u": "1001", "id -g": "1002", "id -G": "1002 1003 1004"},
		},
		{
			name: "own-over-pods", spec: "securityContext: {runAsUser: 1001}",
			container: "securityContext: {runAsUser: 2001}",
			runs:      map[string]string{"id -u": "2001"},
		},
		// row: SEC-02
		{
			name: "root-image", spec: "securityContext: {runAsNonRoot: true}",
			expectedOutput: `Failed: Error: container has runAsNonRoot and image will run as root (pod: ` +
				`"root-image_default(`, why: []string{"runAsNonRoot", "runAsUser"},
		},
		{
			name: "root-user", spec: "securityContext: {runAsNonRoot: true}",
			container:      "securityContext: {runAsUser: 0}",
			expectedOutput: `Failed: Error: container's runAsUser breaks non-root policy (pod: "root-user_default(`,
		},
		{
			name: "named-user", spec: "securityContext: {runAsNonRoot: true}", image: "example.test/named-user:1",
			expectedOutput: "Failed: Error: container has runAsNonRoot and image has non-numeric user (app), cannot " +
				"verify user is non-root (pod:", why: []string{"runAsUser"},
		},
		{
			name: "strict-groups",
			spec: "securityContext: {supplementalGroupsPolicy: Strict, supplementalGroups: [77]}",
			runs: map[string]string{"id -G": "0 77"},
		},
		// row: SEC-03
		{
			name: "seccomp-default",
			runs: map[string]string{"grep Seccomp: /proc/self/status | cut -f2": "2",
				"unshare -U true": "unshare: unshare(0x10000000): Operation not permitted"},
		},
		// row: SEC-03
		{
			name: "seccomp-off", container: "securityContext: {seccompProfile: {type: Unconfined}}",
			runs: map[string]string{"grep Seccomp: /proc/self/status | cut -f2": "0"},
		},
		// row: SEC-03
		{
			name:      "seccomp-own",
			container: "securityContext: {seccompProfile: {type: Localhost, localhostProfile: nomkdir.json}}",
			runs: map[string]string{
				"mkdir /tmp/x": "mkdir: can't create directory '/tmp/x': Operation not permitted"},
		},
		{
			name:      "seccomp-missing",
			container: "securityContext: {seccompProfile: {type: Localhost, localhostProfile: nosuch.json}}",
			expectedOutput: fmt.Sprintf(`Failed: Error: failed to create containerd container: cannot load seccomp `+
				`profile "%s/kubelet/seccomp/nosuch.json": open `, c.Dir),
		},
		{
			name: "read-only-root", container: "securityContext: {readOnlyRootFilesystem: true}",
			runs: map[string]string{"touch /x": "touch: /x: Read-only file system"},
		},
		{
			name: "no-new-privileges", container: "securityContext: {allowPrivilegeEscalation: false}",
			runs: map[string]string{"grep NoNewPrivs /proc/self/status | cut -f2": "1"},
		},
		{
			name: "masked", runs: map[string]string{"cat /proc/keys | wc -c": "0",
				"echo x > /proc/sys/kernel/hostname": "sh: can't create /proc/sys/kernel/hostname: Read-only file " +
					"system"},
		},
		{
			name: "privileged", container: "securityContext: {privileged: true}",
			runs: map[string]string{"grep Seccomp: /proc/self/status | cut -f2": "0",
				"mkdir /m && mount -t tmpfs none /m && echo mounted": "mounted"},
		},
		{
			name: "sysctl-safe",
			spec: "securityContext: {sysctls: [{name: net/ipv4/ip_local_port_range, value: \"2000 3000\"}]}",
			runs: map[string]string{"cat /proc/sys/net/ipv4/ip_local_port_range": "2000\t3000"},
		},
		{
			name: "sysctl-unsafe", spec: "securityContext: {sysctls: [{name: net.core.somaxconn, value: \"10\"}]}",
			expectedOutput: `SysctlForbidden: forbidden sysctl: "net.core.somaxconn" not allowlisted`,
		},
		{
			name: "windows-fields", container: "securityContext: {windowsOptions: {runAsUserName: ContainerUser}}",
			runs: map[string]string{"id -u": "0"},
		},
		// row: DWN-02
		// row: DWN-04
		{
			name: "downward", container: `env:
- {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
- {name: ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
- {name: HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
- {name: HOSTS, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}
- {name: POD, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: PODS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}`,
			runs: map[string]string{
				"echo $NODE $ACCOUNT $HOST ${HOSTS%%,*}":                     "node-1 default 127.0.0.1 127.0.0.1",
				`test -n "$POD" && test "$POD" = "${PODS%%,*}" && echo same`: "same",
			},
		},
		// row: DWN-07
		{
			name: "downward-init", spec: `initContainers:
- name: register
  image: busybox:1.28
  command: [sh, -c, "echo $POD_NAME $POD_IP > /v/me"]
  env:
  - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  volumeMounts: [{name: v, mountPath: /v}]
volumes: [{name: v, emptyDir: {}}]`, container: "volumeMounts: [{name: v, mountPath: /v}]",
			runs: map[string]string{
				"test \"$(cat /v/me)\" = \"downward-init $(hostname -i)\" && echo registered": "registered"},
		},
		// row: SEC-07
		{
			name: "token", spec: `volumes: [{name: s, secret: {secretName: login}}]`,
			container: "volumeMounts: [{name: s, mountPath: /s}]",
			runs: map[string]string{
				"df -T /s /var/run/secrets/kubernetes.io/serviceaccount | awk 'NR > 1 {print $2}' | sort -u": "tmpfs",
				"cat /s/password": "hunter2"},
		},
	}
	if raw, err := os.ReadFile("/sys/module/apparmor/parameters/enabled"); err != nil || !strings.HasPrefix(string(raw),
		"Y") {
		pods = append(pods, aPod{
			name: "apparmor", container: "securityContext: {appArmorProfile: {type: RuntimeDefault}}",
			expectedOutput: "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host",
		})
	}
	return pods
}

const mapped = "awk '{print $1, $3}' /proc/self/uid_map"

// Pods with users of their own: unprivileged on the node, apart from each other, and the same after
// the node was killed and started again.
//
// row: UNS-01
// row: UNS-02
// row: UNS-07
func userNamespaces(c *cluster) {
	if out := c.kubectl("get", "node", "node-1", "-o",
		`jsonpath={.status.runtimeHandlers[?(@.name=="")].features.userNamespaces}`); out != "true" {
		c.t.Skip("the runtime says that it has no user namespaces on this kernel")
	}
	outside := filepath.Join(c.Dir, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		c.t.Fatal(err)
	}
	foreign := filepath.Join(outside, "foreign")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Chown(foreign, 70000, 70000); err != nil {
		c.t.Fatal(err)
	}
	c.applyAll([]aPod{
		// row: UNS-04
		// row: UNS-06
		{
			name: "last-id",
			spec: "hostUsers: false\nsecurityContext: {runAsUser: 65535, runAsGroup: 65535, fsGroup: 2000}\nvolumes: " +
				"[{name: e, emptyDir: {}}]",
			container: "volumeMounts: [{name: e, mountPath: /e}]",
			runs: map[string]string{"id -u": "65535", mapped: "0 65536",
				"touch /e/f && stat -c '%u %g' /e/f": "65535 2000"},
		},
		// row: UNS-05
		{
			name: "overflow", spec: fmt.Sprintf("hostUsers: false\nvolumes: [{name: h, hostPath: {path: %s}}]",
				outside), container: "volumeMounts: [{name: h, mountPath: /h}]",
			runs: map[string]string{
				"stat -c '%u %g' /h/foreign":          "65534 65534",
				"chown 0 /h/foreign":                  "chown: /h/foreign: Operation not permitted",
				"touch /h/mine && stat -c %u /h/mine": "0",
			},
		},
		// row: UNS-08
		{
			name: "void", spec: "hostUsers: false",
			container: "securityContext: {capabilities: {add: [SYS_ADMIN, SYS_TIME, MKNOD]}}",
			runs: map[string]string{"date -s @1000000000 2>&1 | grep -c 'not permitted'": "1",
				"mknod /tmp/n c 1 3": "mknod: /tmp/n: Operation not permitted"},
		},
	})
	var made unix.Stat_t
	if err := unix.Stat(filepath.Join(outside, "mine"), &made); err != nil || made.Uid != 0 {
		c.t.Errorf("a file that root of the Pod made through an idmapped mount belongs to %d on the node (%v)",
			made.Uid, err)
	}
	// row: UNS-09
	// upstream's spelling
	for field, path := range map[string]string{"hostNetwork": "spec.hostNetwork", "hostPID": "spec.HostPID",
		"hostIPC": "spec.HostIPC"} {
		out, err := c.try(aPod{name: "shares", spec: "hostUsers: false\n" + field + ": true"}.yaml(), "apply", "-f",
			"-")
		if err == nil || !strings.Contains(out, path+": Forbidden") {
			c.t.Errorf("hostUsers false with %s: got %q, want %s forbidden", field, out, path)
		}
	}
	c.apply(aPod{name: "one", spec: "hostUsers: false"}.yaml() + aPod{name: "two", spec: "hostUsers: false"}.yaml())
	first := map[string]string{}
	for _, name := range []string{"one", "two"} {
		c.waitFor("pod/"+name, "condition=Ready", time.Minute)
		first[name] = hostUser(c, name)
	}
	if first["one"] == first["two"] {
		c.t.Errorf("two Pods share user %s of the node", first["one"])
	}
	c.Kill()
	c.Launch()
	c.WaitOutput(up.NodeReady, time.Minute)
	c.apply(aPod{name: "three", spec: "hostUsers: false"}.yaml())
	c.waitFor("pod/three", "condition=Ready", time.Minute)
	if third := hostUser(c, "three"); third == first["one"] || third == first["two"] {
		c.t.Errorf("a Pod made after a restart got users %s, which another has", third)
	}
	// may die with the container, which starts again in the same sandbox
	_, _ = c.try("", "exec", "one", "--", "kill", "1")
	c.eventually(time.Minute, "restart of the container", func() (string, bool) {
		out := c.field("pod/one", "{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}")
		return out, out == "1 true"
	})
	if again := hostUser(c, "one"); again != first["one"] {
		c.t.Errorf("the users moved from %s to %s with the restart", first["one"], again)
	}
	c.kubectl("delete", "pod", "one", "two", "three", "--now")
}

// hostUser is the user of the node that root of the Pod is.
func hostUser(c *cluster, pod string) string {
	c.t.Helper()
	for _, pid := range pidsOf(strings.TrimPrefix(c.field("pod/"+pod, "{.status.containerStatuses[0].containerID}"),
		"containerd://")) {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(raw)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
				if f[1] == "0" || len(f[1]) < 5 {
					c.t.Errorf("root of pod %s is user %s of the node", pod, f[1])
				}
				return f[1]
			}
		}
	}
	c.t.Fatalf("pod %s has no process", pod)
	return ""
}

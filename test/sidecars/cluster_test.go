package sidecars

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/process"
	"github.com/gantry-project/gantry/test/up"
)

// cluster is a `gantry up` beside which sidecars run.
type cluster struct {
	*up.Cluster
	t        *testing.T
	programs string // directory of the sidecars
}

// newCluster starts one, or skips the test.
func newCluster(t *testing.T, flags ...string) *cluster {
	t.Helper()
	programs := filepath.Join(binaries.Root(), "build/sidecars")
	if _, err := os.Stat(filepath.Join(programs, "csi-provisioner")); err != nil {
		t.Skip("the sidecars are not built: hack/sidecars.sh")
	}
	c := &cluster{up.New(t, "gs", append([]string{"-v=2"}, flags...)...), t, programs}
	c.Start()
	archive := filepath.Join(t.TempDir(), "images.tar")
	if err := images.Archive(archive, images.Select(images.Standard(), "docker.io/library/busybox:1.28")); err != nil {
		t.Fatal(err)
	}
	c.Gantry("image", "import", "--data-dir", c.Dir, archive)
	return c
}

// kubectl runs kubectl and returns what it printed.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.try("", args...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (c *cluster) try(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, "gantry"),
		append([]string{"kubectl", "--kubeconfig", c.Kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *cluster) apply(manifest string) {
	c.t.Helper()
	if out, err := c.try(manifest, "apply", "-f", "-"); err != nil {
		c.t.Fatalf("kubectl apply: %v\n%s\n%s", err, out, manifest)
	}
}

// eventually asks until the output of kubectl is want.
func (c *cluster) eventually(want string, args ...string) {
	c.t.Helper()
	c.until(strings.Join(args, " ")+" is "+want, func() (string, bool) {
		out, err := c.try("", args...)
		return out, err == nil && strings.TrimSpace(out) == want
	})
}

func (c *cluster) until(what string, ok func() (string, bool)) {
	c.t.Helper()
	up.Eventually(c.t, 3*time.Minute, what, ok)
}

// ready waits until a Pod is Ready.
func (c *cluster) ready(pod string) {
	c.t.Helper()
	if out, err := c.try("", "wait", "pod/"+pod, "--for=condition=Ready", "--timeout=2m"); err != nil {
		state, _ := c.try("", "describe", "pod", pod)
		claims, _ := c.try("", "describe", "pvc")
		c.t.Fatalf("waiting for Pod %s: %v\n%s\n%s\n%s", pod, err, out, state, claims)
	}
}

// inside runs a command in a Pod's container.
func (c *cluster) inside(pod, command string) string {
	c.t.Helper()
	return c.kubectl("exec", pod, "--", "sh", "-c", command)
}

// run runs a sidecar until the test ends, as the ServiceAccount that its own manifests bring along,
// with the rights that they give it.
func (c *cluster) run(program, namespace string, args ...string) *process.Process {
	c.t.Helper()
	c.kubectl("apply", "-f", filepath.Join(c.programs, "manifests", "rbac-"+program+".yaml"))
	kubeconfig := c.kubeconfigOf(namespace, program)
	cmd := exec.Command(filepath.Join(c.programs, program), append(args, "--kubeconfig="+kubeconfig, "--v=4")...)
	cmd.Env = append(os.Environ(), "NODE_NAME=node-1", "POD_NAME="+program, "NAMESPACE="+namespace)
	p, err := process.Start(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("%s:\n%s", program, p.Report())
		}
		p.Kill()
	})
	return p
}

// kubeconfigOf writes a kubeconfig of a ServiceAccount.
func (c *cluster) kubeconfigOf(namespace, account string) string {
	c.t.Helper()
	cfg, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	token := c.kubectl("create", "token", "-n", namespace, account)
	cfg.AuthInfos = map[string]*clientcmdapi.AuthInfo{account: {Token: token}}
	cfg.Contexts[cfg.CurrentContext].AuthInfo = account
	path := filepath.Join(c.t.TempDir(), account+".kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// snapshots installs the kinds of snapshots, their controller and the sidecar of a driver.
func (c *cluster) snapshots(socket string) {
	c.t.Helper()
	for _, kind := range []string{"volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"} {
		c.kubectl("apply", "-f", filepath.Join(c.programs, "manifests", "crd-"+kind+".yaml"))
		c.kubectl("wait", "crd", kind+".snapshot.storage.k8s.io", "--for=condition=Established", "--timeout=1m")
	}
	c.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: distributed-snapshotting}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: distributed-snapshotting}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: distributed-snapshotting}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: snapshot-controller}]
`)
	c.run("snapshot-controller", "kube-system", "--enable-distributed-snapshotting=true")
	c.run("csi-snapshotter", "default", "--csi-address="+socket, "--node-deployment=true")
}

package clients

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/metrics-server/cmd/metrics-server/app"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/ports"
)

// rights are what metrics-server's own manifests give it: it reads /metrics/resource of every
// kubelet under its service account, and asks the API server who its callers are. Its API is
// reached through the aggregator.
const rights = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: metrics-server, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:metrics-server}
rules:
- {apiGroups: [""], resources: [nodes/metrics], verbs: [get]}
- {apiGroups: [""], resources: [pods, nodes], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:metrics-server}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:metrics-server}
subjects: [{kind: ServiceAccount, name: metrics-server, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "metrics-server:system:auth-delegator"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:auth-delegator}
subjects: [{kind: ServiceAccount, name: metrics-server, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: metrics-server-auth-reader, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, name: metrics-server, namespace: kube-system}]
---
apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {ports: [{name: https, port: 443, targetPort: %[2]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: metrics-server-here, namespace: kube-system, labels: {kubernetes.io/service-name: metrics-server}}
addressType: IPv4
ports: [{name: https, port: %[2]d}]
endpoints: [{addresses: ["%[1]s"], conditions: {ready: true}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec: {group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100,
  insecureSkipTLSVerify: true, service: {name: metrics-server, namespace: kube-system}}
---
apiVersion: v1
kind: Pod
metadata: {name: busy, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: turns, image: "busybox:1.37", imagePullPolicy: IfNotPresent, command: [sh, -c, "while true; do :; done"],
      resources: {limits: {cpu: 300m, memory: 32Mi}}}
  - {name: sleeps, image: "busybox:1.37", imagePullPolicy: IfNotPresent, command: [sleep, "3600"]}
`

// kubectl is Gantry's own, which is the one of the Kubernetes release.
type kubectl struct {
	t    *testing.T
	file string
}

func (k kubectl) run(stdin string, args ...string) (string, error) {
	c := exec.Command(filepath.Join(binDir(k.t), "gantry"), append([]string{"kubectl", "--kubeconfig", k.file},
		args...)...)
	c.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}

// metrics-server as it is released reads the kubelet, and kubectl top what metrics-server serves:
// what a Pod uses, and the node.
//
// row: KAP-04
func TestMetricsServer(t *testing.T) {
	cfg := gantryUp(t)
	k := kubectl{t, writeConfig(t, cfg, "")}
	client := kubernetes.NewForConfigOrDie(cfg)
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "manifests", func() bool {
		out, err := k.run(fmt.Sprintf(rights, bridgeAddress(t), port), "apply", "-f", "-")
		if err != nil {
			t.Log(out)
		}
		return err == nil
	})
	token, err := client.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), "metrics-server",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "the Pod", func() bool {
		p, err := client.CoreV1().Pods("default").Get(t.Context(), "busy", metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning
	})
	serveMetrics(t, writeConfig(t, cfg, token.Status.Token), port)
	top := func(want string, args ...string) []string {
		t.Helper()
		var found []string
		expect.Eventually(t, "kubectl "+strings.Join(args, " "), func() bool {
			out, _ := k.run("", args...)
			found = regexp.MustCompile(want).FindStringSubmatch(out)
			return found != nil
		})
		return found
	}
	pod := top(`(?m)^busy +turns +(\d+)m +(\d+)Mi *$`, "top", "pod", "--containers")
	if used, _ := strconv.Atoi(pod[1]); used < 100 || used > 400 {
		t.Errorf("a container that turns in a circle under a limit of 300m uses %sm", pod[1])
	}
	top(`(?m)^busy +sleeps +\d+m +\d+Mi *$`, "top", "pod", "--containers")
	node := top(`(?m)^\S+ +(\d+)m +(\d+)% +(\d+)Mi +(\d+)% *$`, "top", "node")
	if used, _ := strconv.Atoi(node[1]); used < 100 {
		t.Errorf("the node uses %sm and runs a container that uses %sm", node[1], pod[1])
	}
}

// asMetricsServer in the environment makes the test binary metrics-server: its logging can be
// set up once for a process, and two tests want it.
const asMetricsServer = "GANTRY_TEST_METRICS_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asMetricsServer) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// the command prints its error itself
	if app.NewMetricsServerCommand(ctx.Done()).ExecuteContext(ctx) != nil {
		os.Exit(1)
	}
}

// serveMetrics runs metrics-server until the test ends.
func serveMetrics(t *testing.T, kubeconfig string, port int) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(executable,
		"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
		"--secure-port", fmt.Sprint(port), "--cert-dir", t.TempDir(),
		"--kubelet-insecure-tls", "--kubelet-use-node-status-port", "--kubelet-preferred-address-types", "InternalIP",
		"--metric-resolution", "10s", "--kubelet-request-timeout", "5s")
	c.Env = append(os.Environ(), asMetricsServer+"=1")
	var report bytes.Buffer
	c.Stdout, c.Stderr = &report, &report
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.WaitDelay = time.Second
	runtime.LockOSThread() // the parent of Pdeathsig is a thread
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(20*time.Second, func() { _ = c.Process.Kill() })
		defer late.Stop()
		if err := c.Wait(); err != nil {
			t.Errorf("metrics-server: %v, want no error", err)
		}
		if t.Failed() {
			t.Log(report.String())
		}
	})
}

// bridgeAddress is an address of this machine that endpoints may have: not loopback.
func bridgeAddress(t *testing.T) string {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}

// writeConfig writes a kubeconfig; with a token it has that user, without the one of cfg.
func writeConfig(t *testing.T, cfg *rest.Config, token string) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData,
		CertificateAuthority: cfg.CAFile}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData,
		ClientCertificate: cfg.CertFile, ClientKey: cfg.KeyFile}
	if token != "" {
		c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// binDir is where gantry and what it needs were built.
func binDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("GANTRY_BIN")
	if dir == "" {
		dir = "../../build/bin"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

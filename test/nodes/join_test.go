package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// bootstrap lets nodes in by a token: what kubeadm sets up for those that join.
const bootstrap = `
apiVersion: v1
kind: Secret
metadata: {name: bootstrap-token-abcdef, namespace: kube-system}
type: bootstrap.kubernetes.io/token
stringData: {token-id: abcdef, token-secret: 0123456789abcdef, usage-bootstrap-authentication: "true"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: join-requests}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:node-bootstrapper"}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:bootstrappers"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: join-approval}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole,
  name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:bootstrappers"}]
`

// joinConfig has the kubelet's port served with a certificate that the cluster's authority signs,
// and the API server's believed that it signed: both are needed for exec and logs. Names are asked
// for where the first node's Pods ask.
const joinConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nserverTLSBootstrap: " +
	"true\nauthentication: {x509: {clientCAFile: %s}}\nclusterDNS: [10.96.0.10]\n"

const proxyConfig = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\ndetectLocalMode: " +
	"NodeCIDR\n"

// join makes the machine a node of first's cluster: by a bootstrap token, with the kubeconfigs that
// first wrote for proxies and network agents. A node without the latter asks for it by itself; in a
// lab of the ending kind it had asked long ago, and its certificate is about to end.
func (m *machine) join(first *machine, given bool) {
	m.lab.t.Helper()
	must := func(err error) {
		if err != nil {
			m.lab.t.Fatal(err)
		}
	}
	must(os.MkdirAll(m.dir, 0o700))
	in := func(name string) string { return filepath.Join(m.dir, name) }
	for _, args := range [][]string{{"set-credentials", "join", "--token=abcdef.0123456789abcdef"},
		{"set-context", "join", "--user=join", "--cluster=join"}, {"use-context", "join"},
		{"set-cluster", "join", "--server=https://" + first.ip + ":6443", "--embed-certs",
			"--certificate-authority=" + filepath.Join(first.dir, "pki/ca.crt")}} {
		if out, err := m.Command(append([]string{"kubectl", "--kubeconfig", in("bootstrap.kubeconfig"), "config"},
			args...)...).CombinedOutput(); err != nil {
			m.lab.t.Fatalf("%v: got %v %s, want no error", args, err, out)
		}
	}
	copied := []string{"proxy.kubeconfig"}
	if given {
		copied = append(copied, "network.kubeconfig")
	}
	for _, name := range append(copied, "pki/ca.crt") {
		raw, err := os.ReadFile(filepath.Join(first.dir, name))
		must(err)
		must(os.WriteFile(in(filepath.Base(name)), raw, 0o600))
	}
	if !given && m.lab.ending {
		m.nearlyEnded(first)
	}
	must(os.WriteFile(in("kubelet.yaml"), fmt.Appendf(nil, joinConfig, in("ca.crt")), 0o600))
	m.Start("kubelet", "--bootstrap-kubeconfig", in("bootstrap.kubeconfig"), "--kubeconfig", in("node.kubeconfig"),
		"--config", in("kubelet.yaml"), "--network-kubeconfig", in("network.kubeconfig"),
		"--data-dir", m.dir, "--hostname-override", m.name, "--node-ip", m.addresses(), "--bridge", "gxb"+m.name,
		"--cluster-cidr", m.lab.cluster, "-v=2")
	if given { // one proxy detects its Pods by the cluster's ranges, the other by the Node's
		must(os.WriteFile(in("proxy.yaml"), []byte(proxyConfig), 0o600))
		m.Start("proxy", "--kubeconfig", in("proxy.kubeconfig"), "--data-dir", m.dir, "--hostname-override", m.name,
			"--config", in("proxy.yaml"))
		return
	}
	m.Start("proxy", "--kubeconfig", in("proxy.kubeconfig"), "--data-dir", m.dir, "--hostname-override", m.name,
		"--cluster-cidr", m.lab.cluster)
}

// cluster3 brings the first up and has the others join, the last without the network agent's
// kubeconfig; an administrator approves what they ask for.
func (l *testLab) cluster3(all []*machine, flags ...string) {
	l.t.Helper()
	a := all[0]
	a.up(flags...)
	l.eventually(time.Minute, "the API server answers", func() (string, bool) {
		out, err := a.kubectl("", "get", "--raw", "/readyz")
		return out + a.All[0].Output(), err == nil
	})
	a.mustKubectl(bootstrap, "apply", "-f", "-")
	for i, m := range all[1:] {
		m.join(a, i == 0)
	}
	want := map[string]bool{"kubernetes.io/kubelet-serving system:node:b": true,
		"kubernetes.io/kubelet-serving system:node:c": true, "kubernetes.io/kube-apiserver-client system:node:c": true}
	l.eventually(90*time.Second, "requests of b and c are approved", func() (string, bool) {
		out, _ := a.kubectl("", "get", "csr", "-o",
			`jsonpath={range .items[*]}{.metadata.name}|{.spec.signerName} {.spec.username}|`+
				`{.status.conditions[*].type}{"\n"}{end}`)
		for line := range strings.Lines(out) {
			if name, rest, _ := strings.Cut(line, "|"); strings.HasSuffix(rest, "|\n") {
				who, _, _ := strings.Cut(rest, "|")
				a.mustKubectl("", "certificate", "approve", name)
				delete(want, who)
			}
		}
		return fmt.Sprint(want, out), len(want) == 0
	})
	l.eventually(90*time.Second, "every node is Ready", func() (string, bool) {
		out, _ := a.kubectl("", "get", "nodes", "-o",
			`jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}`)
		return out, strings.Contains(out, "a=True") && strings.Contains(out, "b=True") && strings.Contains(out,
			"c=True")
	})
}

// webs runs a web Pod on every node, and waits until all are ready.
func (l *testLab) webs(all []*machine, service string) {
	l.t.Helper()
	for _, m := range all {
		m.load()
		service = web(m.name) + service
	}
	all[0].mustKubectl(service, "apply", "-f", "-")
	all[0].mustKubectl("", "wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=90s")
}

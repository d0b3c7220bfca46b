package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	upstreamConfig = "/etc/upstream.yaml"
	upstreamLog    = "/run/kubelet.log"
)

// upstream has upstream's kubelet take the node over, over the same containerd, store and
// configuration, and the same Pods beside the same hog. What it does is shown; only the end of the
// hog is checked.
func upstream(ctx context.Context, n *node) error {
	if _, err := os.Stat(programs + "/kubelet"); err != nil {
		return err
	}
	if err := n.takeOver(ctx); err != nil {
		return err
	}
	if err := n.kernel.watchMemory(); err != nil {
		return err
	}
	if err := n.start(ctx, memoryPods(true)...); err != nil {
		return err
	}
	hog := hog()
	hog.bound = true
	if err := n.feed(ctx, hog); err != nil {
		return err
	}
	for _, w := range memoryPods(true) {
		p := n.view.pod(w.name)
		n.say("%s: %s %s", w.name, p.Status.Phase, p.Status.Reason)
	}
	return nil
}

// takeOver ends Gantry but not its containerd, and starts its API server alone and upstream's
// kubelet.
func (n *node) takeOver(ctx context.Context) error {
	if err := n.gantry.Process.Kill(); err != nil {
		return err
	}
	<-n.ended
	sockets, _ := filepath.Glob("/run/gantry/*/containerd/containerd.sock")
	if len(sockets) == 0 {
		sockets, _ = filepath.Glob("/run/gantry/*/containerd.sock")
	}
	if len(sockets) != 1 {
		return fmt.Errorf("got containerd's sockets %v, want one", sockets)
	}
	text := kubeletConfig + fmt.Sprintf(`containerRuntimeEndpoint: unix://%s
authentication: {x509: {clientCAFile: %s/pki/ca.crt}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
`, sockets[0], dataDir)
	if err := os.WriteFile(upstreamConfig, []byte(text), 0o644); err != nil {
		return err
	}
	n.gantry = exec.Command(programs+"/gantry", "server", "--data-dir", dataDir, "--node-name", nodeName)
	ready := make(chan struct{})
	said, err := n.gantry.StdoutPipe()
	if err != nil {
		return err
	}
	n.gantry.Stderr = n.gantry.Stdout
	if err := n.gantry.Start(); err != nil {
		return err
	}
	go n.relay(said, ready)
	if err := n.waitAPI(ctx); err != nil {
		return err
	}
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}} // no controller makes it any more
	if _, err := n.api.CoreV1().ServiceAccounts("default").Create(ctx, account,
		metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	log, err := os.Create(upstreamLog)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	kubelet := exec.Command(programs+"/kubelet", "--kubeconfig", dataDir+"/kubelet.kubeconfig", "--config",
		upstreamConfig, "--hostname-override", nodeName, "--node-ip", bridgeAddress, "--v", "3")
	kubelet.Stdout, kubelet.Stderr = log, log
	if err := kubelet.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- kubelet.Wait() }()
	n.who, n.log = "upstream", upstreamLog
	n.say("upstream's %s has started", strings.TrimSpace(version(programs+"/kubelet")))
	select {
	case err := <-ended:
		return fmt.Errorf("upstream's kubelet has ended: %w", err)
	case <-time.After(10 * time.Second): // it refuses a configuration sooner
		return nil
	}
}

// bridgeAddress is the node's on the bridge of its Pods; upstream's kubelet takes no loopback
// address.
const bridgeAddress = "10.72.0.1"

func version(program string) string {
	out, _ := exec.Command(program, "--version").Output()
	return string(out)
}

// waitAPI waits until the API server answers.
func (n *node) waitAPI(ctx context.Context) error {
	var err error
	poll(func() bool {
		_, err = n.api.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil
	})
	if err != nil {
		return errors.Join(errors.New("the API server does not answer"), err)
	}
	return nil
}

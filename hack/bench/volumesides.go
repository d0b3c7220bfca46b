package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	node "github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/test/process"
)

// driverName is the CSI driver of the measurements.
const driverName = "local.csi.gantry.dev"

// besideVolumes is what is measured beside Gantry, as hack/upstream.sh builds it.
const besideVolumes = "kubelet and kube-controller-manager v1.37.2"

// upstreamPrograms are what the directory of -upstream has.
var upstreamPrograms = []string{"kubelet", "kube-controller-manager", "csi-provisioner", "csi-attacher"}

// upstreamIsThere says what is missing of the programs to measure beside Gantry, and who builds it.
func (b *bench) upstreamIsThere() error {
	for _, p := range upstreamPrograms {
		if info, err := os.Stat(filepath.Join(b.upstream, p)); err != nil || info.Mode()&0o111 == 0 {
			return fmt.Errorf("%s is not there: run `hack/upstream.sh %s`, which builds it",
				filepath.Join(b.upstream, p), b.upstream)
		}
	}
	return nil
}

// kubeletDir is where upstream's kubelet keeps sockets of device plugins, whatever its --root-dir.
const kubeletDir = "/var/lib/kubelet"

// volumeBench is a `gantry server` on whose node kubelets take turns.
type volumeBench struct {
	*cluster
	b        *bench
	instance *instance.Instance
	node     string
	address  string // of the node
	seen     *podEvents
	unwatch  func()
	side     string // whose turn it is
	turn     int
	// upstream's kubelet has made a directory that there was not
	madeKubeletDir bool
	of             map[string]*volumeSamples   // by side
	processes      map[string]*process.Process // of the side that is measured, beside Gantry's own

	mu       sync.Mutex
	attached map[string][2]time.Time // by VolumeAttachment: when it was seen, and when attached
}

// measuredRoles are the processes of a side that are measured at rest.
var measuredRoles = []string{"kubelet", "controllers"}

// startOwn starts Gantry's controllers and kubelet, and in the first turn makes the volumes.
func (v *volumeBench) startOwn(ctx context.Context) error {
	began := time.Now()
	if err := v.instance.StartRole("controllers"); err != nil {
		return err
	}
	if err := v.instance.StartKubelet(); err != nil {
		return err
	}
	if v.node == "" {
		if err := v.ready(ctx); err != nil {
			return err
		}
	} else if err := v.heartbeat(ctx, began); err != nil {
		return err
	}
	if err := v.startDriver(ctx, filepath.Join(v.instance.Dir, "kubelet")); err != nil {
		return err
	}
	if v.turn == 0 {
		if err := v.sidecar("csi-provisioner", "--node-deployment=true", "--immediate-topology=false",
			"--strict-topology=true"); err != nil {
			return err
		}
		if err := v.provision(ctx); err != nil {
			return err
		}
	}
	return v.sidecar("csi-attacher")
}

// startUpstream starts upstream's, in their default configuration but for their clients' limits and
// for what this machine and a node beside others ask for.
func (v *volumeBench) startUpstream(ctx context.Context) error {
	dir := filepath.Join(v.instance.Dir, "upstream")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(kubeletDir); errors.Is(err, os.ErrNotExist) {
		v.madeKubeletDir = true
	}
	pki := filepath.Join(filepath.Dir(v.instance.Kubeconfig()), "pki")
	if err := v.run("controllers", filepath.Join(v.b.upstream, "kube-controller-manager"), "--kubeconfig",
		v.instance.Kubeconfig(), "--leader-elect=false", "--secure-port=0", "--kube-api-qps=5000",
		"--kube-api-burst=5000", "--service-account-private-key-file",
		filepath.Join(pki, "sa.key"), "--root-ca-file", filepath.Join(pki, "ca.crt")); err != nil {
		return err
	}
	socket, err := v.runtimeSocket()
	if err != nil {
		return err
	}
	port, err := ports.Free()
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "kubelet.yaml")
	text := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: /gantry-%[4]s
oomScoreAdj: 0
enforceNodeAllocatable: []
port: %[1]d
healthzPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: %[2]s/ca.crt}}
authorization: {mode: AlwaysAllow}
tlsCertFile: %[2]s/kubelet.crt
tlsPrivateKeyFile: %[2]s/kubelet.key
evictionHard: {memory.available: 10Mi}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
podLogsDir: %[3]s/logs
kubeAPIQPS: 5000
kubeAPIBurst: 5000
eventRecordQPS: 0
`, port, pki, dir, node.ID(v.instance.Dir))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	began := time.Now()
	if err := v.run("kubelet", filepath.Join(v.b.upstream, "kubelet"), "--config", config, "--kubeconfig",
		filepath.Join(filepath.Dir(v.instance.Kubeconfig()), "kubelet.kubeconfig"), "--root-dir",
		filepath.Join(dir, "kubelet"), "--cert-dir", filepath.Join(dir, "certs"), "--hostname-override", v.node,
		"--node-ip", v.address, "--container-runtime-endpoint", "unix://"+socket); err != nil {
		return err
	}
	if err := v.heartbeat(ctx, began); err != nil {
		return err
	}
	if err := v.startDriver(ctx, filepath.Join(dir, "kubelet")); err != nil {
		return err
	}
	return v.sidecar("csi-attacher")
}

// runtimeSocket is the socket of the containerd that Gantry's kubelet left running.
func (v *volumeBench) runtimeSocket() (string, error) {
	for _, dir := range v.instance.Traces() {
		socket := filepath.Join(dir, "containerd.sock")
		if _, err := os.Stat(socket); err == nil {
			return socket, nil
		}
	}
	return "", fmt.Errorf("there is no containerd.sock in %v", v.instance.Traces())
}

// ready waits until the node is, and watches Pods and VolumeAttachments.
func (v *volumeBench) ready(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := v.nodeReady(soon); err != nil {
		return err
	}
	nodes, err := v.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	v.node = nodes.Items[0].Name
	for _, a := range nodes.Items[0].Status.Addresses {
		if a.Type == v1.NodeInternalIP {
			v.address = a.Address
		}
	}
	ctx, v.unwatch = context.WithCancel(ctx)
	if v.seen, err = v.watching(ctx); err != nil {
		return err
	}
	w, err := v.client.StorageV1().VolumeAttachments().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	go func() {
		for e := range w.ResultChan() {
			if a, ok := e.Object.(*storagev1.VolumeAttachment); ok {
				v.noteAttachment(a, e.Type, time.Now())
			}
		}
	}()
	return nil
}

func (v *volumeBench) noteAttachment(a *storagev1.VolumeAttachment, what watch.EventType, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := string(a.UID)
	at := v.attached[key]
	if what == watch.Added {
		at[0] = now
	}
	if a.Status.Attached && at[1].IsZero() {
		at[1] = now
	}
	v.attached[key] = at
}

// attaching is how long the attacher took for the one attachment since a time.
func (v *volumeBench) attaching(since time.Time) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, at := range v.attached {
		if at[0].After(since) && !at[1].IsZero() {
			return at[1].Sub(at[0])
		}
	}
	return 0
}

// heartbeat waits until a kubelet that has just begun calls the node Ready.
func (v *volumeBench) heartbeat(ctx context.Context, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return instance.Poll(ctx, 200*time.Millisecond, func() error {
		n, err := v.client.CoreV1().Nodes().Get(ctx, v.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue && c.LastHeartbeatTime.After(began) {
				return nil
			}
		}
		return fmt.Errorf("node %s was not Ready since %s", v.node, began.Format(time.TimeOnly))
	})
}

// startDriver starts the driver for the kubelet of a directory, and waits until that knows it.
func (v *volumeBench) startDriver(ctx context.Context, kubelet string) error {
	if err := v.run("driver", v.b.binary, "csi-driver", "--provision=false", "--kubeconfig", v.instance.Kubeconfig(),
		"--node-name", v.node, "--kubelet-dir", kubelet, "--volumes-dir", filepath.Join(v.instance.Dir, "volumes"),
		"--endpoint", v.socket(), "--logtostderr"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return v.processes["driver"].Await(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		n, err := v.client.StorageV1().CSINodes().Get(ctx, v.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, d := range n.Spec.Drivers {
			if d.Name == driverName {
				return nil
			}
		}
		return fmt.Errorf("CSINode %s does not have the driver %s", v.node, driverName)
	})
}

// socket is the driver's.
func (v *volumeBench) socket() string { return filepath.Join(v.instance.Dir, "csi.sock") }

// sidecar starts a sidecar of the driver, which is not held up by its client's own limits.
func (v *volumeBench) sidecar(program string, args ...string) error {
	return v.run(program, filepath.Join(v.b.upstream, program), append(args, "--csi-address="+v.socket(),
		"--kubeconfig="+v.instance.Kubeconfig(), "--kube-api-qps=500", "--kube-api-burst=1000")...)
}

// run starts a process of the side.
func (v *volumeBench) run(role, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "NODE_NAME="+v.node, "POD_NAME="+role, "NAMESPACE=default")
	p, err := process.Start(cmd)
	if err != nil {
		return err
	}
	if v.processes == nil {
		v.processes = map[string]*process.Process{}
	}
	v.processes[role] = p
	return nil
}

// pids are the processes of the side that are measured.
func (v *volumeBench) pids() map[string]int {
	out := map[string]int{}
	for _, role := range []string{"kubelet", "controllers"} {
		if p := v.processes[role]; p != nil {
			out[role] = p.PID()
		} else {
			out[role] = v.instance.PID(role)
		}
	}
	return out
}

// stopSide ends what the side started; containerd, the API server and the scheduler go on.
func (v *volumeBench) stopSide() error {
	for _, role := range []string{"kubelet", "controllers"} {
		if err := v.instance.End(role); err != nil {
			return err
		}
	}
	for _, p := range v.processes {
		_ = p.End(10 * time.Second) // a signal ended it
	}
	v.processes = nil
	return nil
}

// reports are the ends of what the side's processes printed.
func (v *volumeBench) reports() string {
	var out strings.Builder
	for role, p := range v.processes {
		fmt.Fprintf(&out, "\n%s:\n%s", role, p.Report())
	}
	return out.String()
}

// remove ends everything and removes it.
func (v *volumeBench) remove() {
	if v.unwatch != nil {
		v.unwatch()
	}
	if err := v.stopSide(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if v.madeKubeletDir {
		for _, name := range []string{"device-plugins/kubelet.sock", "device-plugins", ""} {
			_ = os.Remove(filepath.Join(kubeletDir, name)) // what another kubelet has put there stays
		}
	}
	links, _ := filepath.Glob("/var/log/containers/*") // upstream's kubelet makes them at this place alone
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, v.instance.Dir+"/") {
			_ = os.Remove(link) // it may be gone
		}
	}
	// upstream's kubelet has mounted its directory over itself
	_ = unix.Unmount(filepath.Join(v.instance.Dir, "upstream", "kubelet"), unix.MNT_DETACH)
	v.b.remove(v.instance)
}

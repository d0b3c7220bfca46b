package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	programs = "/opt/gantry"
	dataDir  = "/var/lib/gantry"
	nodeName = "node"
	swapMiB  = 512
)

// What the configuration says and scenarios count with.
const (
	memoryThreshold = 350 << 20 // the kernel begins to reclaim, and to thrash, below some 300 MiB
	systemReserved  = 200       // MiB
	podPids         = 600
	pidThreshold    = 500
)

var kubeletConfig = fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
failSwapOn: false
memorySwap: {swapBehavior: LimitedSwap}
featureGates: {MemoryQoS: true}
memoryReservationPolicy: TieredReservation
memoryThrottlingFactor: 0.9
cpuManagerPolicy: static
reservedSystemCPUs: "0"
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
systemReserved: {memory: %dMi}
reservedMemory: [{numaNode: 0, limits: {memory: %dMi}}]
podPidsLimit: %d
imageGCHighThresholdPercent: 100
evictionHard:
  memory.available: %dMi
  nodefs.available: 20%%
  nodefs.inodesFree: 5%%
  imagefs.available: 20%%
  pid.available: "%d"
evictionPressureTransitionPeriod: 15s
`, systemReserved, systemReserved+memoryThreshold>>20, podPids, memoryThreshold>>20, pidThreshold)

// node is the machine with Gantry on it.
type node struct {
	*timeline
	api    kubernetes.Interface
	view   *view
	kernel *kernel
	gantry *exec.Cmd
	ended  chan error
	who    string // the kubelet, as figures name it
	log    string // its file
}

// startNode prepares disks, starts Gantry and waits until the node is Ready.
func startNode(ctx context.Context, t *timeline) (*node, error) {
	if err := prepareDisks(t); err != nil {
		return nil, err
	}
	k, err := watchKernel(t)
	if err != nil {
		return nil, err
	}
	n := &node{timeline: t, kernel: k, ended: make(chan error, 1), who: "gantry", log: dataDir + "/gantry.log"}
	if err := os.WriteFile("/etc/kubelet.yaml", []byte(kubeletConfig), 0o644); err != nil {
		return nil, err
	}
	n.gantry = exec.Command(programs+"/gantry", "up", "--data-dir", dataDir, "--node-name", nodeName, "--node-ip",
		"127.0.0.1", "--kubelet-config", "/etc/kubelet.yaml", "--dns=false", "--local-storage=false",
		"--network-policy=false", "--stop-pods", "-v", "2")
	said, err := n.gantry.StdoutPipe()
	if err != nil {
		return nil, err
	}
	n.gantry.Stderr = n.gantry.Stdout
	if err := n.gantry.Start(); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go n.relay(said, ready)
	select {
	case <-ready:
	case err := <-n.ended:
		return nil, fmt.Errorf("gantry up ended: %w", err)
	case <-time.After(patience):
		return nil, errors.New("the node is not Ready")
	}
	config, err := clientcmd.BuildConfigFromFlags("", dataDir+"/kubeconfig")
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	if n.api, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	n.view = newView(n)
	go n.view.follow(ctx)
	return n, n.describe(ctx)
}

// relay prints what `gantry up` says.
func (n *node) relay(said io.Reader, ready chan struct{}) {
	s := bufio.NewScanner(said)
	for s.Scan() {
		n.say("gantry: %s", strings.TrimSpace(s.Text()))
		if strings.Contains(s.Text(), "node ready") {
			close(ready)
		}
	}
	n.ended <- n.gantry.Wait()
}

// describe says what the node has.
func (n *node) describe(ctx context.Context) error {
	x, err := n.api.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	a := x.Status.Allocatable
	n.say("allocatable: %s cores, %d MiB of memory, %d MiB of disk; %s", a.Cpu(), a.Memory().Value()>>20,
		a.StorageEphemeral().Value()>>20, x.Status.NodeInfo.ContainerRuntimeVersion)
	n.expect(podsCgroup() != "", "systemd keeps the Pods' cgroup: %s", podsCgroup())
	return nil
}

// prepareDisks makes what Gantry keeps its data on, a file of 1 GB, and turns swap on.
func prepareDisks(t *timeline) error {
	for _, c := range [][]string{
		{"mkdir", "-p", dataDir},
		{"truncate", "-s", "1000M", "/var/disk"},
		{"modprobe", "-a", "loop", "overlay"},
		{"mkfs.ext4", "-q", "-E", "lazy_itable_init=1,lazy_journal_init=1", "/var/disk"},
		{"mount", "-o", "loop,noatime", "/var/disk", dataDir},
		{"mkdir", dataDir + "/images"},
		{"cp", programs + "/pods.tar", dataDir + "/images/"},
		{"busybox", "mkswap", "/dev/vdc"},
		{"busybox", "swapon", "/dev/vdc"},
		{"mount", "-t", "tracefs", "none", "/sys/kernel/tracing"},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(c, " "), err, out)
		}
	}
	t.say("%d MiB of swap; %s is a loop file of 1000 MiB", readMeminfo()["SwapTotal"]>>20, dataDir)
	return nil
}

// stop ends Gantry and its Pods.
func (n *node) stop() error {
	if err := n.gantry.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-n.ended:
		n.expect(err == nil, "Gantry has stopped: %v", err)
		return nil
	case <-time.After(patience):
		return errors.New("gantry up does not end")
	}
}

// waitQuiet removes all Pods and waits until the node is short of nothing.
func (n *node) waitQuiet(ctx context.Context) error {
	err := n.api.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)},
		metav1.ListOptions{})
	if err != nil {
		return err
	}
	return n.view.wait("no Pod and no pressure", func(v *view) bool {
		return len(v.pods) == 0 && len(v.pressure) == 0
	})
}

// podsCgroup is the directory of the cgroup of all Pods; empty when there is none.
func podsCgroup() string { return cgroupNamed("kubepods.slice") }

// cgroupNamed is the first cgroup whose directory's name ends so.
func cgroupNamed(suffix string) string {
	found := ""
	_ = filepath.WalkDir("/sys/fs/cgroup", func(file string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.HasSuffix(e.Name(), suffix) {
			found = file
			return filepath.SkipAll
		}
		return nil
	})
	return found
}

// readMeminfo reads /proc/meminfo, in bytes.
func readMeminfo() map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(contents("/proc/meminfo")) {
		name, rest, _ := strings.Cut(line, ":")
		if f := strings.Fields(rest); len(f) > 0 {
			n, _ := strconv.ParseInt(f[0], 10, 64)
			out[name] = n << 10
		}
	}
	return out
}

// dumpLogs writes the end of the logs to the console.
func dumpLogs() {
	for _, file := range []string{dataDir + "/gantry.log", dataDir + "/containerd/containerd.log", upstreamLog} {
		fmt.Fprintf(os.Stderr, "\n%s\n", file)
		tail := exec.Command("tail", "-n", "400", file)
		tail.Stdout, tail.Stderr = os.Stderr, os.Stderr
		_ = tail.Run()
	}
}

// dumpNode writes Pods and conditions to the console.
func dumpNode(ctx context.Context, n *node) {
	list, err := n.api.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, p := range list.Items {
		fmt.Fprintf(os.Stderr, "pod %s: %s %s %s\n", p.Name, p.Status.Phase, p.Status.Reason, p.Status.Message)
		for _, c := range p.Status.Conditions {
			if c.Status != v1.ConditionTrue {
				fmt.Fprintf(os.Stderr, "  %s %s %s\n", c.Type, c.Reason, c.Message)
			}
		}
	}
}

// Package instance runs a Gantry of its own for tests (through test/up) and for tools that measure
// or compare: in a new directory, on free ports, removed to the last trace.
//
// In: where the programs are. Out: a running `gantry up` (or its roles as processes of their own),
// kubectl, an administrator's client, images.
package instance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/test/process"
)

// Options say what to run.
type Options struct {
	Binary string   // gantry
	BinDir string   // runc, shim, CNI plugin; where Binary is when empty
	Node   string   // name of the node; "node-1" when empty
	NodeIP string   // address of the node; that of the default route when empty
	Number int      // distinguishes instances on one machine: 1 to 99
	Split  bool     // server, scheduler, controllers and kubelet as processes of their own
	Config string   // KubeletConfiguration file
	Sched  string   // KubeSchedulerConfiguration file of a split instance
	Flags  []string // further flags of `gantry up`
	Server []string // further flags of `gantry server` in a split instance

	// Of the Pods' network. When empty they are made from Number; without a number they are this
	// instance's alone on this machine until Remove, and the bridge's name begins with Prefix, a
	// few letters ("gyard" when empty).
	Bridge, PodCIDR, Prefix string
}

// Instance is a Gantry and its directory.
type Instance struct {
	Dir  string
	o    Options
	port int
	node int // the kubelet's port

	kubeconfig string // of somebody else's cluster

	network *ports.Network // held until Remove; nil when the options name one

	mu       sync.Mutex
	children map[string]*process.Process
}

// New makes the directory; nothing runs yet.
func New(o Options) (*Instance, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("gantry runs real containers here and needs root: run it with sudo")
	}
	if o.Node == "" {
		o.Node = "node-1"
	}
	var err error
	if o.Binary, err = filepath.Abs(o.Binary); err != nil {
		return nil, err
	}
	if o.BinDir == "" {
		o.BinDir = filepath.Dir(o.Binary)
	}
	if o.BinDir, err = filepath.Abs(o.BinDir); err != nil {
		return nil, err
	}
	for _, need := range []string{o.Binary, filepath.Join(o.BinDir, "runc")} {
		if _, err := os.Stat(need); err != nil {
			return nil, fmt.Errorf("%w: run `make build` first", err)
		}
	}
	dir, err := os.MkdirTemp("", "gantry-instance-")
	if err != nil {
		return nil, err
	}
	i := &Instance{Dir: dir, o: o, children: map[string]*process.Process{}}
	if i.port, err = ports.Free(); err == nil {
		i.node, err = ports.Free()
	}
	if err == nil && o.Number == 0 && (o.Bridge == "" || o.PodCIDR == "") {
		if i.network, err = ports.ReserveNetwork(cmp.Or(o.Prefix, "gyard")); err == nil {
			i.o.Bridge, i.o.PodCIDR = cmp.Or(o.Bridge, i.network.Bridge), cmp.Or(o.PodCIDR, i.network.PodCIDR)
		}
	}
	return i, err
}

func (i *Instance) bridge() string {
	return cmp.Or(i.o.Bridge, fmt.Sprintf("gyard%d", i.o.Number))
}

func (i *Instance) podCIDR() string {
	return cmp.Or(i.o.PodCIDR, fmt.Sprintf("10.%d.0.0/16", 122+i.o.Number))
}

// instanceFlags are the flags that separate this instance's node from others'.
func (i *Instance) instanceFlags() []string {
	flags := []string{"--kubelet-port", fmt.Sprint(i.node), "--bridge", i.bridge(), "--pod-cidr", i.podCIDR(),
		"--bin-dir", i.o.BinDir}
	if i.o.NodeIP != "" {
		flags = append(flags, "--node-ip", i.o.NodeIP)
	}
	return flags
}

// Start starts Gantry and returns at once; see WaitReady. It may be called again after Stop.
func (i *Instance) Start() error {
	if i.o.Split {
		return i.run("server", "server", append([]string{"--data-dir", i.server(), "--secure-port", fmt.Sprint(i.port),
			"--node-name", i.o.Node}, i.o.Server...)...)
	}
	return i.run("up", "up", i.UpFlags()...)
}

// UpFlags are the flags with which Start runs `gantry up`.
func (i *Instance) UpFlags() []string {
	flags := append([]string{"--data-dir", i.Dir, "--secure-port", fmt.Sprint(i.port), "--node-name", i.o.Node},
		i.instanceFlags()...)
	if i.o.Config != "" {
		flags = append(flags, "--kubelet-config", i.o.Config)
	}
	return append(flags, i.o.Flags...)
}

// Port is that of the API server.
func (i *Instance) Port() int { return i.port }

// PKI is the directory of the cluster's certificates.
func (i *Instance) PKI() string { return filepath.Join(i.server(), "pki") }

// server is the data directory of the API server: roles of their own have directories of their own.
func (i *Instance) server() string {
	if i.o.Split {
		return filepath.Join(i.Dir, "server")
	}
	return i.Dir
}

// StartRoles starts the processes beside the API server in a split instance.
func (i *Instance) StartRoles() error {
	for _, role := range []string{"scheduler", "controllers"} {
		if err := i.StartRole(role); err != nil {
			return err
		}
	}
	return i.StartKubelet()
}

// StartRole starts the scheduler or the controllers of a split instance.
func (i *Instance) StartRole(role string) error {
	args := []string{"--kubeconfig", filepath.Join(i.server(), role+".kubeconfig"), "--leader-elect=false"}
	if role == "scheduler" {
		args = append(args, "--secure-port", "0") // several run on one machine
	}
	if role == "scheduler" && i.o.Sched != "" {
		args = append(args, "--config", i.o.Sched)
	}
	return i.run(role, role, args...)
}

// SchedulerConfig sets the configuration file of the scheduler's next start; empty takes it away.
func (i *Instance) SchedulerConfig(path string) { i.o.Sched = path }

// Output is what a process printed so far.
func (i *Instance) Output(name string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c := i.children[name]; c != nil {
		return c.Output()
	}
	return ""
}

// Binary is the gantry under test.
func (i *Instance) Binary() string { return i.o.Binary }

// StartKubelet starts the kubelet of a split instance.
func (i *Instance) StartKubelet() error {
	pki := i.PKI()
	args := append([]string{"--kubeconfig", filepath.Join(i.server(), "kubelet.kubeconfig"), "--data-dir", i.Dir,
		"--hostname-override", i.o.Node,
		"--client-ca-file", filepath.Join(pki, "ca.crt"), "--tls-cert-file", filepath.Join(pki, "kubelet.crt"),
		"--tls-private-key-file", filepath.Join(pki, "kubelet.key")}, i.instanceFlags()...)
	if i.o.Config != "" {
		args = append(args, "--config", i.o.Config)
	}
	return i.run("kubelet", "kubelet", args...)
}

// run starts `gantry verb args` under a name.
func (i *Instance) run(name, verb string, args ...string) error {
	c, err := process.Start(exec.Command(i.o.Binary, append([]string{verb}, args...)...), i.logs(name)...)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.children[name] = c
	return nil
}

// logs are the files in which a process logs beside what it prints.
func (i *Instance) logs(name string) []string {
	switch name {
	case "up":
		return []string{filepath.Join(i.Dir, "gantry.log")}
	case "server":
		return []string{filepath.Join(i.server(), "gantry.log")}
	}
	return nil
}

// Process is the last one of that name that was started and was not ended by Kill or End; else nil.
func (i *Instance) Process(name string) *process.Process {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.children[name]
}

// PID is the process of that name: "up", or a role of a split instance; 0 when it does not run.
func (i *Instance) PID(name string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c := i.children[name]; c != nil {
		return c.PID()
	}
	return 0
}

// Kill ends one process with KILL and waits for its end.
func (i *Instance) Kill(name string) error {
	i.mu.Lock()
	c := i.children[name]
	delete(i.children, name)
	i.mu.Unlock()
	if c == nil {
		return fmt.Errorf("gantry %s does not run", name)
	}
	c.Kill()
	return nil
}

// End ends one process with TERM, and with KILL when it takes more than half a minute.
func (i *Instance) End(name string) error {
	i.mu.Lock()
	c := i.children[name]
	delete(i.children, name)
	i.mu.Unlock()
	if c == nil {
		return nil
	}
	err := c.End(time.Minute)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil // its output says how it ended
	}
	return err
}

// Stop ends every process; containers run on.
func (i *Instance) Stop() error {
	var errs []error
	for _, name := range []string{"kubelet", "controllers", "scheduler", "up", "server"} {
		errs = append(errs, i.End(name))
	}
	return errors.Join(errs...)
}

// Remove stops everything and takes away every trace.
func (i *Instance) Remove() error {
	err := i.Stop()
	out, cleanErr := exec.Command(i.o.Binary, append([]string{"clean", "--data-dir", i.Dir},
		i.instanceFlags()...)...).CombinedOutput()
	if cleanErr != nil {
		cleanErr = fmt.Errorf("gantry clean: %w\n%s", cleanErr, out)
	}
	if i.network != nil {
		i.network.Release()
	}
	if left := Mounts(i.Traces()...); len(left) > 0 { // removing files would reach what is mounted
		return errors.Join(err, cleanErr, fmt.Errorf("left behind: %s", strings.Join(left, ", ")))
	}
	return errors.Join(err, cleanErr, os.RemoveAll(i.Dir))
}

// Mounts are the lines of the mount table that name one of these directories.
func Mounts(dirs ...string) (out []string) {
	mounts, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(mounts)) {
		for _, dir := range dirs {
			if strings.Contains(line, dir) {
				out = append(out, "mount "+strings.TrimSpace(line))
				break
			}
		}
	}
	return out
}

// Kubeconfig is the administrator's.
func (i *Instance) Kubeconfig() string {
	if i.kubeconfig != "" {
		return i.kubeconfig
	}
	return filepath.Join(i.server(), "kubeconfig")
}

// Gantry runs a subcommand and returns what it printed on both channels and its exit code.
func (i *Instance) Gantry(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	cmd := exec.CommandContext(ctx, i.o.Binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		return out.String(), errs.String() + err.Error(), -1
	}
	return out.String(), errs.String(), code
}

// Kubectl runs the linked kubectl as an administrator.
func (i *Instance) Kubectl(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	return i.Gantry(ctx, append([]string{"kubectl", "--kubeconfig", i.Kubeconfig()}, args...)...)
}

// Import loads an image archive into this instance's containerd.
func (i *Instance) Import(ctx context.Context, archive string) error {
	stdout, stderr, code := i.Gantry(ctx, append([]string{"image", "import", "--data-dir", i.Dir, archive},
		i.instanceFlags()...)...)
	if code != 0 {
		return fmt.Errorf("gantry image import: %s%s", stdout, strings.TrimSpace(stderr))
	}
	return nil
}

// Foreign is somebody else's cluster, reached by its kubeconfig: only Kubectl and Gantry may be
// used.
func Foreign(binary, kubeconfig string) *Instance {
	return &Instance{o: Options{Binary: binary}, kubeconfig: kubeconfig, children: map[string]*process.Process{}}
}

// Traces are the directories that command lines of this instance's processes name.
func (i *Instance) Traces() []string { return []string{i.Dir, instance.StateDir(i.Dir)} }

// Flags sets the further flags of the next Start.
func (i *Instance) Flags(flags ...string) { i.o.Flags = flags }

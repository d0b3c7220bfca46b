package containerd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"github.com/gantry-project/gantry/internal/instance"
)

// PauseImage is the name of the sandbox image. It is made from BinDir/pause at the first start and
// never pulled.
const PauseImage = "gantry.invalid/pause:1"

// Config configures one containerd. Only DataDir is required.
type Config struct {
	// DataDir is Gantry's data directory; images and containers are in its subdirectory containerd.
	DataDir string
	// StateDir has sockets, bundles and network namespaces; default instance.StateDir(DataDir),
	// which is short because of the limit for unix sockets.
	StateDir string
	// BinDir has containerd-shim-runc-v2, runc and pause; default: the executable's directory.
	BinDir string
	// Executable is started as "Executable containerd --config FILE"; default: this binary.
	Executable string
	// CNIConfDir and CNIBinDir are containerd's CNI directories; defaults DataDir/cni/net.d and
	// BinDir/cni. Plugins are also searched in /opt/cni/bin and /usr/lib/cni, where others are
	// installed.
	CNIConfDir, CNIBinDir string
	// RegistryDir has one directory per registry host with its hosts.toml; default
	// DataDir/containerd/certs.d.
	RegistryDir string
	// ImagesDir has image archives that are imported at the start and while FollowImages runs;
	// default DataDir/images.
	ImagesDir string
	// Snapshotter is "overlayfs" or "native"; default: overlayfs where the file system of DataDir
	// supports it.
	Snapshotter string
	// SystemdCgroup has systemd keep the containers' cgroups; systemd must run.
	SystemdCgroup bool
	// LogLevel is containerd's log level; default "info".
	LogLevel string
	// ReadyTimeout bounds the wait for the first CRI response; default 2 min, for machines that are
	// slow and busy.
	ReadyTimeout time.Duration
	// OnEvent is called with events of the child; it must not block. May be nil.
	OnEvent func(Event)
	// OnImport is called for each archive of ImagesDir that was imported or failed; it must not
	// block. May be nil.
	OnImport func(ImportedArchive)
}

// Event is an event of containerd's life.
type Event struct {
	Kind EventKind
	PID  int
	// Took is the time from the start to the first CRI response (Started, Adopted, Restarted).
	Took time.Duration
	// Err is the reason (Died, Failed).
	Err error
}

// EventKind names an Event.
type EventKind string

// Kinds of events.
const (
	Started   EventKind = "started"
	Adopted   EventKind = "adopted"
	Died      EventKind = "died"
	Restarted EventKind = "restarted"
	Failed    EventKind = "failed" // a failed restart; another attempt follows
)

// withDefaults fills in defaults and makes paths absolute.
func (c Config) withDefaults() (Config, error) {
	if c.DataDir == "" {
		return c, fmt.Errorf("containerd needs a data directory")
	}
	abs, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, fmt.Errorf("data directory %q: %w", c.DataDir, err)
	}
	c.DataDir = abs
	if c.Executable == "" {
		if c.Executable, err = os.Executable(); err != nil {
			return c, fmt.Errorf("find this program's own file: %w", err)
		}
	}
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.StateDir, instance.StateDir(c.DataDir)},
		{&c.BinDir, filepath.Dir(c.Executable)},
		{&c.CNIConfDir, filepath.Join(c.DataDir, "cni/net.d")},
		{&c.RegistryDir, filepath.Join(c.DataDir, "containerd/certs.d")},
		{&c.ImagesDir, filepath.Join(c.DataDir, "images")},
		{&c.LogLevel, "info"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if c.BinDir, err = filepath.Abs(c.BinDir); err != nil {
		return c, fmt.Errorf("directory of programs %q: %w", c.BinDir, err)
	}
	if c.CNIBinDir == "" {
		c.CNIBinDir = filepath.Join(c.BinDir, "cni")
	}
	if c.ReadyTimeout == 0 {
		c.ReadyTimeout = 2 * time.Minute
	}
	return c, nil
}

func (c Config) root() string    { return filepath.Join(c.DataDir, "containerd") }
func (c Config) logFile() string { return filepath.Join(c.root(), "containerd.log") }
func (c Config) file() string    { return filepath.Join(c.StateDir, "containerd.toml") }
func (c Config) pidFile() string { return filepath.Join(c.StateDir, "containerd.pid") }
func (c Config) socket() string  { return filepath.Join(c.StateDir, "containerd.sock") }
func (c Config) runcDir() string { return filepath.Join(c.StateDir, "runc") }

// Endpoint returns the URL of the CRI socket, also before containerd runs.
func (c Config) Endpoint() string {
	if full, err := c.withDefaults(); err == nil {
		c = full
	}
	return "unix://" + c.socket()
}

// host is what the configuration depends on, besides Config.
type host struct {
	// mayLowerOOMScore: the kernel allows a negative oom_score_adj (CAP_SYS_RESOURCE).
	mayLowerOOMScore bool
	snapshotter      string
}

// render returns containerd's configuration file. It is a pure function.
func (c Config) render(h host) ([]byte, error) {
	var b bytes.Buffer
	score := 0
	if h.mayLowerOOMScore {
		score = -999
	}
	err := configFile.Execute(&b, map[string]any{
		"c": c, "Root": filepath.Join(c.root(), "root"), "Run": filepath.Join(c.StateDir, "run"), "Socket": c.socket(),
		"RuncDir": c.runcDir(),
		"Pause":   PauseImage, "OOMScore": score, "RestrictOOM": !h.mayLowerOOMScore, "Snapshotter": h.snapshotter,
	})
	return b.Bytes(), err
}

var configFile = template.Must(template.New("containerd.toml").Parse(`# Written by Gantry at each start; edits are lost.
version = 4
root = '{{.Root}}'
state = '{{.Run}}'
imports = []
oom_score = {{.OOMScore}}
# Without CRI there is nothing to run for: end with an error instead.
required_plugins = ['io.containerd.grpc.v1.cri']
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.tracing.processor.v1.otlp']
[debug]
  level = '{{.c.LogLevel}}'
[plugins.'io.containerd.server.v1.grpc']
  address = '{{.Socket}}'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '{{.Socket}}.ttrpc'
[plugins.'io.containerd.internal.v1.opt']
  path = '{{.c.StateDir}}/opt'
[plugins.'io.containerd.shim.v1.manager']
  socket_dir = '{{.c.StateDir}}/s'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = '{{.Snapshotter}}'
{{- if ne .Snapshotter "overlayfs"}}
  use_local_image_pull = true
{{- end}}
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{{.Pause}}'
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = '{{.c.RegistryDir}}'
[plugins.'io.containerd.transfer.v1.local']
  config_path = '{{.c.RegistryDir}}'
[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE no sandbox starts otherwise: the pause container asks for -998.
  restrict_oom_score_adj = {{.RestrictOOM}}
  netns_mounts_under_state_dir = true
  enable_criu = false
  # containerd's default of 1 s costs 12 % of a core with 50 idle Pods.
  stats_collect_period = '10s'
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = 'runc'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      # Found in PATH. Given by its path, containerd asks it before each task, in vain, how it mounts.
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = '{{.c.BinDir}}/runc'
        Root = '{{.RuncDir}}'
        SystemdCgroup = {{.c.SystemdCgroup}}
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{{.c.CNIBinDir}}', '/opt/cni/bin', '/usr/lib/cni']
    conf_dir = '{{.c.CNIConfDir}}'
    use_internal_loopback = true
[plugins.'io.containerd.grpc.v1.cri']
  stream_server_address = '127.0.0.1'
  stream_server_port = '0'
`))

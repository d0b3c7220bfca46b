package noderole

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cri"
	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/images"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/linux/proc"
	"github.com/gantry-project/gantry/internal/options"
)

// ConfigFlags say where a node's KubeletConfiguration comes from; in `gantry up` every name begins
// with kubelet-.
func (n *KubeletOptions) ConfigFlags(f *pflag.FlagSet, prefix string) {
	f.StringVar(&n.ConfigSources.File, prefix+"config", "", "KubeletConfiguration file")
	f.StringVar(&n.ConfigSources.Dir, prefix+"config-dir", "",
		"directory of *.conf files merged over the KubeletConfiguration file in lexical order")
	f.StringVar(&n.ConfigSources.Preset, prefix+"config-preset", "",
		"settings that ship with Gantry, below the file: "+strings.Join(kubeconfig.Presets(), ", "))
	f.StringVar(&n.plugins.File, "image-credential-provider-config", "",
		"CredentialProviderConfig file, or a directory of them")
	f.StringVar(&n.plugins.Dir, "image-credential-provider-bin-dir", "",
		"directory of the credential provider plugins' programs")
	n.set = f
}

// Load reads the configuration and lets it fill in what the command line left open; dns are the
// servers of clusterDNS that it does not name itself. It is called once, before anything starts.
func (n *KubeletOptions) Load(p *options.Instance, dns []string) error {
	own, err := ownKubeletConfig(p)
	if err != nil {
		return err
	}
	if n.set != nil && n.set.Changed("register-node") {
		own.RegisterNode = &n.registerNode
	}
	if len(dns) > 0 {
		own.ClusterDNS = dns
	}
	n.ConfigSources.Own = own
	loaded, err := kubeconfig.Load(n.ConfigSources)
	if err != nil {
		return cli.WithFix(fmt.Errorf("kubelet configuration: %w", err),
			"correct what the message names; kubelet.config.k8s.io/v1beta1 documents all fields")
	}
	c := loaded.Config
	if given := n.set != nil && n.set.Changed("kubelet-port"); given {
		c.Port = int32(p.KubeletPort)
	}
	p.KubeletPort = int(c.Port)
	if p.Runtime == "" && c.ContainerRuntimeEndpoint != own.ContainerRuntimeEndpoint {
		p.Runtime = c.ContainerRuntimeEndpoint
	} else if p.Runtime != "" {
		c.ContainerRuntimeEndpoint = p.Runtime
	}
	p.CRI = cri.Options{ImageEndpoint: c.ImageServiceEndpoint, Timeout: c.RuntimeRequestTimeout.Duration}
	p.SystemdCgroup = ownCgroupDriver(c, "/") == kubeletresource.Systemd
	n.registerNode = *c.RegisterNode
	n.Loaded = loaded
	return applyHostSettings(c)
}

// ownCgroupDriver is the cgroup driver of the instance's own runtime: the configured one, unless
// that is systemd and systemd is not the first program of the machine at root (sd_booted(3)).
func ownCgroupDriver(c *kubeletconfig.KubeletConfiguration, root string) kubeletresource.Driver {
	if c.CgroupDriver == string(kubeletresource.Systemd) && cli.Readable(filepath.Join(root, "run/systemd/system")) {
		return kubeletresource.Systemd
	}
	return kubeletresource.Cgroupfs
}

// logIgnoredFields names in the log what is set without effect; it is called when the log is open.
func (n *KubeletOptions) logIgnoredFields() {
	if len(n.Loaded.Inert) > 0 {
		klog.InfoS("Set in the kubelet's configuration, without effect yet", "fields", n.Loaded.Inert)
	}
}

// ownKubeletConfig is what an instance prefers to upstream's defaults: it lives in its own
// directory and leaves the host alone.
func ownKubeletConfig(p *options.Instance) (*kubeletconfig.KubeletConfiguration, error) {
	adj, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return nil, fmt.Errorf("out-of-memory score of this process: %w", err)
	}
	score, err := strconv.ParseInt(strings.TrimSpace(string(adj)), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("out-of-memory score of this process: %w", err)
	}
	return &kubeletconfig.KubeletConfiguration{
		ClusterDomain: "cluster.local", Port: int32(p.KubeletPort), HealthzPort: ptr.To[int32](0),
		OOMScoreAdj:              ptr.To(int32(score)),
		PodLogsDir:               filepath.Join(p.KubeletDir(), "logs"),
		ContainerRuntimeEndpoint: p.ContainerdConfig().Endpoint(), KubeAPIQPS: ptr.To[int32](0),
		ResolverConfig: ptr.To(options.PodResolverFile(os.ReadFile)),
	}, nil
}

// applyHostSettings refuses a host that the configuration does not want, and takes the wanted
// out-of-memory score.
func applyHostSettings(c *kubeletconfig.KubeletConfiguration) error {
	if *c.FailSwapOn {
		swaps, err := os.ReadFile("/proc/swaps")
		if err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("swap of this host: %w", err)
		}
		if lines := strings.Split(strings.TrimSpace(string(swaps)), "\n"); len(lines) > 1 {
			return cli.WithFix(
				fmt.Errorf("running with swap on is not supported, please disable swap or set --fail-swap-on flag to "+
					"false. /proc/swaps contained: %v", lines), "swapoff -a, or failSwapOn: false")
		}
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil && *c.FailCgroupV1 {
		return cli.WithFix(
			fmt.Errorf("kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported "+
				"and will be removed in a future release"), "failCgroupV1: false")
	}
	if c.ProtectKernelDefaults {
		if err := checkKernelTunables("/proc/sys"); err != nil {
			return cli.WithFix(err, "set these by sysctl, or protectKernelDefaults: false")
		}
	}
	const score = "/proc/self/oom_score_adj"
	want := strconv.Itoa(int(*c.OOMScoreAdj))
	if now, err := os.ReadFile(score); err == nil && strings.TrimSpace(string(now)) == want {
		return nil
	}
	if err := os.WriteFile(score, []byte(want), 0o644); err != nil {
		return cli.WithFix(fmt.Errorf("oomScoreAdj %s: %w", want, err), "run as root, or leave oomScoreAdj out")
	}
	return nil
}

// kernelTunables are what upstream's kubelet sets, or with protectKernelDefaults demands: memory is
// promised without a bound, a kernel that is out of memory kills and does not panic, one that
// fails boots again, and containers have keys enough.
var kernelTunables = []struct {
	name string
	want int
}{{"vm/overcommit_memory", 1}, {"vm/panic_on_oom", 0}, {"kernel/panic", 10}, {"kernel/panic_on_oops", 1},
	{"kernel/keys/root_maxkeys", 1000000}, {"kernel/keys/root_maxbytes", 25000000}}

// checkKernelTunables compares them with what is below dir, which is /proc/sys.
func checkKernelTunables(dir string) error {
	var errs []error
	for _, t := range kernelTunables {
		text, err := os.ReadFile(filepath.Join(dir, t.name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if is, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			errs = append(errs, err)
		} else if is != t.want {
			errs = append(errs, fmt.Errorf("invalid kernel flag: %v, expected value: %v, actual value: %v", t.name,
				t.want, is))
		}
	}
	return errors.Join(errs...)
}

// diskOf measures the file system that a path is on.
func diskOf(path string) (images.Disk, error) {
	d, err := proc.StatFS(path)
	return images.Disk{Capacity: int64(d.CapacityBytes), Available: int64(d.AvailableBytes)}, err
}

// servingFields puts what the configuration says of TLS onto the kubelet's port.
func servingFields(conf *tls.Config, c *kubeletconfig.KubeletConfiguration) error {
	if len(c.TLSCipherSuites) > 0 {
		suites, err := cliflag.TLSCipherSuites(c.TLSCipherSuites)
		if err != nil {
			return fmt.Errorf("kubelet configuration: tlsCipherSuites: %w", err)
		}
		conf.CipherSuites = suites
	}
	if c.TLSMinVersion != "" {
		version, err := cliflag.TLSVersion(c.TLSMinVersion)
		if err != nil {
			return fmt.Errorf("kubelet configuration: tlsMinVersion: %w", err)
		}
		conf.MinVersion = version
	}
	for _, id := range c.TLSCurvePreferences {
		conf.CurvePreferences = append(conf.CurvePreferences, tls.CurveID(id))
	}
	return nil
}

package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/proxy"
	"github.com/gantry-project/gantry/internal/proxy/config"
)

// proxyOptions are those of the proxy's options that its configuration gives.
func proxyOptions(l *config.Loaded) proxy.Options {
	return proxy.Options{FullSyncPeriod: l.NFTables.SyncPeriod.Duration,
		MinSyncPeriod: l.NFTables.MinSyncPeriod.Duration, ResyncPeriod: l.ConfigSyncPeriod.Duration,
		Profiling: l.EnableProfiling}
}

// addresses takes the configuration's addresses of health and metrics where flags do not say
// others. With a bindAddress of IPv6 the usual ones are too.
func (f *proxyFlags) addresses(l *config.Loaded) {
	bind, _ := netip.ParseAddr(l.BindAddress) // checked
	for _, a := range []struct {
		at          *string
		usual, six  string
		fromTheFile string
	}{{&f.Healthz, ProxyHealthz, "[::]:10256", l.HealthzBindAddress},
		{&f.Metrics, ProxyMetrics, "[::1]:10249", l.MetricsBindAddress}} {
		switch {
		case *a.at != a.usual:
		case a.fromTheFile != "":
			*a.at = a.fromTheFile
		case bind.Is6():
			*a.at = a.six
		}
	}
}

// processOnlyFields are the fields that are set and have an effect only where the proxy is a
// process of its own.
func processOnlyFields(l *config.Loaded) (out []string) {
	for field, set := range map[string]bool{
		"clientConnection.kubeconfig": l.ClientConnection.Kubeconfig != "",
		"hostnameOverride":            l.HostnameOverride != "", "oomScoreAdj": l.OOMScoreAdj != nil,
	} {
		if set {
			out = append(out, field)
		}
	}
	slices.Sort(out)
	return out
}

// Upstream's measure of requests where the configuration says only one of the two.
const proxyQPS, proxyBurst = 5, 10

// proxyClient is throttled, and speaks another encoding, only when the configuration says so.
func proxyClient(cfg *rest.Config, l *config.Loaded, agent string) (kubernetes.Interface, error) {
	c := l.ClientConnection
	own := rest.CopyConfig(cfg)
	if own.ContentType = c.ContentType; c.ContentType == "" {
		own.ContentType = cfg.ContentType
	}
	if c.AcceptContentTypes != "" {
		own.AcceptContentTypes = c.AcceptContentTypes
	}
	if c.QPS == 0 && c.Burst == 0 {
		return noderole.ClientFor(own, agent)
	}
	own.UserAgent, own.QPS, own.Burst = agent, c.QPS, int(c.Burst)
	if c.QPS == 0 {
		own.QPS = proxyQPS
	}
	if c.Burst == 0 {
		own.Burst = proxyBurst
	}
	return kubernetes.NewForConfig(own)
}

// setOOMScore gives this process the score; nil leaves it.
func setOOMScore(score *int32) error {
	if score == nil {
		return nil
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(int(*score))), 0o644); err != nil {
		return cli.WithFix(fmt.Errorf("oomScoreAdj %d: %w", *score, err), "run as root, or leave oomScoreAdj out")
	}
	return nil
}

// setConntrack sets the kernel's connection tracking below root as the configuration asks. What it
// says and the kernel refuses is an error; a default that the kernel refuses (the number of
// connections belongs to the machine, not to a network namespace) is told of.
func setConntrack(ctx context.Context, root string, l *config.Loaded) error {
	log := klog.FromContext(ctx)
	cores, err := cpuset.NumCPU()
	if err != nil || cores == 0 {
		cores = runtime.NumCPU()
	}
	var errs []error
	for _, s := range l.Conntrack(cores) {
		changed, err := setSysctl(filepath.Join(root, s.Path), s)
		switch {
		case err != nil && s.Configured:
			errs = append(errs,
				cli.WithFix(fmt.Errorf("%s: %w", s.Field, err), "set it on the host, or write 0 to leave it as it is"))
		case err != nil:
			log.Info("Connection tracking is left as it is", "field", s.Field, "value", s.Value, "err", err)
		case changed:
			log.Info("Set sysctl", "entry", strings.TrimPrefix(s.Path, "proc/sys/"), "value", s.Value)
		}
	}
	return errors.Join(errs...)
}

// setSysctl writes a setting that is not so already.
func setSysctl(path string, s config.Sysctl) (changed bool, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	now, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err == nil && (now == s.Value || s.Minimum && now > s.Value) {
		return false, nil
	}
	return true, os.WriteFile(path, []byte(strconv.Itoa(s.Value)), 0o640)
}

package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/proxy/config"
)

// TestConntrackSettingsReachTheKernelsFiles: a higher limit stays, a time is written as it is asked
// for; what the file asks for and cannot be set is an error that names the field, a default that
// cannot be set is none.
func TestConntrackSettingsReachTheKernelsFiles(t *testing.T) {
	root := t.TempDir()
	file := func(name string) string { return filepath.Join(root, name) }
	const netfilter = "proc/sys/net/netfilter/nf_conntrack_"
	for name, value := range map[string]string{netfilter + "max": "2000000", netfilter + "tcp_timeout_close_wait": "60",
		netfilter + "tcp_timeout_established":         "432000",
		"sys/module/nf_conntrack/parameters/hashsize": "16"} {
		if err := os.MkdirAll(filepath.Dir(file(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file(name), []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	has := func(name, want string) {
		t.Helper()
		if raw, err := os.ReadFile(file(name)); strings.TrimSpace(string(raw)) != want {
			t.Errorf("%s is %q, %v; want %s", name, raw, err, want)
		}
	}
	l := &config.Loaded{}
	four, two := int32(4_000_000), int32(0)
	l.KubeProxyConfiguration.Conntrack.MaxPerCore, l.KubeProxyConfiguration.Conntrack.Min = &four, &two
	if err := setConntrack(t.Context(), root, l); err != nil {
		t.Fatal(err)
	}
	has(netfilter+"max", "2000000") // the most that is asked for is 1048576
	has("sys/module/nf_conntrack/parameters/hashsize", "262144")
	has(netfilter+"tcp_timeout_close_wait", "3600")
	has(netfilter+"tcp_timeout_established", "86400")

	if err := os.Remove(file(netfilter + "tcp_timeout_close_wait")); err != nil {
		t.Fatal(err)
	}
	if err := setConntrack(t.Context(), root, l); err != nil {
		t.Errorf("a default that cannot be set: %v, want no error", err)
	}
	l.KubeProxyConfiguration.Conntrack.TCPCloseWaitTimeout = &metav1.Duration{Duration: time.Minute}
	if err := setConntrack(t.Context(), root, l); err == nil || !strings.Contains(err.Error(),
		"conntrack.tcpCloseWaitTimeout") {
		t.Errorf("what the file asks for cannot be set: %v", err)
	}
}

// TestProxyAddressesComeFromTheFile: flags win over healthzBindAddress and metricsBindAddress,
// these over the usual ones, which follow bindAddress.
func TestProxyAddressesComeFromTheFile(t *testing.T) {
	for _, c := range []struct {
		flag, file, bind string
		want             string
	}{
		{"", "", "", "0.0.0.0:10256 127.0.0.1:10249"},
		{"", "", "192.0.2.1", "0.0.0.0:10256 127.0.0.1:10249"},
		{"", "", "2001:db8::1", "[::]:10256 [::1]:10249"},
		{"", "192.0.2.1:1", "2001:db8::1", "192.0.2.1:1 192.0.2.1:1"},
		{"192.0.2.1:2", "192.0.2.1:1", "", "192.0.2.1:2 192.0.2.1:2"},
	} {
		f := proxyFlags{Healthz: ProxyHealthz, Metrics: ProxyMetrics}
		if c.flag != "" {
			f.Healthz, f.Metrics = c.flag, c.flag
		}
		l := &config.Loaded{}
		l.HealthzBindAddress, l.MetricsBindAddress, l.BindAddress = c.file, c.file, c.bind
		if f.addresses(l); f.Healthz+" "+f.Metrics != c.want {
			t.Errorf("%+v: got %s %s, want %s", c, f.Healthz, f.Metrics, c.want)
		}
	}
}

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "kind:") {
		text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + text
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, s Sources) *Loaded {
	t.Helper()
	l, err := Load(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEveryFieldHasItsRow(t *testing.T) {
	var rows []string
	for _, f := range Fields() {
		rows = append(rows, f.Path)
		if f.Where == "" {
			t.Errorf("%s does not say where", f.Path)
		}
	}
	slices.Sort(rows)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(leafFields())), rows); diff != "" {
		t.Errorf("fields of the type (-) and rows (+): %s", diff)
	}
}

// row: KSL-15
// row: KSL-16
// row: KSL-27
// row: KSL-28
func TestDefaults(t *testing.T) {
	l := load(t, Sources{})
	c := l.Config
	if diff := cmp.Diff(map[string]string{"memory.available": "100Mi", "nodefs.available": "10%",
		"nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%"}, c.EvictionHard); diff !=
		"" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
	if c.MaxPods != 110 || *c.RegistryPullQPS != 5 || c.RegistryBurst != 10 || !*c.SerializeImagePulls ||
		c.ImageMinimumGCAge.Duration != 2*time.Minute ||
		*c.ImageGCHighThresholdPercent != 85 || c.NodeStatusReportFrequency.Duration != 5*time.Minute ||
		c.ImagePullCredentialsVerificationPolicy != kubelet.NeverVerifyPreloadedImages {
		t.Errorf("got %+v, want upstream's defaults (110 Pods, 5 pulls/s in bursts of 10, serial, images kept 2m, GC "+
			"at 85 %%, reports each 5m)", c)
	}
	if got := fmt.Sprint(c.SyncFrequency.Duration, c.FileCheckFrequency.Duration, c.HTTPCheckFrequency.Duration,
		c.StaticPodURL); got != "1m0s 20s 20s" {
		t.Errorf("got %s, want each Pod once a minute, files and URL each 20s, and no URL", got)
	}
	if c.PodLogsDir != "/var/log/pods" { // row: CRI-10
		t.Errorf("podLogsDir %s, want /var/log/pods", c.PodLogsDir)
	}
	if len(l.Inert) != 0 {
		t.Errorf("defaults are reported: got %v, want none", l.Inert)
	}
	if c := load(t,
		Sources{File: write(t, t.TempDir(), "c.yaml", "maxParallelImagePulls: 4\nnodeStatusUpdateFrequency: 3s\n")}).
		Config; *c.SerializeImagePulls || c.NodeStatusReportFrequency.Duration != 3*time.Second {
		t.Errorf("dependent defaults: serializeImagePulls %v, nodeStatusReportFrequency %v", *c.SerializeImagePulls,
			c.NodeStatusReportFrequency)
	}
}

// row: KSL-02
func TestFlagsOverrideFileOverridesDefaults(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "config.yaml",
		"maxPods: 20\nclusterDNS: [10.0.0.1, 10.0.0.2]\nevictionHard: {memory.available: 300Mi, pid.available: "+
			"3%}\nregistryBurst: 7\n")
	drop := filepath.Join(dir, "drop")
	write(t, drop, "10-a.conf", "maxPods: 30\nevictionHard: {memory.available: 400Mi}\n")
	write(t, drop, "20/b.conf", "clusterDNS: [10.0.0.3]\nevictionHard: {pid.available: null}\nregistryBurst: 9\n")
	write(t, drop, "05-z.conf", "maxPods: 25\n")
	write(t, drop, "30-not-read.yaml", "maxPods: 1\n")
	flags, set := &Flags{}, pflag.NewFlagSet("x", pflag.ContinueOnError)
	flags.Register(set)
	if err := set.Parse([]string{"--registry-burst=11", "--feature-gates=MemoryQoS=true",
		"--eviction-hard=nodefs.available<7%", "--fail-swap-on"}); err != nil {
		t.Fatal(err)
	}
	c := load(t, Sources{Own: &kubelet.KubeletConfiguration{ClusterDomain: "cluster.local", MaxPods: 5}, File: file,
		Dir: drop, Flags: flags}).Config
	if c.MaxPods != 30 || c.ClusterDomain != "cluster.local" || c.RegistryBurst != 11 || !*c.FailSwapOn {
		t.Errorf("maxPods %d, clusterDomain %s, registryBurst %d, failSwapOn %v", c.MaxPods, c.ClusterDomain,
			c.RegistryBurst, *c.FailSwapOn)
	}
	if diff := cmp.Diff([]string{"10.0.0.3"}, c.ClusterDNS); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"memory.available": "400Mi", "nodefs.available": "7%"},
		c.EvictionHard); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
	for field, want := range map[string]bool{"registryBurst": true, "maxPods": false} {
		if got := flags.Given(field); got != want {
			t.Errorf("the command line names %s: got %v, want %v", field, got, want)
		}
	}
}

func TestEveryFlagHasAField(t *testing.T) {
	paths := leafFields()
	set := pflag.NewFlagSet("x", pflag.ContinueOnError)
	(&Flags{}).Register(set)
	n := 0
	set.VisitAll(func(f *pflag.Flag) {
		n++
		if v, ok := f.Value.(*flagValue); !ok || paths[v.path] == nil {
			t.Errorf("--%s stands for no field", f.Name)
		}
	})
	if n < 80 {
		t.Errorf("%d flags", n)
	}
}

// upstreamsFieldFlags are the flags of fields of kubelet v1.37.2 (cmd/kubelet/app/options).
const upstreamsFieldFlags = `enable-server fail-swap-on pod-manifest-path sync-frequency file-check-frequency
http-check-frequency manifest-url manifest-url-header address port read-only-port fail-cgroupv1
container-runtime-endpoint image-service-endpoint anonymous-auth authentication-token-webhook
authentication-token-webhook-cache-ttl client-ca-file authorization-mode authorization-webhook-cache-authorized-ttl
authorization-webhook-cache-unauthorized-ttl tls-cert-file tls-private-key-file rotate-server-certificates
tls-cipher-suites tls-min-version rotate-certificates registry-qps registry-burst event-qps event-burst
enable-debugging-handlers contention-profiling healthz-port healthz-bind-address oom-score-adj cluster-domain
cluster-dns streaming-connection-idle-timeout node-status-update-frequency minimum-image-ttl-duration
image-gc-high-threshold image-gc-low-threshold volume-stats-agg-period feature-gates kubelet-cgroups system-cgroups
provider-id cgroups-per-qos cgroup-driver cgroup-root cpu-manager-policy cpu-manager-policy-options
cpu-manager-reconcile-period qos-reserved topology-manager-policy runtime-request-timeout hairpin-mode max-pods
pod-cidr pod-max-pids resolv-conf runonce cpu-cfs-quota cpu-cfs-quota-period enable-controller-attach-detach
make-iptables-util-chains container-log-max-size container-log-max-files allowed-unsafe-sysctls
node-status-max-images kernel-memcg-notification local-storage-capacity-isolation max-open-files
kube-api-content-type kube-api-qps kube-api-burst serialize-image-pulls eviction-hard eviction-soft
eviction-soft-grace-period eviction-pressure-transition-period eviction-max-pod-grace-period
eviction-minimum-reclaim pods-per-core protect-kernel-defaults reserved-cpus topology-manager-scope
topology-manager-policy-options system-reserved kube-reserved enforce-node-allocatable system-reserved-cgroup
kube-reserved-cgroup memory-manager-policy reserved-memory register-node seccomp-default`

// Every flag of upstream's that stands for a field is here.
//
// row: KSL-02
func TestUpstreamsFlagsAreThere(t *testing.T) {
	set := pflag.NewFlagSet("x", pflag.ContinueOnError)
	(&Flags{}).Register(set)
	for _, name := range strings.Fields(upstreamsFieldFlags) {
		if set.Lookup(name) == nil {
			t.Errorf("got no flag --%s, want it as upstream's kubelet has it", name)
		}
	}
}

// Flags whose values are lists of lists read as upstream's do.
func TestReservedMemoryAndHeadersByFlags(t *testing.T) {
	for _, c := range []struct {
		args      []string
		want, err string
	}{
		{[]string{"--reserved-memory=0:memory=1Gi,hugepages-2Mi=4Mi", "--reserved-memory", "1:memory=2Gi"},
			`[{"numaNode":0,"limits":{"hugepages-2Mi":"4Mi","memory":"1Gi"}},` +
				`{"numaNode":1,"limits":{"memory":"2Gi"}}]`, ""},
		{[]string{"--reserved-memory=0:memory=1Gi;1:memory=2Gi"},
			`[{"numaNode":0,"limits":{"memory":"1Gi"}},{"numaNode":1,"limits":{"memory":"2Gi"}}]`, ""},
		{[]string{"--reserved-memory=memory=1Gi"}, "", "the reserved memory has incorrect format, expected " +
			"numaNodeID:type=quantity[,type=quantity...], got memory=1Gi"},
		{[]string{"--reserved-memory=a:memory=1Gi"}, "", "failed to convert the NUMA node ID, expected integer, got a"},
		{[]string{"--reserved-memory=0:cpu=1"}, "", `memory type conversion error, unknown type: "cpu"`},
		{[]string{"--reserved-memory=0:memory"}, "",
			"the reserved limit has incorrect value, expected type=quantity, got memory"},
		{[]string{"--reserved-memory=0:memory=much"}, "", "failed to parse the quantity: much"},
		{[]string{"--manifest-url-header=a:hello,b:again", "--manifest-url-header=a:more"},
			`{"a":["hello","more"],"b":["again"]}`, ""},
		{[]string{"--manifest-url-header=a"}, "", "malformed pair, expect string:string"},
		{[]string{"--topology-manager-policy-options=prefer-closest-numa-nodes=true"},
			`{"prefer-closest-numa-nodes":"true"}`, ""},
	} {
		flags, set := &Flags{}, pflag.NewFlagSet("x", pflag.ContinueOnError)
		flags.Register(set)
		err := set.Parse(c.args)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: got %v, want an error with %q", c.args, err, c.err)
			}
			continue
		}
		raw, err2 := flags.applyTo([]byte("{}"))
		var got kubelet.KubeletConfiguration
		if err := errors.Join(err, err2, json.Unmarshal(raw, &got)); err != nil {
			t.Errorf("%v: got %v, want no error", c.args, err)
			continue
		}
		text := ""
		for _, field := range []any{got.ReservedMemory, got.StaticPodURLHeader, got.TopologyManagerPolicyOptions} {
			if raw, _ := json.Marshal(field); string(raw) != "null" {
				text += string(raw)
			}
		}
		if text != c.want {
			t.Errorf("%v: got %s, want %s", c.args, text, c.want)
		}
	}
}

// row: KSL-02
func TestInvalidConfigurationsAreRefused(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"maxPodz: 3\n", `strict decoding error: unknown field "maxPodz"`},
		{"maxPods: 3\nmaxPods: 4\n", `key "maxPods" already set in map`},
		{"crashLoopBackOff: {maxContainerRestartPeriods: 3s}\n",
			`unknown field "crashLoopBackOff.maxContainerRestartPeriods"`},
		{"kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\n",
			`no kind "KubeProxyConfiguration" is registered`},
		{"maxPods: -1\n", "invalid configuration: maxPods (--max-pods) -1 must not be a negative number"},
		{"imageGCHighThresholdPercent: 70\n",
			"invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) 80 must be less than " +
				"imageGCHighThresholdPercent (--image-gc-high-threshold) 70"},
		{"serializeImagePulls: true\nmaxParallelImagePulls: 2\n",
			"invalid configuration: maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls " +
				"(--serialize-image-pulls) is set to false"},
		{"imageMaximumGCAge: 1m\n",
			"invalid configuration: imageMaximumGCAge 1m0s must be greater than imageMinimumGCAge 2m0s"},
		{"runOnce: true\n",
			"invalid configuration: runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set"},
		{"enforceNodeAllocatable: [pods, none]\n",
			`invalid configuration: enforceNodeAllocatable (--enforce-node-allocatable) may not contain additional ` +
				`enforcements when "none" is specified`},
		{"cpuCFSQuotaPeriod: 50ms\nfeatureGates: {CustomCPUCFSQuotaPeriod: false}\n",
			"invalid configuration: cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {50ms} requires feature gate " +
				"CustomCPUCFSQuotaPeriod"},
		{"featureGates: {NoSuchGate: true}\n", "unrecognized feature gate: NoSuchGate"},
		{"featureGates: {NodeSwap: false}\n", "cannot set feature gate NodeSwap to false, feature is locked to true"},
		{"featureGates: {KubeletEnsureSecretPulledImages: false}\nimagePullCredentialsVerificationPolicy: " +
			"AlwaysVerify\n", "`imagePullCredentialsVerificationPolicy` must not be set"},
		{"preloadedImagesVerificationAllowlist: [a/*]\n", "can't set `preloadedImagesVerificationAllowlist`"},
		{"evictionSoft: {memory.available: 1Gi}\n",
			"grace period must be specified for the soft eviction threshold memory.available"},
		{"evictionHard: {cpu.available: 1Gi}\n", "unsupported eviction signal cpu.available"},
		{"evictionHard: {nodefs.available: 101%}\n",
			"eviction percentage threshold nodefs.available must be <= 100%: 101%"},
		{"shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 20s\n", "must be <= shutdownGracePeriod"},
		{"podLogsDir: logs\n", `invalid configuration: pod logs path "logs" must be absolute path`},
		{"logging: {format: xml}\n", "logging.format"},
	} {
		_, err := Load(Sources{File: write(t, t.TempDir(), "c.yaml", x.text)})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v\nwant %s", x.text, err, x.want)
		}
	}
	if _, err := Load(Sources{Preset: "seed-9"}); err == nil || !strings.Contains(err.Error(), "seed-000, seed-001") {
		t.Errorf(`got %v, want an error with "seed-000, seed-001"`, err)
	}
}

func TestPresets(t *testing.T) {
	c := load(t, Sources{Preset: "seed-001"}).Config
	if c.EvictionHard["memory.available"] != "200Mi" || c.EvictionHard["imagefs.available"] != "10%" ||
		c.EvictionHard["pid.available"] != "5%" || len(c.EvictionSoft) != 6 ||
		c.EvictionSoftGracePeriod["memory.available"] != "2m" {
		t.Errorf("got %v %v %v, want EvictionHard[memory.available] 200Mi, EvictionHard[imagefs.available] 10%%, "+
			"EvictionHard[pid.available] 5%%, 6 in EvictionSoft and EvictionSoftGracePeriod[memory.available] 2m",
			c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod)
	}
	c = load(t, Sources{Preset: "seed-000"}).Config
	if c.EvictionHard["memory.available"] != "100Mi" || len(c.EvictionSoft) != 2 ||
		c.EvictionSoftGracePeriod["memory.available"] != "1m30s" ||
		c.EvictionMinimumReclaim["nodefs.available"] != "500Mi" {
		t.Errorf("got %v %v, want EvictionHard[memory.available] 100Mi, 2 in EvictionSoft, "+
			"EvictionSoftGracePeriod[memory.available] 1m30s and EvictionMinimumReclaim[nodefs.available] 500Mi",
			c.EvictionHard, c.EvictionSoft)
	}
	over := write(t, t.TempDir(), "c.yaml", "evictionHard: {memory.available: 1Gi}\n")
	if c := load(t, Sources{Preset: "seed-001", File: over}).Config; c.EvictionHard["memory.available"] != "1Gi" ||
		c.EvictionHard["pid.available"] != "5%" {
		t.Errorf("the file does not win: %v", c.EvictionHard)
	}
}

func TestFieldsWithoutEffectAreNamed(t *testing.T) {
	text := "maxPods: 7\ncpuManagerPolicy: static\npodCIDR: 10.0.0.0/24\nhairpinMode: none\nevictionHard: " +
		"{memory.available: 1Gi}\nfeatureGates: {EventedPLEG: true, CustomCPUCFSQuotaPeriod: true, ImageVolume: " +
		"true}\n"
	got := load(t, Sources{File: write(t, t.TempDir(), "c.yaml", text)}).Inert
	for _, w := range []string{"hairpinMode", "podCIDR", "featureGates.EventedPLEG"} {
		if !slices.Contains(got, w) {
			t.Errorf("%s is not named in %v", w, got)
		}
	}
	if slices.Contains(got, "maxPods") || slices.Contains(got, "cpuManagerPolicy") || slices.Contains(got,
		"featureGates.ImageVolume") || slices.Contains(got,
		"featureGates.CustomCPUCFSQuotaPeriod") {
		t.Errorf("named without need: %v", got)
	}
}

// row: EVC-05
func TestMergeDefaultEvictionSettings(t *testing.T) {
	c := load(t,
		Sources{File: write(t, t.TempDir(), "c.yaml",
			"mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi}\n")}).Config
	if c.EvictionHard["memory.available"] != "1Gi" || c.EvictionHard["imagefs.available"] != "15%" {
		t.Errorf("got %v, want EvictionHard[memory.available] 1Gi and EvictionHard[imagefs.available] 15%%",
			c.EvictionHard)
	}
}

// The hard thresholds lower what is allocatable, as quantities or as shares of the capacity.
//
// row: QOS-13
func TestEvictionReserved(t *testing.T) {
	capacity := v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Gi"),
		v1.ResourceEphemeralStorage: resource.MustParse("100Gi"), v1.ResourceCPU: resource.MustParse("4")}
	for _, tc := range []struct {
		hard            map[string]string
		memory, storage string
	}{
		{EvictionHard(), "100Mi", "10Gi"},
		{map[string]string{"memory.available": "50%", "nodefs.available": "1Gi", "imagefs.available": "15%"}, "4Gi",
			"1Gi"},
		{map[string]string{"pid.available": "5%"}, "0", "0"},
	} {
		got := EvictionReserved(tc.hard, capacity)
		near := func(q resource.Quantity, want string) bool {
			w := resource.MustParse(want)
			d := q.Value() - w.Value()
			return d > -1024 && d < 1024
		}
		if !near(got[v1.ResourceMemory], tc.memory) || !near(got[v1.ResourceEphemeralStorage], tc.storage) ||
			len(got) > 2 {
			t.Errorf("%v keeps %v, want memory %s and storage %s", tc.hard, got, tc.memory, tc.storage)
		}
	}
}

// A gate is switched on where the configuration says nothing of it.
func TestGatesAreSwitchedOn(t *testing.T) {
	for given, want := range map[string]bool{"": true, "featureGates: {CSIVolumeHealth: true}": true,
		"featureGates: {CSIVolumeHealth: false}": false} {
		l := load(t, Sources{File: write(t, t.TempDir(), "kubelet.yaml", given)})
		l.SwitchOn("CSIVolumeHealth")
		gates, err := ResolveGates(l.Config.FeatureGates)
		if err != nil {
			t.Fatal(err)
		}
		if got := gates.On("CSIVolumeHealth"); got != want {
			t.Errorf("given %q: got %t, want %t", given, got, want)
		}
	}
}

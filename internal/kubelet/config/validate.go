package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"
)

// problems collects what is wrong, in upstream's words.
type problems struct{ all []error }

func (p *problems) add(format string, a ...any) {
	p.all = append(p.all, fmt.Errorf("invalid configuration: "+format, a...))
}

func (p *problems) addIf(bad bool, format string, a ...any) {
	if bad {
		p.add(format, a...)
	}
}

// Validate checks a complete configuration. The error holds everything that is wrong at once, in
// v1.37's words.
func Validate(c *kubelet.KubeletConfiguration, gates Gates) error {
	p := &problems{}
	validateNumbers(p, c)
	validateServing(p, c, gates)
	validateImages(p, c, gates)
	validateNode(p, c, gates)
	validateAllocatable(p, c)
	validateShutdown(p, c, gates)
	validatePods(p, c, gates)
	validateEviction(p, c)
	p.all = append(p.all, metrics.ValidateShowHiddenMetricsVersion(c.ShowHiddenMetricsForVersion)...)
	for _, e := range logsapi.Validate(&c.Logging, gates.known, field.NewPath("logging")) {
		p.all = append(p.all, e)
	}
	for _, e := range tracingapi.ValidateTracingConfiguration(c.Tracing, gates.known, field.NewPath("tracing")) {
		p.all = append(p.all, e)
	}
	return utilerrors.NewAggregate(p.all)
}

func between(v, low, high int) bool { return v >= low && v <= high }

func isPort(v int32) bool { return len(validation.IsValidPortNum(int(v))) == 0 }

// validateNumbers holds what must not be negative.
func validateNumbers(p *problems, c *kubelet.KubeletConfiguration) {
	for _, x := range []struct {
		v    int64
		name string
	}{
		{int64(c.EventBurst), "eventBurst (--event-burst)"}, {int64(*c.EventRecordQPS), "eventRecordQPS (--event-qps)"},
		{int64(c.KubeAPIBurst), "kubeAPIBurst (--kube-api-burst)"},
		{int64(*c.KubeAPIQPS), "kubeAPIQPS (--kube-api-qps)"},
		{c.MaxOpenFiles, "maxOpenFiles (--max-open-files)"}, {int64(c.MaxPods), "maxPods (--max-pods)"},
		{int64(c.PodsPerCore), "podsPerCore (--pods-per-core)"},
		{int64(c.RegistryBurst), "registryBurst (--registry-burst)"},
		{int64(*c.RegistryPullQPS), "registryPullQPS (--registry-qps)"},
	} {
		p.addIf(x.v < 0, "%s %v must not be a negative number", x.name, x.v)
	}
}

func validateServing(p *problems, c *kubelet.KubeletConfiguration, gates Gates) {
	p.addIf(*c.HealthzPort != 0 && !isPort(*c.HealthzPort),
		"healthzPort (--healthz-port) %v must be between 1 and 65535, inclusive", *c.HealthzPort)
	p.addIf(!isPort(c.Port), "port (--port) %v must be between 1 and 65535, inclusive", c.Port)
	p.addIf(c.ReadOnlyPort != 0 && !isPort(c.ReadOnlyPort),
		"readOnlyPort (--read-only-port) %v must be between 0 and 65535, inclusive", c.ReadOnlyPort)
	p.addIf(c.ServerTLSBootstrap && !gates.On("RotateKubeletServerCertificate"),
		"serverTLSBootstrap %v requires feature gate RotateKubeletServerCertificate", c.ServerTLSBootstrap)
	p.addIf(*c.EnableSystemLogQuery && !gates.On("NodeLogQuery"),
		"NodeLogQuery feature gate is required for enableSystemLogQuery")
	p.addIf(*c.EnableSystemLogQuery && !*c.EnableSystemLogHandler,
		"enableSystemLogHandler is required for enableSystemLogQuery")
	p.addIf(c.ContainerRuntimeEndpoint == "", "the containerRuntimeEndpoint was not specified or empty")
}

func validateImages(p *problems, c *kubelet.KubeletConfiguration, gates Gates) {
	high, low := *c.ImageGCHighThresholdPercent, *c.ImageGCLowThresholdPercent
	p.addIf(!between(int(high), 0, 100),
		"imageGCHighThresholdPercent (--image-gc-high-threshold) %v must be between 0 and 100, inclusive", high)
	p.addIf(!between(int(low), 0, 100),
		"imageGCLowThresholdPercent (--image-gc-low-threshold) %v must be between 0 and 100, inclusive", low)
	p.addIf(low >= high,
		"imageGCLowThresholdPercent (--image-gc-low-threshold) %v must be less than imageGCHighThresholdPercent "+
			"(--image-gc-high-threshold) %v", low, high)
	youngest, oldest := c.ImageMinimumGCAge.Duration, c.ImageMaximumGCAge.Duration
	p.addIf(oldest != 0 && !gates.On("ImageMaximumGCAge"),
		"ImageMaximumGCAge feature gate is required for Kubelet configuration option imageMaximumGCAge")
	p.addIf(youngest < 0, "imageMinimumGCAge %v must not be negative", youngest)
	p.addIf(oldest < 0, "imageMaximumGCAge %v must not be negative", oldest)
	p.addIf(oldest > 0 && oldest <= youngest, "imageMaximumGCAge %v must be greater than imageMinimumGCAge %v", oldest,
		youngest)
	if n := c.MaxParallelImagePulls; n != nil {
		p.addIf(*n < 1, "maxParallelImagePulls %v must be a positive number", *n)
		p.addIf(*c.SerializeImagePulls && *n > 1,
			"maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is "+
				"set to false")
	}
	policy, list := c.ImagePullCredentialsVerificationPolicy, c.PreloadedImagesVerificationAllowlist
	if !gates.On("KubeletEnsureSecretPulledImages") {
		p.addIf(policy != "",
			"`imagePullCredentialsVerificationPolicy` must not be set if KubeletEnsureSecretPulledImages feature "+
				"gate is not enabled")
		p.addIf(len(list) > 0,
			"`preloadedImagesVerificationAllowlist` must not be set if KubeletEnsureSecretPulledImages feature gate "+
				"is not enabled")
		return
	}
	switch policy {
	case kubelet.NeverVerify, kubelet.NeverVerifyPreloadedImages, kubelet.NeverVerifyAllowlistedImages,
		kubelet.AlwaysVerify:
	default:
		p.add("option %q specified for imagePullCredentialsVerificationPolicy. Valid options are %q, %q, %q or %q",
			policy, kubelet.NeverVerify, kubelet.NeverVerifyPreloadedImages, kubelet.NeverVerifyAllowlistedImages,
			kubelet.AlwaysVerify)
	}
	if len(list) > 0 && policy != kubelet.NeverVerifyAllowlistedImages {
		p.add("can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` is not " +
			"\"NeverVerifyAllowlistedImages\"")
	}
}

func validateNode(p *problems, c *kubelet.KubeletConfiguration, gates Gates) {
	p.addIf(c.NodeLeaseDurationSeconds <= 0, "nodeLeaseDurationSeconds must be greater than 0")
	p.addIf(c.SystemCgroups != "" && c.CgroupRoot == "",
		"systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified")
	p.addIf(!between(int(*c.IPTablesDropBit), 0, 31),
		"iptablesDropBit (--iptables-drop-bit) %v must be between 0 and 31, inclusive", *c.IPTablesDropBit)
	p.addIf(!between(int(*c.IPTablesMasqueradeBit), 0, 31),
		"iptablesMasqueradeBit (--iptables-masquerade-bit) %v must be between 0 and 31, inclusive",
		*c.IPTablesMasqueradeBit)
	p.addIf(*c.NodeStatusMaxImages < -1, "nodeStatusMaxImages (--node-status-max-images) %v must be -1 or greater",
		*c.NodeStatusMaxImages)
	p.addIf(!between(int(*c.OOMScoreAdj), -1000, 1000),
		"oomScoreAdj (--oom-score-adj) %v must be between -1000 and 1000, inclusive", *c.OOMScoreAdj)
	p.addIf(c.RunOnce, "runOnce (--runOnce) %v, Runonce mode has been deprecated and should not be set", c.RunOnce)
	for _, t := range c.RegisterWithTaints {
		bad := append(validation.IsQualifiedName(t.Key), validation.IsValidLabelValue(t.Value)...)
		if len(bad) > 0 || t.Effect != "NoSchedule" && t.Effect != "PreferNoSchedule" && t.Effect != "NoExecute" {
			p.all = append(p.all, fmt.Errorf("invalid taint: %v", t))
		}
		p.addIf(t.TimeAdded != nil, "taint.TimeAdded is not nil")
	}
	switch c.TopologyManagerPolicy {
	case kubelet.NoneTopologyManagerPolicy, kubelet.BestEffortTopologyManagerPolicy,
		kubelet.RestrictedTopologyManagerPolicy, kubelet.SingleNumaNodeTopologyManagerPolicy:
	default:
		p.add("topologyManagerPolicy (--topology-manager-policy) %q must be one of: %q", c.TopologyManagerPolicy,
			[]string{kubelet.NoneTopologyManagerPolicy, kubelet.BestEffortTopologyManagerPolicy,
				kubelet.RestrictedTopologyManagerPolicy, kubelet.SingleNumaNodeTopologyManagerPolicy})
	}
	if c.TopologyManagerScope != kubelet.ContainerTopologyManagerScope &&
		c.TopologyManagerScope != kubelet.PodTopologyManagerScope {
		p.add("topologyManagerScope (--topology-manager-scope) %q must be one of: %q, or %q", c.TopologyManagerScope,
			kubelet.ContainerTopologyManagerScope, kubelet.PodTopologyManagerScope)
	}
	switch c.HairpinMode {
	case kubelet.HairpinNone, kubelet.HairpinVeth, kubelet.PromiscuousBridge:
	default:
		p.add("option %q specified for hairpinMode (--hairpin-mode). Valid options are %q, %q or %q", c.HairpinMode,
			kubelet.HairpinNone, kubelet.HairpinVeth, kubelet.PromiscuousBridge)
	}
	validateMemoryQoS(p, c, gates)
	validateReservedMemory(p, c)
}

// validateReservedMemory checks reservedMemory as far as it can be without the machine.
func validateReservedMemory(p *problems, c *kubelet.KubeletConfiguration) {
	seen := map[string]bool{}
	for _, r := range c.ReservedMemory {
		for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
			huge := strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
			p.addIf(name != v1.ResourceMemory && !huge,
				"the limit type %q for NUMA node %d is not supported, only %v is accepted", name, r.NumaNode,
				[]v1.ResourceName{v1.ResourceMemory, v1.ResourceHugePagesPrefix + "<HugePageSize>"})
			q := r.Limits[name]
			p.addIf(q.IsZero(), "reserved memory may not be zero for NUMA node %d and resource %q", r.NumaNode, name)
			key := fmt.Sprint(r.NumaNode, " ", name)
			p.addIf(seen[key], "the reserved memory has a duplicate value for NUMA node %d and resource %q", r.NumaNode,
				name)
			seen[key] = true
		}
	}
}

func validateMemoryQoS(p *problems, c *kubelet.KubeletConfiguration, gates Gates) {
	if f := c.MemoryThrottlingFactor; f != nil {
		p.addIf(*f <= 0 || *f > 1.0,
			"memoryThrottlingFactor %v must be greater than 0 and less than or equal to 1.0", *f)
	}
	m := c.MemoryReservationPolicy
	p.addIf(!gates.On("MemoryQoS") && m == kubelet.TieredReservationMemoryReservationPolicy,
		"memoryReservationPolicy %q requires MemoryQoS feature gate to be enabled", m)
	p.addIf(m != kubelet.NoneMemoryReservationPolicy && m != kubelet.TieredReservationMemoryReservationPolicy,
		"option %q specified for memoryReservationPolicy. Valid options are %q or %q", m,
		kubelet.NoneMemoryReservationPolicy, kubelet.TieredReservationMemoryReservationPolicy)
}

// Names of what enforceNodeAllocatable may hold.
const (
	enforcePods               = "pods"
	enforceSystem             = "system-reserved"
	enforceSystemCompressible = "system-reserved-compressible"
	enforceKube               = "kube-reserved"
	enforceKubeCompressible   = "kube-reserved-compressible"
	enforceNone               = "none"
)

func validateAllocatable(p *problems, c *kubelet.KubeletConfiguration) {
	const where = "enforceNodeAllocatable (--enforce-node-allocatable)"
	seen := map[string]bool{}
	for _, v := range c.EnforceNodeAllocatable {
		if seen[v] {
			p.add("duplicated enforcements %q in %s", v, where)
			continue
		}
		seen[v] = true
		switch v {
		case enforcePods:
		case enforceSystem, enforceSystemCompressible:
			p.addIf(c.SystemReservedCgroup == "",
				"systemReservedCgroup (--system-reserved-cgroup) must be specified when %q or %q included in %s",
				enforceSystem, enforceSystemCompressible, where)
		case enforceKube, enforceKubeCompressible:
			p.addIf(c.KubeReservedCgroup == "",
				"kubeReservedCgroup (--kube-reserved-cgroup) must be specified when %q or %q included in %s",
				enforceKube, enforceKubeCompressible, where)
		case enforceNone:
			p.addIf(len(c.EnforceNodeAllocatable) > 1,
				"%s may not contain additional enforcements when %q is specified", where, enforceNone)
			continue
		default:
			p.add("option %q specified for %s. Valid options are %q, %q, %q, %q, %q or %q",
				v, where, enforcePods, enforceSystem, enforceSystemCompressible, enforceKube, enforceKubeCompressible,
				enforceNone)
			continue
		}
		p.addIf(!*c.CgroupsPerQOS, "cgroupsPerQOS (--cgroups-per-qos) must be set to true when %q contained in %s", v,
			where)
	}
	p.addIf(seen[enforceSystem] && seen[enforceSystemCompressible], "both %q and %q cannot be specified together in %s",
		enforceSystem, enforceSystemCompressible, where)
	p.addIf(seen[enforceKube] && seen[enforceKubeCompressible], "both %q and %q cannot be specified together in %s",
		enforceKube, enforceKubeCompressible, where)
	if c.ReservedSystemCPUs != "" {
		p.addIf(c.SystemReservedCgroup != "" || c.KubeReservedCgroup != "",
			"can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or "+
				"kubeReservedCgroup (--kube-reserved-cgroup)")
		if _, err := cpuset.Parse(c.ReservedSystemCPUs); err != nil {
			p.add("unable to parse reservedSystemCPUs (--reserved-cpus) %v, error: %w", c.ReservedSystemCPUs, err)
		}
	}
}

func validateShutdown(p *problems, c *kubelet.KubeletConfiguration, gates Gates) {
	total, critical := c.ShutdownGracePeriod, c.ShutdownGracePeriodCriticalPods
	short := func(d time.Duration) bool { return d < 0 || d > 0 && d < time.Second }
	if gates.On("GracefulNodeShutdown") {
		p.addIf(critical.Duration > total.Duration,
			"shutdownGracePeriodCriticalPods %v must be <= shutdownGracePeriod %v", critical, total)
		p.addIf(short(total.Duration), "shutdownGracePeriod %v must be either zero or otherwise >= 1 sec", total)
		p.addIf(short(critical.Duration),
			"shutdownGracePeriodCriticalPods %v must be either zero or otherwise >= 1 sec", critical)
	} else {
		p.addIf(total.Duration > 0 || critical.Duration > 0,
			"specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires feature gate "+
				"GracefulNodeShutdown")
	}
	if len(c.ShutdownGracePeriodByPodPriority) == 0 {
		return
	}
	if !gates.On("GracefulNodeShutdownBasedOnPodPriority") {
		p.add("Specifying shutdownGracePeriodByPodPriority requires feature gate " +
			"GracefulNodeShutdownBasedOnPodPriority")
		return
	}
	p.addIf(total.Duration > 0 || critical.Duration > 0,
		"Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time")
}

func validatePods(p *problems, c *kubelet.KubeletConfiguration, gates Gates) {
	quota := c.CPUCFSQuotaPeriod.Duration
	if gates.On("CustomCPUCFSQuotaPeriod") {
		p.addIf(quota < time.Millisecond || quota > time.Second,
			"cpuCFSQuotaPeriod (--cpu-cfs-quota-period) %v must be between 1ms and 1sec, inclusive",
			*c.CPUCFSQuotaPeriod)
	} else {
		p.addIf(quota != 100*time.Millisecond,
			"cpuCFSQuotaPeriod (--cpu-cfs-quota-period) %v requires feature gate CustomCPUCFSQuotaPeriod",
			*c.CPUCFSQuotaPeriod)
	}
	switch c.MemorySwap.SwapBehavior {
	case "", "NoSwap", "LimitedSwap":
	default:
		p.add("memorySwap.swapBehavior %q must be one of: \"\", %q or %q", c.MemorySwap.SwapBehavior, "LimitedSwap",
			"NoSwap")
	}
	longest := c.CrashLoopBackOff.MaxContainerRestartPeriod
	if !gates.On("KubeletCrashLoopBackOffMax") {
		p.addIf(longest != nil,
			"FeatureGate KubeletCrashLoopBackOffMax not enabled, CrashLoopBackOff.MaxContainerRestartPeriod must not "+
				"be set")
	} else if longest != nil {
		p.addIf(longest.Duration < time.Second || longest.Duration > 300*time.Second,
			"CrashLoopBackOff.MaxContainerRestartPeriod (got: %v seconds) must be set between 1s and 300s",
			longest.Seconds())
	}
	p.addIf(*c.ContainerLogMaxWorkers < 1, "containerLogMaxWorkers must be greater than or equal to 1")
	p.addIf(c.ContainerLogMonitorInterval.Seconds() < 3,
		"containerLogMonitorInterval must be a positive time duration greater than or equal to 3s")
	p.addIf(*c.ContainerLogMaxFiles <= 1, "containerLogMaxFiles must be greater than 1")
	if u := c.UserNamespaces; u != nil && u.IDsPerPod != nil {
		p.addIf(*u.IDsPerPod%65536 != 0 || *u.IDsPerPod <= 0,
			"userNamespaces.idsPerPod must be a multiple of 65536, got %d", *u.IDsPerPod)
		p.addIf(*u.IDsPerPod >= 1<<32, "userNamespaces.idsPerPod must be less than %d, got %d", int64(1)<<32,
			*u.IDsPerPod)
	}
	dir := c.PodLogsDir
	p.addIf(!filepath.IsAbs(dir), "pod logs path %q must be absolute path", dir)
	p.addIf(filepath.Clean(dir) != dir, "pod logs path %q must be normalized", dir)
	for _, r := range dir {
		if r > unicode.MaxASCII {
			p.add("pod logs path %q mut contains ASCII characters only", dir)
			break
		}
	}
}

package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

// State is what setting a field brings about.
type State int

// States.
const (
	Works   State = iota // every value does what upstream's documentation says
	Fixed                // the default is in force whatever is set; another value is reported
	Later                // nothing happens yet; a value other than the default is reported
	Inert                // nothing happens upstream either
	Refused              // another value than the default is an error
)

// Field is one field of KubeletConfiguration.
type Field struct {
	Path  string // as in JSON
	State State
	Where string // the package or file that it goes to, or why it has no effect
}

// Fields is every field of KubeletConfiguration v1beta1; a test compares it with the type.
func Fields() []Field { return slices.Concat(working(), moreWorking(), inertFields()) }

// working are fields that do what they say.
func working() []Field {
	return []Field{
		{"enableServer", Works, "app/node.go"},
		{"podLogsDir", Works, "kubelet/options.go"},
		{"address", Works, "app/node.go"},
		{"port", Works, "app/node.go"},
		{"readOnlyPort", Works, "app/healthz.go, kubelet/server"},
		{"tlsCertFile", Works, "app/kubelet.go"},
		{"tlsPrivateKeyFile", Works, "app/kubelet.go"},
		{"tlsCipherSuites", Works, "app/nodetls.go"},
		{"tlsMinVersion", Works, "app/nodetls.go"},
		{"tlsCurvePreferences", Works, "app/nodetls.go"},
		{"authentication.x509.clientCAFile", Works, "app/kubelet.go"},
		{"authentication.webhook.cacheTTL", Works, "kubelet/server"},
		{"authorization.webhook.cacheAuthorizedTTL", Works, "kubelet/server"},
		{"authorization.webhook.cacheUnauthorizedTTL", Works, "kubelet/server"},
		{"registryPullQPS", Works, "kubelet/images/pull"},
		{"registryBurst", Works, "kubelet/images/pull"},
		{"imagePullCredentialsVerificationPolicy", Works, "kubelet/images/pullmanager"},
		{"preloadedImagesVerificationAllowlist", Works, "kubelet/images/pullmanager"},
		{"eventRecordQPS", Works, "kubelet/events"},
		{"eventBurst", Works, "kubelet/events"},
		{"healthzPort", Works, "app/healthz.go"},
		{"healthzBindAddress", Works, "app/healthz.go"},
		{"oomScoreAdj", Works, "app/node.go"},
		{"clusterDomain", Works, "kubelet/podactions"},
		{"clusterDNS", Works, "kubelet/podactions"},
		{"nodeStatusUpdateFrequency", Works, "kubelet/nodestatus"},
		{"nodeStatusReportFrequency", Works, "kubelet/nodestatus"},
		{"nodeLeaseDurationSeconds", Works, "kubelet/nodestatus"},
		{"imageMinimumGCAge", Works, "kubelet/images/gc"},
		{"imageMaximumGCAge", Works, "kubelet/images/gc"},
		{"imageGCHighThresholdPercent", Works, "kubelet/images/gc"},
		{"imageGCLowThresholdPercent", Works, "kubelet/images/gc"},
		{"runtimeRequestTimeout", Works, "app/node.go, cri"},
		{"maxPods", Works, "kubelet/nodestatus"},
		{"podsPerCore", Works, "app/node.go"},
		{"podPidsLimit", Works, "kubelet/resource"},
		{"resolvConf", Works, "kubelet/podactions"},
		{"cpuCFSQuota", Works, "kubelet/resource"},
		{"cpuCFSQuotaPeriod", Works, "kubelet/resource"},
		{"nodeStatusMaxImages", Works, "kubelet/nodestatus"},
		{"kubeAPIQPS", Works, "app/kubelet.go; in one process with the API server nothing throttles"},
		{"kubeAPIBurst", Works, "app/kubelet.go; in one process with the API server nothing throttles"},
		{"serializeImagePulls", Works, "kubelet/images/pull"},
	}
}

// moreWorking are the rest of them.
func moreWorking() []Field {
	return []Field{
		{"maxParallelImagePulls", Works, "kubelet/images/pull"},
		{"mergeDefaultEvictionSettings", Works, "kubelet/config"},
		{"featureGates", Works, "kubelet/config; gates that nothing asks yet are reported one by one"},
		{"failSwapOn", Works, "app/node.go"},
		{"systemReserved", Works, "kubelet/resource"},
		{"kubeReserved", Works, "kubelet/resource"},
		{"allowedUnsafeSysctls", Works, "kubelet/admit"},
		{"providerID", Works, "kubelet/nodestatus"},
		{"crashLoopBackOff.maxContainerRestartPeriod", Works, "kubelet/podplan"},
		{"seccompDefault", Works, "kubelet/podactions"},
		{"registerWithTaints", Works, "kubelet/nodestatus"},
		{"registerNode", Works, "kubelet/nodestatus"},
		{"containerRuntimeEndpoint", Works, "app/node.go, cri"},
		{"imageServiceEndpoint", Works, "app/node.go, cri"},
		{"failCgroupV1", Works, "app/node.go"},
		{"cgroupDriver", Works, "app/nodecgroups.go; what the runtime says over CRI counts"},
		{"enableDebuggingHandlers", Works, "kubelet/server"},
		{"enableSystemLogHandler", Works, "kubelet/server"},
		{"enableProfilingHandler", Works, "kubelet/server"},
		{"enableDebugFlagsHandler", Works, "kubelet/server"},
		{"staticPodPath", Works, "kubelet/podsource"},
		{"staticPodURL", Works, "kubelet/podsource"},
		{"staticPodURLHeader", Works, "kubelet/podsource"},
		{"syncFrequency", Works, "kubelet/podworker; the runtime is not asked again for it"},
		{"fileCheckFrequency", Works, "kubelet/podsource"},
		{"httpCheckFrequency", Works, "kubelet/podsource"},
		{"volumeStatsAggPeriod", Works, "kubelet/stats"},
		{"containerLogMaxSize", Works, "kubelet/logs/rotation"},
		{"containerLogMaxFiles", Works, "kubelet/logs/rotation"},
		{"containerLogMaxWorkers", Works, "kubelet/logs/rotation"},
		{"containerLogMonitorInterval", Works, "kubelet/logs/rotation"},
		{"enableSystemLogQuery", Works, "kubelet/server"},
		{"userNamespaces.idsPerPod", Works, "kubelet/userns"},
		{"streamingConnectionIdleTimeout", Works, "kubelet/server"},
		{"authentication.webhook.enabled", Works, "kubelet/server"},
		{"authentication.anonymous.enabled", Works, "kubelet/server"},
		{"authorization.mode", Works, "kubelet/server"},
		{"rotateCertificates", Works,
			"kubelet/certs; gantry up's kubelet shows no certificate: it is in one process with the API server"},
		{"serverTLSBootstrap", Works, "kubelet/certs"},
		{"enableContentionProfiling", Works, "app/nodeapi.go"},
		{"shutdownGracePeriod", Works, "kubelet/nodeshutdown"},
		{"shutdownGracePeriodCriticalPods", Works, "kubelet/nodeshutdown"},
		{"shutdownGracePeriodByPodPriority", Works, "kubelet/nodeshutdown"},
		{"evictionHard", Works, "kubelet/eviction; kubelet/resource takes memory and disk off what is allocatable"},
		{"evictionSoft", Works, "kubelet/eviction"},
		{"evictionSoftGracePeriod", Works, "kubelet/eviction"},
		{"evictionPressureTransitionPeriod", Works, "kubelet/eviction"},
		{"evictionMaxPodGracePeriod", Works, "kubelet/eviction"},
		{"evictionMinimumReclaim", Works, "kubelet/eviction"},
		{"kernelMemcgNotification", Works, "kubelet/eviction/manager, linux/cgroup"},
	}
}

// inertFields are fields that have no effect, or only that of their default.
func inertFields() []Field {
	return []Field{
		{"cgroupsPerQOS", Fixed, "always by QoS class"},
		{"configMapAndSecretChangeDetectionStrategy", Fixed, "always by watch"},
		{"enforceNodeAllocatable", Works, "app/noderole"},
		{"enableControllerAttachDetach", Fixed, "always the controller's"},
		{"hairpinMode", Fixed, "the CNI plugin decides"},
		{"contentType", Fixed, "the client library decides"},
		{"memorySwap.swapBehavior", Works, "kubelet/resource; LimitedSwap with cgroup v2 only, as upstream"},
		{"localStorageCapacityIsolation", Works, "kubelet/eviction/localstorage"},
		{"makeIPTablesUtilChains", Fixed, "the service proxy's business"},
		{"logging", Fixed, "flags -v and --log-file set logging"},
		{"kubeletCgroups", Later, "linux/cgroup"},
		{"systemCgroups", Later, "linux/cgroup"},
		{"cgroupRoot", Later, "the instance's own"},
		{"cpuManagerPolicy", Works, "kubelet/cpumanager"},
		{"singleProcessOOMKill", Works, "kubelet/resource, app/node.go"},
		{"cpuManagerPolicyOptions", Works, "kubelet/cpumanager"},
		{"cpuManagerReconcilePeriod", Works, "kubelet/cpumanager"},
		{"memoryManagerPolicy", Works, "kubelet/memorymanager"},
		{"topologyManagerPolicy", Works, "kubelet/topologymanager"},
		{"topologyManagerScope", Works, "kubelet/topologymanager"},
		{"topologyManagerPolicyOptions", Works, "kubelet/topologymanager"},
		{"qosReserved", Works, "kubelet/resource, with the gate QOSReserved"},
		{"podCIDR", Later, "--pod-cidr"},
		{"maxOpenFiles", Later, "app"},
		{"protectKernelDefaults", Works, "app/nodeconfig.go; without it the kernel is left as it is"},
		{"reservedSystemCPUs", Works, "kubelet/cpumanager"},
		{"showHiddenMetricsForVersion", Later, "metrics"},
		{"systemReservedCgroup", Works, "app/noderole"},
		{"kubeReservedCgroup", Works, "app/noderole"},
		{"defaultPodSysctls", Later, "kubelet/podactions"},
		{"volumePluginDir", Later, "CSI"},
		{"reservedMemory", Works, "kubelet/memorymanager"},
		{"memoryThrottlingFactor", Works, "kubelet/resource"},
		{"memoryReservationPolicy", Works, "kubelet/resource"},
		{"tracing", Later, "journal"},
		{"iptablesMasqueradeBit", Inert, "no effect upstream"},
		{"iptablesDropBit", Inert, "no effect upstream"},
		{"runOnce", Refused, "refused, as upstream"},
	}
}

// HonouredGates are the gates that something in Gantry asks.
func HonouredGates() []string {
	return []string{"AllAlpha", "AllBeta", "CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions",
		"CustomCPUCFSQuotaPeriod", "HugepageAwareEviction", "KubeletCrashLoopBackOffMax",
		"KubeletEnsureSecretPulledImages", "KubeletServiceAccountTokenForCredentialProviders", "MemoryQoS",
		"QOSReserved", "ResourceHealthStatus", "CSIVolumeHealth",
		"PodLevelResourceManagers"}
}

// inertSettings lists what is set to something that has no effect yet: fields that differ from
// their default, gates that nothing asks.
func inertSettings(c *kubelet.KubeletConfiguration, gates Gates) []string {
	plain := &kubelet.KubeletConfiguration{}
	if none, err := ResolveGates(nil); err == nil {
		Complete(plain, none)
	}
	is, usual := flatten(c), flatten(plain)
	var out []string
	for _, f := range Fields() {
		if (f.State == Fixed || f.State == Later) && !reflect.DeepEqual(is[f.Path], usual[f.Path]) {
			out = append(out, f.Path)
		}
	}
	for name, on := range c.FeatureGates {
		if !slices.Contains(HonouredGates(), name) && on != gates.Default(name) {
			out = append(out, "featureGates."+name)
		}
	}
	slices.Sort(out)
	return out
}

// flatten is the configuration's JSON by field path.
func flatten(c *kubelet.KubeletConfiguration) map[string]any {
	out := map[string]any{}
	raw, err := json.Marshal(c)
	if err != nil {
		return out // the type marshals
	}
	tree := map[string]any{}
	if err := json.Unmarshal(raw, &tree); err != nil {
		return out
	}
	for path := range leafFields() {
		at, parts := any(tree), strings.Split(path, ".")
		for _, p := range parts {
			m, ok := at.(map[string]any)
			if !ok {
				at = nil
				break
			}
			at = m[p]
		}
		out[path] = at
	}
	return out
}

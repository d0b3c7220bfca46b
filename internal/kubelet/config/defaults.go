package config

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// EvictionHard are the hard thresholds of a node whose configuration names none.
func EvictionHard() map[string]string {
	return map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%",
		"imagefs.available": "15%", "imagefs.inodesFree": "5%"}
}

// Complete fills in v1.37's defaults (KubeletConfiguration v1beta1). Three differ on purpose:
// seccompDefault is true, so that no container runs without a profile unless it asks to; failSwapOn
// and failCgroupV1 are false, because Gantry runs on such hosts.
func Complete(c *kubelet.KubeletConfiguration, gates Gates) {
	completeServing(c)
	completeNode(c)
	completePods(c)
	completeImages(c, gates)
	completeEviction(c)
	logsapi.SetRecommendedLoggingConfiguration(&c.Logging)
	if c.CrashLoopBackOff.MaxContainerRestartPeriod == nil && gates.On("KubeletCrashLoopBackOffMax") {
		c.CrashLoopBackOff.MaxContainerRestartPeriod = &metav1.Duration{Duration: 300 * time.Second}
	}
}

func set[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func setPointer[T any](p **T, def T) {
	if *p == nil {
		*p = ptr.To(def)
	}
}

func setDuration(d *metav1.Duration, def time.Duration) { set(&d.Duration, def) }

func completeServing(c *kubelet.KubeletConfiguration) {
	setPointer(&c.EnableServer, true)
	set(&c.Address, "0.0.0.0")
	set(&c.Port, 10250)
	setPointer(&c.Authentication.Anonymous.Enabled, false)
	setPointer(&c.Authentication.Webhook.Enabled, true)
	setDuration(&c.Authentication.Webhook.CacheTTL, 2*time.Minute)
	set(&c.Authorization.Mode, kubelet.KubeletAuthorizationModeWebhook)
	setDuration(&c.Authorization.Webhook.CacheAuthorizedTTL, 5*time.Minute)
	setDuration(&c.Authorization.Webhook.CacheUnauthorizedTTL, 30*time.Second)
	setPointer(&c.EventRecordQPS, 50)
	set(&c.EventBurst, 100)
	setPointer(&c.EnableDebuggingHandlers, true)
	setPointer(&c.HealthzPort, 10248)
	set(&c.HealthzBindAddress, "127.0.0.1")
	setDuration(&c.StreamingConnectionIdleTimeout, 4*time.Hour)
	set(&c.ContentType, "application/vnd.kubernetes.protobuf")
	setPointer(&c.KubeAPIQPS, 50)
	set(&c.KubeAPIBurst, 100)
	setPointer(&c.EnableSystemLogHandler, true)
	setPointer(&c.EnableSystemLogQuery, false)
	setPointer(&c.EnableProfilingHandler, true)
	setPointer(&c.EnableDebugFlagsHandler, true)
}

func completeNode(c *kubelet.KubeletConfiguration) {
	setPointer(&c.OOMScoreAdj, -999)
	if c.NodeStatusReportFrequency.Duration == 0 {
		// An explicit update frequency is the default of the report frequency too.
		c.NodeStatusReportFrequency.Duration = 5 * time.Minute
		if c.NodeStatusUpdateFrequency.Duration != 0 {
			c.NodeStatusReportFrequency = c.NodeStatusUpdateFrequency
		}
	}
	setDuration(&c.NodeStatusUpdateFrequency, 10*time.Second)
	set(&c.NodeLeaseDurationSeconds, 40)
	setPointer(&c.CgroupsPerQOS, true)
	set(&c.CPUManagerPolicy, "none")
	setDuration(&c.CPUManagerReconcilePeriod, 10*time.Second)
	set(&c.MemoryManagerPolicy, kubelet.NoneMemoryManagerPolicy)
	set(&c.TopologyManagerPolicy, kubelet.NoneTopologyManagerPolicy)
	set(&c.TopologyManagerScope, kubelet.ContainerTopologyManagerScope)
	setDuration(&c.RuntimeRequestTimeout, 2*time.Minute)
	set(&c.HairpinMode, kubelet.PromiscuousBridge)
	set(&c.MaxPods, 110)
	setPointer(&c.NodeStatusMaxImages, 50)
	set(&c.MaxOpenFiles, 1_000_000)
	setPointer(&c.MakeIPTablesUtilChains, true)
	setPointer(&c.IPTablesMasqueradeBit, 14)
	setPointer(&c.IPTablesDropBit, 15)
	setPointer(&c.FailSwapOn, false)
	if c.EnforceNodeAllocatable == nil {
		c.EnforceNodeAllocatable = []string{"pods"}
	}
	setPointer(&c.FailCgroupV1, false)
	set(&c.MemoryReservationPolicy, kubelet.NoneMemoryReservationPolicy)
	setPointer(&c.RegisterNode, true)
	set(&c.ContainerRuntimeEndpoint, "unix:///run/containerd/containerd.sock")
}

func completePods(c *kubelet.KubeletConfiguration) {
	set(&c.PodLogsDir, "/var/log/pods")
	setDuration(&c.SyncFrequency, time.Minute)
	setDuration(&c.FileCheckFrequency, 20*time.Second)
	setDuration(&c.HTTPCheckFrequency, 20*time.Second)
	setDuration(&c.VolumeStatsAggPeriod, time.Minute)
	if c.PodPidsLimit == nil || *c.PodPidsLimit < 0 {
		c.PodPidsLimit = ptr.To[int64](-1)
	}
	setPointer(&c.ResolverConfig, "/etc/resolv.conf")
	setPointer(&c.CPUCFSQuota, true)
	setPointer(&c.CPUCFSQuotaPeriod, metav1.Duration{Duration: 100 * time.Millisecond})
	setPointer(&c.EnableControllerAttachDetach, true)
	set(&c.ContainerLogMaxSize, "10Mi")
	setPointer(&c.ContainerLogMaxFiles, 5)
	setPointer(&c.ContainerLogMaxWorkers, 1)
	setPointer(&c.ContainerLogMonitorInterval, metav1.Duration{Duration: 10 * time.Second})
	set(&c.ConfigMapAndSecretChangeDetectionStrategy, kubelet.WatchChangeDetectionStrategy)
	set(&c.VolumePluginDir, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/")
	setPointer(&c.SeccompDefault, true)
	setPointer(&c.LocalStorageCapacityIsolation, true)
}

func completeImages(c *kubelet.KubeletConfiguration, gates Gates) {
	setPointer(&c.RegistryPullQPS, 5)
	set(&c.RegistryBurst, 10)
	setDuration(&c.ImageMinimumGCAge, 2*time.Minute)
	setPointer(&c.ImageGCHighThresholdPercent, 85)
	setPointer(&c.ImageGCLowThresholdPercent, 80)
	// Who asks for pulls side by side need not say it twice.
	setPointer(&c.SerializeImagePulls, c.MaxParallelImagePulls == nil || *c.MaxParallelImagePulls < 2)
	if gates.On("KubeletEnsureSecretPulledImages") {
		set(&c.ImagePullCredentialsVerificationPolicy, kubelet.NeverVerifyPreloadedImages)
	}
}

func completeEviction(c *kubelet.KubeletConfiguration) {
	setPointer(&c.MergeDefaultEvictionSettings, false)
	switch {
	case c.EvictionHard == nil:
		c.EvictionHard = EvictionHard()
	case *c.MergeDefaultEvictionSettings:
		all := EvictionHard()
		maps.Copy(all, c.EvictionHard)
		c.EvictionHard = all
	}
	setDuration(&c.EvictionPressureTransitionPeriod, 5*time.Minute)
}

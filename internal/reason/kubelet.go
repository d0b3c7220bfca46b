package reason

// Reasons why a container waits, or the kubelet refuses or ends a Pod. The codes are upstream's
// container waiting reasons and event reasons.
const (
	CreateContainerError Code = "CreateContainerError" // the runtime did not create it
	RunContainerError    Code = "RunContainerError"    // the runtime did not start it
	PostStartHookError   Code = "PostStartHookError"   // its postStart hook failed
	CrashLoopBackOff     Code = "CrashLoopBackOff"     // it keeps exiting; the next start is delayed
	// the runtime or the network did not create the sandbox
	FailedCreatePodSandBox Code = "FailedCreatePodSandBox"
	FailedStop             Code = "FailedKillPod" // the runtime did not stop something
	FailedRelease          Code = "FailedRelease" // volumes, cgroup or records could not be removed
	// devices of the Pod's resource claims were not prepared
	FailedPrepareDevices Code = "FailedPrepareDynamicResources"
	FailedCgroup         Code = "FailedCreatePodContainer" // the Pod's cgroup could not be created

	ResizeDeferred   Code = "Deferred"    // the node has no room for the new size now
	ResizeInfeasible Code = "Infeasible"  // the node can never provide the new size
	ResizeError      Code = "ResizeError" // the runtime or a cgroup refused the new size

	AdmitOS           Code = "PodOSNotSupported"
	AdmitOSSelector   Code = "PodOSSelectorNodeLabelDoesNotMatch"
	AdmitSysctl       Code = "SysctlForbidden"
	AdmitAppArmor     Code = "AppArmor"
	AdmitGroups       Code = "SupplementalGroupsPolicyNotSupported"
	AdmitNodeAffinity Code = "NodeAffinity"
	AdmitNodeName     Code = "NodeName"
	AdmitNodePorts    Code = "NodePorts"
	AdmitTaint        Code = "TaintToleration"
	AdmitFeature      Code = "PodFeatureUnsupported"
	AdmitUnexpected   Code = "UnexpectedAdmissionError"

	AdmitTopologyAffinity   Code = "TopologyAffinityError"   // no NUMA nodes serve all resources
	AdmitSMTAlignment       Code = "SMTAlignmentError"       // no whole cores for the CPUs asked for
	AdmitEmptyPodSharedPool Code = "EmptyPodSharedPoolError" // exclusive containers leave others of the Pod nothing

	NodeShutdown Code = "NodeShutdown" // the node is shutting down
	Evicted      Code = "Evicted"      // the node is short of memory, disk or process ids
)

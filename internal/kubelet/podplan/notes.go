package podplan

// Annotations of containers in the runtime, named as upstream's so that crictl and another kubelet read them; the last one is Gantry's own.
const (
	HashNote          = "io.kubernetes.container.hash"
	RestartCountNote  = "io.kubernetes.container.restartCount"
	MessagePathNote   = "io.kubernetes.container.terminationMessagePath"
	MessagePolicyNote = "io.kubernetes.container.terminationMessagePolicy"
	PreStopNote       = "io.kubernetes.container.preStopHandler"
	PortsNote         = "io.kubernetes.container.ports"
	PodDeletionNote   = "io.kubernetes.pod.deletionGracePeriod"
	PodGraceNote      = "io.kubernetes.pod.terminationGracePeriod"
	CrashDelayNote    = "gantry.dev/crash-delay" // how long to wait after this container has ended
)

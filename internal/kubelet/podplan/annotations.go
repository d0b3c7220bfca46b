package podplan

// Annotations of containers in the runtime, named as upstream's so that crictl and another kubelet
// read them; the last one is Gantry's own.
const (
	HashAnnotation             = "io.kubernetes.container.hash"
	RestartCountAnnotation     = "io.kubernetes.container.restartCount"
	MessagePathAnnotation      = "io.kubernetes.container.terminationMessagePath"
	MessagePolicyAnnotation    = "io.kubernetes.container.terminationMessagePolicy"
	PreStopAnnotation          = "io.kubernetes.container.preStopHandler"
	PortsAnnotation            = "io.kubernetes.container.ports"
	PodDeletionGraceAnnotation = "io.kubernetes.pod.deletionGracePeriod"
	PodGraceAnnotation         = "io.kubernetes.pod.terminationGracePeriod"
	CrashDelayAnnotation       = "gantry.dev/crash-delay" // how long to wait after this container has ended
)

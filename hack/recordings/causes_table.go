package main

// causes are tried in order. A row with a why is a decision; a row without is work that waits.
var causes = []cause{
	// Meant: API.
	row(`^protocol/(authorization/anonymous-version|discovery/legacy-version\S*) `, "The version is v1.37, its texts and fields too",
		"Gantry implements the API level of v1.37; the recordings are of v1.36.3", ""),
	row(`application/cbor|^protocol/negotiation/accept-cbor-or-json |^protocol/apply/apply-cbor `, "CBOR is served beside JSON and protobuf",
		"Upstream has it behind a gate that is off; clients that ask for it get it here", ""),
	row(`^protocol/openapi/\S+ \.schemas\[\]: want nothing`, "OpenAPI documents hold types and fields of v1.37", "The types are those of k8s.io/api at the API level of v1.37", ""),
	row(`^protocol/tables/customresourcedefinition `, "Definitions are printed with more columns", "The printer is that of apiextensions-apiserver v0.37", ""),
	row(`^protocol/tables/(clusterrolebinding|runtimeclass) \.columnDefinitions\[\d\]\.description`, "Some column descriptions read as the documentation of v1.37", "They come from the published types", ""),
	row(`^protocol/health/(healthz|readyz|livez)-verbose\S* text`, "The list of checks in verbose health answers has Gantry's own start hooks",
		"Each name stands for something that exists here; the codes and the form are the same", ""),
	row(`^protocol/health/root \.paths\[\]: want ("/(healthz|livez|readyz)/|nothing)`, "The list of checks in verbose health answers has Gantry's own start hooks", "Each name stands for something that exists here; the codes and the form are the same", ""),
	// Meant: Pods.
	with(`^\S+/\S+ (history|get|describe|events|objects) `, row(`^(phases|init|oom|images|hooks|ephemeral|restart-rules|deadlines|termination|probes|controllers)/\S+ (history \S+ state: want nothing, got .*(CrashLoopBackOff|ImagePullBackOff)|history \S+(ContainerStatuses|containerStatuses)\[\w+\]\.state\.waiting\.reason: want (ErrImagePull|PostStartHookError), got (ImagePullBackOff|CrashLoopBackOff)|history \S+ time: want .*(CrashLoopBackOff|ImagePullBackOff))`,
		"A back-off shows as soon as it begins, and ends when its time is over", "Upstream's kubelet shows it, and looks whether it is over, when it next comes by: up to 15 s later. No wait without a named blocker", "")),
	row(`events Warning Unhealthy of Pod/\S+ by kubelet: want (Readiness|Liveness|Startup) probe errored and resulted in unknown state: .*context canceled, got no such event`,
		"A probe that was under way when its Pod stopped is no event", "Nothing is wrong with the Pod; upstream reports its own cancellation", ""),
	// Not yet: API.
	row(`resource\.k8s\.io|^(validation|updates|protocol/tables|protocol/field-selectors|defaulting)/resourceclaim`, "Dynamic resource allocation (resource.k8s.io) is not served", "", "internal/apiserver/kinds.go"),
	row(`flowcontrol|prioritylevel`, "Priority and fairness (flowcontrol.apiserver.k8s.io) is not served", "", "internal/apiserver"),
	row(`componentstatuses|autoscaling/v1|hpa-v1|ipaddresses|servicecidrs|^protocol/(openapi/v2|health/root|discovery/\S+) `, "Some kinds and paths are missing in discovery: componentstatuses, autoscaling/v1, IPAddress, ServiceCIDR", "", "internal/apiserver/kinds.go"),
	row(`^protocol/admission/quota|^updates/pod-resize/quota`, "ResourceQuota is not enforced", "", "internal/apiserver/admission"),
	row(`deprecated\.daemonset\.template\.generation`, "DaemonSets lack the annotation deprecated.daemonset.template.generation", "", "internal/apiserver/registry"),
	row(`: node: |authorization/(impersonate-node-pods|node-get-secret|node-get-other-node) `, "Refusals of the node authorizer begin with its name", "", "internal/apiserver/auth"),
	row(`^protocol/patch/\S+ \.message|^protocol/apply/yaml-malformed`, "Malformed patches are refused in other words", "", "internal/apiserver"),
	row(`token\.claims\.aud`, "The audience of a token is a text, upstream's a list", "", "internal/apiserver/auth"),
	// Not yet: Pods.
	row(`^endpoints/\S+ objects EndpointSlice`, "No EndpointSlice controller", "", "internal/control"),
	with(`^(eviction|drain)/`, row(`PodDisruptionBudget`, "No disruption controller: budgets have no status, evictions under a budget are refused", "", "internal/control")),
	with(`^controllers/statefulset`, row(`^controllers/statefulset`, "No StatefulSet controller", "", "internal/control")),
	with(`^controllers/rs-quota`, row(`^controllers/rs-quota`, "ResourceQuota is not enforced", "", "internal/control")),
	with(`^static/`, row(`^static/`, "Static Pods are not finished", "", "internal/kubelet/intake")),
	with(`^volumes/(volume-emptydir-over|storage-limit)`, row(`^volumes/(volume-emptydir-over-limit|storage-limit)`, "Limits of local storage do not evict", "", "internal/kubelet/evict")),
	with(`^preemption/preempt-admission-critical`, row(`^preemption/preempt-admission-critical`, "The kubelet does not preempt for critical Pods", "", "internal/kubelet/admit")),
	with(`^resize/`, row(`^resize/resize-memory`, "Resizing in place has no conditions, events and restarts yet", "", "internal/kubelet")),
}

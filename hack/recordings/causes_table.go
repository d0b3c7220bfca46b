package main

// causes are tried in order. A row with a why is intended; a row without is not done yet.
var causes = []cause{
	// Intended: API.
	row(`^protocol/(authorization/anonymous-version|discovery/legacy-version\S*) `,
		"The version is v1.37, its texts and fields too",
		"Gantry implements the API level of v1.37; the recordings are of v1.36.3", ""),
	row(`^protocol/openapi/v3-storage\S* |^protocol/openapi/\S+ \.schemas\[\]: want (nothing|`+
		`"io\.k8s\.api\.resource\.v1\.NodeAllocatableResourceMapping")`,
		"OpenAPI documents hold types and fields of v1.37",
		"The types are those of k8s.io/api at the API level of v1.37", ""),
	row(`^protocol/tables/customresourcedefinition `, "Definitions are printed with more columns",
		"The printer is that of apiextensions-apiserver v0.37", ""),
	row(`^protocol/tables/(clusterrolebinding|runtimeclass) \.columnDefinitions\[\d\]\.description`,
		"Some column descriptions read as the documentation of v1.37", "They come from the published types", ""),
	row(`^protocol/health/(healthz|readyz|livez)-verbose\S* text`,
		"The list of checks in verbose health answers has Gantry's own start hooks",
		"Each name stands for something that exists here; the codes and the form are the same", ""),
	row(`^protocol/health/root \.paths\[\]: want ("/(healthz|livez|readyz)/|nothing)`,
		"The list of checks in verbose health answers has Gantry's own start hooks",
		"Each name stands for something that exists here; the codes and the form are the same", ""),
	// Intended: Pods.
	row(`no new claims to deallocate, preemption: |preemption: found a potential placement for pod on node `,
		"FailedScheduling is told in the words of v1.37",
		"v1.37 no longer says that no claim helps, and names the node and the number of victims where preemption helps",
		""),
	with(`^\S+/\S+ (history|get|describe|events|objects) `,
		row(`^(phases|init|oom|images|hooks|ephemeral|restart-rules|deadlines|termination|probes|controllers)/\S+ `+
			`(history \S+ state: want nothing, got .*(CrashLoopBackOff|ImagePullBackOff)|history `+
			`\S+(ContainerStatuses|containerStatuses)\[\w+\]\.state\.waiting\.reason: want (ErrImagePull|`+
			`PostStartHookError), got (ImagePullBackOff|CrashLoopBackOff)|history \S+ time: want .*(CrashLoopBackOff|`+
			`ImagePullBackOff|ErrImagePull))|^phases/phase-(container-slow-stop-restart|exit1-always-loop) (history|`+
			`get|describe|events)`,
			"A back-off ends when its time is over, and shows in the last seconds of it at least; a failed pull is "+
				"tried again after a second",
			"Upstream's kubelet looks whether a back-off is over when it next comes by: up to 15 s later; and shows "+
				"it for an instant. No wait without a named blocker", "")),
	row(`^phases/phase-exit1-always-loop output`,
		"kubectl logs --previous prints the log of the container before, which stays as long as that container is "+
			"named in the status", "Upstream's collector may have removed it at its last full minute", ""),
	with(`^static/`,
		row(`^static/static-(edit|delete-mirror)`,
			"A static Pod that changes or goes is ended and started at once, its mirror too",
			"Upstream's kubelet comes by after ten seconds, for a mirror deleted by force after more than a minute. "+
				"No wait without a named blocker", "")),
	with(`^resize/`, row(`^resize/resize-memory-(restart|down-below-use)`,
		"Sizes follow a resize at once; one below what is used says so at once and with the true use",
		"Upstream shows the Pod's old request until the Pod ends, the error only at its next sync, and a use of 0 "+
			"where it has not measured yet", "")),
	row(`^env/env-envfrom-odd-keys output`,
		"The shell of the test image does not pass on variables that are no identifiers",
		"The container's environment has them; Debian's busybox drops them where the recorded image's does not", ""),
	row(`^oom/oom-limit-too-small (describe|events)`,
		"A sandbox that failed is tried again after a second, then every ten",
		"Upstream waits ten to fifteen seconds; most causes are gone sooner", ""),
	with(`^volumes/(storage-limit|volume-emptydir-over-limit)`,
		row(`^volumes/(storage-limit|volume-emptydir-over-limit)\S* (history|get) \S+ time`,
			"A Pod over its storage limit goes within ten seconds of being measured so",
			"Upstream's measurements are up to a minute old", "")),
	row(`^volumes/volume-configmap-item-missing history p\.status\.observedGeneration`,
		"A Pod of which nothing runs goes from its deletion to its last status at once",
		"Upstream's kubelet tells one status more in between", ""),
	with(`^phases/phase-termination-message-file `,
		row(`^phases/phase-termination-message-file history p state: want nothing`,
			"States that last less than a second are told", "Upstream's kubelet looks at the runtime once a second",
			"")),
	row(`^validation/pod-volumes/projected-ctb-both`, "Sources of trust bundles are kept and judged",
		"ClusterTrustBundle and its projection are stable in v1.37; v1.36.3 dropped the field", ""),
	row(`^validation/pod-metadata/owner-ref`, "Owner references are refused in the words of v1.37",
		"The check is apimachinery's own", ""),
	row(`: node: |authorization/(impersonate-node-pods|node-get-secret|node-get-other-node) `,
		"Refusals of the node authorizer begin with its name",
		"The union of authorizers in apiserver v0.37 puts it there", ""),
	row(`^protocol/patch/\S+ \.message|^protocol/apply/yaml-malformed`,
		"Malformed patches are refused in the words of v1.37", "apiserver v0.37 checks a patch before it decodes it",
		""),
	row(`^updates/rolebinding/roleref `, "Another role is refused in the words of v1.37",
		"v1.37.2 was asked (hack/recordings/newer.json)", ""),
	row(`^updates/resourceclaim/spec `, "A refused claim is printed with the fields of v1.37",
		"derivedAttributes is new in v1.37", ""),
	row(`\.spec\.updateStrategy\.rollingUpdate\.maxUnavailable`,
		"A StatefulSet's rolling update has a maxUnavailable of 1", "v1.37 sets it; v1.37.2 was asked (hack/apidiff)",
		""),
	row(`^updates/statefulset/(service-name|pod-management) `,
		"Each field of a StatefulSet that may not change is named",
		"v1.37 refuses them one by one; v1.37.2 was asked (hack/apidiff)", ""),
	row(`^(defaulting|updates)/horizontalpodautoscaler/\S+ \.metadata\.generation`,
		"HorizontalPodAutoscalers have a generation", "v1.37 counts it; v1.37.2 was asked (hack/apidiff)", ""),
	row(`^defaulting/csidriver/minimal \.spec\.preventPodSchedulingIfMissing`,
		"A CSIDriver says that Pods are scheduled without it",
		"v1.37 added the field; v1.37.2 was asked (hack/apidiff)", ""),
	row(`^defaulting/csinode/minimal \.status`, "A CSINode has a status", "v1.37 added it; it prints as {}", ""),
	row(`^protocol/discovery/(legacy-apis-(admissionregistration|certificates|storage)|legacy-apis |`+
		`aggregated-v2-apis)|^protocol/\S+ \.paths\[\]: want nothing, got "\S*(clustertrustbundles|storagemigration|`+
		`storageversionmigrations|devicetaintrules|workloads|podgroups)`,
		"Discovery lists the kinds of v1.37",
		"MutatingAdmissionPolicy is stored as v1; ClusterTrustBundle, DeviceTaintRule and StorageVersionMigration "+
			"are served as v1 there", ""),
	row(`^protocol/health/root \.paths\[\]: want "/flagz"|^protocol/health/root `,
		"The paths of the root are those of Gantry's own hooks", "Each name stands for something that exists here", ""),
	row(`^updates/job/template-image`, "The refused template of a Job is printed by the fields of the published type",
		"Upstream prints an internal type that no client ever sees", ""),
	// Not done yet: API.
	row(`^protocol/openapi/v2 `, "The OpenAPI v2 document has the paths of kinds that v1.37 serves",
		"Paths follow what is served", ""),
	row(`^protocol/(health/root|discovery/\S+) `, "Some paths are missing or otherwise in discovery", "",
		"internal/apiserver/kinds.go"),
	// Not done yet: Pods.
	row(`^controllers/job-backoff-limit-onfailure events Warning BackOff`,
		"The end of a container is seen at once, so its back-off is told before the Job ends the Pod",
		"Upstream's kubelet looks at the runtime once a second: by then the Pod was being deleted", ""),
	row(`^controllers/job-`,
		"A Job's status follows its Pods at once; upstream gathers changes for a second, and counts some Pods "+
			"otherwise", "", "internal/control/job"),
	row(`^(controllers|security|drain)/\S+ objects Deployment`,
		"A Deployment writes one status more at its start; some Progressing reasons differ", "",
		"internal/control/deployment"),
	row(`^probes/(liveness-(exec-fail|tcp-fail|command-missing)|startup-http-fail|readiness-https?\S*) `,
		"How many probes had failed and how often a container was restarted when a case ended by the clock (the "+
			"measuring machine was busy)", "", "hack/recordings"),
	row(`^endpoints/ep-terminating events .* order`,
		"A Pod is told to stop before a probe of it finds that it is stopping",
		"Upstream's kubelet took almost two seconds from the deletion to the stop", ""),
	row(`^network/net-share-process-namespace .* result`, "The order in which ps lists processes of a shared namespace",
		"Containers start side by side; the order carries no promise", ""),
}

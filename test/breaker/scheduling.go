package breaker

// newSchedulingKinds are priorities, preemption, PodGroups, resizes, spreading, affinity, gates and
// devices. They were written from the API's documentation on 2026-11-29, before their first score.
// PodGroups need the gate GenericWorkload.
var newSchedulingKinds = []kind{
	{"preemption: another Pod of the same priority has it all", single("$A", needs("2", "")), "pod/$C",
		[]truth{{kinds: "Pod", field: "example.com/$NS", value: "1", numbers: []string{"1", "2", "$A"}}},
		room("2") + "pod/$A until spec.nodeName=node-1\n" + later("$C", needs("1", ""))},
	{"preemption: a class that never preempts", priority("$B", "100$N", ", preemptionPolicy: Never") + single("$A",
		needs("1", "")), "pod/$C",
		[]truth{{kinds: "Pod PriorityClass", field: "preemptionPolicy", value: "Never",
			want: "PreemptLowerPriority|preemptionPolicy"},
			{kinds: "Pod", field: "example.com/$NS", value: "1", numbers: []string{"$A"}}},
		room("1") + "pod/$A until spec.nodeName=node-1\n" + later("$C", needs("1", "priorityClassName: $NS-$B, "))},
	{"preemption: the victim takes its time to end", priority("$B", "100$N", "") + single("$A",
		`{terminationGracePeriodSeconds: $N00, containers: [{name: app, image: ignores-term, resources: {limits: `+
			`{example.com/$NS: 1}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "terminationGracePeriodSeconds|nominatedNodeName|deletionTimestamp",
			numbers: []string{"$A", "$N00"}}},
		room("1") + "pod/$A until status.phase=Running\n" + later("$C", needs("1", "priorityClassName: $NS-$B, "))},
	{"preemption: a Deployment's Pod had to go", priority("$B", "100$N", "") + deploy("$A", "", needs("1", "")),
		"deployment/$A",
		[]truth{{kinds: podOrOwner, field: "example.com/$NS", value: "1", numbers: []string{"$C"}}},
		room("1") + "deployment/$A until status.readyReplicas=1\n" + later("$C", needs("1", "priorityClassName: "+
			"$NS-$B, ")) +
			"pod/$C until spec.nodeName=node-1"},
	{"preemption: those below do not hold " +
		"enough", priority("$B", "100$N", "") + priority("$P", "200$N", "") + single("$A",
		needs("2", "priorityClassName: $NS-$P, ")) + single("$B", needs("1", "")), "pod/$C",
		[]truth{{kinds: "Pod", field: "example.com/$NS", value: "3", numbers: []string{"3", "$A"}}},
		room("3") + "pod/$A until spec.nodeName=node-1\npod/$B until spec.nodeName=node-1\n" +
			later("$C", needs("3", "priorityClassName: $NS-$B, "))},

	{"gangs: a member is missing", gangOf("$A", "3") + member("$C", "$A", "") + member("$B", "$A", ""), "pod/$C",
		[]truth{{kinds: "PodGroup", field: "minCount", value: "3", numbers: []string{"2", "3"}}}, ""},
	{"gangs: group with one letter wrong", gangOf("$A", "1") + member("$C", "$a", ""), "pod/$C",
		[]truth{{kinds: "Pod", field: "podGroupName", value: "$a", want: "$A"}}, ""},
	{"gangs: one member has no node", gangOf("$A", "2") + member("$C", "$A", "") + member("$B", "$A",
		"nodeSelector: {example.com/$P: \"$N\"}, "), "pod/$C",
		[]truth{{kinds: "Pod", field: "nodeSelector", value: "example.com/$P", numbers: []string{"$B"}}}, ""},
	{"gangs: more members than there is room for", gangOf("$A", "3") + gangMember("$B") + gangMember("$C") +
		gangMember("$P"), "pod/$C",
		[]truth{{kinds: "Pod PodGroup", field: "example.com/$NS|minCount", numbers: []string{"2", "3"}}}, room("2")},
	{"gangs: a member has a gate", gangOf("$A", "2") + member("$C", "$A", "") + member("$B", "$A",
		"schedulingGates: [{name: example.com/$P}], "), "pod/$C",
		[]truth{{kinds: "Pod", field: "schedulingGates", value: "example.com/$P", numbers: []string{"$B"}}}, ""},
	{"gangs: a member is missing, asked of the group", gangOf("$A", "$N") + member("$C", "$A", ""), "podgroup/$A",
		[]truth{{kinds: "PodGroup", field: "minCount", value: "$N", numbers: []string{"1", "$N"}}}, ""},

	{"resizes: more than the node could ever give", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-1}, `+
		`containers: [{name: app, image: app, resources: {requests: {cpu: 10m}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "resources.requests.cpu", value: "1$N", numbers: []string{"1$N", "8"}}},
		`pod/$C until status.phase=Running` + "\n" + `pod/$C/resize ` +
			`{"spec":{"containers":[{"name":"app","image":"app",` +
			`"resources":{"requests":{"cpu":"1$N"}}}]}}`},

	{"places: label that no node may have", single("$C", affine(`{matchExpressions: [{key: kubernetes.io/hostname, `+
		`operator: DoesNotExist}]}`)), "pod/$C",
		[]truth{{kinds: "Pod", field: "nodeAffinity", value: "kubernetes.io/hostname",
			numbers: []string{"3|node-1"}}}, ""},
	{"places: apart from Pods of a label in all namespaces", single("$A", `{nodeSelector: {kubernetes.io/hostname: `+
		`node-1}, `+
		`containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "podAntiAffinity", value: "$A", numbers: []string{"$A", "node-1"}}},
		"pod/$A until spec.nodeName=node-1\n" + later("$C", `{containers: [`+app+`], affinity: {podAntiAffinity: `+
			`{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/os, namespaceSelector: {}, `+
			`labelSelector: {matchLabels: {app: $A}}}]}}}`)},
	{"places: beside a Pod that runs on a cordoned node", single("$A", `{nodeName: node-3, containers: [`+app+`]}`) +
		beside("$C", "$A"), "pod/$C",
		[]truth{{kinds: "Node " +
			"Pod", field: "unschedulable|podAffinity", numbers: []string{"node-3"}, want: "uncordon"}}, ""},
	{"places: spread by a label that the template has in other words", deploy("$C", "replicas: 2, ", `{containers: `+
		`[`+app+
		`], topologySpreadConstraints: [{maxSkew: 1, minDomains: 2, topologyKey: kubernetes.io/hostname, `+
		`nodeTaintsPolicy: `+
		`Honor, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: $C}}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "minDomains|topologySpreadConstraints", value: "2|",
			numbers: []string{"1", "2"}}},
		""},

	{"devices: less memory than is asked of it", devices("$NS", "1", "1", `{name: one, capacity: {memory: {value: `+
		`16Gi}}}`) +
		object("resource.k8s.io/v1", "ResourceClaim", "$A", `spec: {devices: {requests: [{name: d, exactly: `+
			`{deviceClassName: $NS.example.com, selectors: [{cel: {expression: `+
			`"device.capacity['$NS.example.com'].memory.`+
			`compareTo(quantity('$N0Gi')) >= 0"}}]}}]}}`) + claiming("$C", "$A"), "pod/$C",
		[]truth{{kinds: "ResourceClaim", field: "selectors", value: "$N0Gi", numbers: []string{"16Gi"}}}, ""},
	{"devices: all of them, and one is taken", devices("$NS", "1", "1", `{name: one}, {name: `+
		`two}`) + deviceClaim("$A") +
		object("resource.k8s.io/v1", "ResourceClaim", "$B", `spec: {devices: {requests: [{name: d, exactly: `+
			`{deviceClassName: $NS.example.com, allocationMode: All}}]}}`) + claiming("$P", "$A"), "pod/$C",
		[]truth{{kinds: "ResourceClaim", field: "allocationMode", value: "All", numbers: []string{"$A"}}},
		"pod/$P until spec.nodeName=node-1\n" + later("$C", `{resourceClaims: [{name: d, resourceClaimName: $B}], `+
			`containers: `+
			`[{name: app, image: app, resources: {claims: [{name: d}]}}]}`)},
	{"devices: two that must be alike and are not", devices("$NS", "1", "1", `{name: one, attributes: {numa: {int: `+
		`0}}}, `+
		`{name: two, attributes: {numa: {int: 1}}}`) + object("resource.k8s.io/v1", "ResourceClaim", "$A", `spec: `+
		`{devices: `+
		`{requests: [{name: d, exactly: {deviceClassName: $NS.example.com, count: 2}}], constraints: `+
		`[{matchAttribute: `+
		`$NS.example.com/numa}]}}`) + claiming("$C", "$A"), "pod/$C",
		[]truth{{kinds: "ResourceClaim", field: "constraints|matchAttribute", value: "$NS.example.com/numa"}}, ""},
	{"devices: list of which a part is missing", devices("$NS", "1", "2", `{name: `+
		`one}`) + deviceClaim("$A") + claiming("$C",
		"$A"), "pod/$C",
		[]truth{{kinds: "ResourceSlice", field: "resourceSliceCount", value: "2", numbers: []string{"1", "2"}}}, ""},
	{"devices: driver that the node does not run", deviceOf("$NS") + deviceClaim("$A") + claiming("$C", "$A"), "pod/$C",
		[]truth{{kinds: "Pod ResourceClaim DeviceClass Node ResourceSlice", field: "driver|resourceClaims|device",
			numbers: []string{"$NS.example.com", "node-1"}}}, ""},
	{"devices: another claim has the only one", deviceOf("$NS") + deviceClaim("$A") + deviceClaim("$B") + claiming("$P",
		"$A"), "pod/$C",
		[]truth{{kinds: "ResourceClaim", field: "deviceClassName|count|requests", numbers: []string{"1", "$A"}}},
		"pod/$P until spec.nodeName=node-1\n" + later("$C", `{resourceClaims: [{name: d, resourceClaimName: $B}], `+
			`containers: `+
			`[{name: app, image: app, resources: {claims: [{name: d}]}}]}`)},

	{"two at once: gate, and a gang that lacks a member", gangOf("$A", "2") + member("$C", "$A",
		"schedulingGates: [{name: example.com/$P}], "), "pod/$C",
		[]truth{{kinds: "Pod", field: "schedulingGates", value: "example.com/$P"},
			{kinds: "PodGroup", field: "minCount", value: "2", numbers: []string{"1", "2"}}}, ""},
	{"two at once: label of a node with one letter wrong, and never preempts", priority("$B", "100$N",
		", preemptionPolicy: Never") + single("$C", `{priorityClassName: $NS-$B, nodeSelector: `+
		`{kubernetes.io/hostnam: `+
		`node-1}, tolerations: [{key: team, value: $TEAMx}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "nodeSelector", value: "kubernetes.io/hostnam",
			want: "kubernetes.io/hostname"}}, ""},
	{"two at once: DaemonSet without its class, for a node that is not " +
		"there", object("apps/v1", "DaemonSet", "$C", `spec: `+
		`{selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {priorityClassName: `+
		`$NS-$A, `+
		`nodeSelector: {kubernetes.io/hostname: nod-1}, containers: [`+app+`]}}}`), "daemonset/$C",
		[]truth{{kinds: "DaemonSet", field: "nodeSelector", value: "nod-1", want: "node-1"},
			{kinds: "DaemonSet", field: "priorityClassName", value: "$NS-$A"}}, ""},

	{"well: scheduling: gang that is " +
		"complete", gangOf("$A", "2") + member("$C", "$A", "") + member("$B", "$A", ""), "pod/$C",
		nil, "pod/$C until status.phase=Running"},
	{"well: scheduling: gate that was taken away", single("$C", `{schedulingGates: [{name: example.com/$A}], `+
		`containers: [`+
		app+`]}`), "pod/$C", nil, `pod/$C {"spec":{"schedulingGates":null}}`},
	{"well: scheduling: spread that honours taints", deploy("$C", "replicas: 3, ", `{containers: [`+app+`], `+
		`topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, nodeTaintsPolicy: Honor, `+
		`whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: $C}}}]}`), "deployment/$C", nil,
		"deployment/$C {}"},
	{"well: scheduling: its room is about to be free", priority("$B", "100$N", "") + single("$A",
		`{terminationGracePeriodSeconds: 60, containers: [{name: app, image: ignores-term, resources: {limits: `+
			`{example.com/$NS: 1}}}]}`), "pod/$A", nil,
		room("1") + "pod/$A until status.phase=Running\n" + later("$C", needs("1", "priorityClassName: $NS-$B, "))},
	{"well: scheduling: resize with a restart", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-1}, `+
		`containers: `+
		`[{name: app, image: app, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}], resources: `+
		`{requests: `+
		`{cpu: 10m}}}]}`), "pod/$C", nil, `pod/$C until status.phase=Running` + "\n" + `pod/$C/resize ` +
		`{"spec":{"containers":` +
		`[{"name":"app","image":"app","resources":{"requests":{"cpu":"20m"}}}]}}`},
	{"well: scheduling: preempted Pod is made anew and has room again", priority("$B", "100$N", "") + deploy("$A", "",
		needs("1", "")), "deployment/$A", nil,
		room("1") + "deployment/$A until status.readyReplicas=1\n" + later("$C", needs("1", "priorityClassName: "+
			"$NS-$B, ")) +
			"pod/$C until spec.nodeName=node-1\n" + room("2") + "deployment/$A until status.readyReplicas=1"},
	{"well: scheduling: one of two devices", devices("$NS", "1", "1", `{name: one}, {name: two}`) + deviceClaim("$A"),
		"resourceclaim/$A", nil, ""},
}

// gangOf is a PodGroup of so many Pods at once.
func gangOf(name, least string) string {
	return object("scheduling.k8s.io/v1beta1", "PodGroup", name, `spec: {schedulingPolicy: {gang: {minCount: `+
		``+least+`}}}`)
}

// member is a Pod of a group.
func member(name, group, more string) string {
	return single(name, `{schedulingGroup: {podGroupName: `+group+`}, `+more+`containers: [`+app+`]}`)
}

// gangMember is a Pod of the group $A that needs one of the namespace's own resource.
func gangMember(name string) string {
	return single(name, needs("1", "schedulingGroup: {podGroupName: $A}, "))
}

// devices is a class, and devices on node-1 of a driver of a name, in one list of so many.
func devices(name, generation, lists, devices string) string {
	return object("resource.k8s.io/v1", "DeviceClass", name+".example.com", `spec: {selectors: [{cel: {expression: `+
		`"device.driver == '`+name+`.example.com'"}}]}`) + object("resource.k8s.io/v1", "ResourceSlice", name+"-1",
		`spec: {nodeName: node-1, driver: `+name+`.example.com, pool: {name: `+name+`, generation: `+generation+`, `+
			`resourceSliceCount: `+lists+`}, devices: [`+devices+`]}`)
}

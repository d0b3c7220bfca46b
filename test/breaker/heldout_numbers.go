package breaker

import (
	"time"

	"github.com/gantry-project/gantry/testcluster"
)

// heldOutNumbers are requests, limits, quotas, times and counts that cannot work.
var heldOutNumbers = []situation{
	{name: "disk that no node has", ask: "pod/$C",
		manifest: single("$C", withRequest("ephemeral-storage", "$N00<<G||M>>i")),
		truth: []truth{{kinds: "Pod", field: "ephemeral-storage", value: "$N00Gi",
			numbers: []string{"$N00Gi", "100Gi"}}}},
	{name: "huge pages that no node has", ask: "pod/$C",
		manifest: single("$C", `{containers: [{name: app, image: app, resources: {limits: {memory: 64Mi, `+
			`<<hugepages-2Mi: $N0Mi||cpu: 1>>}, requests: {memory: 64Mi}}}]}`),
		truth: []truth{{kinds: "Pod", field: "hugepages-2Mi", value: "$N0Mi"}}},
	{name: "resources of the Pod that no node has", ask: "pod/$C",
		manifest: single("$C", `{resources: {requests: {cpu: "<<1$N||1>>"}}, containers: [`+app+`]}`),
		truth: []truth{{kinds: "Pod", field: "spec.resources.requests", value: "1$N", numbers: []string{"1$N", "8"},
			want: "8|resources"}}},
	{name: "overhead of the runtime class", ask: "pod/$C",
		manifest: object("node.k8s.io/v1", "RuntimeClass", "$NS", `handler: runc, overhead: {podFixed: {cpu: `+
			`"<<1$N||1>>"}}`) +
			single("$C", `{runtimeClassName: $NS, containers: [`+app+`]}`),
		truth: []truth{{kinds: "RuntimeClass Pod", field: "overhead", value: "1$N", numbers: []string{"1$N", "8"},
			want: "overhead|runtimeClassName"}}},
	{name: "nodes of the runtime class", ask: "pod/$C",
		manifest: object("node.k8s.io/v1", "RuntimeClass", "$NS", `handler: runc, scheduling: {nodeSelector: `+
			`{topology.kubernetes.io/zone: east-<<$N||1>>}}`) + single("$C", `{runtimeClassName: $NS, `+
			`containers: [`+app+`]}`),
		truth: []truth{{kinds: "RuntimeClass", field: "nodeSelector", value: "east-$N",
			want: "east-1|east-2|runtimeClassName|runtimeclass"}}},
	{name: "LimitRange: a default that no node has", ask: "deployment/$C",
		manifest: rangeOf("$A", `defaultRequest: {cpu: "<<1$N||100m>>"}`) + workload("$C", plainApp),
		truth: []truth{{kinds: "LimitRange", field: "defaultRequest", value: "1$N", numbers: []string{"1$N", "8"},
			want: "limitrange|requests"}}},
	{name: "LimitRange: limit too many times the request", ask: "deployment/$C",
		manifest: rangeOf("$A", `maxLimitRequestRatio: {cpu: "2"}`) + workload("$C", `{containers: [{name: app, `+
			`image: app, `+
			`resources: {requests: {cpu: 100m}, limits: {cpu: <<$N00m||200m>>}}}]}`),
		truth: []truth{{kinds: podOrOwner + " LimitRange", field: "maxLimitRequestRatio|resources",
			numbers: []string{"2"},
			want:    "200m|requests|maxLimitRequestRatio"}}},
	{name: "LimitRange: all containers together", ask: "deployment/$C",
		manifest: object("v1", "LimitRange", "$A", `spec: {limits: [{type: Pod, max: {cpu: "1"}}]}`) + workload("$C",
			`{containers: [{name: app, image: app, resources: {limits: {cpu: <<700m||400m>>}}}, {name: $B, `+
				`image: app, `+
				`resources: {limits: {cpu: <<600m||500m>>}}}]}`),
		truth: []truth{{kinds: podOrOwner + " LimitRange", field: "cpu|resources|max",
			numbers: []string{"1300m", "1"},
			want:    "limits|limitrange"}}},
	{name: "quota asks for limits", ask: "deployment/$C",
		manifest: quotaOf("$A", "limits.memory: 8Gi") + workload("$C", `{containers: [{name: app, image: app<<||, `+
			`resources: {limits: {memory: 64Mi}}>>}]}`),
		truth: []truth{{kinds: podOrOwner + " ResourceQuota", field: "limits.memory", numbers: []string{"$A"},
			want: "limits=memory|limits.memory|limitrange"}}},
	{name: "quota of storage, and a StatefulSet that claims more", ask: "statefulset/$C",
		manifest: quotaOf("$A", "requests.storage: 9Gi") + classOf("$NS", "example.com/none") + object("v1",
			"Service", "$C",
			`spec: {clusterIP: None, selector: {app: $C}, ports: [{port: 80}]}`) + volumeOf("$NS-v",
			`storageClassName: $NS, claimRef: {namespace: $NS, name: v-$C-0}, `, "9Gi", "ReadWriteOnce") +
			object("apps/v1",
				"StatefulSet", "$C", `spec: {serviceName: $C, replicas: 1, selector: {matchLabels: {app: $C}}, `+
					`template: `+
					`{metadata: {labels: {app: $C}}, spec: `+plainApp+`}, volumeClaimTemplates: [{metadata: {name: `+
					`v}, spec: `+
					`{storageClassName: $NS, accessModes: [ReadWriteOnce], resources: {requests: {storage: `+
					`<<1$NGi||5Gi>>}}}}]}`),
		truth: []truth{{kinds: "StatefulSet ResourceQuota", field: "storage|volumeClaimTemplates",
			numbers: []string{"1$NGi", "9Gi"},
			want:    "quota|storage"}}},
	{name: "not available before its time", ask: "deployment/$C",
		manifest: deploy("$C", "replicas: 1, minReadySeconds: <<5$N0||1>>, ", plainApp),
		truth: []truth{{kinds: "Deployment", field: "minReadySeconds", value: "5$N0", numbers: []string{"5$N0"},
			want: "minReadySeconds"}}},
	{name: "readiness: port off by one", ask: "deployment/$C",
		manifest: workload("$C", `{containers: [`+serving(0, `readinessProbe: {periodSeconds: 1, httpGet: {path: /, `+
			`port: <<8081||8080>>}}`)+`]}`),
		truth: []truth{{kinds: podOrOwner, field: "readinessProbe", value: "8081", want: "8080"}}},
	{name: "readiness: path with one letter wrong", ask: "pod/$C",
		manifest: single("$C", `{containers: [`+shell("app",
			"mkdir -p /www; touch /www/healthz; httpd -f -p 8080 -h /www",
			`readinessProbe: {periodSeconds: 1, httpGet: {path: /<<healtz||healthz>>, port: 8080}}`)+`]}`),
		truth: []truth{{kinds: "Pod", field: "readinessProbe", value: "/healtz", numbers: []string{"404"},
			want: "path|readinessProbe"}}},
	{name: "readiness: name of a port with one letter wrong", ask: "pod/$C",
		manifest: single("$C", `{containers: [`+serving(0, `readinessProbe: {periodSeconds: 1, tcpSocket: `+
			`{port: <<htp||http>>}}`)+`]}`),
		truth: []truth{{kinds: "Pod", field: "readinessProbe", value: "htp", want: "http"}}},
	{name: "readiness: TLS to a program without", ask: "pod/$C",
		manifest: single("$C", `{containers: [`+serving(0, `readinessProbe: {periodSeconds: 1, httpGet: {path: `+
			`/, port: 8080, `+
			`scheme: <<HTTPS||HTTP>>}}`)+`]}`),
		truth: []truth{{kinds: "Pod", field: "scheme|readinessProbe", value: "HTTPS", want: "HTTP\"|scheme|HTTP "}}},
	{name: "readiness: less time than the answer takes", ask: "pod/$C",
		manifest: single("$C", `{containers: [`+shell("app", "run", `readinessProbe: {periodSeconds: 4, `+
			`timeoutSeconds: <<1||4>>, `+
			`exec: {command: [sh, -c, sleep 2]}}`)+`]}`),
		truth: []truth{{kinds: "Pod", field: "timeoutSeconds|readinessProbe", numbers: []string{"1s|1"},
			want: "timeoutSeconds"}}},
	{name: "liveness begins before the program", ask: "pod/$C",
		manifest: single("$C", `{terminationGracePeriodSeconds: 1, containers: [`+serving(8, `livenessProbe: `+
			`{<<||initialDelaySeconds: 12, >>`+
			`periodSeconds: 1, failureThreshold: 3, tcpSocket: {port: 8080}}`)+`]}`),
		unseen: true, // restarts do not end readiness for long here
		truth: []truth{{kinds: "Pod", field: "livenessProbe",
			want: "startupProbe|initialDelaySeconds|failureThreshold"}}},
	{name: "start-up takes longer than it may", ask: "pod/$C",
		manifest: single("$C", `{terminationGracePeriodSeconds: 1, containers: [`+serving(8, `startupProbe: `+
			`{periodSeconds: 1, `+
			`failureThreshold: <<$N||30>>, tcpSocket: {port: 8080}}`)+`]}`),
		truth: []truth{{kinds: "Pod", field: "startupProbe", want: "failureThreshold"}}},
	{name: "memory that is not enough", ask: "pod/$C",
		manifest: single("$C", `{containers: [{name: app, image: app, command: [<<oom||run>>], resources: `+
			`{limits: {memory: 3$NMi}}}]}`),
		truth: []truth{{kinds: "Pod", field: "limits.memory|resources", value: "3$NMi", numbers: []string{"137"},
			want: "limits"}}},
	{name: "resize that the node has no room for", ask: "pod/$C", nodes: []string{"node-1"},
		manifest: single("$A", withRequest("cpu", "5")) + single("$C", withRequest("cpu", "1")),
		steps: []step{reached("pod/$A"), reached("pod/$C"), resize("$C",
			`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"<<7||2>>"}}}]}}`)},
		truth: []truth{{kinds: "Pod", field: "cpu|resources", value: "7", numbers: []string{"7", "3|3000m"},
			want: "3|$A|resize"}}},
	{name: "more Pods than nodes that may not share", ask: "deployment/$C",
		manifest: deploy("$C", "replicas: <<3||2>>, ", `{affinity: {podAntiAffinity: `+
			`{requiredDuringSchedulingIgnoredDuringExecution: `+
			`[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: $C}}}]}}, containers: [`+
			app+`]}`),
		truth: []truth{{kinds: podOrOwner, field: "podAntiAffinity|replicas", want: "replicas|preferred|node"}}},
	{name: "job: an exit code that ends it", ask: "job/$C",
		manifest: jobOf("$C", `<<podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, `+
			`values: [3]}}]}, ||>>`,
			"exit-<<3||0>>"),
		truth: []truth{{kinds: "Job Pod", field: "podFailurePolicy|containers", numbers: []string{"3"},
			want: "podFailurePolicy|logs|exit"}}},
	{name: "no attachments left on the node", ask: "pod/$C", nodes: []string{"node-1"}, unseen: true,
		before: []step{change(`csinode/node-1 {"spec":{"drivers":[{"name":"disk.example.com","nodeID":"node-1",` +
			`"topologyKeys":[],"allocatable":{"count":<<1||2>>}}]}}`)},
		manifest: object("storage.k8s.io/v1", "CSIDriver", "disk.example.com", "spec: {attachRequired: false}") +
			classOf("$NS", "disk.example.com") + diskOf("1") + diskOf("2") + claimOf("c1",
			"storageClassName: $NS, ") +
			claimOf("c2", "storageClassName: $NS, ") + single("$A", claimVolume("c1")) + "",
		steps: []step{pause(3 * time.Second), create(single("$C", claimVolume("c2")))},
		truth: []truth{{kinds: "Node CSINode Pod", field: "allocatable|drivers|count|volumes|attach",
			numbers: []string{"1"},
			want:    "delete|node|count"}}},
	{name: "no addresses left on the node", ask: "pod/$C", nodes: []string{"node-1"},
		before: []step{do(func(c *testcluster.Cluster) {
			c.Fault("node-1", "RunPodSandbox",
				"error(failed to setup network for sandbox: plugin type=\"host-local\" failed (add): "+
					"failed to allocate for range 0: no IP addresses available in range set: 10.244.1.1-10.244.1.6)")
		})},
		manifest: single("$C", plainApp),
		truth: []truth{{kinds: "Node Pod", field: "podCIDR|podIP|sandbox|network|status|nodeName",
			numbers: []string{"10.244.1.1-10.244.1.6"},
			want:    "delete|CIDR|cidr"}}},
}

func diskOf(n string) string {
	return object("v1", "PersistentVolume", "$NS-"+n, `spec: {storageClassName: $NS, capacity: {storage: 5Gi}, `+
		`accessModes: `+
		`[ReadWriteOnce], claimRef: {namespace: $NS, name: c`+n+`}, csi: {driver: disk.example.com, `+
		`volumeHandle: d`+n+`}}`)
}

package breaker

// freshStorageKinds are claims, volumes, classes and drivers, written from Kubernetes' API
// documentation on 2026-11-29, before the rules of why were read.
var freshStorageKinds = []kind{
	{"fresh: storage: two volumes on two nodes", localVolume("$NS-$A", "node-1") + localVolume("$NS-$B", "node-2") +
		boundClaim("$A", "$NS-$A") + boundClaim("$B", "$NS-$B") + single("$C", `{tolerations: [{operator: Exists}], `+
		`containers: [`+app+`], volumes: [{name: one, persistentVolumeClaim: {claimName: $A}}, {name: two, `+
		`persistentVolumeClaim: {claimName: $B}}]}`), "pod/$C", []truth{{
		kinds: "Pod PersistentVolume PersistentVolumeClaim", field: "nodeAffinity|claimName",
		numbers: []string{"node-1", "node-2"}}}, ""},
	{"fresh: storage: claim that is in another namespace", otherNamespace("v1", "PersistentVolumeClaim", "$A",
		`spec: {storageClassName: "", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`) + single(
		"$C", claimVolume("$A")), "pod/$C", []truth{{kinds: "Pod", field: "claimName", value: "$A",
		numbers: []string{"$NS-o"}}}, ""},
	{"fresh: storage: claim that a populator should fill", claimOf("$C", `storageClassName: $NS, dataSourceRef: {`+
		`apiGroup: $B.example.com, kind: Populator, name: $A}, `) + classOf("$NS", "$B.example.com"), "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "dataSourceRef|dataSource",
			value: "$B.example.com|Populator|$A"}, {kinds: "PersistentVolumeClaim",
			field: "storageClassName", value: "$NS"}}, ""},
	{"fresh: storage: claim names a volume of another class", volumeOf("$NS-$A", "storageClassName: $NS-$P, ", "9Gi",
		"ReadWriteOnce") + claimOf("$C", "storageClassName: $NS-$B, volumeName: $NS-$A, ") + classOf("$NS-$P",
		"kubernetes.io/no-provisioner") + classOf("$NS-$B", "kubernetes.io/no-provisioner"), "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "storageClassName|volumeName", value: "$NS-$B|$NS-$A",
			want: "$NS-$P"}}, ""},
	{"fresh: storage: claim names a volume that is too small", volumeOf("$NS-$A", "storageClassName: $NS, ", "$NGi",
		"ReadWriteOnce") + object("v1", "PersistentVolumeClaim", "$C", `spec: {storageClassName: $NS, volumeName: `+
		`$NS-$A, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1$NGi}}}`), "pvc/$C", []truth{{
		kinds: "PersistentVolumeClaim", field: "storage", value: "1$NGi", numbers: []string{"$NGi"}}}, ""},
	{"fresh: storage: trust bundle that is not there", mounting("$C", `projected: {sources: [{clusterTrustBundle: {`+
		`name: $NS-$A, path: ca.pem}}]}`, ""), "pod/$C", []truth{{kinds: "Pod", field: "clusterTrustBundle",
		value: "$NS-$A"}}, ""},
	{"fresh: storage: volume of a driver that no node has", csiDriver("false") + csiVolume("$NS-$A") + boundClaim("$A",
		"$NS-$A") + single("$C", `{nodeName: node-1, containers: [`+app+`], volumes: [{name: v, `+
		`persistentVolumeClaim: `+
		`{claimName: $A}}]}`), "pod/$C", []truth{{kinds: "Pod PersistentVolume CSIDriver CSINode",
		field: "driver|claimName", value: "$NS.example.com|$A", numbers: []string{"$NS.example.com"}}}, ""},
	{"fresh: storage: claim between two volumes, of class and of size", volumeOf("$NS-$A", "storageClassName: $NS-$P, ",
		"90Gi", "ReadWriteOnce") + volumeOf("$NS-$B", "storageClassName: $NS, ", "1Gi",
		"ReadWriteOnce") + classOf("$NS",
		"kubernetes.io/no-provisioner") + claimOf("$A", "storageClassName: $NS, ") + single("$C", claimVolume("$A")),
		"pod/$C", []truth{{kinds: "PersistentVolumeClaim", field: "storage", value: "5Gi",
			numbers: []string{"1Gi"}}}, ""},
	{"fresh: storage: items of a projected Secret that is a ConfigMap", configMap("$A", "$K: x") + mounting("$C",
		`projected: {sources: [{secret: {name: $A, items: [{key: $K, path: x}]}}]}`, ""), "pod/$C",
		[]truth{{kinds: "Pod", field: "projected.sources[0].secret", value: "$A", want: "configMap"}}, ""},
	{"fresh: storage: read-only volume, and a claim that writes", volumeOf("$NS-$A", "storageClassName: $NS, ", "9Gi",
		"ReadOnlyMany") + classOf("$NS", "kubernetes.io/no-provisioner") + claimOf("$B", "storageClassName: $NS, ") +
		single("$C", claimVolume("$B")), "pod/$C", []truth{{kinds: "PersistentVolumeClaim", field: "accessModes",
		value: "ReadWriteOnce", numbers: []string{"ReadOnlyMany"}}}, ""},
	{"fresh: storage: claim's selector beside a class that provisions", classOf("$NS", "$A.example.com") + object("v1",
		"PersistentVolumeClaim", "$C", `spec: {storageClassName: $NS, selector: {matchLabels: {tier: $B}}, `+
			`accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`), "pvc/$C", []truth{{
		kinds: "PersistentVolumeClaim StorageClass", field: "selector|provisioner", value: "$B|$A.example.com"},
		{kinds: "PersistentVolumeClaim",
			field: "storageClassName", value: "$NS"}}, ""},
	{"fresh: storage: class of late binding, and no volume", object("storage.k8s.io/v1", "StorageClass", "$NS",
		`provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer`) + localVolume("$NS-$B",
		"node-3") + claimOf("$A", "storageClassName: $NS, ") + single("$C", `{nodeSelector: {kubernetes.io/hostname: `+
		`node-1}, containers: [`+app+`], volumes: [{name: v, persistentVolumeClaim: {claimName: $A}}]}`), "pod/$C",
		[]truth{{kinds: "Pod PersistentVolumeClaim PersistentVolume",
			field:   "nodeSelector|nodeAffinity|storageClassName",
			numbers: []string{"$NS-$B", "node-3"}}}, ""},
	{"fresh: storage: claim template's class, and a Secret", stateful("$C", `""`, `volumeClaimTemplates: [{metadata: `+
		`{name: data}, spec: {storageClassName: $NS-$A, accessModes: [ReadWriteOnce], resources: {requests: {storage: `+
		`1Gi}}}}], `, `{containers: [{name: app, image: app, envFrom: [{secretRef: {name: $B}}], `+
		`volumeMounts: [{name: `+
		`data, mountPath: /v}]}]}`), "statefulset/$C", []truth{{kinds: "StatefulSet PersistentVolumeClaim",
		field: "storageClassName", value: "$NS-$A"}, {kinds: podOrOwner, field: "secretRef", value: "$B"}}, ""},
	{"fresh: storage: snapshot of a claim that is not there", object("storage.k8s.io/v1", "StorageClass", "$NS",
		`provisioner: $B.example.com`) + claimOf("$C", `storageClassName: $NS, dataSource: {apiGroup: `+
		`snapshot.storage.k8s.io, kind: VolumeSnapshot, name: $A}, `) + single("$P", claimVolume("$C")), "pod/$P",
		[]truth{{kinds: "PersistentVolumeClaim", field: "dataSource", value: "$A|VolumeSnapshot"},
			{kinds: "PersistentVolumeClaim",
				field: "storageClassName", value: "$NS"}}, ""},
	{"fresh: storage: volume in the Pod that is larger than the quota", quotaOf("$A", "requests.storage: $NGi") + oneOf(
		"$C", `{containers: [`+app+`], volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [`+
			`ReadWriteOnce], resources: {requests: {storage: 1$NGi}}}}}}]}`), "deployment/$C", []truth{{
		kinds: "ResourceQuota " + podOrOwner + " PersistentVolumeClaim", field: "storage",
		numbers: []string{"$A", "$NGi", "1$NGi"}}}, ""},

	{"fresh: well: storage: two Pods share a claim of one node", localVolume("$NS-$A", "node-1") + boundClaim("$A",
		"$NS-$A") + single("$B", claimVolume("$A")) + single("$C", claimVolume("$A")), "pod/$C", nil, ""},
	{"fresh: well: storage: claim of late binding without a Pod", object("storage.k8s.io/v1", "StorageClass", "$NS",
		`provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer`) + claimOf("$C",
		"storageClassName: $NS, "), "pvc/$C", nil, ""},
	{"fresh: well: storage: many modes, one of them wanted", volumeOf("$NS-$A", "storageClassName: $NS, ", "9Gi",
		"ReadWriteOnce, ReadOnlyMany") + claimOf("$C", "storageClassName: $NS, "), "pvc/$C", nil, ""},
	{"fresh: well: storage: volume in the Pod and a claim template's mode", configMap("$A", "$K: x") + mounting("$C",
		`configMap: {name: $A, items: [{key: $K, path: a/b/c}], defaultMode: 292}`, ""), "pod/$C", nil, ""},
}

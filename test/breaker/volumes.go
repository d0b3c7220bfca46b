package breaker

// mounting is a Pod with one volume, mounted at /v.
func mounting(name, volume, spec string) string {
	if spec != "" {
		spec += ", "
	}
	return single(name, `{`+spec+`containers: [{name: app, image: app, volumeMounts: [{name: v, mountPath: /v}]}], `+
		`volumes: [{name: v, `+volume+`}]}`)
}

// storeKinds are volumes of each type, claims and what is in them.
var storeKinds = []kind{
	{"store: key of a projected source", configMap("$A", "$K: x") + mounting("$C", `projected: {sources: [{configMap: `+
		`{name: $A, items: [{key: $L, path: x}]}}]}`, ""), "pod/$C", []truth{{kinds: "Pod",
		field: "projected.sources[0].configMap.items[0].key", value: "$L", want: "$K"}}, ""},
	{"store: block device of a file system's claim", volumeOf("$NS-$A", "storageClassName: $NS, ", "9Gi",
		"ReadWriteOnce") + claimOf("$B", "storageClassName: $NS, ") + single("$C", `{containers: [{name: app, image: `+
		`app, volumeDevices: [{name: v, devicePath: /dev/x}]}], volumes: [{name: v, persistentVolumeClaim: `+
		`{claimName: `+
		`$B}}]}`), "pod/$C", []truth{{kinds: "Pod PersistentVolumeClaim", field: "volumeDevices|volumeMode",
		want: "volumeMounts", numbers: []string{"Filesystem"}}}, ""},
	{"store: directory of the node that is not there", mounting("$C", `hostPath: {path: /none/$A, type: Directory}`,
		""), "pod/$C", []truth{{kinds: "Pod", field: "hostPath", value: "Directory|/none/$A", want: "DirectoryOrCreate",
		numbers: []string{"/none/$A"}}}, ""},
	{"store: socket of the node that is not there", mounting("$C", `hostPath: {path: /none/$A.sock, type: Socket}`,
		""), "pod/$C", []truth{{kinds: "Pod", field: "hostPath", value: "Socket|/none/$A",
		numbers: []string{"/none/$A.sock"}}}, ""},
	{"store: file of the node that is a directory", mounting("$C", `hostPath: {path: /tmp, type: File}`, ""), "pod/$C",
		[]truth{{kinds: "Pod", field: "hostPath", value: "File|/tmp", want: "Directory",
			numbers: []string{"/tmp"}}}, ""},
	{"store: claim's selector with one letter wrong", labelledVolume("$NS-$A", "tier: $A") + claimOf("$C",
		"storageClassName: $NS, selector: {matchLabels: {tier: $a}}, ") + classOf("$NS",
		"kubernetes.io/no-provisioner"), "pvc/$C", []truth{{kinds: "PersistentVolumeClaim", field: "selector",
		value: "$a", want: "$A"}}, ""},
	{"store: claim without class beside a volume that has one", volumeOf("$NS-$A", "storageClassName: $NS, ", "9Gi",
		"ReadWriteOnce") + claimOf("$C", `storageClassName: "", `), "pvc/$C", []truth{{kinds: "PersistentVolumeClaim",
		field: "storageClassName", want: "storageClassName"}}, ""},
	{"store: class with one letter wrong", classOf("$NS-$A", "kubernetes.io/no-provisioner") + claimOf("$C",
		`storageClassName: $NS-$a, `), "pvc/$C", []truth{{kinds: "PersistentVolumeClaim", field: "storageClassName",
		value: "$NS-$a", want: "$NS-$A"}}, ""},
	{"store: attributes class that is not there", claimOf("$C", `storageClassName: $NS, volumeAttributesClassName: `+
		`$NS-$A, `) + classOf("$NS", "kubernetes.io/no-provisioner"), "pvc/$C", []truth{{kinds: "PersistentVolumeClaim",
		field: "volumeAttributesClassName", value: "$NS-$A"}}, ""},
	{"store: copy of a claim that is not there", claimOf("$A", "storageClassName: $NS, ") + claimOf("$C",
		`storageClassName: $NS, dataSource: {kind: PersistentVolumeClaim, name: $a}, `) + classOf("$NS",
		"kubernetes.io/no-provisioner"), "pvc/$C", []truth{{kinds: "PersistentVolumeClaim", field: "dataSource",
		value: "$a", want: "$A"}}, ""},
	{"store: snapshot that nothing serves", claimOf("$C", `storageClassName: $NS, dataSource: {apiGroup: `+
		`snapshot.storage.k8s.io, kind: VolumeSnapshot, name: $A}, `) + classOf("$NS", "kubernetes.io/no-provisioner"),
		"pvc/$C", []truth{{kinds: "PersistentVolumeClaim", field: "dataSource", value: "$A",
			numbers: []string{"VolumeSnapshot"}}}, ""},
	{"store: driver of a volume in the Pod", mounting("$C", `csi: {driver: $A.example.com}`, ""), "pod/$C",
		[]truth{{kinds: "Pod", field: "csi.driver", value: "$A.example.com"}}, ""},
	{"store: volume that another claim has", volumeOf("$NS-$A", `storageClassName: $NS, claimRef: {namespace: $NS, `+
		`name: $B}, `, "9Gi", "ReadWriteOnce") +
		classOf("$NS", "kubernetes.io/no-provisioner") + claimOf("$C", "storageClassName: $NS, volumeName: $NS-$A, "),
		"pvc/$C", []truth{{kinds: "PersistentVolumeClaim PersistentVolume", field: "volumeName|claimRef",
			value:   "$NS-$A|$B",
			numbers: []string{"$B"}}}, ""},
	{"store: volume released of another claim", volumeOf("$NS-$A", `storageClassName: $NS, `+
		`persistentVolumeReclaimPolicy: Retain, claimRef: {namespace: $NS, name: $B, uid: "$N"}, `, "9Gi",
		"ReadWriteOnce") + claimOf("$C", "storageClassName: $NS, ") + classOf("$NS", "kubernetes.io/no-provisioner"),
		"pvc/$C", []truth{{kinds: "PersistentVolume", field: "claimRef", value: "$B", want: "claimRef"}}, ""},
	{"store: class of a volume in the Pod", mounting("$C",
		`ephemeral: {volumeClaimTemplate: {spec: {storageClassName: `+
			`$NS-$A, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}`, ""), "pod/$C",
		[]truth{{kinds: "Pod PersistentVolumeClaim", field: "storageClassName", value: "$NS-$A"}}, ""},
	{"store: class of a StatefulSet's claims", serviceOf("$C", "$C", "8080") + classOf("$NS-$A",
		"kubernetes.io/no-provisioner") + stateful("$C", "$C", `volumeClaimTemplates: [{metadata: {name: d}, spec: `+
		`{storageClassName: $NS-$a, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}], `,
		plainApp),
		"statefulset/$C", []truth{{kinds: "StatefulSet PersistentVolumeClaim", field: "storageClassName",
			value: "$NS-$a", want: "$NS-$A"}}, ""},
	{"store: mode that was meant octal", secret("$A", "$K: x") + mounting("$C",
		`secret: {secretName: $A, defaultMode: `+
			`400}`, ""), "pod/$C", []truth{{kinds: "Pod", field: "defaultMode", value: "400", want: "256",
		numbers: []string{"0620", "0400"}}}, ""},
	{"store: volume on another node than the Pod",
		`{apiVersion: v1, kind: PersistentVolume, metadata: {name: $NS-$A}, ` +
			`spec: {storageClassName: $NS, capacity: {storage: 9Gi}, accessModes: [ReadWriteOnce], local: {path: ` +
			`/tmp}, ` +
			`nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, ` +
			`operator: ` +
			`In, ` +
			"values: [node-2]}]}]}}}}\n---\n" + claimOf("$B", "storageClassName: $NS, ") + mounting("$C",
			`persistentVolumeClaim: {claimName: $B}`, "nodeSelector: {kubernetes.io/hostname: node-1}"), "pod/$C",
		[]truth{{kinds: "Pod PersistentVolume", field: "nodeAffinity|nodeSelector", value: "node-2|node-1",
			numbers: []string{"node-2"}}}, ""},
	{"store: two mounts, one volume that is not there", single("$C", `{containers: [{name: app, image: app, `+
		`volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, configMap: {name: $A, optional: true}}, `+
		`{name: `+
		`w, secret: {secretName: $B}}]}`), "pod/$C", []truth{{kinds: "Pod", field: "volumes[1].secret.secretName",
		value: "$B"}}, ""},
	{"store: secret of a driver in the Pod", object("storage.k8s.io/v1", "CSIDriver", "$NS.example.com",
		"spec: {volumeLifecycleModes: [Ephemeral]}") + mounting("$C", `csi: {driver: $NS.example.com, `+
		`nodePublishSecretRef: {name: $A}}`, ""), "pod/$C", []truth{{kinds: "Pod", field: "nodePublishSecretRef",
		value: "$A"}}, ""},
	{"store: driver that makes no volumes in Pods", object("storage.k8s.io/v1", "CSIDriver", "$NS.example.com",
		"spec: {volumeLifecycleModes: [Persistent]}") + mounting("$C", `csi: {driver: $NS.example.com}`, ""), "pod/$C",
		[]truth{{kinds: "Pod CSIDriver", field: "csi.driver|volumeLifecycleModes",
			value: "$NS.example.com|Persistent"}},
		""},
	{"store: secret of a persistent volume",
		`{apiVersion: v1, kind: PersistentVolume, metadata: {name: $NS-$A}, spec: ` +
			`{storageClassName: $NS, capacity: {storage: 9Gi}, accessModes: [ReadWriteOnce], csi: {driver: ` +
			`x.example.com, ` +
			`volumeHandle: "$N", nodeStageSecretRef: {name: $B, namespace: $NS}}}}`, "pv/$NS-$A",
		[]truth{{kinds: "PersistentVolume", field: "nodeStageSecretRef", value: "$B"}}, ""},
	{"store: service account token for an expired time", mounting("$C", `projected: {sources: [{secret: {name: $A}}, `+
		`{serviceAccountToken: {path: t}}]}`, ""), "pod/$C", []truth{{kinds: "Pod",
		field: "projected.sources[0].secret.name", value: "$A"}}, ""},
}

func labelledVolume(name, labels string) string {
	return `{apiVersion: v1, kind: PersistentVolume, metadata: {name: ` + name + `, labels: {` + labels +
		`}}, spec: {storageClassName: $NS, capacity: {storage: 9Gi}, accessModes: [ReadWriteOnce], hostPath: ` +
		`{path: /tmp}}}` +
		"\n---\n"
}

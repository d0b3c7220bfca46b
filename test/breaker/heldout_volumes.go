package breaker

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// heldOutVolumes are claims, volumes and mounts that do not meet.
var heldOutVolumes = []situation{
	{name: "volume kept for another claim", ask: "pvc/$C",
		manifest: classOf("$NS", "kubernetes.io/no-provisioner") + volumeOf("$NS-$A", `storageClassName: $NS, `+
			`claimRef: `+
			`{namespace: $NS, name: <<$B||$C>>}, `, "9Gi", "ReadWriteOnce") + claimOf("$C",
			"storageClassName: $NS, "),
		truth: []truth{{kinds: "PersistentVolume PersistentVolumeClaim", field: "claimRef", value: "$B",
			want: "claimRef"}}},
	{name: "volume released by a claim that is gone", ask: "pvc/$C",
		manifest: classOf("$NS", "kubernetes.io/no-provisioner") + volumeOf("$NS-$A", `storageClassName: $NS, `+
			`persistentVolumeReclaimPolicy: Retain, claimRef: {namespace: $NS, name: $C<<, uid: `+
			`1b671a64-40d5-491e-99b0-da01ff1f3341||>>}, `, "9Gi", "ReadWriteOnce"),
		steps: []step{pause(2 * time.Second), create(claimOf("$C", "storageClassName: $NS, "))},
		truth: []truth{{kinds: "PersistentVolume PersistentVolumeClaim", field: "claimRef|phase",
			numbers: []string{"Released"},
			want:    "claimRef"}}},
	{name: "attributes class that is not there", ask: "pvc/$C",
		manifest: object("storage.k8s.io/v1", "VolumeAttributesClass", "$NS-$A",
			"driverName: disk.example.com, parameters: {iops: \"1\"}") +
			classOf("$NS", "kubernetes.io/no-provisioner") + object("v1", "PersistentVolume", "$NS-$A", `spec: `+
			`{storageClassName: $NS, volumeAttributesClassName: "$NS-$A", capacity: {storage: 9Gi}, `+
			`accessModes: [ReadWriteOnce], `+
			`csi: {driver: disk.example.com, volumeHandle: "$NS"}}`) + claimOf("$C",
			`storageClassName: $NS, volumeAttributesClassName: "$NS-<<$a||$A>>", `),
		truth: []truth{{kinds: "PersistentVolumeClaim", field: "volumeAttributesClassName", value: "$a",
			want: "$A"}}},
	{name: "claim that one Pod may use, used", ask: "pod/$C",
		manifest: classOf("$NS", "kubernetes.io/no-provisioner") + volumeOf("$NS-$A",
			"storageClassName: $NS, ", "9Gi",
			"<<ReadWriteOncePod||ReadWriteOnce>>") + object("v1", "PersistentVolumeClaim", "$A", `spec: `+
			`{storageClassName: $NS, `+
			`accessModes: [<<ReadWriteOncePod||ReadWriteOnce>>], resources: {requests: {storage: 1Gi}}}`) +
			single("$B", claimVolume("$A")),
		steps: []step{reached("pod/$B"), create(single("$C", claimVolume("$A")))},
		truth: []truth{{kinds: "PersistentVolumeClaim Pod", field: "accessModes|claimName|volumes",
			numbers: []string{"$B"},
			want:    "$B|ReadWriteOnce"}}},
	{name: "volume of one node, and a Pod for another", ask: "pod/$C",
		manifest: classOf("$NS", "kubernetes.io/no-provisioner") + localOf("$NS-$A", "node-<<2||1>>", "/tmp") +
			claimOf("$A",
				"storageClassName: $NS, ") + single("$C", `{nodeSelector: {kubernetes.io/hostname: node-1}, `+
			`containers: [`+app+
			`], volumes: [{name: v, persistentVolumeClaim: {claimName: $A}}]}`),
		truth: []truth{{kinds: "Pod PersistentVolume", field: "nodeSelector|nodeAffinity",
			numbers: []string{"node-2", "node-1"},
			want:    "node-2"}}},
	{name: "local volume whose directory is not there", ask: "pod/$C",
		manifest: classOf("$NS", "kubernetes.io/no-provisioner") + localOf("$NS-$A", "node-1",
			"/tmp<</none-$NS||>>") + claimOf("$A",
			"storageClassName: $NS, ") + single("$C", `{containers: [`+mounted+`], volumes: [{name: v, `+
			`persistentVolumeClaim: {claimName: $A}}]}`),
		truth: []truth{{kinds: "PersistentVolume", field: "local|path", value: "/tmp/none-$NS", want: "mkdir|path"}}},
	{name: "directory of the node that is not there", ask: "pod/$C",
		manifest: single("$C", `{containers: [`+mounted+`], volumes: [{name: v, hostPath: {path: `+
			`"/tmp/none-$NS", type: `+
			`<<Directory||DirectoryOrCreate>>}}]}`),
		truth: []truth{{kinds: "Pod", field: "hostPath", value: "/tmp/none-$NS|Directory",
			want: "DirectoryOrCreate|mkdir"}}},
	{name: "block volume mounted as files", ask: "pod/$C", unseen: true,
		manifest: classOf("$NS", "kubernetes.io/no-provisioner") + object("v1", "PersistentVolume", "$NS-$A",
			`spec: `+
				`{storageClassName: $NS, volumeMode: Block, capacity: {storage: 9Gi}, accessModes: [ReadWriteOnce], `+
				`local: {path: `+
				`/dev/loop$N}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: `+
				`kubernetes.io/hostname, `+
				`operator: In, values: [node-1]}]}]}}}`) +
			claimOf("$A", "storageClassName: $NS, volumeMode: Block, ") + single("$C", `{containers: [{name: `+
			`app, image: app, `+
			`volumeMounts: [{name: v, mountPath: /data}]}], volumes: [{name: v, persistentVolumeClaim: `+
			`{claimName: $A}}]}`),
		truth: []truth{{kinds: "Pod PersistentVolumeClaim", field: "volumeMounts|volumeDevices|volumeMode",
			want: "volumeDevices|Filesystem"}}},
	{name: "mount that is read only", ask: "pod/$C",
		manifest: single("$C", `{containers: [`+shell("app", "touch /data/lock || exit 3; run",
			`volumeMounts: [{name: v, mountPath: /data, readOnly: <<true||false>>}]`)+`], volumes: [{name: v, `+
			`emptyDir: {}}]}`),
		truth: []truth{{kinds: "Pod", field: "readOnly|volumeMounts", value: "true|/data",
			numbers: []string{"3"}, want: "readOnly"}}},
	{name: "root file system that is read only", ask: "pod/$C",
		manifest: single("$C", `{containers: [`+shell("app",
			"mkdir -p /var/cache; touch /var/cache/lock || exit $N; run",
			`securityContext: {readOnlyRootFilesystem: <<true||false>>}`)+`]}`),
		truth: []truth{{kinds: "Pod", field: "readOnlyRootFilesystem", value: "true", numbers: []string{"$N"},
			want: "emptyDir|readOnlyRootFilesystem"}}},
	{name: "user that the image may not run as", ask: "deployment/$C",
		manifest: workload("$C", `{securityContext: {runAsNonRoot: true<<||, runAsUser: 1000>>}, containers: [`+
			app+`]}`),
		truth: []truth{{kinds: podOrOwner, field: "runAsNonRoot|runAsUser", want: "runAsUser"}}},
	{name: "kernel setting that the node forbids", ask: "pod/$C",
		manifest: single("$C", `{securityContext: {sysctls: [{name: `+
			`<<net.core.somaxconn||net.ipv4.tcp_syncookies>>, value: "1"}]}, containers: [`+
			app+`]}`),
		truth: []truth{{kinds: "Pod", field: "sysctls", value: "net.core.somaxconn", want: "sysctl"}}},
}

// localOf is a volume of a directory on a node.
func localOf(name, node, path string) string {
	return object("v1", "PersistentVolume", name, `spec: {storageClassName: $NS, capacity: {storage: 9Gi}, `+
		`accessModes: `+
		`[ReadWriteOnce], local: {path: "`+path+`"}, nodeAffinity: {required: {nodeSelectorTerms: `+
		`[{matchExpressions: [{key: `+
		corev1.LabelHostname+`, operator: In, values: [`+node+`]}]}]}}}`)
}

package breaker

// realMounts is a Pod that mounts one volume at /v and runs a script.
func realMounts(name, volume, script, container, spec string) string {
	if container != "" {
		container = ", " + container
	}
	if spec != "" {
		spec = ", " + spec
	}
	return realShell(name, script, `volumeMounts: [{name: v, mountPath: /v}]`+container, `volumes: [{name: v, `+
		``+volume+
		`}]`+spec)
}

// realVolumeKinds are volumes that are not there, may not be written, or are full.
var realVolumeKinds = []kind{
	{"real: ConfigMap with one letter wrong", configMap("$A", "$K: x") + realMounts("$C", `configMap: {name: $a}`,
		`sleep 3600`, "", ""), "pod/$C .", []truth{{kinds: "Pod", field: "volumes[0].configMap.name", value: "$a",
		want: "$A"}}, ""},
	{"real: Secret that is not there, as variables", realShell("$C", `sleep 3600`, `envFrom: [{secretRef: {name: `+
		`$A}}]`,
		""), "pod/$C .", []truth{{kinds: "Pod", field: "envFrom[0].secretRef", value: "$A"}}, ""},
	{"real: key that is not there", secret("$A", "$K: x") + realShell("$C", `sleep 3600`, `env: [{name: X, `+
		`valueFrom: `+
		`{secretKeyRef: {name: $A, key: $L}}}]`, ""), "pod/$C", []truth{{kinds: "Pod", field: "secretKeyRef",
		value: "$L", want: "$K"}}, ""},
	{"real: item of a ConfigMap that is not there", configMap("$A", "$K: x") + realMounts("$C",
		`configMap: {name: $A, items: [{key: $L, path: x}]}`, `sleep 3600`, "", ""), "pod/$C", []truth{{kinds: "Pod",
		field: "items[0].key", value: "$L", want: "$K"}}, ""},
	{"real: file that is a key of nearly that name", configMap("$A", `"$K.yml": x`) + realMounts("$C",
		`configMap: {name: $A}`, `cat /v/$K.yaml`, "", ""), "pod/$C", []truth{{kinds: "Pod ConfigMap",
		field: "volumes[0]|data|volumeMounts[0]|command", numbers: []string{"/v/$K.yaml", "$K.yml"}}}, ""},
	{"real: subPath that is a directory where a file was meant", configMap("$A", `$K: x`) + realShell("$C",
		`cat /etc/$DIR.conf`, `volumeMounts: [{name: v, mountPath: /etc/$DIR.conf, subPath: $L}]`,
		`volumes: [{name: v, configMap: {name: `+
			`$A}}]`), "pod/$C", []truth{{kinds: "Pod", field: "subPath", value: "$L",
		want: "$K"}}, ""},
	{"real: files that only root may read", secret("$A", "$K: x") + realMounts("$C",
		`secret: {secretName: $A, defaultMode: 256}`, `cat /v/$K`, `securityContext: {runAsUser: `+
			`$UID}`, ""), "pod/$C",
		[]truth{{kinds: "Pod", field: "defaultMode", value: "256", want: "420", numbers: []string{"0400"}}}, ""},
	{"real: mount that is read-only", realShell("$C", `echo x > /v/$A`, `volumeMounts: [{name: v, mountPath: /v, `+
		`readOnly: true}]`, `volumes: [{name: v, emptyDir: {}}]`), "pod/$C", []truth{{kinds: "Pod",
		field: "volumeMounts[0].readOnly", value: "true", want: "readOnly", numbers: []string{"/v/$A"}}}, ""},
	{"real: ConfigMap that is written to", configMap("$A", "$K: x") + realMounts("$C", `configMap: {name: $A}`,
		`echo y > /v/$K`, "", ""), "pod/$C", []truth{{kinds: "Pod", field: "volumes[0].configMap|volumeMounts[0]",
		numbers: []string{"/v/$K"}, want: "emptyDir"}}, ""},
	{"real: claim that a user may not write", realClaim("$B") + realMounts("$C", `persistentVolumeClaim: `+
		`{claimName: $B}`,
		`echo x > /v/$A`, `securityContext: {runAsUser: $UID, runAsGroup: `+
			`$UID}`, ""), "pod/$C", []truth{{kinds: "Pod",
		field: "fsGroup|runAsUser", want: "fsGroup", numbers: []string{"/v/$A"}}}, ""},
	{"real: memory volume that is full", realMounts("$C", `emptyDir: {medium: Memory, sizeLimit: $NMi}`,
		`dd if=/dev/zero of=/v/$A bs=1M count=64 || exit 5; sleep 3600`, "", ""), "pod/$C", []truth{{kinds: "Pod",
		field: "sizeLimit", value: "$NMi", numbers: []string{"/v/$A"}}}, ""},
	{"real: evicted for a full volume", realMounts("$C", `emptyDir: {sizeLimit: $NMi}`,
		`dd if=/dev/zero of=/v/$A bs=1M count=40; sleep 3600`, "", ""), "pod/$C .", []truth{{kinds: "Pod",
		field: "sizeLimit", value: "$NMi"}}, ""},
	{"real: evicted for its ephemeral storage", realShell("$C", `dd if=/dev/zero of=/tmp/$A bs=1M count=60; sleep `+
		`3600`,
		`resources: {limits: {ephemeral-storage: 1$NMi}}`, ""), "pod/$C", []truth{{kinds: "Pod",
		field: "ephemeral-storage", value: "1$NMi"}}, ""},
	{"real: directory of the node that is not there", realMounts("$C",
		`hostPath: {path: /tmp/gantry-breaker/$NS-$A, type: Directory}`,
		`sleep 3600`, "", ""), "pod/$C .", []truth{{kinds: "Pod", field: "hostPath",
		value: "Directory|/tmp/gantry-breaker/$NS-$A",
		want:  "DirectoryOrCreate", numbers: []string{"/tmp/gantry-breaker/$NS-$A"}}}, ""},
	{"real: claim that is not there", realMounts("$C", `persistentVolumeClaim: {claimName: $b}`, `sleep `+
		`3600`, "", "") +
		realClaim("$B"), "pod/$C .", []truth{{kinds: "Pod", field: "claimName", value: "$b", want: "$B"}}, ""},
	{"real: class that is not there", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: $B}, spec: ` +
		`{storageClassName: $NS-$A, accessModes: [ReadWriteOnce], resources: {requests: {storage: ` +
		`10Mi}}}}` + "\n---\n" +
		realMounts("$C", `persistentVolumeClaim: {claimName: $B}`, `sleep 3600`, "", ""), "pod/$C pvc/$B .", []truth{{
		kinds: "PersistentVolumeClaim", field: "storageClassName", value: "$NS-$A"}}, ""},
	{"well: real: claim that a group may write", realClaim("$B") + realMounts("$C", `persistentVolumeClaim: `+
		`{claimName: `+
		`$B}`, `echo x > /v/$A && sleep 3600`, `securityContext: {runAsUser: $UID}`, `securityContext: {fsGroup: `+
		`$UID}`),
		"pod/$C .", nil, ""},
	{"well: real: all that it names is there", configMap("$A", "$K: x") + secret("$B", "$K: some") + realMounts("$C",
		`configMap: {name: $A}`, `cat /v/$K && sleep 3600`, `envFrom: [{secretRef: {name: `+
			`$B}}]`, ""), "pod/$C .", nil, ""},
}

// realClaim is a claim of the default class.
func realClaim(name string) string {
	return `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: ` + name + `}, spec: {accessModes: ` +
		`[ReadWriteOnce], resources: {requests: {storage: 16Mi}}}}` + "\n---\n"
}

// realImageKinds are images that cannot be pulled.
var realImageKinds = []kind{
	{"real: image: tag that is not there", single("$C", `{containers: [{name: app, image: "$REG/team/tool:$N.0"}]}`),
		"pod/$C .", []truth{{kinds: "Pod", field: "containers[0].image", value: "$REG/team/tool:$N.0"}}, ""},
	{"real: image: repository that is not there", single("$C", `{containers: [{name: app, image: "$REG/$A/$B:1"}]}`),
		"pod/$C", []truth{{kinds: "Pod", field: "containers[0].image", value: "$REG/$A/$B:1"}}, ""},
	{"real: image: never pulled", single("$C", `{containers: [{name: app, image: "$REG/team/tool:1", `+
		`imagePullPolicy: `+
		`Never}]}`), "pod/$C .", []truth{{kinds: "Pod", field: "imagePullPolicy|image", value: "Never|$REG",
		want: "IfNotPresent"}}, ""},
	{"real: image: no credentials", workload("$C", `{containers: [{name: app, image: "$PRIV/team/tool:1", `+
		`command: [sleep, "3600"]}]}`), "deployment/$C .", []truth{{kinds: podOrOwner, field: "imagePullSecrets|image",
		want: "imagePullSecrets"}},
		""},
	{"real: image: wrong password", realLogin("$B", "$WRONG") + single("$C", `{imagePullSecrets: [{name: $B}], `+
		`containers: [{name: app, image: "$PRIV/team/tool:1", command: [sleep, "3600"]}]}`), "pod/$C .", []truth{{
		kinds: "Pod Secret", field: "imagePullSecrets|data", value: "", numbers: []string{"$B"}}}, ""},
	{"real: image: credentials of another host", realLogin("$B", "$ELSE") + single("$C", `{imagePullSecrets: `+
		`[{name: $B}], containers: [{name: app, image: "$PRIV/team/tool:1", command: [sleep, "3600"]}]}`), "pod/$C",
		[]truth{{kinds: "Pod Secret", field: "imagePullSecrets|data", numbers: []string{"$B"}}}, ""},
	{"real: image: Secret of credentials that is not there", realLogin("$B", "$LOGIN") + single("$C",
		`{imagePullSecrets: `+
			`[{name: $b}], containers: [{name: app, image: "$PRIV/team/tool:1", command: `+
			`[sleep, "3600"]}]}`), "pod/$C .",
		[]truth{{kinds: "Pod", field: "imagePullSecrets", value: "$b", want: "$B"}}, ""},
	{"real: image: host that refuses", single("$C", `{containers: [{name: app, image: "127.0.0.1:$N/team/tool:1"}]}`),
		"pod/$C", []truth{{kinds: "Pod", field: "containers[0].image", value: "127.0.0.1:$N/team/tool:1",
			numbers: []string{"127.0.0.1:$N"}}}, ""},
	{"well: real: image with credentials", realLogin("$B", "$LOGIN") + single("$C",
		`{terminationGracePeriodSeconds: 1, `+
			`imagePullSecrets: [{name: $B}], containers: [{name: app, image: "$PRIV/team/tool:1", command: [sleep, `+
			`"3600"]}]}`),
		"pod/$C .", nil, ""},
}

// realLogin is a Secret with credentials of a registry.
func realLogin(name, data string) string {
	return object("v1", "Secret", name, `type: kubernetes.io/dockerconfigjson, data: {.dockerconfigjson: `+data+`}`)
}

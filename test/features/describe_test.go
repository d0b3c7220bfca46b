package features_test

import (
	_ "embed"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const describedPod = `
apiVersion: v1
kind: ConfigMap
metadata: {name: described}
data: {mode: quick}
---
apiVersion: v1
kind: Pod
metadata: {name: described, labels: {app: described}, annotations: {note: short}}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  restartPolicy: Never
  initContainers:
  - {name: prepare, image: "busybox:1.28", command: [sh, -c, "echo ready > /data/x"], volumeMounts: [{name: data,
      mountPath: /data}]}
  containers:
  - name: app
    image: "busybox:1.28"
    command: [sh, -c, "sleep 3600"]
    ports: [{name: web, containerPort: 8080}]
    env: [{name: COLOR, value: blue}, {name: MODE, valueFrom: {configMapKeyRef: {name: described, key: mode}}}]
    resources: {requests: {cpu: 20m, memory: 16Mi}, limits: {memory: 32Mi}}
    livenessProbe: {exec: {command: [cat, /data/x]}, periodSeconds: 2, timeoutSeconds: 20}
    volumeMounts: [{name: data, mountPath: /data}, {name: conf, mountPath: /conf, readOnly: true}]
  - {name: ends, image: "busybox:1.28", command: [sh, -c, "exit 3"]}
  volumes: [{name: data, emptyDir: {sizeLimit: 8Mi}}, {name: conf, configMap: {name: described}}]
`

// describedText is what kubectl writes about it, with times, ids and addresses masked and runs of
// spaces as one.
//
//go:embed testdata/describe-pod.txt
var describedText string

// masked takes out of a description what differs from run to run.
func masked(text string) string {
	for _, m := range [][2]string{
		{`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} [+-]\d{4}`, "<time>"}, {`[0-9a-f]{64}`, "<id>"},
		{`\b10\.2[2-5]\d\.\d+\.\d+`, "<ip>"},
		{`(?m)^(  \w+  +\w+  +)(?:<unknown>|[\dmsh]+)  `, "$1<age> "}, {`(?m)^ +| +$`, ""}, {` +`, " "},
	} {
		text = regexp.MustCompile(m[0]).ReplaceAllString(text, m[1])
	}
	return strings.TrimSpace(text)
}

func describe(n *node) {
	n.apply(describedPod)
	n.eventually("the description", func() (string, bool) {
		// kubectl of this release, which is part of gantry: others write some lines in another way.
		out, err := exec.Command(filepath.Join(n.Bin, "gantry"), "kubectl", "--kubeconfig",
			n.Kubeconfig, "describe", "pod", "described").CombinedOutput()
		got := masked(string(out))
		want := strings.TrimSpace(describedText)
		return firstDifference(got, want), err == nil && got == want
	})
	n.run("kubectl", "delete", "pod/described", "configmap/described", "--grace-period=1")
}

// firstDifference is the first line that is not as it should be.
func firstDifference(got, want string) string {
	wants := strings.Split(want, "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(wants) || line != wants[i] {
			return "line " + line + "\nwant " + strings.Join(wants[min(i, len(wants)):min(i+1, len(wants))], "")
		}
	}
	return "the end is missing: " + got
}

package features_test

import (
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
  - {name: prepare, image: "busybox:1.28", command: [sh, -c, "echo ready > /data/x"], volumeMounts: [{name: data, mountPath: /data}]}
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
const describedText = `Name: described
Namespace: default
Priority: 0
Service Account: default
Node: node-1/127.0.0.1
Start Time: <time>
Labels: app=described
Annotations: note: short
Status: Running
IP: <ip>
IPs:
IP: <ip>
Init Containers:
prepare:
Container ID: containerd://<id>
Image: busybox:1.28
Image ID: sha256:<id>
Port: <none>
Host Port: <none>
Command:
sh
-c
echo ready > /data/x
State: Terminated
Reason: Completed
Exit Code: 0
Started: <time>
Finished: <time>
Ready: True
Restart Count: 0
Environment: <none>
Mounts:
/data from data (rw)
Containers:
app:
Container ID: containerd://<id>
Image: busybox:1.28
Image ID: sha256:<id>
Port: 8080/TCP (web)
Host Port: 0/TCP (web)
Command:
sh
-c
sleep 3600
State: Running
Started: <time>
Ready: True
Restart Count: 0
Limits:
memory: 32Mi
Requests:
cpu: 20m
memory: 16Mi
Liveness: exec [cat /data/x] delay=0s timeout=20s period=2s successThreshold=1 failureThreshold=3
Environment:
COLOR: blue
MODE: <set to the key 'mode' of config map 'described'> Optional: false
Mounts:
/conf from conf (ro)
/data from data (rw)
ends:
Container ID: containerd://<id>
Image: busybox:1.28
Image ID: sha256:<id>
Port: <none>
Host Port: <none>
Command:
sh
-c
exit 3
State: Terminated
Reason: Error
Exit Code: 3
Started: <time>
Finished: <time>
Ready: False
Restart Count: 0
Environment: <none>
Mounts: <none>
Conditions:
Type Status
PodReadyToStartContainers True
Initialized True
Ready False
ContainersReady False
PodScheduled True
Volumes:
data:
Type: EmptyDir (a temporary directory that shares a pod's lifetime)
Medium:
SizeLimit: 8Mi
conf:
Type: ConfigMap (a volume populated by a ConfigMap)
Name: described
Optional: false
QoS Class: Burstable
Node-Selectors: <none>
Tolerations: node.kubernetes.io/not-ready:NoExecute op=Exists for 300s
node.kubernetes.io/unreachable:NoExecute op=Exists for 300s
Events:
Type Reason Age From Message
---- ------ ---- ---- -------
Normal Scheduled <age> default-scheduler Successfully assigned default/described to node-1
Normal Pulled <age> kubelet spec.initContainers{prepare}: Container image "busybox:1.28" already present on machine and can be accessed by the pod
Normal Created <age> kubelet spec.initContainers{prepare}: Container created
Normal Started <age> kubelet spec.initContainers{prepare}: Container started
Normal Pulled <age> kubelet spec.containers{app}: Container image "busybox:1.28" already present on machine and can be accessed by the pod
Normal Created <age> kubelet spec.containers{app}: Container created
Normal Started <age> kubelet spec.containers{app}: Container started
Normal Pulled <age> kubelet spec.containers{ends}: Container image "busybox:1.28" already present on machine and can be accessed by the pod
Normal Created <age> kubelet spec.containers{ends}: Container created
Normal Started <age> kubelet spec.containers{ends}: Container started`

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
	n.soon("the description", func() (string, bool) {
		// kubectl of this release, which is part of gantry: others write some lines in another way.
		out, err := exec.Command(filepath.Join(n.bin, "gantry"), "kubectl", "--kubeconfig",
			filepath.Join(n.dir, "kubeconfig"), "describe", "pod", "described").CombinedOutput()
		got := masked(string(out))
		return firstDifference(got, describedText), err == nil && got == describedText
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

package lifecycle

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What containers find in their file systems and environment.
//
// row: CSI-16
// row: CSI-18
// row: CSI-20
// row: CSI-21
// row: NET-06
// row: SEC-07
func TestVolumes(t *testing.T) { eachRuntime(t, volumeCases) }

const furnishings = `{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}, data: {color: blue, size: "10"}}
---
{apiVersion: v1, kind: Secret, metadata: {name: sec}, stringData: {password: hunter2}}`

var volumeCases = []Case{
	{
		name:    "configMap, secret, downwardAPI, projected",
		objects: furnishings,
		spec: `{containers: [{name: app, command: ` + runs + `, resources: {limits: {cpu: "1"}},
			env: [{name: COLOR, valueFrom: {configMapKeyRef: {name: cm, key: color}}}, {name: POD,
			valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: CPUS,
			valueFrom: {resourceFieldRef: {resource: limits.cpu}}}],
			envFrom: [{prefix: S_, secretRef: {name: sec}}],
			volumeMounts: [{name: cm, mountPath: /cm}, {name: sec, mountPath: /sec}, {name: about, mountPath: /about},
			{name: both, mountPath: /both}]}],
			volumes: [{name: cm, configMap: {name: cm, items: [{key: color, path: deep/color}]}},
			{name: sec, secret: {secretName: sec}},
			{name: about, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}},
				{name: both, projected: {sources: [{configMap: {name: cm}}, {secret: {name: sec}},
				{serviceAccountToken: {path: token, expirationSeconds: 600}}]}}]}`,
		steps: func(l *podLife) {
			l.ready()
			for text, want := range map[string]string{
				"cat /cm/deep/color": "blue", "ls /cm": "deep", "cat /sec/password": "hunter2",
				"cat /about/labels": `app="p"`, "cat /both/size": "10", "cat /both/password": "hunter2",
				"test -s /both/token && echo yes": "yes", "echo $COLOR $POD $CPUS $S_password": "blue p 1 hunter2",
				"hostname": "p",
				"cat /var/run/secrets/kubernetes.io/serviceaccount/namespace":             l.ns,
				"test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo yes": "yes",
			} {
				l.prints("app", text, want)
			}
		},
		expected: expected{conditions: allTrue},
	},
	{
		name: "emptyDir is shared, and survives a container",
		spec: `{containers: [{name: app, command: ` + runs +
			`, volumeMounts: [{name: d, mountPath: /d}]}, {name: other, command: ` + runs +
			`, volumeMounts: [{name: d, mountPath: /o}]}],
			volumes: [{name: d, emptyDir: {}}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.sh("app", "echo kept > /d/file")
			l.prints("other", "cat /o/file", "kept")
			l.kill("app")
			l.restarted("app", 1)
			l.prints("app", "cat /d/file", "kept")
		},
		expected: expected{states: map[string]string{"app": "running x1", "other": "running"}},
	},
	{
		name:    "subPath and subPathExpr",
		objects: furnishings,
		spec: `{containers: [{name: app, command: ` + runs +
			`, env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}],
			volumeMounts: [{name: cm, mountPath: /etc/color, subPath: color}, {name: marks, mountPath: /mine,
			subPathExpr: "of-$(POD)"}]}],
			volumes: [{name: cm, configMap: {name: cm}}, {name: marks, hostPath: {path: "{marks}"}}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.prints("app", "cat /etc/color", "blue")
			l.sh("app", "echo here > /mine/file")
			if raw, err := os.ReadFile(filepath.Join(l.marks, "of-p/file")); string(raw) != "here\n" {
				l.Errorf("got %q, %v, want raw here", raw, err)
			}
		},
		expected: expected{conditions: allTrue},
	},
	{
		name:    "what an init container sees the app does not",
		objects: furnishings,
		spec: `{initContainers: [{name: i, command: [sh, -c, "cat /sec/password > /m/log"], volumeMounts: [{name: sec,
			mountPath: /sec}, {name: marks, mountPath: /m}]}],
			containers: [{name: app, command: ` + runs +
			`}], volumes: [{name: sec, secret: {secretName: sec}}, {name: marks, hostPath: {path: "{marks}"}}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.wrote("hunter2")
			l.prints("app", "test -e /sec || echo absent", "absent")
		},
	},
	{
		name: "read-only mount and root",
		spec: `{terminationGracePeriodSeconds: 1, containers: [{name: app, command: [sleep, "3600"],` +
			` securityContext: ` +
			`{readOnlyRootFilesystem: true}, volumeMounts: [{name: d, mountPath: /d, readOnly: true}]}], volumes: ` +
			`[{name: d, emptyDir: {}}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.prints("app", "touch /d/x 2>/dev/null || touch /x 2>/dev/null || echo refused", "refused")
		},
	},
	{
		name: "hostPath of another type",
		spec: `{containers: [{name: app, volumeMounts: [{name: h, mountPath: /h}]}], volumes: [{name: h, hostPath: ` +
			`{path: "{marks}", type: File}}]}`,
		steps: func(l *podLife) {
			l.event("", "FailedMount", `MountVolume.SetUp failed for volume "h" : hostPath type check failed: `+l.marks+
				` is not a file`)
			l.state("app", "waiting ContainerCreating") // the event and the status go separate ways
		},
		expected: expected{phases: "Pending", conditions: "PodReadyToStartContainers=False/PodSandboxNotReady",
			states: map[string]string{"app": "waiting ContainerCreating"}},
	},
	{
		name: "missing Secret, then there",
		spec: `{containers: [{name: app, command: ` + runs +
			`, volumeMounts: [{name: s, mountPath: /s}]}], volumes: [{name: s, secret: {secretName: later}}]}`,
		steps: func(l *podLife) {
			l.event("", "FailedMount", `MountVolume.SetUp failed for volume "s" : secret "later" not found`)
			l.create(`{apiVersion: v1, kind: Secret, metadata: {name: later}, stringData: {a: b}}`)
			l.ready()
			l.prints("app", "cat /s/a", "b")
		},
		expected: expected{phases: "Pending Running"},
	},
	{
		name: "the end of the Pod is the end of its emptyDir",
		spec: `{restartPolicy: Never, containers: [{name: app, command: [sh, -c, "ls /d > /m/log; touch /d/x"],
			volumeMounts: [{name: d, mountPath: /d}, {name: marks, mountPath: /m}]}],
			volumes: [{name: d, emptyDir: {}}, {name: marks, hostPath: {path: "{marks}"}}]}`,
		steps: func(l *podLife) { l.phase(corev1.PodSucceeded); l.wrote(""); l.delete(1); l.waitForDeletion() },
	},
}

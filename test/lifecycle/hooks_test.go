package lifecycle

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hooks over HTTP, and the authority of the API server out of a ClusterTrustBundle.
//
// row: TRM-05
func TestHooksAndBundles(t *testing.T) { eachRuntime(t, hookCases) }

// served is a sidecar that answers on port 8080 before anything else runs, and to the end.
const served = `initContainers: [{name: side, restartPolicy: Always, command: [httpd, -f, -p, "8080", -h, /tmp],` +
	` startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, failureThreshold: 30}}]`

var hookCases = []Case{
	{
		name: "hooks over http",
		spec: `{terminationGracePeriodSeconds: 5, ` + served + `, containers: [{name: app, command: ` + runs +
			`, ports: [{name: web, containerPort: 8080}],
			lifecycle: {postStart: {httpGet: {port: web, path: /up}},
			preStop: {httpGet: {port: 8080, path: /down}}}}]}`,
		steps: func(l *podLife) { l.ready(); l.delete(5); l.waitForDeletion() },
		expected: expected{states: map[string]string{"app": "ended 0 Completed"},
			events: map[string]string{"app": "Pulled Created Started Killing"}},
	},
	{
		name: "postStart over http that nobody answers",
		spec: `{terminationGracePeriodSeconds: 1, containers: [{name: app, command: ` + runs +
			`, lifecycle: {postStart: {httpGet: {port: 81, path: /up}}}}]}`,
		steps: func(l *podLife) {
			l.event("app", "FailedPostStartHook", "PostStartHook failed")
			l.event("app", "Killing", "FailedPostStartHook")
			l.until("a restart", func(p *corev1.Pod) bool { return status(p, "app").RestartCount >= 1 })
		},
	},
	{
		name: "preStop over http that nobody answers: TERM comes all the same",
		spec: `{terminationGracePeriodSeconds: 20, containers: [{name: app, command: ` + runs +
			`, lifecycle: {preStop: {httpGet: {port: 81, path: /down}}}}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.delete(20)
			l.event("app", "FailedPreStopHook", "PreStopHook failed")
			l.waitForDeletion()
		},
		expected: expected{states: map[string]string{"app": "ended 0 Completed"}},
	},
	{
		name: "the API server's authority by its signer's name",
		spec: `{containers: [{name: app, command: ` + runs + `, volumeMounts: [{name: ca, mountPath: /ca}]}],
			volumes: [{name: ca, projected: {sources: [{clusterTrustBundle: {
			signerName: kubernetes.io/kube-apiserver-serving, labelSelector: {}, path: ca.crt}}]}}]}`,
		steps: func(l *podLife) {
			l.ready()
			m, err := l.client.CoreV1().ConfigMaps(l.ns).Get(l.ctx, "kube-root-ca.crt", metav1.GetOptions{})
			if err != nil {
				l.Fatal(err)
			}
			l.prints("app", "cat /ca/ca.crt", strings.TrimSpace(m.Data["ca.crt"]))
		},
		expected: expected{phases: "Pending Running", conditions: allTrue},
	},
}

package clients

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/test/busybox"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/ports"
)

// served is a Deployment whose answers cost cpu, its Service, and a client that asks without pause.
const served = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: httpd
        image: busybox:1.37
        imagePullPolicy: IfNotPresent
        command:
        - sh
        - -c
        - |
          mkdir -p /tmp/www/cgi-bin && cd /tmp/www/cgi-bin && cat > burn <<'END' && chmod +x burn
          #!/bin/sh
          echo
          i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo ok
          END
          exec httpd -f -p 8080 -h /tmp/www
        ports: [{containerPort: 8080}]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
        resources: {requests: {cpu: 50m, memory: 16Mi}, limits: {cpu: 150m}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: asks
    image: busybox:1.37
    imagePullPolicy: IfNotPresent
    command:
    - sh
    - -c
    - |
      for i in 1 2 3 4; do
        (while true; do wget -q -O /dev/null http://$WEB_SERVICE_HOST/cgi-bin/burn || sleep 1; done) &
      done
      wait
`

// A Deployment under `kubectl autoscale` follows real load by what metrics-server measures: up while
// a client asks, down when it has gone; and `gantry why` says why.
func TestAutoscaleFollowsLoad(t *testing.T) {
	i := busybox.Up(t, "--horizontal-pod-autoscaler-sync-period=3s",
		"--horizontal-pod-autoscaler-downscale-stabilization=10s",
		"--horizontal-pod-autoscaler-initial-readiness-delay=2s",
		"--horizontal-pod-autoscaler-cpu-initialization-period=10s")
	cfg, err := clientcmd.BuildConfigFromFlags("", i.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	k := kubectl{t, writeConfig(t, cfg, "")}
	client := kubernetes.NewForConfigOrDie(cfg)
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	apply := func(manifests string) {
		t.Helper()
		expect.Eventually(t, "manifests", func() bool {
			out, err := k.run(manifests, "apply", "-f", "-")
			if err != nil {
				t.Log(out)
			}
			return err == nil
		})
	}
	apply(strings.Split(fmt.Sprintf(rights, bridgeAddress(t), port), "---\napiVersion: v1\nkind: Pod\n")[0])
	token, err := client.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), "metrics-server",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	serveMetrics(t, writeConfig(t, cfg, token.Status.Token), port)
	begin := time.Now()
	web := strings.Split(served, "---\n")
	apply(web[0] + "---\n" + web[1])
	expect.Eventually(t, "the Deployment", func() bool {
		d, err := client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 1
	})
	apply(web[2])
	out, err := k.run("", "autoscale", "deployment", "web", "--cpu=60%", "--min=1", "--max=3")
	if err != nil {
		t.Fatal(out)
	}
	await := func(what string, f func(context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		var last error
		if err := i.Await(ctx, time.Second, func(ctx context.Context) error { last = f(ctx); return last }); err != nil {
			top, _ := k.run("", "top", "pod")
			t.Fatalf("%s: %v: %v\n%s", what, err, last, top)
		}
	}
	replicas := func(what string, ok func(n int32) bool) {
		t.Helper()
		await(what, func(ctx context.Context) error {
			d, err := client.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
			if err == nil && (!ok(*d.Spec.Replicas) || d.Status.ReadyReplicas != *d.Spec.Replicas) {
				err = fmt.Errorf("got %d replicas, %d ready", *d.Spec.Replicas, d.Status.ReadyReplicas)
			}
			return err
		})
		t.Logf("%s after %s", what, time.Since(begin).Round(time.Second))
	}
	why := func(want ...string) {
		t.Helper()
		await("gantry why", func(ctx context.Context) error {
			out, said, _ := i.Gantry(ctx, "why", "hpa/web", "--kubeconfig", i.Kubeconfig())
			for _, w := range want {
				if !strings.Contains(strings.Join(strings.Fields(out), " "), w) {
					return fmt.Errorf("got %q (%s), want %q", out, said, w)
				}
			}
			t.Log(out)
			return nil
		})
	}
	replicas("scaled up", func(n int32) bool { return n >= 2 })
	why("cpu is at", "the target is 60%", "cpu resource utilization (percentage of request) above target")
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "client", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	replicas("scaled down", func(n int32) bool { return n == 1 })
	why("keeps Deployment web at 1 replicas", "All metrics below target")
	// without figures it says so, and keeps what it has
	if out, err := k.run("", "delete", "apiservice", "v1beta1.metrics.k8s.io"); err != nil {
		t.Fatal(out)
	}
	why("FailedGetResourceMetric", "nobody serves API group metrics.k8s.io")
}

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const webYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: web
        image: docker.io/library/busybox:1.28
        command: [sh, -c, "mkdir /w; hostname > /w/index.html; exec httpd -f -p 8080 -h /w"]
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: client, image: "docker.io/library/busybox:1.28", command: [sleep, "3600"]}]
`

// row: NET-12
// row: TRM-14
func TestServices(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--proxy-healthz-bind-address", "", "--proxy-metrics-bind-address", "",
		"--service-cluster-ip-range", "10.97.0.0/16")
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.apply(webYAML)
	c.waitFor("deployment/web", "condition=Available", time.Minute)
	c.waitFor("pod/client", "condition=Ready", time.Minute)
	ip := c.field("service/web", "{.spec.clusterIP}")
	inside := func() (string, error) {
		out, err := c.try("", "exec", "client", "--", "sh", "-c", `printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 3 `+ip+" 80")
		_, body, _ := strings.Cut(out, "\r\n\r\n")
		return strings.TrimSpace(body), err
	}

	both := map[string]bool{}
	c.eventually(time.Minute, "a Pod reaches both Pods by the cluster IP", func() (string, bool) {
		out, err := inside()
		if err == nil && out != "" {
			both[out] = true
		}
		return out, len(both) == 2
	})
	for _, at := range []string{ip, "127.0.0.1:" + c.field("service/web", "{.spec.ports[0].nodePort}")} {
		c.eventually(time.Minute, "the host reaches a Pod by "+at, func() (string, bool) {
			out, err := fetch(at)
			return fmt.Sprint(out, err), both[out]
		})
	}
	t.Run("a Pod reaches the API server by its Service", func(t *testing.T) { c.forSubtest(t).inCluster() })
	t.Run("affinity", func(t *testing.T) {
		c := c.forSubtest(t)
		c.kubectl("patch", "service", "web", "-p", `{"spec":{"sessionAffinity":"ClientIP"}}`)
		c.eventually(time.Minute, "the rules have the clients' sets", func() (string, bool) {
			out := rulesOf(ip)
			return out, strings.Contains(out, "@affinity-")
		})
		first, err := inside()
		for range 10 {
			if out, err := inside(); err != nil || out != first {
				t.Errorf("got %q (%v), want always %q", out, err, first)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("a deleted Pod gets no new connections", func(t *testing.T) { c.forSubtest(t).leaves(ip) })
}

// inCluster finds the API server as client-go in a Pod does, by environment. What speaks without
// TLS is refused by the server itself.
func (c *cluster) inCluster() {
	c.t.Helper()
	const ask = `printf 'GET /version HTTP/1.0\r\n\r\n' | nc -w 3 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT`
	c.eventually(time.Minute, "the API server answers at the kubernetes Service", func() (string, bool) {
		out, err := c.try("", "exec", "client", "--", "sh", "-c", ask)
		return fmt.Sprint(out, err), strings.Contains(out, "Client sent an HTTP request to an HTTPS server")
	})
}

// leaves deletes a Pod and watches it go: from the slice's ready ones, and from the rules while its
// process still runs.
func (c *cluster) leaves(ip string) {
	c.t.Helper()
	pod := strings.Fields(c.field("pods", "{.items[?(@.metadata.labels.app=='web')].metadata.name}"))[0]
	address := c.field("pod/"+pod, "{.status.podIP}")
	c.eventually(time.Minute, "the rules lead to "+address,
		func() (string, bool) { out := rulesOf(ip); return out, strings.Contains(out, address+":8080") })
	c.kubectl("delete", "pod", pod, "--wait=false")
	began := time.Now()
	c.eventually(time.Minute, "the rules no longer lead to "+address, func() (string, bool) {
		out := rulesOf(ip)
		return out, !strings.Contains(out, "dnat to "+address+":8080")
	})
	c.t.Logf("traffic left after %s", time.Since(began))
	slice := c.kubectl("get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o",
		`jsonpath={range .items[*].endpoints[*]}{.addresses[0]} {.conditions.ready} {.conditions.serving} `+
			`{.conditions.terminating}{"\n"}{end}`)
	if !strings.Contains(slice, address+" false true true") {
		c.t.Errorf("the slice says\n%swant %s: not ready, serving, terminating", slice, address)
	}
}

// fetch asks and returns the answer without spaces around it.
func fetch(at string) (string, error) {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + at)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	return strings.TrimSpace(string(raw)), err
}

// rulesOf is the table that has a cluster IP, as nft prints it.
func rulesOf(clusterIP string) string {
	all, err := exec.Command("nft", "list", "tables", "ip").Output()
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(all)) {
		words := strings.Fields(line)
		out, err := exec.Command("nft", append([]string{"list"}, words...)...).Output()
		if err == nil && strings.Contains(string(out), clusterIP) {
			return string(out)
		}
	}
	return "no table has " + clusterIP
}

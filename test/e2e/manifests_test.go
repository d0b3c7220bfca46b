package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// podYAML is a Pod with one busybox container that runs a shell script.
func podYAML(name, script string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: app
    image: busybox:1.28
    command: ["sh", "-c", %q]
`, name, name, script)
}

func get(url string) (string, error) {
	client := http.Client{Timeout: 2 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

const exampleE02 = `
apiVersion: v1
kind: Pod
metadata:
  name: web-7d8
  namespace: prod
  labels:
    app: web
spec:
  containers:
    - name: web
      image: ghcr.io/acme/web:1.4.2
      resources:
        requests: { cpu: 250m, memory: 256Mi }
        limits: { cpu: 1, memory: 512Mi }
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - { key: kubernetes.io/arch, operator: In, values: [amd64] }
              - { key: node.acme.io/pool, operator: In, values: [general] }
  tolerations:
    - { key: dedicated, operator: Equal, value: web, effect: NoSchedule }
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: DoNotSchedule
      labelSelector:
        matchLabels: { app: web }
`

const exampleE17 = `
apiVersion: v1
kind: Pod
metadata:
  name: gated-ready
spec:
  readinessGates:
    - conditionType: "www.example.com/feature-1"
  containers:
    - name: app
      image: nginx:1.14.2
status:
  conditions:
    - type: Ready                              # a built in PodCondition
      status: "False"
      lastProbeTime: null
      lastTransitionTime: 2018-01-01T00:00:00Z
    - type: "www.example.com/feature-1"        # an extra PodCondition
      status: "False"
      lastProbeTime: null
      lastTransitionTime: 2018-01-01T00:00:00Z
  containerStatuses:
    - containerID: docker://abcd...
      ready: true
`

const exampleE18 = `
apiVersion: v1
kind: Pod
metadata:
  name: nginx
spec:
  containers:
  - name: nginx
    image: nginx:1.14.2
    ports:
    - containerPort: 80
`

const exampleE19 = `
apiVersion: batch/v1
kind: Job
metadata:
  name: hello
spec:
  template:
    # This is the pod template
    spec:
      containers:
      - name: hello
        image: busybox:1.28
        command: ['sh', '-c', 'echo "Hello, Kubernetes!" && sleep 3600']
      restartPolicy: OnFailure
    # The pod template ends here
`

const exampleE20 = `
apiVersion: v1
kind: Pod
metadata:
  name: myapp-pod
  labels:
    app.kubernetes.io/name: MyApp
spec:
  containers:
  - name: myapp-container
    image: busybox:1.28
    command: ['sh', '-c', 'echo The app is running! && sleep 3600']
  initContainers:
  - name: init-myservice
    image: busybox:1.28
    command: ['sh', '-c', "until nslookup myservice.$(cat
      /var/run/secrets/kubernetes.io/serviceaccount/namespace).svc.cluster.local; do echo waiting for myservice;
        sleep 2; done"]
  - name: init-mydb
    image: busybox:1.28
    command: ['sh', '-c', "until nslookup mydb.$(cat
      /var/run/secrets/kubernetes.io/serviceaccount/namespace).svc.cluster.local; do echo waiting for mydb; sleep 2;
        done"]
`

const exampleE22 = `
apiVersion: v1
kind: Service
metadata:
  name: myservice
spec:
  ports:
  - protocol: TCP
    port: 80
    targetPort: 9376
---
apiVersion: v1
kind: Service
metadata:
  name: mydb
spec:
  ports:
  - protocol: TCP
    port: 80
    targetPort: 9377
`

const exampleVolumeSources = `
apiVersion: v1
kind: Pod
metadata: {name: furnished, labels: {app: furnished}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: busybox:1.28
    command: ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 0.2; done"]
    resources: {limits: {cpu: "2"}}
    env:
    - {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: password}}}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: CPUS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    volumeMounts:
    - {name: settings, mountPath: /settings}
    - {name: login, mountPath: /login, readOnly: true}
    - {name: about, mountPath: /about}
    - {name: fast, mountPath: /fast}
    - {name: token, mountPath: /token}
    - {name: host, mountPath: /host}
  volumes:
  - name: settings
    configMap: {name: settings}
  - name: login
    secret: {secretName: login, defaultMode: 0400}
  - name: about
    downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
  - name: fast
    emptyDir: {medium: Memory, sizeLimit: 8Mi}
  - name: token
    projected: {sources: [{serviceAccountToken: {path: token, audience: somebody, expirationSeconds: 600}}]}
  - name: host
    hostPath: {path: /etc, type: Directory}
`

const exampleGreedy = `
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  restartPolicy: Never
  containers:
  - name: app
    image: busybox:1.28
    command: ["sh", "-c", "x=a; while true; do x=$x$x; done"]
    resources: {limits: {memory: 16Mi}}
`

func listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

func port(l net.Listener) string { return fmt.Sprint(l.Addr().(*net.TCPAddr).Port) }

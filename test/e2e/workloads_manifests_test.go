package e2e

const nginxYAML = `
apiVersion: v1
kind: Pod
metadata: {name: site, labels: {app: site}}
spec:
  containers:
  - name: nginx
    image: nginx:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c]
    args: ["sed -i 's#^}#include /site/extra.conf;\\n}#' /etc/nginx/nginx.conf;
      sed -i 's#root /usr/share/nginx/html#root /site#' /etc/nginx/nginx.conf; exec nginx -g 'daemon off;'"]
    ports: [{name: web, containerPort: 80}]
    startupProbe: {tcpSocket: {port: web}, periodSeconds: 1, failureThreshold: 30}
    livenessProbe: {httpGet: {path: /up, port: 8080}, periodSeconds: 1}
    readinessProbe: {httpGet: {path: /index.html, port: web}, periodSeconds: 1}
    volumeMounts: [{name: site, mountPath: /site}]
  volumes: [{name: site, configMap: {name: site}}]
`

const redisYAML = `
apiVersion: v1
kind: Pod
metadata: {name: cache, labels: {app: cache}}
spec:
  containers:
  - name: redis
    image: redis:latest
    imagePullPolicy: IfNotPresent
    command: [redis-server, /etc/redis/redis.conf]
    ports: [{containerPort: 6379}]
    readinessProbe: {exec: {command: [redis-cli, ping]}, periodSeconds: 1}
    livenessProbe: {tcpSocket: {port: 6379}, periodSeconds: 1}
    resources: {limits: {memory: 64Mi}}
    volumeMounts: [{name: settings, mountPath: /etc/redis}, {name: data, mountPath: /data}]
  volumes: [{name: settings, configMap: {name: redis}}, {name: data, emptyDir: {}}]
`

const rollingYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: go}
spec:
  replicas: 2
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  selector: {matchLabels: {app: go}}
  template:
    metadata: {labels: {app: go}}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: server
        image: registry.k8s.io/e2e-test-images/agnhost:2.63
        args: [netexec, --udp-port=-1]
        readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 3}}}
---
apiVersion: v1
kind: Service
metadata: {name: go}
spec: {selector: {app: go}, ports: [{port: 80, targetPort: 8080}]}
`

const exampleE08 = `
apiVersion: v1
kind: Pod
metadata:
  name: app
spec:
  containers:
    - name: app
      image: ghcr.io/acme/app:1.4.2
      startupProbe:
        httpGet: { path: /health/started, port: 8080 }
        periodSeconds: 5
        failureThreshold: 18    # 18 x 5s = 90s budget
      livenessProbe:
        httpGet: { path: /health/live, port: 8080 }
        periodSeconds: 10
        timeoutSeconds: 2
        failureThreshold: 3
      readinessProbe:
        httpGet: { path: /health/ready, port: 8080 }
        periodSeconds: 3
        timeoutSeconds: 1
        failureThreshold: 2
`

const exampleE10 = `
apiVersion: v1
kind: Pod
metadata:
  name: etcd
  namespace: kube-system
  labels:
    component: etcd
    tier: control-plane
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  containers:
    - name: etcd
      image: registry.k8s.io/etcd:3.5.13-0
      command:
        - etcd
        - --advertise-client-urls=http://127.0.0.1:CLIENT
        - --listen-client-urls=http://127.0.0.1:CLIENT
        - --listen-peer-urls=http://127.0.0.1:PEER
        - --initial-advertise-peer-urls=http://127.0.0.1:PEER
        - --initial-cluster=default=http://127.0.0.1:PEER
        - --data-dir=/var/lib/etcd
      volumeMounts:
        - name: etcd-data
          mountPath: /var/lib/etcd
        - name: etcd-certs
          mountPath: /etc/kubernetes/pki/etcd
  volumes:
    - name: etcd-data
      hostPath: { path: DIR/var/lib/etcd, type: DirectoryOrCreate }
    - name: etcd-certs
      hostPath: { path: DIR/etc/kubernetes/pki/etcd, type: DirectoryOrCreate }
`

const exampleE11 = `
apiVersion: v1
kind: Pod
metadata:
  name: api
spec:
  containers:
    - name: api
      image: my-org/api:1.4.2
      ports:
        - containerPort: 8080
      startupProbe:
        httpGet: { path: /healthz/startup, port: 8080 }
        failureThreshold: 30    # 30 x 10s = up to 5 minutes to boot
        periodSeconds: 10
      readinessProbe:
        httpGet: { path: /healthz/ready, port: 8080 }
        periodSeconds: 5
        timeoutSeconds: 2
        failureThreshold: 2
      livenessProbe:
        httpGet: { path: /healthz/live, port: 8080 }
        periodSeconds: 10
        timeoutSeconds: 2
        failureThreshold: 3     # 3 x 10s = ~30s before SIGKILL
`

const exampleE23 = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: myapp
  labels:
    app: myapp
spec:
  replicas: 1
  selector:
    matchLabels:
      app: myapp
  template:
    metadata:
      labels:
        app: myapp
    spec:
      containers:
        - name: myapp
          image: alpine:latest
          command: ['sh', '-c', 'while true; do echo "logging" >> /opt/logs.txt; sleep 1; done']
          volumeMounts:
            - name: data
              mountPath: /opt
      initContainers:
        - name: logshipper
          image: alpine:latest
          restartPolicy: Always
          command: ['sh', '-c', 'tail -F /opt/logs.txt']
          volumeMounts:
            - name: data
              mountPath: /opt
      volumes:
        - name: data
          emptyDir: {}
`

const exampleE24 = `
apiVersion: batch/v1
kind: Job
metadata:
  name: myjob
spec:
  template:
    spec:
      containers:
        - name: myjob
          image: alpine:latest
          command: ['sh', '-c', 'echo "logging" > /opt/logs.txt']
          volumeMounts:
            - name: data
              mountPath: /opt
      initContainers:
        - name: logshipper
          image: alpine:latest
          restartPolicy: Always
          command: ['sh', '-c', 'tail -F /opt/logs.txt']
          volumeMounts:
            - name: data
              mountPath: /opt
      restartPolicy: Never
      volumes:
        - name: data
          emptyDir: {}
`

package kubectl

// command is one call of kubectl and what must come of it.
type command struct {
	args  string // split at spaces; a part in single quotes is one
	want  string // in what it prints, on either channel; a regular expression
	code  int
	retry bool // until it comes out so, for half a minute
}

// commands are played in this order; each may rely on those before.
func commands() []command {
	return []command{
		{args: "version", want: `Server Version: v1\.37`},
		{args: "api-resources --api-group=apps", want: `deployments +deploy +apps/v1 +true +Deployment`},
		{args: "api-versions", want: `(?m)^apps/v1$`},
		{args: "cluster-info", want: `control plane.* is running at`},
		{args: "explain pod.spec.containers.livenessProbe",
			want: `(?s)FIELD: livenessProbe <Probe>.*Periodic probe of container liveness`},
		{args: "auth whoami", want: `kubernetes-admin`},
		{args: "auth can-i create pods", want: `^yes`},
		{args: "auth reconcile -f testdata/rbac.yaml",
			want: `(?s)role.*reader reconciled.*rolebinding.*reader reconciled`},
		{args: "auth can-i list pods --as ann", want: `^yes`},
		{args: "auth can-i delete pods --as ann", want: `^no`, code: 1},
		{args: "wait node/node-1 --for condition=Ready --timeout 60s", want: `condition met`},
		{args: "wait serviceaccount/default --for create --timeout 30s", want: `condition met`},
		{args: "create --raw /api/v1/namespaces/default/configmaps -f testdata/raw.json", want: `"name":"raw"`},
		{args: "get --raw /readyz", want: `^ok`},
		{args: "diff -f testdata/web.yaml", want: `\+  name: web`, code: 1},
		{args: "apply -f testdata/web.yaml", want: `(?s)deployment.apps/web created.*pod/one created`},
		{args: "get -f testdata/web.yaml", want: `(?s)web.*pod/one`},
		{args: "rollout status deployment/web --timeout 60s", want: `successfully rolled out`},
		{args: "wait pod/one --for condition=Ready --timeout 60s", want: `condition met`},
		{args: "describe -f testdata/web.yaml", want: `(?s)Name: +web.*Name: +one.*Restart Count: +0`},
		{args: "describe pod one", want: `(?s)Events:.*Scheduled.*Started`, retry: true},
		{args: "diff -f testdata/web.yaml", want: `^$`},
		{args: "apply -f testdata/web2.yaml", want: `(?s)deployment.apps/web configured.*pod/one unchanged`},
		{args: "apply --server-side --force-conflicts -f testdata/web2.yaml",
			want: `(?s)deployment.apps/web serverside-applied.*pod/one serverside-applied`},
		{args: "scale deployment/web --replicas 1", want: `scaled`},
		{args: "wait deployment/web --for jsonpath={.status.readyReplicas}=1 --timeout 60s", want: `condition met`},
		{args: "set env deployment/web A=B", want: `env updated`},
		{args: "set resources deployment/web --requests=cpu=1m", want: `resource requirements updated`},
		{args: "set image deployment/web c=docker.io/library/busybox:1.37 --record=false", want: ``},
		{args: "rollout status deployment/web --timeout 60s", want: `successfully rolled out`},
		{args: "rollout history deployment/web", want: `(?s)REVISION.*1.*2`},
		{args: "rollout undo deployment/web", want: `rolled back`},
		{args: "rollout restart deployment/web", want: `restarted`},
		{args: "rollout pause deployment/web", want: `paused`},
		{args: "rollout resume deployment/web", want: `resumed`},
		{args: "label pod one tier=front", want: `labeled`},
		{args: "annotate pod one note=seen", want: `annotated`},
		{args: "edit pod one", want: `pod/one edited`},
		{args: "get pod one -o jsonpath={.metadata.labels.edited}", want: `^yes$`},
		{args: `patch pod one -p '{"metadata":{"labels":{"patched":"yes"}}}'`, want: `patched`},
		{args: "get pods -l patched=yes --no-headers", want: `^one +1/1 +Running`},
		{args: "get pod one -o wide --show-labels", want: `patched=yes`},
		{args: "logs one", want: `^hello`, retry: true},
		{args: "exec one -- cat /etc/hostname", want: `^one`},
		{args: "cp testdata/raw.json one:/tmp/raw.json", want: ``},
		{args: "exec one -- cat /tmp/raw.json", want: `ConfigMap`},
		{args: "debug one --image=docker.io/library/busybox:1.37 --image-pull-policy=IfNotPresent -c probe -- sh -c " +
			"'echo from-debug; sleep 1'", want: ``},
		{args: "logs one -c probe", want: `from-debug`, retry: true},
		{args: "debug one --image=docker.io/library/busybox:1.37 --copy-to=twin " +
			"--set-image=*=docker.io/library/busybox:1.37 -- sleep 60", want: ``},
		{args: "events --for pod/one", want: `Started`},
		{args: "expose deployment web --port 80", want: `service/web exposed`},
		{args: "autoscale deployment web --max 3", want: `autoscaled`},
		{args: "run quick --image=docker.io/library/busybox:1.37 --restart=Never -- echo quick",
			want: `pod/quick created`},
		{args: "wait pod/quick --for jsonpath={.status.phase}=Succeeded --timeout 60s", want: `condition met`},
		{args: "run talk --image=docker.io/library/busybox:1.37 --restart=Never --attach --rm -- sh -c 'sleep 1; " +
			"echo attached'", want: `attached`},
		{args: "create job j --image=docker.io/library/busybox:1.37 -- true", want: `job.batch/j created`},
		{args: "wait job/j --for condition=Complete --timeout 60s", want: `condition met`},
		{args: "create quota q --hard=pods=50", want: `created`},
		{args: "create token default", want: `^ey`},
		{args: "top node", want: `Metrics API not available`, code: 1},
		{args: "taint node node-1 k=v:NoSchedule", want: `tainted`},
		{args: "taint node node-1 k-", want: `untainted`},
		{args: "cordon node-1", want: `cordoned`},
		{args: "drain node-1 --force --ignore-daemonsets --delete-emptydir-data --timeout 60s",
			want: `node/node-1 drained`},
		{args: "uncordon node-1", want: `uncordoned`},
		{args: "get pods one", want: `NotFound`, code: 1},
		{args: "replace --force -f testdata/web.yaml", want: `replaced`},
		{args: "delete -f testdata/web.yaml --timeout 60s",
			want: `(?s)deployment.apps "web" deleted.*pod "one" deleted`},
		{args: "delete svc,hpa,job,cm,quota --all --timeout 60s", want: `deleted`},
	}
}

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// kubeletFile writes a KubeletConfiguration: static Pods in dir/manifests, no collection of images,
// which could not be pulled again.
func kubeletFile(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kubelet.yaml")
	write(t, file,
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nimageGCHighThresholdPercent: "+
			"100\nhealthzPort: 0\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\nstaticPodPath: "+
			filepath.Join(dir, "manifests")+"\n")
	return file
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// line waits until `kubectl get pod` shows a Pod as pattern has it: READY STATUS RESTARTS.
func (c *cluster) line(pod, pattern string) {
	c.t.Helper()
	want := regexp.MustCompile(`(?m)^` + pod + ` +` + strings.ReplaceAll(pattern, " ", " +") + ` .*[0-9]+[smh]$`)
	c.eventually(time.Minute, "kubectl get pod "+pod+" like "+pattern, func() (string, bool) {
		out, _ := c.try("", "get", "pod", pod)
		return out, strings.HasPrefix(out, "NAME") && regexp.MustCompile(
			`^NAME +READY +STATUS +RESTARTS +AGE\n`).MatchString(out) && want.MatchString(out)
	})
}

// checkMessages: the columns and words of `kubectl get pod`.
//
// row: ISE-16
// row: OPS-01
func checkMessages(c *cluster) {
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: w-full}
spec: {nodeName: elsewhere, containers: [{name: app, image: "busybox:1.28"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: w-pending}
spec: {nodeSelector: {no: where}, containers: [{name: app, image: "busybox:1.28"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: w-creating}
spec:
  containers: [{name: app, image: "busybox:1.28", volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, secret: {secretName: not-there}}]
---
apiVersion: v1
kind: Pod
metadata: {name: w-done}
spec: {restartPolicy: Never, containers: [{name: app, image: "busybox:1.28", command: ["true"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: w-error}
spec: {restartPolicy: Never, containers: [{name: app, image: "busybox:1.28", command: ["false"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: w-crash}
spec: {containers: [{name: app, image: "busybox:1.28", command: ["false"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: w-image}
spec: {containers: [{name: app, image: "127.0.0.1:1/no/such:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: w-init}
spec:
  initContainers:
  - {name: a, image: "busybox:1.28", command: [sh, -c, "until test -e /tmp/go; do sleep 0.1; done"]}
  - {name: b, image: "busybox:1.28", command: [sh, -c, "until test -e /tmp/go; do sleep 0.1; done"]}
  containers: [{name: app, image: "busybox:1.28", command: [sleep, "3600"]}, {name: two, image: "busybox:1.28",
    command: [sleep, "3600"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: w-initfail}
spec:
  restartPolicy: Never
  initContainers: [{name: a, image: "busybox:1.28", command: ["false"]}]
  containers: [{name: app, image: "busybox:1.28"}]
`)
	// what a node under pressure does to a new Pod
	c.kubectl("patch", "pod", "w-full", "--subresource=status", "--type=merge", "-p",
		`{"status":{"phase":"Failed","reason":"Evicted"}}`)
	c.line("w-full", "0/1 Evicted 0")
	c.line("w-pending", "0/1 Pending 0")
	c.line("w-creating", "0/1 ContainerCreating 0")
	c.line("w-done", "0/1 Completed 0")
	c.line("w-error", "0/1 Error 0")
	c.line("w-crash", `0/1 CrashLoopBackOff [1-9]`)
	c.line("w-image", "0/1 ImagePullBackOff 0")
	c.line("w-initfail", "0/1 Init:Error 0")
	c.line("w-init", "0/2 Init:0/2 0")
	c.kubectl("exec", "w-init", "-c", "a", "--", "touch", "/tmp/go")
	c.line("w-init", "0/2 Init:1/2 0")
	c.eventually(time.Minute, "the second init container does what it is told", func() (string, bool) {
		// it may only just have been created
		out, err := c.try("", "exec", "w-init", "-c", "b", "--", "touch", "/tmp/go")
		return out, err == nil
	})
	c.line("w-init", "2/2 Running 0")
	c.kubectl("delete", "pod", "w-init", "--grace-period=20", "--wait=false") // its shells ignore TERM
	c.line("w-init", "2/2 Terminating 0")
	c.kubectl("delete", "pod", "--now", "--ignore-not-found", "w-full", "w-pending", "w-creating", "w-done", "w-error",
		"w-crash", "w-image", "w-initfail", "w-init")
}

// describeInit: a Pod in its first init container, in kubectl's words and in its events.
//
// row: OPS-03
// row: OPS-05
// row: ISE-18
func describeInit(c *cluster) {
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: myapp}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: myapp-container, image: "busybox:1.28", command: [sh, -c,
    "echo The app is running! && sleep 3600"]}]
  initContainers:
  - {name: init-myservice, image: "busybox:1.28", command: [sh, -c,
      "until test -e /tmp/go; do echo waiting for myservice; sleep 0.5; done"]}
  - {name: init-mydb, image: "busybox:1.28", command: [sh, -c, "echo mydb"]}
`)
	c.line("myapp", "0/1 Init:0/2 0")
	c.eventually(time.Minute, "log of the first init container", func() (string, bool) {
		out, _ := c.try("", "logs", "myapp", "-c", "init-myservice")
		return out, strings.HasPrefix(out, "waiting for myservice\n")
	})
	c.eventually(time.Minute, "describe", func() (string, bool) {
		out := c.kubectl("describe", "pod", "myapp")
		return out, regexp.MustCompile(
			`(?s)Status: +Pending\n.*Init Containers:\n  init-myservice:\n.*State: +Running\n.*Ready: +False\n.*  ` +
				`init-mydb:\n.*State: +Waiting\n +Reason: +PodInitializing\n.*` +
				`Containers:\n  myapp-container:\n.*State: +Waiting\n +Reason: +PodInitializing\n +Ready: ` +
				`+False\n.*Conditions:\n.*Initialized +False.*Ready +False.*` +
				`Events:\n.*Scheduled .*Pulled .*spec.initContainers\{init-myservice\}|Events:\n.*Scheduled .*Pulled ` +
				`.*Created .*Started `).MatchString(out)
	})
	out := c.kubectl("get", "events", "--field-selector", "involvedObject.name=myapp,reason=Started", "-o",
		`jsonpath={.items[0].type}|{.items[0].reason}|{.items[0].message}|{.items[0].source.component}|`+
			`{.items[0].source.host}|{.items[0].count}|{.items[0].involvedObject.fieldPath}|`+
			`{.items[0].firstTimestamp}|{.items[0].lastTimestamp}`)
	if !regexp.MustCompile(
		`^Normal\|Started\|Container started\|kubelet\|cp-1\|1\|spec.initContainers\{init-myservice\}\|\d{4}-.*Z\|` +
			`\d{4}-.*Z$`).MatchString(out) {
		c.t.Errorf("event: %s", out)
	}
	c.kubectl("exec", "myapp", "-c", "init-myservice", "--", "touch", "/tmp/go")
	c.line("myapp", "1/1 Running 0")
	c.kubectl("delete", "pod", "myapp")
}

// crashLoop: what one does about a container that crashes, and four causes that why distinguishes.
//
// row: RST-10
// row: RST-11
func crashLoop(c *cluster) {
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: c-app}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: "busybox:1.28", command: [sh, -c,
  "echo cannot open database; exit 3"], resources: {limits: {memory: 32Mi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: c-env}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: "busybox:1.28", env: [{name: URL,
  valueFrom: {configMapKeyRef: {name: nowhere, key: url}}}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: c-memory}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: "busybox:1.28", command: [sh, -c,
  "x=a; while true; do x=$x$x; done"], resources: {limits: {memory: 16Mi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: c-probe}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: "busybox:1.28", command: [sleep, "3600"],
  livenessProbe: {tcpSocket: {port: 81}, periodSeconds: 1, failureThreshold: 1}}]}
`)
	c.line("c-app", `0/1 CrashLoopBackOff [1-9]`)
	if out := c.kubectl("logs", "c-app", "--previous"); out != "cannot open database\n" {
		c.t.Errorf("logs --previous: %q, want \"cannot open database\\n\"", out)
	}
	c.eventually(time.Minute, "describe of a crash loop", func() (string, bool) {
		out := c.kubectl("describe", "pod", "c-app") // right after an attempt it says Terminated
		return out, regexp.MustCompile(
			`(?s)State: +Waiting\n +Reason: +CrashLoopBackOff\n.*Last State: +Terminated\n +Reason: +Error\n +Exit ` +
				`Code: +3\n.*Restart Count: +[1-9].*Limits:\n +memory: +32Mi.*BackOff.*Back-off restarting failed ` +
				`container app in pod c-app_default`).MatchString(out)
	})
	c.kubectl("debug", "c-app", "--image=busybox:1.28", "--profile=general", "-c", "look", "--", "sleep", "3600")
	c.eventually(time.Minute, "a container to look from", func() (string, bool) {
		out := c.field("pod/c-app", `{.status.ephemeralContainerStatuses[0].state.running.startedAt}`)
		return out, out != ""
	})
	c.kubectl("exec", "c-app", "-c", "look", "--", "hostname")
	for pod, want := range map[string]string{"c-app": "exit code 3", "c-env": "nowhere", "c-memory": "16Mi",
		"c-probe": "81"} {
		c.eventually(time.Minute, "why "+pod+" names "+want, func() (string, bool) {
			out := c.gantry("why", "pod/"+pod)
			return out, strings.Contains(out, want)
		})
	}
	c.kubectl("delete", "pod", "--now", "c-app", "c-env", "c-memory", "c-probe")
}

// debug: an ephemeral container sees the processes it is aimed at; kubectl edit cannot add one.
//
// row: ISE-31
// row: ISE-32
func debug(c *cluster) {
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: shy}
spec: {terminationGracePeriodSeconds: 1, shareProcessNamespace: true, containers: [{name: app, image: "busybox:1.28",
  command: [sleep, "86399"]}, {name: other, image: "busybox:1.28", command: [sleep, "86398"]}]}
`)
	c.waitFor("pod/shy", "condition=Ready", time.Minute)
	c.kubectl("debug", "shy", "--image=busybox:1.28", "--target=app", "--profile=general", "-c", "look", "--", "sleep",
		"86397")
	c.eventually(time.Minute, "processes of the others", func() (string, bool) {
		out, _ := c.try("", "exec", "shy", "-c", "look", "--", "ps")
		return out, strings.Contains(out, "sleep 86399") && strings.Contains(out, "sleep 86398") &&
			strings.Contains(out, "sleep 86397")
	})
	object := c.kubectl("get", "pod", "shy", "-o", "json")
	edited := strings.Replace(object, `"ephemeralContainers": [`,
		`"ephemeralContainers": [{"name":"more","image":"busybox:1.28"},`, 1)
	if edited == object {
		c.t.Fatalf("no ephemeral container in %s", object)
	}
	if out, err := c.try(edited, "replace", "-f", "-"); err == nil || !strings.Contains(out,
		"pod updates may not change fields other than") {
		c.t.Errorf("an edit that adds an ephemeral container: got %v %s, want an error and it to contain %q", err,
			out, "pod updates may not change fields other than")
	}
	c.kubectl("delete", "pod", "shy", "--now")
}

// oneNetwork: containers of a Pod share address, ports and System V's and POSIX's memory, and no
// others do.
//
// row: NET-04
// row: NET-05
// row: NET-06
// row: CRI-11
// row: CRI-14
func oneNetwork(c *cluster) {
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: couple}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: a, image: "busybox:1.28", command: [sh, -c, "httpd -p 8080 -h /etc; echo both > /dev/shm/note; sleep 3600"]}
  - {name: b, image: "busybox:1.28", command: [sleep, "3600"]}
---
apiVersion: v1
kind: Pod
metadata: {name: single}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: a, image: "busybox:1.28", command: [sleep, "3600"]}]}
`)
	c.waitFor("pod/couple", "condition=Ready", time.Minute)
	c.waitFor("pod/single", "condition=Ready", time.Minute)
	in := func(pod, container, command string) string {
		out, _ := c.try("", "exec", pod, "-c", container, "--", "sh", "-c", command+"; true")
		return strings.TrimSpace(out)
	}
	for command, want := range map[string]string{
		"wget -q -O - http://127.0.0.1:8080/hostname": "couple", "cat /dev/shm/note": "both", "hostname": "couple",
		"hostname -i": c.field("pod/couple", "{.status.podIP}"),
		"grep -E '^(nameserver|search)' /etc/resolv.conf | head -2 | sort": "nameserver 10.96.0.10\nsearch " +
			"default.svc.cluster.local svc.cluster.local cluster.local",
		"httpd -f -p 8080 2>&1 | grep -c 'in use'": "1",
		"ps | grep -c '[s]leep 3600'":              "1",
	} {
		if got := in("couple", "b", command); got != want {
			c.t.Errorf("in container b: %s: %q, want %q", command, got, want)
		}
	}
	if out := in("single", "a", "ls /dev/shm"); out != "" {
		c.t.Errorf("another Pod sees %q, want none", out)
	}
	if out := in("single", "a", "wget -q -O - http://127.0.0.1:8080/hostname 2>&1"); !strings.Contains(out, "refused") {
		c.t.Errorf("another Pod's localhost: %q", out)
	}
	c.kubectl("delete", "pod", "couple", "single", "--now")
}

package main

import (
	"fmt"
	"slices"
)

// object is a part of what is sent to the API.
type object = map[string]any

// theme makes one thing happen in a Pod that is drawn; steps come after the Pod's creation.
type theme func(d *drawer, spec object) (steps []any)

// themes are what recordings are about and a Pod drawn alone is not.
var themes = []struct {
	name string
	of   theme
}{
	{"volumes", (*drawer).wrongVolume},
	{"env", (*drawer).wrongEnvironment},
	{"images", (*drawer).images},
	{"users", (*drawer).users},
	{"messages", (*drawer).messages},
	{"resizes", (*drawer).resizes},
	{"ephemeral", (*drawer).ephemeral},
	{"hooks", (*drawer).wrongHooks},
	{"storage", (*drawer).storage},
	{"restart-all", (*drawer).restartAll},
	{"sidecars", (*drawer).probedSidecar},
	{"deadlines", (*drawer).deadline},
	{"gates", (*drawer).gates},
	{"taints", (*drawer).taints},
	{"deferred", (*drawer).deferred},
}

// first is the Pod's first app container.
func first(spec object) object { return spec["containers"].([]any)[0].(object) }

// onlyRuns makes the Pod's first container one that runs until it is stopped.
func onlyRuns(spec object) object {
	c := first(spec)
	for _, k := range []string{"command", "image", "env", "lifecycle", "livenessProbe", "startupProbe", "restartPolicy",
		"restartPolicyRules"} {
		delete(c, k)
	}
	c["sh"] = runs
	return c
}

// alone leaves the Pod one container, which runs.
func alone(spec object) object {
	spec["containers"] = spec["containers"].([]any)[:1]
	delete(spec, "initContainers")
	delete(spec, "activeDeadlineSeconds")
	return onlyRuns(spec)
}

func addVolume(spec object, c object, name string, source object, more object) {
	source["name"] = name
	spec["volumes"] = append(spec["volumes"].([]any), source)
	m := object{"name": name, "mountPath": "/" + name}
	for k, v := range more {
		m[k] = v
	}
	c["volumeMounts"] = append(slices.Clone(c["volumeMounts"].([]any)), m)
}

func wait(until string, timeout int) any {
	return object{"wait": object{"pod": "p", "until": until, "timeout": timeout}}
}

func patch(subresource string, body object) any {
	return object{"patch": object{"name": "p", "subresource": subresource, "body": body}}
}

func sleep(seconds int) any { return object{"sleep": seconds} }

func (d *drawer) wrongVolume(spec object) []any {
	c := onlyRuns(spec)
	cm := func(more object) object {
		more["name"] = "cm"
		return object{"configMap": more}
	}
	until := "event=FailedMount"
	switch d.IntN(8) {
	case 0:
		kind := pick(d, "Directory", "File", "Socket", "CharDevice", "BlockDevice")
		addVolume(spec, c, "h", object{"hostPath": object{"path": "/tmp/nope-lives", "type": kind}}, nil)
	case 1:
		addVolume(spec, c, "h", object{"hostPath": object{"path": "/etc/passwd", "type": pick(d, "Directory",
			"DirectoryOrCreate", "Socket", "CharDevice", "BlockDevice")}}, nil)
	case 2:
		addVolume(spec, c, "v", pick(d, cm(object{}), object{"secret": object{"secretName": "nope"}}), nil)
	case 3:
		source := pick(d, object{"configMap": object{"name": "cm"}}, object{"secret": object{"name": "nope"}},
			object{"configMap": object{"name": "kube-root-ca.crt", "items": []any{object{"key": "nope", "path": "x"}}}})
		addVolume(spec, c, "v", object{"projected": object{"sources": []any{source}}}, nil)
	case 4:
		addVolume(spec, c, "v", object{"configMap": object{"name": "kube-root-ca.crt",
			"items": []any{object{"key": "nope", "path": "x"}}}}, nil)
	case 5:
		c["volumeMounts"] = append(slices.Clone(c["volumeMounts"].([]any)),
			object{"name": "d", "mountPath": "/s", "subPathExpr": "$(NOPE)"})
		until = "waiting=CreateContainerConfigError"
	case 6:
		addVolume(spec, c, "h", object{"hostPath": object{"path": "/etc/passwd"}}, object{"subPath": "x"})
		until = "waiting=CreateContainerConfigError"
	default: // it can be mounted
		addVolume(spec, c, "v", object{"configMap": object{"name": "nope", "optional": true}}, nil)
		until = "running=c0"
	}
	return []any{wait(until, 40), sleep(3)}
}

func (d *drawer) wrongEnvironment(spec object) []any {
	c := onlyRuns(spec)
	switch d.IntN(4) {
	case 0:
		c["envFrom"] = []any{object{"configMapRef": object{"name": "nope"}}}
	case 1:
		c["envFrom"] = []any{object{"secretRef": object{"name": "nope"}}}
	case 2:
		c["env"] = []any{object{"name": "X", "valueFrom": object{"configMapKeyRef": object{"name": "kube-root-ca.crt",
			"key": "nope"}}}}
	default:
		c["envFrom"] = []any{object{"prefix": "X_", "configMapRef": object{"name": "nope", "optional": true}},
			object{"configMapRef": object{"name": "kube-root-ca.crt"}}}
	}
	return []any{sleep(4)}
}

func (d *drawer) images(spec object) []any {
	c, until := onlyRuns(spec), ""
	switch d.IntN(5) {
	case 0:
		c["image"], c["imagePullPolicy"], until = "registry.example/absent:1", "Never", "waiting=ErrImageNeverPull"
	case 1:
		c["image"], c["imagePullPolicy"], until = "registry.example/absent:1", pick(d, "Always", "IfNotPresent"),
			"waiting=ImagePullBackOff"
	case 2:
		c["image"], until = pick(d, "Registry/Bad:1", "a b"), "waiting=InvalidImageName"
	case 3:
		c["image"], c["imagePullPolicy"], until = "registry.example/fresh:1", "Always", "running=c0"
	default:
		spec["imagePullSecrets"], until = []any{object{"name": "nope"}}, "running=c0"
	}
	return []any{wait(until, 40), sleep(3)}
}

func (d *drawer) users(spec object) []any {
	c := onlyRuns(spec)
	switch d.IntN(5) {
	case 0:
		c["securityContext"] = object{"runAsNonRoot": true}
	case 1:
		c["securityContext"] = object{"runAsNonRoot": true, "runAsUser": 0}
	case 2:
		spec["securityContext"] = object{"runAsNonRoot": true}
		c["image"] = nonRootImage
	case 3:
		spec["securityContext"] = object{"runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 3000,
			"supplementalGroups": []any{4000}}
	default:
		c["securityContext"] = object{"readOnlyRootFilesystem": true,
			"capabilities": object{"drop": []any{"ALL"}}}
	}
	return []any{sleep(5)}
}

func (d *drawer) messages(spec object) []any {
	c := onlyRuns(spec)
	c["sh"] = fmt.Sprintf("%s; %s; exit %d", pick(d, "echo why >/dev/termination-log", "echo one; echo two",
		"echo out; echo why >/tmp/m", "yes | head -c 5000 >/dev/termination-log", "yes long | head -n 100"), d.later(),
		pick(d, 0, 1, 7))
	if d.chance(70) {
		c["terminationMessagePolicy"] = "FallbackToLogsOnError"
	}
	if d.chance(30) {
		c["terminationMessagePath"] = "/tmp/m"
	}
	spec["restartPolicy"] = pick(d, "Never", "OnFailure")
	return []any{sleep(d.second + 4)}
}

// resizes changes what a running container asks for.
func (d *drawer) resizes(spec object) []any {
	c := alone(spec)
	c["resources"] = object{"requests": object{"cpu": "50m", "memory": "32Mi"},
		"limits": object{"cpu": "100m", "memory": "64Mi"}}
	if d.chance(40) {
		c["resizePolicy"] = []any{object{"resourceName": pick(d, "cpu", "memory"), "restartPolicy": "RestartContainer"}}
	}
	out := []any{wait("running=c0", 30), sleep(3)}
	for range 1 + d.IntN(2) {
		want := pick(d,
			object{"requests": object{"cpu": "80m"}, "limits": object{"cpu": "200m"}},
			object{"requests": object{"cpu": "20m"}, "limits": object{"cpu": "50m"}},
			object{"requests": object{"memory": "48Mi"}, "limits": object{"memory": "96Mi"}},
			object{"requests": object{"memory": "16Mi"}, "limits": object{"memory": "48Mi"}},
			object{"requests": object{"cpu": "60"}, "limits": object{"cpu": "64"}})
		out = append(out, patch("resize", object{"spec": object{"containers": []any{object{"name": "c0",
			"resources": want}}}}), sleep(6))
	}
	return out
}

// deferred asks for more than another Pod leaves; the other one goes.
func (d *drawer) deferred(spec object) []any {
	c := alone(spec)
	what := pick(d, "cpu", "memory")
	c["resources"] = object{"requests": object{what: "20% of " + what}}
	other := object{"metadata": object{"name": "other"}, "spec": object{"terminationGracePeriodSeconds": 1,
		"containers": []any{object{"name": "c", "sh": runs, "resources": object{"requests": object{
			what: "50% of " + what}}}}}}
	more := pick(d, "40", "60", "60", "120") + "% of " + what
	return []any{wait("running=c0", 30), object{"pod": other},
		object{"wait": object{"pod": "other", "until": "ready", "timeout": 30}}, sleep(2),
		patch("resize", object{"spec": object{"containers": []any{object{"name": "c0",
			"resources": object{"requests": object{what: more}}}}}}),
		sleep(5), object{"delete": object{"name": "other"}},
		object{"wait": object{"pod": "other", "until": "gone", "timeout": 30}}, sleep(14)}
}

func (d *drawer) ephemeral(spec object) []any {
	alone(spec)
	e := object{"name": "e", "image": busyboxImage, "command": []any{"sh", "-c", pick(d, runs, "sleep 2; exit 3",
		"exit 0")}}
	switch d.IntN(4) {
	case 0:
		e["image"] = "registry.example/nope:1"
	case 1:
		e["command"] = []any{"/nope"}
	}
	if d.chance(50) {
		e["targetContainerName"] = "c0"
	}
	return []any{wait("running=c0", 30), sleep(2), patch("ephemeralcontainers", object{"spec": object{
		"ephemeralContainers": []any{e}}}), sleep(15)}
}

func (d *drawer) wrongHooks(spec object) []any {
	c := alone(spec)
	delete(c, "readinessProbe")
	hook := pick(d, object{"exec": object{"command": []any{"/nope"}}}, object{"httpGet": object{"port": 81}},
		object{"httpGet": object{"port": "nope"}}, object{"exec": object{"command": []any{"sh", "-c",
			"echo said; exit 5"}}}, object{"sleep": object{"seconds": 2}})
	c["lifecycle"] = object{pick(d, "preStop", "preStop", "postStart"): hook}
	return []any{sleep(6)}
}

// storage has a container write more than it may.
func (d *drawer) storage(spec object) []any {
	c := alone(spec)
	write := "head -c 4000000 /dev/zero >/%s/big; "
	switch d.IntN(3) {
	case 0:
		addVolume(spec, c, "v", object{"emptyDir": object{"sizeLimit": "1Mi"}}, nil)
		c["sh"] = fmt.Sprintf(write, "v") + runs
	case 1:
		c["resources"] = object{"limits": object{"ephemeral-storage": "1Mi"}}
		c["sh"] = fmt.Sprintf(write, "tmp") + runs
	default:
		c["resources"] = object{"limits": object{"ephemeral-storage": "1Mi"}}
		c["sh"] = fmt.Sprintf(write, "d") + "trap '' TERM; while true; do sleep 0.5; done"
	}
	return []any{wait("phase=Failed", 60), sleep(2)}
}

func (d *drawer) restartAll(spec object) []any {
	spec["restartPolicy"] = pick(d, "Never", "Always")
	delete(spec, "activeDeadlineSeconds")
	c := onlyRuns(spec)
	c["sh"] = "test -e /d/again && { " + runs + "; }; touch /d/again; " + d.later() + "; exit 88"
	c["restartPolicy"] = "Never"
	c["restartPolicyRules"] = []any{object{"action": "RestartAllContainers", "exitCodes": object{"operator": "In",
		"values": []any{88}}}}
	return []any{wait("restarts>=1", 60), sleep(8)}
}

// probedSidecar is a sidecar with probes of all kinds beside what else was drawn.
func (d *drawer) probedSidecar(spec object) []any {
	s := object{"name": "s", "restartPolicy": "Always", "sh": runs, "volumeMounts": mount()}
	s["readinessProbe"] = probe([]any{pick(d, "true", "true", "false")}, 2, 2)
	if d.chance(50) {
		s["livenessProbe"] = probe([]any{pick(d, "true", "false")}, 2, 2)
	}
	if d.chance(50) {
		s["sh"] = fmt.Sprintf("sleep %d; touch /tmp/up; %s", pick(d, 3, 4), runs)
		s["startupProbe"] = probe([]any{"cat", "/tmp/up"}, 1, 30)
	}
	inits, _ := spec["initContainers"].([]any)
	spec["initContainers"] = append(inits, any(s))
	return []any{wait("running=s", 30), sleep(12)}
}

func (d *drawer) deadline(spec object) []any {
	onlyRuns(spec)
	spec["activeDeadlineSeconds"] = d.second + 6
	return []any{sleep(d.second + 12)}
}

func (d *drawer) gates(spec object) []any {
	onlyRuns(spec)
	spec["readinessGates"] = []any{object{"conditionType": "example.com/a"}}
	out := []any{wait("running=c0", 30), sleep(4)}
	for _, status := range []string{"True", pick(d, "False", "Unknown")} {
		out = append(out, patch("status", object{"status": object{"conditions": []any{object{"type": "example.com/a",
			"status": status}}}}), sleep(4))
	}
	return out
}

// taints taints the node while the Pod runs.
func (d *drawer) taints(spec object) []any {
	onlyRuns(spec)
	if d.chance(70) {
		spec["tolerations"] = []any{object{"key": "example.com/t", "operator": "Exists", "effect": "NoExecute",
			"tolerationSeconds": pick(d, 0, 4, 600)}}
	}
	taint := func(taints any) any {
		return object{"patch": object{"kind": "Node", "name": anyNode, "type": "merge",
			"body": object{"spec": object{"taints": taints}}}}
	}
	return []any{wait("running=c0", 30), sleep(3), taint([]any{object{"key": "example.com/t", "effect": "NoExecute"}}),
		sleep(10), taint(nil), sleep(2)}
}

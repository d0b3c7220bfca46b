package pods

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// dig follows keys into decoded JSON; nil when something is missing.
func dig(v any, keys ...string) any {
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

// shapePod makes a history line of a Pod, without time and change.
func shapePod(pod map[string]any) map[string]any {
	meta, _ := pod["metadata"].(map[string]any)
	line := map[string]any{"pod": meta["name"], "generation": meta["generation"], "spec": shapeSpec(pod)}
	if meta["deletionTimestamp"] != nil {
		line["deletionTimestamp"] = "set"
		line["deletionGracePeriodSeconds"] = meta["deletionGracePeriodSeconds"]
	}
	if v := meta["finalizers"]; v != nil {
		line["finalizers"] = v
	}
	if v := meta["annotations"]; v != nil {
		line["annotations"] = v
	}
	if owners, _ := meta["ownerReferences"].([]any); len(owners) > 0 {
		var kinds []any
		for _, o := range owners {
			kind, _ := dig(o, "kind").(string)
			if dig(o, "controller") == true {
				kind += "!"
			}
			kinds = append(kinds, kind)
		}
		line["owner"] = kinds
	}
	line["status"] = shapeStatus(pod)
	return line
}

// shapeSpec keeps the part of a Pod's spec that can change.
func shapeSpec(pod map[string]any) map[string]any {
	spec, _ := pod["spec"].(map[string]any)
	out := map[string]any{}
	for _, k := range []string{"nodeName", "activeDeadlineSeconds", "schedulingGates"} {
		if spec[k] != nil {
			out[k] = spec[k]
		}
	}
	if p, _ := spec["priority"].(float64); p != 0 {
		out["priority"] = p
	}
	if p := spec["preemptionPolicy"]; p != nil && p != "PreemptLowerPriority" {
		out["preemptionPolicy"] = p
	}
	resources := map[string]any{}
	for _, sort := range []string{"initContainers", "containers"} {
		list, _ := spec[sort].([]any)
		for _, c := range list {
			name, _ := dig(c, "name").(string)
			if r, _ := dig(c, "resources").(map[string]any); len(r) > 0 {
				resources[name] = r
			}
		}
	}
	if len(resources) > 0 {
		out["resources"] = resources
	}
	if list, _ := spec["ephemeralContainers"].([]any); len(list) > 0 {
		var names []any
		for _, c := range list {
			names = append(names, dig(c, "name"))
		}
		out["ephemeralContainers"] = names
	}
	return out
}

// shapeStatus drops what the recordings drop.
func shapeStatus(pod map[string]any) map[string]any {
	status, _ := pod["status"].(map[string]any)
	out := clone(status)
	for one, list := range map[string]string{"hostIP": "hostIPs", "podIP": "podIPs"} {
		if ips, _ := out[list].([]any); len(ips) == 1 && dig(ips[0], "ip") == out[one] {
			delete(out, list)
		}
	}
	conditions, _ := out["conditions"].([]any)
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		if v, there := m["lastProbeTime"]; there && v == nil {
			delete(m, "lastProbeTime")
		}
		if m["observedGeneration"] == out["observedGeneration"] {
			delete(m, "observedGeneration")
		}
	}
	for _, c := range statuses(map[string]any{"status": out}) {
		mounts, _ := c["volumeMounts"].([]any)
		mounts = slices.DeleteFunc(mounts, func(m any) bool {
			name, _ := dig(m, "name").(string)
			return strings.HasPrefix(name, "kube-api-access-")
		})
		if c["volumeMounts"] = mounts; len(mounts) == 0 {
			delete(c, "volumeMounts")
		}
	}
	return out
}

// clone copies decoded JSON.
func clone(m map[string]any) map[string]any {
	raw, err := json.Marshal(m)
	out := map[string]any{}
	if err != nil || json.Unmarshal(raw, &out) != nil || out == nil {
		return map[string]any{}
	}
	return out
}

// shapeEvent makes a line of an Event, without time and change.
func shapeEvent(e map[string]any) map[string]any {
	line := map[string]any{"type": e["type"], "reason": e["reason"], "message": e["message"]}
	if line["message"] == nil {
		line["message"] = ""
	}
	kind, _ := dig(e, "involvedObject", "kind").(string)
	name, _ := dig(e, "involvedObject", "name").(string)
	line["object"] = kind + "/" + name
	line["source"] = dig(e, "source", "component")
	if line["source"] == nil || line["source"] == "" {
		line["source"] = e["reportingComponent"]
	}
	for to, v := range map[string]any{"fieldPath": dig(e, "involvedObject", "fieldPath"), "count": e["count"],
		"action": e["action"], "seriesCount": dig(e, "series", "count")} {
		if v != nil && v != "" && v != 0.0 {
			line[to] = v
		}
	}
	return line
}

// shapeObject makes a line of another object, without time and change.
func shapeObject(kind string, o map[string]any) map[string]any {
	name, _ := dig(o, "metadata", "name").(string)
	line := map[string]any{"object": kind + "/" + name, "generation": dig(o, "metadata", "generation")}
	if kind == "EndpointSlice" {
		return shapeSlice(line, o)
	}
	status, _ := o["status"].(map[string]any)
	line["status"] = clone(status)
	conditions, _ := dig(line["status"], "conditions").([]any)
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		if v, there := m["lastProbeTime"]; there && v == nil {
			delete(m, "lastProbeTime")
		}
	}
	if n := dig(o, "spec", "replicas"); n != nil {
		line["replicas"] = n
	}
	if dig(o, "metadata", "deletionTimestamp") != nil {
		line["deletionTimestamp"] = "set"
		line["finalizers"] = dig(o, "metadata", "finalizers")
	}
	return line
}

func shapeSlice(line, o map[string]any) map[string]any {
	endpoints := []any{}
	list, _ := o["endpoints"].([]any)
	for _, e := range list {
		m := map[string]any{}
		for to, v := range map[string]any{
			"addresses": dig(e, "addresses"), "conditions": dig(e, "conditions"), "nodeName": dig(e, "nodeName"),
			"target": dig(e, "targetRef", "name"),
		} {
			if v != nil {
				m[to] = v
			}
		}
		endpoints = append(endpoints, m)
	}
	line["endpoints"] = endpoints
	if ports, _ := o["ports"].([]any); len(ports) > 0 {
		line["ports"] = ports
	}
	return line
}

// dropVolatile removes what the recordings drop from a body.
func dropVolatile(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "managedFields")
		delete(v, "resourceVersion")
		for x := range maps.Values(v) {
			dropVolatile(x)
		}
	case []any:
		for _, x := range v {
			dropVolatile(x)
		}
	}
}

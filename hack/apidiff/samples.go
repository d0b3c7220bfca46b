package main

import (
	"reflect"
	"strings"
)

// samples are further values by field name: what the field is checked for, beside its type.
var samples = map[string][]any{
	"accessModes": {[]any{"ReadOnlyMany"}, []any{"ReadWriteOncePod", "ReadWriteOnce"}, []any{"ReadWriteOncePod"}},
	"action":      {"FailJob", "Ignore", "Count", "FailIndex"},
	"addressType": {"IPv6", "FQDN"},
	"addresses":   {[]any{"1.2.3"}, []any{"fd00::1"}, []any{"127.0.0.1"}, []any{"a.b"}},
	"allocatedResourceStatuses": {map[string]any{"storage": "x"}, map[string]any{"a.b/c": "NodeResizePending"},
		map[string]any{"cpu": "NodeResizePending"}},
	"cidr":             {"10.0.0.1/8", "10.0.0.0/33", "fd00::/8", "010.0.0.0/8"},
	"cidrs":            {[]any{"10.0.0.1/8"}, []any{"10.9.0.0/16", "fd00::/108"}, []any{"10.9.0.0/16", "10.8.0.0/16"}},
	"clusterIP":        {"None", "10.96.1.1", "10.97.0.1", "fd00::1"},
	"clusterIPs":       {[]any{"None"}, []any{"10.96.1.1"}, []any{"None", "10.96.1.1"}, []any{"10.96.1.1", "fd00::1"}},
	"completedIndexes": {"0", "0-2", "2,1", "0,0", "7", "0-1-2", "x", "1-1", "0,x"},
	"conditionType":    {"a.b/c", "A B", "Ready"},
	"continue":         {"x"},
	"divisor":          {"1m", "10m", "1", "1k", "1Ki", "1Mi", "1Gi", "1Ti", "2"},
	"effect":           {"NoExecute", "PreferNoSchedule", "NoSchedule", "None"},
	"except":           {[]any{"10.1.0.0/16"}, []any{"11.0.0.0/8"}, []any{"10.0.0.0/8"}, []any{"x"}},
	"externalIPs": {[]any{"1.2.3.4"}, []any{"127.0.0.1"}, []any{"0.0.0.0"}, []any{"169.254.1.1"},
		[]any{"224.0.0.1"}},
	"failedIndexes": {"0", "0-2", "2,1", "7", "x", "1"},
	"fieldPath": {"metadata.labels", "metadata.annotations", "metadata.labels['a']", "metadata.annotations['A B']",
		"metadata.labels['']", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.podIP",
		"status.podIPs",
		"status.hostIPs", "metadata.uid", "metadata.namespace", "spec.hostname", "metadata.name['a']"},
	"finalizers": {[]any{"kubernetes"}, []any{"a.b/c"}, []any{"foregroundDeletion", "orphan"}, []any{"x y"}},
	"hard": {map[string]any{"pods": "0.5"}, map[string]any{"cpu": "-1"}, map[string]any{"count/pods": "1"},
		map[string]any{"x": "1"}, map[string]any{"requests.a.b/c": "1"},
		map[string]any{"a.storageclass.storage.k8s.io/requests.storage": "1"}},
	"host": {"a.b", "*.a.b", "*", "1.2.3.4", "a.*.b", "A.b"},
	"ip": {"1.2.3", "127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1", "224.0.1.1", "::1", "fd00::1", "010.1.2.3",
		"::ffff:1.2.3.4"},
	"ipFamilies":       {[]any{"IPv6"}, []any{"IPv4", "IPv6"}, []any{"IPv4", "IPv4"}, []any{"IPv4"}},
	"image":            {" a", "a ", "a b"},
	"localhostProfile": {"a/b", "../a", "/a", "a/../b"},
	"maxSurge":         {"0%", "100%", "200%", 0, 10},
	"maxUnavailable":   {"0%", "100%", "200%", 0, 10},
	"minDomains":       {0, 1, 2, -1},
	"mountPath":        {"/a:b", "a", "/x/../y", "/e"},
	"mountPropagation": {"Bidirectional", "HostToContainer", "None"},
	"name":             {"kernel.msgmax", "net.ipv4.ip_local_port_range", "a..b", "1", "A", "C_IDENTIFIER", "a b"},
	"nodePort":         {30000, 32767, 32768, 29999, 30005},
	"nonResourceURLs":  {[]any{"*"}, []any{"/a*b"}, []any{"/a/*"}, []any{"a"}, []any{"*", "/a"}},
	"onPodConditions":  {[]any{map[string]any{"type": "A", "status": "Unknown"}}},
	"operations":       {[]any{"*"}, []any{"*", "CREATE"}, []any{"CREATE", "CONNECT", "DELETE", "UPDATE"}, []any{"x"}},
	"operator":         {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal"},
	"path":             {"a/../b", "..a", "..", "/a:b", "a:b", "/a//b", "/./a", "/a%2fb", "/"},
	"policyTypes":      {[]any{"Ingress"}, []any{"Egress"}, []any{"Ingress", "Egress", "Ingress"}, []any{"x"}},
	"protocol":         {"UDP", "SCTP", "TCP", "tcp"},
	"reason":           {"A b", "A", "Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge"},
	"resource": {"requests.cpu", "limits.memory", "requests.ephemeral-storage", "requests.hugepages-2Mi",
		"requests.memory", "limits.ephemeral-storage", "requests.x"},
	"resources": {[]any{"*"}, []any{"*/*"}, []any{"*", "pods"}, []any{"pods/*", "pods/status"}, []any{"*/scale",
		"*/*"}},
	"schedule": {"TZ=UTC * * * * *", "CRON_TZ=UTC 0 * * * *", "TZ=UTC", "* * * *", "@hourly", "60 * * * *",
		"@every 1h"},
	"scopeName": {"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity",
		"VolumeAttributesClass"},
	"scopes": {[]any{"BestEffort"}, []any{"Terminating", "NotTerminating"}, []any{"BestEffort",
		"NotBestEffort"}, []any{"x"}},
	"serverName":  {"a"},
	"sideEffects": {"Some", "Unknown", "None", "NoneOnDryRun"},
	"signerName": {"a.b/c", "kubernetes.io/kube-apiserver-client", "kubernetes.io/kubelet-serving", "A/b", "a.b",
		"a.b/c/d"},
	"status":      {"True", "False", "Unknown", "x"},
	"storage":     {"-1", "0", "0.5"},
	"subPath":     {"a/../b", "/a", ".."},
	"subPathExpr": {"$(A)", "a/../b"},
	"succeededIndexes": {"0", "0-2", "2,1", "0,0", "7", "0-1-2", "x", "1-1", strings.Repeat("0", 64*1024),
		strings.Repeat("0", 64*1024+1)},
	"sysctls": {[]any{map[string]any{"name": "a.b", "value": "1"}, map[string]any{"name": "a.b", "value": "1"}}},
	"timeZone": {"UTC", "Local", "local", "../x", "Etc/UTC", "No/Such", "a/abcdefghijklmn", "a/abcdefghijklmno",
		"a/-b"},
	"type": {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended", "Approved", "Denied",
		"Directory",
		"File", "Socket", "CharDevice", "BlockDevice", "DirectoryOrCreate", "FileOrCreate", "A b"},
	"url":  {"http://a.b/c", "https://u:p@a.b/c", "https://a.b/c?d", "https://a.b/c#d", "https:///c", "://"},
	"urls": {[]any{"https://a"}},
	"usages": {[]any{"digital signature", "key encipherment", "server auth"}, []any{"x"}, []any{},
		[]any{"client auth", "client auth"}},
	"values": {[]any{2, 1}, []any{0, 1}, []any{1, 1}, []any{"1"}, []any{"a", "b"}, []any{"-1"}, []any{"A b"},
		[]any{}},
	"verbs":      {[]any{"*"}, []any{"get", "*"}, []any{"x"}, []any{"GET"}},
	"volumeMode": {"Block", "Filesystem"},
}

// sampled returns changes of the paths of some changes to the samples of their fields.
func sampled(all []change) []change {
	var out []change
	for i := range all {
		if i > 0 && reflect.DeepEqual(all[i].path, all[i-1].path) {
			continue
		}
		name, _ := all[i].path[len(all[i].path)-1].(string)
		for _, v := range samples[name] {
			out = append(out, change{all[i].path, v, all[i].make})
		}
	}
	return out
}

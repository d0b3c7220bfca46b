package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// flagTable are the kubelet's flags that stand for a field, as "flag field" under upstream's names.
// Most are deprecated upstream in favour of the file; they win over it.
const flagTable = `
address address; port port; read-only-port readOnlyPort; tls-cert-file tlsCertFile
tls-private-key-file tlsPrivateKeyFile; tls-cipher-suites tlsCipherSuites; tls-min-version tlsMinVersion
rotate-certificates rotateCertificates; rotate-server-certificates serverTLSBootstrap
client-ca-file authentication.x509.clientCAFile; anonymous-auth authentication.anonymous.enabled
authorization-mode authorization.mode; authentication-token-webhook authentication.webhook.enabled
authentication-token-webhook-cache-ttl authentication.webhook.cacheTTL
authorization-webhook-cache-authorized-ttl authorization.webhook.cacheAuthorizedTTL
authorization-webhook-cache-unauthorized-ttl authorization.webhook.cacheUnauthorizedTTL
pod-manifest-path staticPodPath; manifest-url staticPodURL; file-check-frequency fileCheckFrequency
http-check-frequency httpCheckFrequency; sync-frequency syncFrequency; registry-qps registryPullQPS
registry-burst registryBurst; serialize-image-pulls serializeImagePulls; event-qps eventRecordQPS
event-burst eventBurst; enable-server enableServer; enable-debugging-handlers enableDebuggingHandlers
healthz-port healthzPort; healthz-bind-address healthzBindAddress; oom-score-adj oomScoreAdj
cluster-domain clusterDomain; cluster-dns clusterDNS; resolv-conf resolvConf
node-status-update-frequency nodeStatusUpdateFrequency; node-status-max-images nodeStatusMaxImages
minimum-image-ttl-duration imageMinimumGCAge; image-gc-high-threshold imageGCHighThresholdPercent
image-gc-low-threshold imageGCLowThresholdPercent; volume-stats-agg-period volumeStatsAggPeriod
kubelet-cgroups kubeletCgroups; system-cgroups systemCgroups; cgroup-root cgroupRoot; cgroups-per-qos cgroupsPerQOS
cgroup-driver cgroupDriver; cpu-manager-policy cpuManagerPolicy; cpu-manager-policy-options cpuManagerPolicyOptions
cpu-manager-reconcile-period cpuManagerReconcilePeriod; memory-manager-policy memoryManagerPolicy
topology-manager-policy topologyManagerPolicy; topology-manager-scope topologyManagerScope; qos-reserved qosReserved
topology-manager-policy-options topologyManagerPolicyOptions; reserved-memory reservedMemory; runonce runOnce
manifest-url-header staticPodURLHeader; streaming-connection-idle-timeout streamingConnectionIdleTimeout
contention-profiling enableContentionProfiling; fail-cgroupv1 failCgroupV1
runtime-request-timeout runtimeRequestTimeout; hairpin-mode hairpinMode; max-pods maxPods; pods-per-core podsPerCore
pod-cidr podCIDR; pod-max-pids podPidsLimit; cpu-cfs-quota cpuCFSQuota; cpu-cfs-quota-period cpuCFSQuotaPeriod
max-open-files maxOpenFiles; kube-api-content-type contentType; kube-api-qps kubeAPIQPS; kube-api-burst kubeAPIBurst
eviction-hard evictionHard; eviction-soft evictionSoft; eviction-soft-grace-period evictionSoftGracePeriod
eviction-minimum-reclaim evictionMinimumReclaim; eviction-max-pod-grace-period evictionMaxPodGracePeriod
eviction-pressure-transition-period evictionPressureTransitionPeriod
enable-controller-attach-detach enableControllerAttachDetach; protect-kernel-defaults protectKernelDefaults
make-iptables-util-chains makeIPTablesUtilChains; feature-gates featureGates; fail-swap-on failSwapOn
container-log-max-size containerLogMaxSize; container-log-max-files containerLogMaxFiles
system-reserved systemReserved; kube-reserved kubeReserved; reserved-cpus reservedSystemCPUs
system-reserved-cgroup systemReservedCgroup; kube-reserved-cgroup kubeReservedCgroup
enforce-node-allocatable enforceNodeAllocatable; allowed-unsafe-sysctls allowedUnsafeSysctls
volume-plugin-dir volumePluginDir; provider-id providerID; kernel-memcg-notification kernelMemcgNotification
local-storage-capacity-isolation localStorageCapacityIsolation; seccomp-default seccompDefault
register-node registerNode; container-runtime-endpoint containerRuntimeEndpoint
image-service-endpoint imageServiceEndpoint
`

// Flags are the flags of one command line that stand for fields.
type Flags struct {
	given map[string]any // by path of the field; what the command line named
}

// Register adds a flag for every field that has one upstream, except those the command has already.
func (f *Flags) Register(to *pflag.FlagSet) {
	f.given = map[string]any{}
	paths := leafFields()
	for _, pair := range strings.FieldsFunc(flagTable, func(r rune) bool { return r == ';' || r == '\n' }) {
		name, path, _ := strings.Cut(strings.TrimSpace(pair), " ")
		if to.Lookup(name) != nil {
			continue
		}
		v := &flagValue{to: f, path: path, kind: paths[path]}
		flag := to.VarPF(v, name, "", "KubeletConfiguration "+path)
		if v.IsBoolFlag() {
			flag.NoOptDefVal = "true"
		}
	}
}

// Given tells whether the command line named the field.
func (f *Flags) Given(path string) bool {
	if f == nil {
		return false
	}
	_, ok := f.given[path]
	return ok
}

// applyTo puts the flags over a configuration; gates and other maps are joined key by key, as
// upstream joins --feature-gates.
func (f *Flags) applyTo(onto []byte) ([]byte, error) {
	if f == nil || len(f.given) == 0 {
		return onto, nil
	}
	patch := map[string]any{}
	for path, v := range f.given {
		at := patch
		parts := strings.Split(path, ".")
		for _, p := range parts[:len(parts)-1] {
			next, ok := at[p].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[p] = next
			}
			at = next
		}
		at[parts[len(parts)-1]] = v
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("flags: %w", err)
	}
	return jsonpatch.MergePatch(onto, raw)
}

// flagValue is one flag; what it holds goes into Flags at once.
type flagValue struct {
	to   *Flags
	path string
	kind reflect.Type
	text string
}

// String is what was given.
func (v *flagValue) String() string { return v.text }

// Type names the kind of value in the help.
func (v *flagValue) Type() string {
	if v.kind == nil {
		return "string"
	}
	switch {
	case v.kind == reflect.TypeFor[metav1.Duration]():
		return "duration"
	case v.path == "reservedMemory":
		return "reserved-memory"
	case v.path == "staticPodURLHeader":
		return "colonSeparatedMultimapStringString"
	case v.kind.Kind() == reflect.Map:
		return "mapStringString"
	case v.kind.Kind() == reflect.Slice:
		return "strings"
	}
	return v.kind.Kind().String()
}

// IsBoolFlag lets the flag stand without a value.
func (v *flagValue) IsBoolFlag() bool { return v.kind != nil && v.kind.Kind() == reflect.Bool }

// Set reads one value.
func (v *flagValue) Set(text string) error {
	v.text = text
	switch v.path {
	case "reservedMemory":
		return v.addReservations(text)
	case "staticPodURLHeader":
		return v.addHeaders(text)
	}
	switch v.kind.Kind() {
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return err
		}
		v.to.given[v.path] = b
	case reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		v.to.given[v.path] = n
	case reflect.Slice:
		v.to.given[v.path] = strings.Split(text, ",")
	case reflect.Map:
		return v.setMap(text)
	default:
		v.to.given[v.path] = text
	}
	return nil
}

// setMap reads key=value,…, and signal<value,… for thresholds.
func (v *flagValue) setMap(text string) error {
	m, ok := v.to.given[v.path].(map[string]any)
	if !ok {
		m = map[string]any{}
		v.to.given[v.path] = m
	}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		sep := "="
		if v.path == "evictionHard" || v.path == "evictionSoft" {
			sep = "<"
		}
		key, value, ok := strings.Cut(part, sep)
		if !ok {
			return fmt.Errorf("%q: want key%svalue", part, sep)
		}
		if v.kind.Elem().Kind() == reflect.Bool {
			b, err := strconv.ParseBool(value)
			if err != nil {
				return fmt.Errorf("invalid value of %s=%s, err: %w", key, value, err)
			}
			m[strings.TrimSpace(key)] = b
			continue
		}
		m[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return nil
}

// addReservations reads NODE:TYPE=QUANTITY,… of NUMA nodes, several after semicolons or by a flag
// each.
func (v *flagValue) addReservations(text string) error {
	list, _ := v.to.given[v.path].([]any)
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' }) {
		node, types, ok := strings.Cut(part, ":")
		if !ok || strings.Contains(types, ":") {
			return fmt.Errorf("the reserved memory has incorrect format, expected "+
				"numaNodeID:type=quantity[,type=quantity...], got %s", part)
		}
		id, err := strconv.ParseInt(node, 10, 32)
		if err != nil {
			return fmt.Errorf("failed to convert the NUMA node ID, expected integer, got %s", node)
		}
		limits := map[string]any{}
		for _, limit := range strings.Split(types, ",") {
			name, amount, ok := strings.Cut(limit, "=")
			if !ok || strings.Contains(amount, "=") {
				return fmt.Errorf("the reserved limit has incorrect value, expected type=quantity, got %s", limit)
			}
			if name != string(v1.ResourceMemory) && !strings.HasPrefix(name, v1.ResourceHugePagesPrefix) {
				return fmt.Errorf("memory type conversion error, unknown type: %q", name)
			}
			if _, err := resource.ParseQuantity(amount); err != nil {
				return fmt.Errorf("failed to parse the quantity: %s", amount)
			}
			limits[name] = amount
		}
		list = append(list, map[string]any{"numaNode": id, "limits": limits})
	}
	v.to.given[v.path] = list
	return nil
}

// addHeaders reads NAME:VALUE,…; a name may come more than once, and the flag too.
func (v *flagValue) addHeaders(text string) error {
	m, ok := v.to.given[v.path].(map[string]any)
	if !ok {
		m = map[string]any{}
		v.to.given[v.path] = m
	}
	for _, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		name, value, ok := strings.Cut(pair, ":")
		if !ok {
			return fmt.Errorf("malformed pair, expect string:string")
		}
		values, _ := m[strings.TrimSpace(name)].([]any)
		m[strings.TrimSpace(name)] = append(values, strings.TrimSpace(value))
	}
	return nil
}

// leafFields are the types of all fields by JSON path, pointers taken off; structs of the
// configuration's own package are entered.
func leafFields() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				continue // the kind
			}
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct && ft.PkgPath() == t.PkgPath() {
				walk(ft, prefix+name+".")
				continue
			}
			out[prefix+name] = ft
		}
	}
	walk(reflect.TypeFor[kubelet.KubeletConfiguration](), "")
	return out
}

package breaker

import (
	"context"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/testcluster"
)

// heldOutReferences name what is missing, elsewhere, of another kind, type or class.
var heldOutReferences = []situation{
	{name: "env: resources of a container that is not there", ask: "pod/$C",
		manifest: single("$C", `{containers: [{name: $B, image: app, resources: {limits: {cpu: 500m}}, env: [`+
			`{name: X, valueFrom: {resourceFieldRef: {containerName: <<$b||$B>>, resource: limits.cpu}}}]}]}`),
		truth: []truth{{kinds: "Pod", field: "resourceFieldRef", value: "$b", want: "$B"}}},
	{name: "subPathExpr of a variable that is not set", ask: "pod/$C",
		manifest: single("$C", `{containers: [{name: app, image: app, env: [{name: POD_NAME, value: $A}], `+
			`volumeMounts: [{name: v, mountPath: /data, subPathExpr: $(<<POD_NAM||POD_NAME>>)}]}], `+
			`volumes: [{name: v, emptyDir: {}}]}`),
		truth: []truth{{kinds: "Pod", field: "subPathExpr", value: "POD_NAM", want: "POD_NAME"}}},
	{name: "subPath of a key with one letter wrong", ask: "pod/$C",
		manifest: configMap("$A", "$K: x") + single("$C", `{containers: [`+shell("app",
			"if [ ! -f /etc/app.conf ]; then echo 'open /etc/app.conf: not a file' >&2; exit 3; fi; run",
			`volumeMounts: [{name: v, mountPath: /etc/app.conf, subPath: <<$L||$K>>}]`)+
			`], volumes: [{name: v, configMap: {name: $A}}]}`),
		truth: []truth{{kinds: "Pod", field: "subPath", value: "$L", want: "$K"}}},
	{name: "trust bundle missing", ask: "pod/$C",
		manifest: `{apiVersion: certificates.k8s.io/v1, kind: ClusterTrustBundle, metadata: {name: "$NS-$A"}, ` +
			"spec: {trustBundle: $PEM}}\n---\n" + single("$C", `{containers: [`+mounted+`], volumes: [{name: v, `+
			`projected: {sources: [{clusterTrustBundle: {name: "$NS-<<$a||$A>>", path: ca.pem}}]}}]}`),
		truth: []truth{{kinds: "Pod", field: "clusterTrustBundle", value: "$a", want: "$A"}}},
	{name: "CSI driver that the node has not", ask: "pod/$C",
		manifest: single("$C", `{containers: [`+mounted+`], volumes: [{name: v, <<csi: {driver: $A.example.com}||`+
			`emptyDir: {}>>}]}`),
		truth: []truth{{kinds: "Pod CSIDriver CSINode Node", field: "csi|driver", value: "$A.example.com",
			want: "driver"}}},
	{name: "template of a device claim missing", ask: "pod/$C",
		manifest: single("$C", `{<<resourceClaims: [{name: d, resourceClaimTemplateName: $A}], ||>>containers: [`+
			app+`]}`),
		truth: []truth{{kinds: "Pod", field: "resourceClaimTemplateName", value: "$A",
			want: "create|resourceclaimtemplate"}}},
	{name: "device class with one letter wrong", ask: "pod/$C",
		manifest: object("resource.k8s.io/v1", "DeviceClass", "$NS-$A", "spec: {}") + slice("m1") +
			object("resource.k8s.io/v1", "ResourceClaim", "$B", `spec: {devices: {requests: [{name: r, exactly: `+
				`{deviceClassName: "$NS-<<$a||$A>>"}}]}}`) +
			single("$C", `{resourceClaims: [{name: d, resourceClaimName: $B}], containers: [`+app+`]}`),
		truth:  []truth{{kinds: "ResourceClaim", field: "deviceClassName", value: "$a", want: "$A"}},
		unseen: true}, // no driver prepares the device, so the Pod does not run either way
	{name: "device of an attribute that none has", ask: "pod/$C",
		manifest: object("resource.k8s.io/v1", "DeviceClass", "$NS-$A", "spec: {}") + slice("m1") +
			object("resource.k8s.io/v1", "ResourceClaim", "$B", `spec: {devices: {requests: [{name: r, exactly: `+
				`{deviceClassName: "$NS-$A", selectors: [{cel: {expression: `+
				`"device.driver == '$NS.example.com' && device.attributes['$NS.example.com'].model == `+
				`'<<m2||m1>>'"}}]}}]}}`) +
			single("$C", `{resourceClaims: [{name: d, resourceClaimName: $B}], containers: [`+app+`]}`),
		truth:  []truth{{kinds: "ResourceClaim", field: "selectors", value: "m2", want: "m1|selector"}},
		unseen: true},
	{name: "Ingress of a class that is not there", ask: "ingress/$C", unseen: true,
		manifest: workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + object("networking.k8s.io/v1",
			"IngressClass", "$NS-$B", "spec: {controller: example.com/$B}") + object("networking.k8s.io/v1",
			"Ingress",
			"$C", `spec: {ingressClassName: "$NS-<<$b||$B>>", rules: [{http: {paths: [{path: /, pathType: Prefix, `+
				`backend: {service: {name: $A, port: {number: 80}}}}]}}]}`),
		truth: []truth{{kinds: "Ingress", field: "ingressClassName", value: "$b", want: "$B"}}},
	{name: "Ingress: Secret of its certificate missing", ask: "ingress/$C", unseen: true,
		manifest: workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + tlsSecret("$B", "$CRT") +
			tlsIngress("$C", "$A", "<<$b||$B>>"),
		truth: []truth{{kinds: "Ingress", field: "tls", value: "$b", want: "$B"}}},
	{name: "Ingress: certificate expired", ask: "ingress/$C", unseen: true,
		manifest: workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + tlsSecret("$B", "<<$OLD||$CRT>>") +
			tlsIngress("$C", "$A", "$B"),
		truth: []truth{{kinds: "Secret Ingress", field: "tls", want: "create secret|renew|tls.crt"}}},
	{name: "Ingress: Secret of another type", ask: "ingress/$C", unseen: true,
		manifest: workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
			`<<{apiVersion: v1, kind: Secret, metadata: {name: "$B"}, stringData: {cert.pem: x, key.pem: "y"}}||` +
			`{apiVersion: v1, kind: Secret, metadata: {name: "$B"}, type: kubernetes.io/tls, data: ` +
			"{tls.crt: $CRT, tls.key: $KEY}}>>\n---\n" + tlsIngress("$C", "$A", "$B"),
		truth: []truth{{kinds: "Secret Ingress", field: "tls|type|data", numbers: []string{"tls.crt"},
			want: "tls.crt|create secret tls"}}},
	{name: "role: resource in the singular", ask: "rolebinding/$C", unseen: true,
		manifest: object("v1", "ServiceAccount", "$B", "") + roleOf("$A", `[""]`, "[<<pod||pods>>]") +
			bindingOf("$C", "$A", "$B", "$NS"),
		truth: []truth{{kinds: "Role", field: "resources", value: "pod", want: "pods"}}},
	{name: "role: resource of another group", ask: "rolebinding/$C", unseen: true,
		manifest: object("v1", "ServiceAccount", "$B", "") + roleOf("$A", `["<<||apps>>"]`, "[deployments]") +
			bindingOf("$C", "$A", "$B", "$NS"),
		truth: []truth{{kinds: "Role", field: "apiGroups|resources", want: "apps"}}},
	{name: "role binding: account of another namespace", ask: "rolebinding/$C", unseen: true,
		manifest: object("v1", "ServiceAccount", "$B", "") + roleOf("$A", `[""]`, "[pods]") +
			bindingOf("$C", "$A", "$B", "<<kube-public||$NS>>"),
		truth: []truth{{kinds: "RoleBinding", field: "subjects", value: "kube-public", want: "$NS"}}},
	{name: "program without its token", ask: "pod/$C",
		manifest: single("$C", `{automountServiceAccountToken: <<false||true>>, containers: [`+shell("app",
			"cat /var/run/secrets/kubernetes.io/serviceaccount/token >/dev/null || exit 3; run", "")+`]}`),
		truth: []truth{{kinds: "Pod ServiceAccount", field: "automountServiceAccountToken", value: "false",
			want: "automountServiceAccountToken|true"}}},
	{name: "pull secret of another type", ask: "pod/$C", nodes: []string{"node-1"},
		before: []step{registry("app:1")},
		manifest: `<<{apiVersion: v1, kind: Secret, metadata: {name: "$A"}, stringData: ` +
			`{.dockerconfigjson: '{"auths":{"docker.io":{"username":"me","password":"secret"}}}'}}||` +
			`{apiVersion: v1, kind: Secret, metadata: {name: "$A"}, type: kubernetes.io/dockerconfigjson, ` +
			`stringData: ` +
			`{.dockerconfigjson: '{"auths":{"docker.io":{"username":"me","password":"secret"}}}'}}>>` + "\n---\n" +
			single("$C", `{imagePullSecrets: [{name: $A}], containers: [{name: app, image: "private:1"}]}`),
		truth: []truth{{kinds: "Secret Pod", field: "type|imagePullSecrets", value: "Opaque|$A",
			want: "kubernetes.io/dockerconfigjson|docker-registry"}}},
	{name: "pull secret for another registry", ask: "pod/$C", nodes: []string{"node-1"},
		before: []step{registry("app:1")},
		manifest: `{apiVersion: v1, kind: Secret, metadata: {name: "$A"}, type: kubernetes.io/dockerconfigjson, ` +
			`stringData: {.dockerconfigjson: '{"auths":{"<<registry.example.com||docker.io>>":{"username":"me",` +
			`"password":"secret"}}}'}}` + "\n---\n" +
			single("$C", `{imagePullSecrets: [{name: $A}], containers: [{name: app, image: "private:1"}]}`),
		truth: []truth{{kinds: "Secret Pod", field: "dockerconfigjson|imagePullSecrets|data",
			numbers: []string{"registry.example.com"}, want: "docker.io|docker-registry"}}},
	{name: "image tag with one letter wrong", ask: "pod/$C", nodes: []string{"node-1"},
		before: []step{func(ctx context.Context, s scene) error {
			return registry(s.text("app:1.2$N"))(ctx, s)
		}},
		manifest: single("$C", `{containers: [{name: app, image: "app:1.2<<x||$N>>"}]}`),
		truth:    []truth{{kinds: "Pod", field: "image", value: "app:1.2x", want: "image"}}},
	{name: "image name that cannot be one", ask: "deployment/$C",
		manifest: workload("$C", `{containers: [{name: app, image: "<<App||app>>:1"}]}`),
		truth:    []truth{{kinds: podOrOwner, field: "image", value: "App:1", want: "app:1|image"}}},
	{name: "image that is never pulled", ask: "pod/$C",
		manifest: single("$C", `{containers: [{name: app, image: "$A-$NS:1", imagePullPolicy: `+
			`<<Never||IfNotPresent>>}]}`),
		truth: []truth{{kinds: "Pod", field: "imagePullPolicy|image", value: "Never|$A-$NS:1",
			numbers: []string{"Never"}, want: "IfNotPresent|imagePullPolicy"}}},
}

// slice are two devices of node-1, of one model.
func slice(model string) string {
	return object("resource.k8s.io/v1", "ResourceSlice", "$NS", `spec: {driver: $NS.example.com, nodeName: `+
		`node-1, pool: `+
		`{name: node-1, generation: 1, resourceSliceCount: 1}, devices: [{name: d0, attributes: {model: {string: `+
		model+`}}}, {name: d1, attributes: {model: {string: `+model+`}}}]}`)
}

func tlsSecret(name, certificate string) string {
	return object("v1", "Secret", name, `type: kubernetes.io/tls, data: {tls.crt: `+certificate+`, tls.key: $KEY}`)
}

func tlsIngress(name, service, secret string) string {
	return object("networking.k8s.io/v1", "Ingress", name, `spec: {tls: [{hosts: [example.com], secretName: `+secret+
		`}], rules: [{host: example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: `+
		service+
		`, port: {number: 80}}}}]}}]}`)
}

func roleOf(name, groups, resources string) string {
	return object("rbac.authorization.k8s.io/v1", "Role", name, `rules: [{apiGroups: `+groups+`, resources: `+
		resources+
		`, verbs: [get, list, watch]}]`)
}

func bindingOf(name, role, account, namespace string) string {
	return object("rbac.authorization.k8s.io/v1", "RoleBinding", name, `roleRef: {apiGroup: `+
		`rbac.authorization.k8s.io, `+
		`kind: Role, name: `+role+`}, subjects: [{kind: ServiceAccount, name: `+account+`, namespace: `+
		namespace+`}]`)
}

// registry has the node pull this image, and private:1 for the user me with the password secret.
func registry(image string) step {
	return always(func(c *testcluster.Cluster) {
		c.Runtime("node-1").SetRegistry([]crifake.Image{{Names: []string{image}},
			{Names: []string{"private:1"}, Auth: "me:secret"}})
	})
}

package finding

import (
	"strings"
	"testing"
)

// deploymentOf is a Deployment d with a container's fields.
func deploymentOf(container string) string {
	return shopDeployment + `{template: {metadata: {labels: {app: d}}, spec: {containers: [{name: a, ` +
		`` + container + `}]}}}}`
}

const (
	shopNames = "\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n{apiVersion: v1, kind: " +
		"Namespace, metadata: {name: lab}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: " +
		"store}}\n---\n{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: " +
		"None, selector: {app: db}}}\n---\n{apiVersion: v1, kind: Service, metadata: {name: cache, namespace: " +
		"store}}\n---\n{apiVersion: v1, kind: Service, metadata: {name: db-api, namespace: shop}, spec: {selector: " +
		"{app: db}}}\n---\n{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: pg, namespace: shop}, spec: " +
		"{serviceName: db, replicas: 2, selector: {matchLabels: {app: db}}}}"
	envValue = "spec.template.spec.containers[0].env[0].value"
)

// A host of the cluster's that is not there is named with what was probably meant; names that may
// be outside are left alone.
func TestHostsThatNobodyKnowsAreNamed(t *testing.T) {
	url := func(host string) string {
		return "read: Pod\n" + deploymentOf(`env: [{name: URL, value: "http://`+host+`:80/"}]`) + shopNames
	}
	var rows []struct{ cluster, of, want string }
	for host, want := range map[string]string{
		"cache.shop.svc":           "cache.shop.svc", // it is in the other namespace
		"cache":                    "cache",
		"dbb":                      "dbb",
		"cache.stroe.svc":          "cache.stroe.svc",
		"db.shop.svc.cluster.loca": "db.shop.svc.cluster.loca",
		"pg-2.db":                  "pg-2.db",
		"pg-0.db-api.shop.svc":     "pg-0.db-api.shop.svc",
		"pg-1.db":                  "", "pg-0.db.shop.svc.cluster.local": "", "db": "", "cache.store": "",
		"db.example.com":              "",
		"db.shop.svc.cluster.example": "", "nothing-like-it": "", "10.1.2.3": "", "localhost": "", "x.y.z": "",
		"other.db":             "",
		"nothing-like-it.shop": "", // shop is a namespace, and a domain of the public DNS
		"cache.shop":           "cache.shop", "dbb.shop": "dbb.shop", "nothing-like-it.lab": "nothing-like-it.lab",
	} {
		row := struct{ cluster, of, want string }{url(host), "Deployment shop d", "no HostUnknown"}
		if want != "" {
			row.want = "HostUnknown " + envValue + " " + want
		}
		rows = append(rows, row)
	}
	rows = append(rows, []struct{ cluster, of, want string }{
		{strings.Replace(url("dbb"), "spec: {containers", `spec: {hostAliases: [{ip: 1.2.3.4, hostnames: [dbb]}], `+
			`containers`,
			1), "Deployment shop d", "no HostUnknown"},
		{strings.Replace(url("dbb"), "spec: {containers", `spec: {dnsPolicy: Default, containers`, 1),
			"Deployment shop d",
			"no HostUnknown"},
	}...)
	expectFindings(t, rows)
	for host, want := range map[string]string{"pg-2.db": "pg-1.db", "dbb": "http://db:80/", "cache": "cache.store",
		"cache.shop.svc": "cache.store.svc", "pg-0.db-api.shop.svc": "pg-0.db.shop.svc"} {
		for _, f := range Of(clusterOf(t, url(host)), Object{"Deployment", "shop", "d"}) {
			if f.Code != "HostUnknown" {
				continue
			}
			if len(f.Remedies) == 0 || !strings.Contains(strings.Join(f.Remedies[0].Run, ""), want) {
				t.Errorf("%s: got %+v, want %s in the first command", host, f.Remedies, want)
			}
		}
	}
	c := clusterOf(t, url("cache"))
	if got := c.MissingServices(Object{"Deployment", "shop", "d"}); len(got) != 1 || got[0] != (Object{"Service",
		"shop",
		"cache"}) {
		t.Errorf("got %v missing, want Service cache", got)
	}
}

// A variable that is defined twice, an option in the program's place, and too large a directory are
// named; what adds to itself, stands behind a program, or has room is not.
func TestCommandLinesAndVariablesAreNamed(t *testing.T) {
	const twice = "VariableTwice spec.template.spec.containers[0].env[0].name X"
	disk := func(limit string) string {
		return shopDeployment + `{template: {spec: {containers: [{name: a, resources: {limits: {ephemeral-storage: ` +
			`` + limit +
			`}}}], volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]}}}}`
	}
	expectFindings(t, []struct{ cluster, of, want string }{
		{deploymentOf(`env: [{name: X, value: a}, {name: X, value: b}]`), "Deployment shop d", twice},
		{deploymentOf(`env: [{name: X, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: X, value: ""}]`),
			"Deployment shop d", twice},
		{deploymentOf(`env: [{name: X, value: a}, {name: X, value: a}]`), "Deployment shop d", "no VariableTwice"},
		{deploymentOf(`env: [{name: X, value: a}, {name: X, value: "$(X):b"}]`), "Deployment shop d",
			"no VariableTwice"},
		{deploymentOf(`command: [-v], args: [x]`), "Deployment shop d",
			"OptionAsProgram spec.template.spec.containers[0].command[0] -v"},
		{deploymentOf(`command: [run, -v]`), "Deployment shop d", "no OptionAsProgram"},
		{disk("500Mi"), "Deployment shop d", "DiskFiles spec.template.spec.volumes[0].emptyDir.sizeLimit 1Gi"},
		{disk("1Gi"), "Deployment shop d", "no DiskFiles"},
	})
	for _, f := range Of(clusterOf(t, deploymentOf(`command: [-v], args: [x]`)), Object{"Deployment", "shop", "d"}) {
		if f.Code == "OptionAsProgram" && !strings.Contains(f.Remedies[0].Run[0], `"value":["-v","x"]`) {
			t.Errorf("got %s, want the options before the arguments", f.Remedies[0].Run[0])
		}
	}
}

// One host and path in two Ingresses of one class, or twice in one, is named; not other paths,
// classes, or the same Service.
func TestPathsOfTwoIngressesAreNamed(t *testing.T) {
	ingress := func(name, class, path, service string) string {
		return "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: " + name + ", namespace: shop}, " +
			"spec: {" +
			class + "rules: [{host: a.example.com, http: {paths: [{path: " + path + ", pathType: Prefix, backend: " +
			"{service: {name: " + service + ", port: {number: 80}}}}]}}]}}\n---\n"
	}
	const taken = "PathTaken spec.rules[0].http.paths[0].path a.example.com/x"
	one := ingress("i", "", "/x", "s")
	double := strings.Replace(one, "paths: [", "paths: [{path: /x/, pathType: Prefix, backend: {service: {name: t, "+
		"port: {number: 80}}}}, ", 1)
	expectFindings(t, []struct{ cluster, of, want string }{
		{one + ingress("j", "", "/x", "t"), "Ingress shop i", taken},
		{one + ingress("j", "", "/x", "s"), "Ingress shop i", "no PathTaken"},
		{one + ingress("j", "", "/y", "t"), "Ingress shop i", "no PathTaken"},
		{one + ingress("j", "ingressClassName: z, ", "/x", "t"), "Ingress shop i", "no PathTaken"},
		{double, "Ingress shop i", "PathTaken spec.rules[0].http.paths[1].path a.example.com/x"},
	})
}

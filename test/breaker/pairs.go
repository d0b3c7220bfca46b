package breaker

import (
	"math/rand"
	"strings"
)

// half is one break of a Pod's spec that goes together with others: what it adds to the spec and
// beside it, and its truth. Its words are its own: $P to $T.
type half struct {
	name    string
	beside  string
	spec    string // of the Pod, without braces
	env     string // of its container's list
	request string // of its container's resources
	volume  string
	truth   truth
}

var halves = []half{
	{name: "Secret of a volume", volume: `{name: p, secret: {secretName: missing-$P}}`,
		truth: truth{kinds: podOrOwner, field: "secretName", value: "missing-$P"}},
	{name: "ConfigMap of a variable", beside: configMap("map-$P", "key: x"),
		env:   `{name: P, valueFrom: {configMapKeyRef: {name: mpa-$P, key: key}}}`,
		truth: truth{kinds: podOrOwner, field: "configMapKeyRef", value: "mpa-$P", want: "map-$P"}},
	{name: "key of a variable", beside: secret("keys-$P", "user: x"),
		env:   `{name: K, valueFrom: {secretKeyRef: {name: keys-$P, key: usr}}}`,
		truth: truth{kinds: podOrOwner, field: "secretKeyRef", value: "usr", want: "user"}},
	{name: "claim", volume: `{name: c, persistentVolumeClaim: {claimName: claim-$P}}`,
		truth: truth{kinds: podOrOwner, field: "claimName", value: "claim-$P"}},
	{name: "gate", spec: `schedulingGates: [{name: example.com/$P}]`,
		truth: truth{kinds: podOrOwner, field: "schedulingGates", value: "$P"}},
	{name: "label of a node", spec: `nodeSelector: {kubernetes.io/hostname: nod-1}`,
		truth: truth{kinds: podOrOwner, field: "nodeSelector", value: "nod-1", want: "node-1"}},
	{name: "cpu", request: `cpu: "19"`, truth: truth{kinds: podOrOwner, field: "cpu", value: "19", want: "8"}},
	{name: "device", request: `example.com/$P: 1`, truth: truth{kinds: podOrOwner, field: "example.com/$P"}},
	{name: "topology key", spec: `topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostnam, ` +
		`whenUnsatisfiable: DoNotSchedule}]`,
		truth: truth{kinds: podOrOwner, field: "topologyKey", value: "hostnam", want: "kubernetes.io/hostname"}},
	{name: "Pod to be beside", spec: `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: ` +
		`[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {beside: $P}}}]}}`,
		truth: truth{kinds: podOrOwner, field: "podAffinity", value: "$P"}},
}

// together joins breaks of one Pod: each is to be named whatever else hinders it.
func together(name string, of ...half) kind {
	list := func(part func(half) string) string {
		var out []string
		for _, h := range of {
			if text := part(h); text != "" {
				out = append(out, text)
			}
		}
		return strings.Join(out, ", ")
	}
	var names []string
	k := kind{ask: "pod/$C"}
	for _, h := range of {
		names = append(names, h.name)
		k.manifest += h.beside
		k.truth = append(k.truth, h.truth)
	}
	k.name = name + ": " + strings.Join(names, " and ")
	spec := list(func(h half) string { return h.spec })
	if spec != "" {
		spec += ", "
	}
	if v := list(func(h half) string { return h.volume }); v != "" {
		spec += "volumes: [" + v + "], "
	}
	container := "name: app, image: app"
	if e := list(func(h half) string { return h.env }); e != "" {
		container += ", env: [" + e + "]"
	}
	if r := list(func(h half) string { return h.request }); r != "" {
		container += ", resources: {requests: {" + r + "}, limits: {" + r + "}}"
	}
	k.manifest += single("$C", "{"+spec+"containers: [{"+container+"}]}")
	return k
}

// pairKinds are n pairs, chosen by seed.
func pairKinds(seed int64, n int) []kind {
	var all []kind
	for i := range halves {
		for j := range i {
			all = append(all, together("pair", halves[j], halves[i]))
		}
	}
	return drawn(all, seed, n)
}

// tripleKinds are n times three breaks, chosen by seed.
func tripleKinds(seed int64, n int) []kind {
	var all []kind
	for i := range halves {
		for j := range i {
			for l := range j {
				all = append(all, together("three", halves[l], halves[j], halves[i]))
			}
		}
	}
	return drawn(all, seed, n)
}

// drawn are n of kinds, by seed.
func drawn(all []kind, seed int64, n int) []kind {
	rand.New(rand.NewSource(seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

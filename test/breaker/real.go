package breaker

import (
	"encoding/base64"
	"fmt"
	"math/rand"
	"strings"
)

// realWords are newWords with those of real containers: $APP, $SRV and $WEB images with a shell, a
// test server and a web server on port 8080; $PORT and $PORU two ports, $UID a user, $CODE an exit
// code without a meaning of its own, $DIR a directory's name, $MI a number of mebibytes, $ENV a
// variable.
func realWords(r *rand.Rand, registries realRegistries) words {
	w := newWords(r)
	dirs := []string{"data", "spool", "cache", "state", "uploads", "index"}
	for k, v := range map[string]string{"$APP": realApp, "$SRV": realServer, "$WEB": realWeb,
		"$REG": registries.open, "$PRIV": registries.private} {
		w[k] = v
	}
	w["$PORT"] = fmt.Sprint(8100 + r.Intn(800))
	w["$PORU"] = fmt.Sprint(9100 + r.Intn(800))
	w["$UID"] = fmt.Sprint(1000 + r.Intn(5000))
	w["$CODE"] = fmt.Sprint(3 + r.Intn(100))
	w["$DIR"] = dirs[r.Intn(len(dirs))]
	w["$ENV"] = strings.ToUpper(w["$B"]) + "_URL"
	w["$MI"] = fmt.Sprint(12 + r.Intn(20))
	w["$LOGIN"] = registryLogin(registries.private, realUser, realPassword)
	w["$WRONG"] = registryLogin(registries.private, realUser, w["$A"]+"-"+w["$N"])
	w["$ELSE"] = registryLogin(w["$B"]+".example.com", realUser, realPassword)
	return w
}

// realRegistries are the addresses of registries on the loopback: one for all, one for realUser.
type realRegistries struct{ open, private string }

const realUser, realPassword = "puller", "let-me-in"

// registryLogin is the value of a Secret's .dockerconfigjson, in base64.
func registryLogin(host, user, password string) string {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil,
		`{"auths":{%q:{"username":%q,"password":%q,"auth":%q}}}`, host, user, password, auth))
}

// Images of the real part.
const (
	realApp    = "registry.example/app:1"
	realServer = "registry.example/server:2"
	realWeb    = "registry.example/web:3"
)

// realShell is a Pod whose container runs a script in a shell; further fields of the container and
// of the Pod's spec may follow.
func realShell(name, script, container, spec string) string {
	return single(name, realShellSpec(script, container, spec))
}

// realShellSpec is the spec of such a Pod.
func realShellSpec(script, container, spec string) string {
	if spec != "" {
		spec += ", "
	}
	if container != "" {
		container = ", " + container
	}
	return `{terminationGracePeriodSeconds: 1, ` + spec + `containers: [{name: app, image: $APP, command: [sh, ` +
		`-c, "` +
		strings.ReplaceAll(script, `"`, `\"`) + `"]` + container + `}]}`
}

// realServes is the spec of a Pod that serves HTTP on $PORT, where any path answers 200;
// further fields of the container may follow.
func realServes(container string) string {
	if container != "" {
		container = ", " + container
	}
	return `{terminationGracePeriodSeconds: 1, containers: [{name: app, image: $SRV, args: [netexec, --http-port, ` +
		`"$PORT", --udp-port, "0"], ports: [{name: http, containerPort: $PORT}]` + container + `}]}`
}

// realKinds are breaks and healthy things of real containers, written from Kubernetes'
// documentation. ask may name several objects; "." asks what is wrong in the namespace.
func realKinds() []kind {
	var out []kind
	for _, list := range [][]kind{realContainerKinds, realProbeKinds, realVolumeKinds, realImageKinds,
		realNetworkKinds, realWorkloadKinds, realPairKinds, realEverydayKinds, realFreshKinds, realNodeKinds} {
		out = append(out, list...)
	}
	return out
}

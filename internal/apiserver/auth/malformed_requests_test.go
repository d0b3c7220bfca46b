package auth_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/apiserver/auth"
)

// raw sends bytes over TLS as they are, and returns the code of the first answer with its body; 0
// where the server closed without one.
func (s *server) raw(t *testing.T, request string) (int, string) {
	t.Helper()
	ca, err := os.ReadFile(s.files.CA.Cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	conn, err := tls.Dial("tcp", s.Addr().String(), &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(conn, request) }() // a server may answer before it has read all
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	if res.StatusCode < http.StatusMultipleChoices {
		return res.StatusCode, "" // a watch has no end, and closing the body would wait for it
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, string(body)
}

// request is one of HTTP/1.1; head are further lines.
func request(method, path, token, body string, head ...string) string {
	lines := append([]string{method + " " + path + " HTTP/1.1", "Host: gantry", "Connection: close"}, head...)
	if token != "" {
		lines = append(lines, "Authorization: Bearer "+token)
	}
	if body != "" {
		lines = append(lines, fmt.Sprint("Content-Length: ", len(body)))
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// TestHostileRequests sends what only an attacker would: nobody gets at what they may
// not, and the server answers with something else than its own fault, within bounded memory, and
// goes on.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, auth.Options{})
	s.pod(t, podNamed("victim"))
	if code, out := s.ask(t, "POST", "/api/v1/namespaces/kube-system/secrets", "admin-token",
		`{"metadata":{"name":"treasure"},"stringData":{"a":"open-sesame"}}`); code != 201 {
		t.Fatalf("got %d %s, want code 201", code, out)
	}
	t.Run("paths", func(t *testing.T) { trickyPaths(t, s) })
	t.Run("headers", func(t *testing.T) { smuggled(t, s) })
	t.Run("upgrades", func(t *testing.T) { upgrades(t, s) })
	t.Run("queries", func(t *testing.T) { queries(t, s) })
	t.Run("bodies", func(t *testing.T) { bodies(t, s) })
	if code, _ := s.ask(t, "GET", "/readyz", "admin-token", ""); code != 200 {
		t.Errorf("readyz afterwards: %d, want 200", code)
	}
	if code, out := s.ask(t, "GET", "/api/v1/namespaces/default/pods/victim", "admin-token", ""); code != 200 {
		t.Errorf("the Pod afterwards: %d %s, want 200", code, out)
	}
}

// refused fails the test if an answer gives anything away or is the server's own fault.
func refused(t *testing.T, purpose string, code int, body string) {
	t.Helper()
	if code >= 500 || code >= 200 && code < 300 || code == 101 {
		t.Errorf("%.120q: got %d %.200s, want it refused: 3xx or 4xx", purpose, code, body)
	}
	if strings.Contains(body, "b3Blbi1zZXNhbWU") || strings.Contains(body, "open-sesame") {
		t.Errorf("%.120q gave the secret away", purpose)
	}
}

func trickyPaths(t *testing.T, s *server) {
	for _, path := range []string{
		"/api/v1/namespaces/../", "/api/v1/namespaces/default/../kube-system/secrets", "//api/v1/secrets",
		"/api//v1/secrets", "/api/v1//secrets", "/api/v1/./secrets",
		"/healthz/../api/v1/secrets", "/livez/../../api/v1/secrets", "/readyz/%2e%2e/api/v1/secrets",
		"/api/v1/%2e%2e/%2e%2e/metrics", "/version/../metrics",
		"/api/v1/namespaces/default%2f..%2fkube-system/secrets",
		"/api/v1/namespaces/default/pods/..%2f..%2fkube-system%2fsecrets",
		"/api/v1/namespaces/kube-system/secrets/treasure/",
		"/api/v1/namespaces/kube-system/secrets/treasure%00", "/api/v1/namespaces/kube-system/secrets/treasure;x",
		"/api/v1/watch/secrets", "/api/v1/watch/namespaces/kube-system/secrets/treasure",
		"/API/v1/secrets", "/api/V1/secrets", "/api/v1/Secrets", "/api/v1/secrets?a=b#c",
		"/api/v1/namespaces/kube-system/services/https:x:1/proxy/../../../secrets/treasure",
		"/apis/../api/v1/secrets", "/openapi/../api/v1/secrets", "/.well-known/../api/v1/secrets",
		"/healthz/ping/../../metrics", "/metrics/", "/debug/pprof/heap", "/logs/../../etc/passwd",
		"/api/v1/nodes/n1/proxy/../../../secrets", "/apis/apps/v1/namespaces/kube-system/secrets/treasure", "*",
		"/api/v1/secrets%20", "/api/v1/namespaces/kube-system%20/secrets",
	} {
		for _, token := range []string{"bob-token", "", "nobody-has-this"} {
			code, body := s.raw(t, request("GET", path, token, ""))
			if code >= 300 && code < 400 { // where it leads must be closed as well
				continue
			}
			refused(t, token+" "+path, code, body)
		}
		if code, body := s.raw(t, request("GET", path, "admin-token", "")); code >= 500 &&
			code != http.StatusServiceUnavailable {
			t.Errorf("admin %s: %d %.200s", path, code, body)
		}
	}
}

func smuggled(t *testing.T, s *server) {
	secrets := "/api/v1/namespaces/kube-system/secrets"
	for _, head := range [][]string{
		{"X-Remote-User: admin", "X-Remote-Group: system:masters"}, {"Impersonate-User: admin"},
		{"Impersonate-User: admin", "Impersonate-Group: system:masters"},
		{"Impersonate-Group: system:masters"}, {"Impersonate-Uid: admin-id"}, {"Impersonate-Extra-x: y"},
		{"Impersonate-Extra-%zz: y"}, {"Impersonate-User: "}, {"Impersonate-User: a", "Impersonate-User: b"},
		{"X-HTTP-Method-Override: DELETE"}, {"X-Original-URL: /healthz"}, {"X-Rewrite-URL: /healthz"},
		{"X-Forwarded-For: 127.0.0.1"}, {"X-Forwarded-User: admin"},
		{"Authorization: Bearer nobody-has-this"}, {"Authorization: Basic YWRtaW46YWRtaW4="}, {"Authorization: Bearer"},
		{"Authorization: Negotiate x"}, {"Cookie: token=admin-token"},
		{"Audit-ID: " + strings.Repeat("x", 3000)}, {"Accept: " + strings.Repeat("a/b,", 5000)},
		{"Accept-Encoding: gzip;q=nan"}, {"Range: bytes=0-1"}, {"Expect: 100-continue"}, {"If-None-Match: *"},
	} {
		for _, token := range []string{"bob-token", ""} {
			code, body := s.raw(t, request("GET", secrets, token, "", head...))
			refused(t, token+" "+strings.Join(head, ", "), code, body)
		}
		if code, body := s.raw(t, request("GET", secrets, "admin-token", "", head...)); code >= 500 {
			t.Errorf("admin %.100s: got %d %.200s, want less than 500", head, code, body)
		}
	}
	// two requests in one where the two ends may count differently
	inner := request("GET", secrets, "admin-token", "")
	for name, r := range map[string]string{
		"both lengths": "POST /version HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: " +
			"4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + "GET " + secrets + " HTTP/1.1\r\nHost: g\r\n\r\n",
		"two lengths": "POST /version HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: " +
			"4\r\nContent-Length: 40\r\n\r\nabcd",
		"odd coding": "POST /version HTTP/1.1\r\nHost: g\r\nConnection: close\r\nTransfer-Encoding: chunked, " +
			"identity\r\n\r\n0\r\n\r\n",
		"negative length":      "POST /version HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: -1\r\n\r\n",
		"header without colon": "GET /version HTTP/1.1\r\nHost: g\r\nConnection: close\r\nbroken\r\n\r\n",
		"space before colon": "GET /version HTTP/1.1\r\nHost: g\r\nConnection: close\r\nAuthorization : Bearer " +
			"admin-token\r\n\r\n",
		"two hosts":      "GET " + secrets + " HTTP/1.1\r\nHost: g\r\nHost: h\r\nConnection: close\r\n\r\n",
		"no host":        "GET " + secrets + " HTTP/1.1\r\nConnection: close\r\n\r\n",
		"absolute":       "GET https://other/" + secrets + " HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n",
		"connect":        "CONNECT 127.0.0.1:2379 HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n",
		"trace":          "TRACE " + secrets + " HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n",
		"unknown method": "STEAL " + secrets + " HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n",
		"huge header": "GET /version HTTP/1.1\r\nHost: g\r\nConnection: close\r\nX: " + strings.Repeat("x",
			2<<20) + "\r\n\r\n",
		"in a body": request("POST", "/version", "", inner),
	} {
		// net/http's own, to a coding that it does not know
		if code, body := s.raw(t, r); code != http.StatusNotImplemented {
			refused(t, name, code, body)
		}
	}
}

func upgrades(t *testing.T, s *server) {
	bearer := "base64url.bearer.authorization.k8s.io."
	for _, path := range []string{
		"/api/v1/namespaces/default/pods/victim/exec?command=id&stdout=true",
		"/api/v1/namespaces/default/pods/victim/attach?stdout=true",
		"/api/v1/namespaces/default/pods/victim/portforward?ports=80",
		"/api/v1/namespaces/default/pods/victim/proxy/", "/api/v1/nodes/n1/proxy/run/default/victim/c?cmd=id",
		"/api/v1/watch/secrets", "/api/v1/namespaces/default/services/x/proxy/",
	} {
		for _, head := range [][]string{
			{"Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
				"Sec-WebSocket-Protocol: v5.channel.k8s.io"},
			{"Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x",
				"Sec-WebSocket-Protocol: " + bearer + base64.RawURLEncoding.EncodeToString([]byte("nobody-has-this")) +
					", v5.channel.k8s.io"},
			{"Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x",
				"Sec-WebSocket-Protocol: " + bearer + "%%%"},
			{"Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x",
				"Sec-WebSocket-Protocol: " + bearer},
			{"Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io"},
			{"Upgrade: h2c", "HTTP2-Settings: AAAA"}, {"Upgrade: tcp"},
		} {
			for _, token := range []string{"bob-token", ""} {
				for _, method := range []string{"GET", "POST"} {
					r := strings.Replace(request(method, path, token, "", head...), "Connection: close",
						"Connection: Upgrade", 1)
					code, body := s.raw(t, r)
					refused(t, token+" "+method+" "+path+" "+head[0], code, body)
				}
			}
		}
	}
}

func queries(t *testing.T, s *server) {
	many := func(unit string, n int) string { return strings.TrimSuffix(strings.Repeat(unit, n), ",") }
	for _, q := range []string{
		"labelSelector=" + many("a%20in%20(b),", 2000), "labelSelector=a%20in%20(" + many("x,", 20000) + ")",
		"labelSelector=" + strings.Repeat("(", 5000), "labelSelector=a%20notin%20(", "labelSelector=%00",
		"labelSelector=" + many("!a,", 20000), "fieldSelector=" + many("metadata.name!%3Dx,", 3000),
		"fieldSelector=metadata.name%3D%5C", "fieldSelector=%3D%3D%3D", "limit=99999999999999999999", "limit=-9",
		"limit=1&continue=" + many("A", 4000),
		"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4vIn0", "resourceVersionMatch=Odd",
		"resourceVersion=1&resourceVersionMatch=Exact&limit=1", "timeoutSeconds=-1",
		"timeoutSeconds=9999999999999999999999",
		"watch=true&timeoutSeconds=1&resourceVersion=9223372036854775807",
		"watch=true&timeoutSeconds=1&resourceVersion=18446744073709551615",
		"watch=true&timeoutSeconds=1&resourceVersion=99999999999999999999999",
		"watch=true&timeoutSeconds=1&resourceVersion=-1",
		"watch=true&timeoutSeconds=1&resourceVersion=1e3", "watch=true&timeoutSeconds=1&sendInitialEvents=maybe",
		"watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=Exact", "watch=2&timeoutSeconds=1",
		"pretty=%FF", "dryRun=%FF",
		"includeObject=Everything", "gracePeriodSeconds=1e9", "allowWatchBookmarks=x", many("a=b&", 20000), "%zz=1",
		"a;b=1",
	} {
		for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/default/secrets"} {
			code, body := s.raw(t, request("GET", path+"?"+q, "admin-token", ""))
			if code >= 500 && !strings.Contains(body, "resourceVersion") && !strings.Contains(body, "Timeout") {
				t.Errorf("%.120s: got %d %.300s, want below 500, or a text that names the resourceVersion or the "+
					"timeout", q, code, body)
			}
			code, body = s.raw(t, request("GET", path+"?"+q, "bob-token", ""))
			refused(t, "bob "+q, code, body)
		}
	}
}

func bodies(t *testing.T, s *server) {
	zipped := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		return b.String()
	}
	laughs := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9),
			","))
	}
	doubling := `[{"op":"add","path":"/metadata/annotations","value":{"a":"` + strings.Repeat("x", 1000) + `"}}` +
		strings.Repeat(`,{"op":"copy","from":"/metadata/annotations","path":"/metadata/annotations/b"}`, 60) + `]`
	proto := "application/vnd.kubernetes.protobuf"
	maps, victim := "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods/victim"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, c := range map[string]struct{ method, path, contentType, body, head string }{
		"deep JSON": {"POST", maps, "application/json", `{"data":` + strings.Repeat(`{"a":`, 200000), ""},
		"deep JSON closed": {"POST", maps, "application/json",
			`{"data":` + strings.Repeat(`{"a":`, 50000) + "1" + strings.Repeat("}", 50001), ""},
		"deep arrays": {"PUT", victim, "application/json", strings.Repeat("[", 900000), ""},
		"deep YAML":   {"POST", maps, "application/yaml", strings.Repeat("[", 100000), ""},
		"deep merge patch": {"PATCH", victim, "application/merge-patch+json",
			strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000), ""},
		"deep strategic patch": {"PATCH", victim, "application/strategic-merge-patch+json",
			strings.Repeat(`{"spec":`, 20000) + "1" + strings.Repeat("}", 20000), ""},
		"deep apply": {"PATCH", victim + "?fieldManager=x", "application/apply-patch+yaml",
			strings.Repeat(`{"spec":`, 20000) + "1" + strings.Repeat("}", 20000), ""},
		"many laughs":         {"POST", maps, "application/yaml", laughs, ""},
		"many laughs applied": {"PATCH", victim + "?fieldManager=x", "application/apply-patch+yaml", laughs, ""},
		"doubling copies":     {"PATCH", victim, "application/json-patch+json", doubling, ""},
		"test of nothing":     {"PATCH", victim, "application/json-patch+json", `[{"op":"test"}]`, ""},
		"path without slash": {"PATCH", victim, "application/json-patch+json",
			`[{"op":"add","path":"x","value":1}]`, ""},
		"remove the root": {"PATCH", victim, "application/json-patch+json", `[{"op":"remove","path":""}]`, ""},
		"move into itself": {"PATCH", victim, "application/json-patch+json",
			`[{"op":"move","from":"/spec","path":"/spec/containers/0/x"}]`, ""},
		"huge index": {"PATCH", victim, "application/json-patch+json",
			`[{"op":"add","path":"/spec/containers/99999999999999999999","value":1}]`, ""},
		"negative index": {"PATCH", victim, "application/json-patch+json",
			`[{"op":"replace","path":"/spec/containers/-5","value":null}]`, ""},
		"null operations": {"PATCH", victim, "application/json-patch+json", `[null,null]`, ""},
		"directive of nothing": {"PATCH", victim, "application/strategic-merge-patch+json",
			`{"spec":{"containers":[{"$patch":"odd"}],"$retainKeys":1,"$setElementOrder/containers":{}}}`, ""},
		"replace directive": {"PATCH", victim, "application/strategic-merge-patch+json", `{"$patch":"delete"}`,
			""},
		"gzip bomb": {"POST", maps, "application/json", zipped(strings.Repeat(" ", 64<<20)),
			"Content-Encoding: gzip"},
		"gzip that is none":     {"POST", maps, "application/json", "{}", "Content-Encoding: gzip"},
		"proto nonsense":        {"POST", maps, proto, "k8s\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", ""},
		"proto cut":             {"POST", maps, proto, "k8s\x00\x0a", ""},
		"proto without magic":   {"POST", maps, proto, "\x0a\x04\x0a\x02v1", ""},
		"proto of another kind": {"POST", maps, proto, "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07Service\x12\x00", ""},
		"proto of no kind":      {"POST", maps, proto, "k8s\x00\x12\x02\x0a\x00", ""},
		"proto long length": {"POST", maps, proto,
			"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\xff\xff\xff\xff\x0f", ""},
		"proto groups": {"POST", maps, proto, "k8s\x00" + strings.Repeat("\x0b", 100000), ""},
		"proto inner groups": {"POST", maps, proto, "k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\xa0\x8d\x06" +
			strings.Repeat("\x5b", 100000), ""},
		"proto in JSON": {"POST", maps, proto, `{"kind":"ConfigMap"}`, ""},
		"CBOR long array": {"POST", maps, "application/cbor",
			"\xd9\xd9\xf7\x9b\xff\xff\xff\xff\xff\xff\xff\xff", ""},
		"CBOR long map": {"POST", maps, "application/cbor",
			"\xd9\xd9\xf7\xbb\x7f\xff\xff\xff\xff\xff\xff\xff", ""},
		"CBOR long bytes": {"POST", maps, "application/cbor",
			"\xd9\xd9\xf7\x5b\x00\x00\x00\x7f\xff\xff\xff\xff", ""},
		"CBOR deep": {"POST", maps, "application/cbor", "\xd9\xd9\xf7" + strings.Repeat("\x81", 100000),
			""},
		"CBOR without end": {"POST", maps, "application/cbor", "\xd9\xd9\xf7\xbf\x64kind", ""},
		"CBOR floats as keys": {"POST", maps, "application/cbor",
			"\xd9\xd9\xf7\xa1\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00\x01", ""},
		"CBOR tags": {"POST", maps, "application/cbor", strings.Repeat("\xd9\xd9\xf7", 5000) + "\xa0",
			""},
		"CBOR patch": {"PATCH", victim + "?fieldManager=x", "application/apply-patch+cbor",
			"\xd9\xd9\xf7\xa1\x61a\x81\x81\x81", ""},
		"CBOR sequence": {"POST", maps, "application/cbor-seq", "\xa0\xa0", ""},
		"options of a deletion": {"DELETE", victim + "?dryRun=All", "application/json",
			`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":[]}`, ""},
		"options deep": {"DELETE", victim + "?dryRun=All", "application/json",
			strings.Repeat(`{"a":`, 100000), ""},
		"options of a collection": {"DELETE", "/api/v1/namespaces/default/pods?dryRun=All", "application/cbor", "\xff",
			""},
		"review of nothing": {"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", proto, "k8s\x00", ""},
		"token of nothing": {"POST", "/api/v1/namespaces/default/serviceaccounts/default/token", "application/cbor",
			"\xd9\xd9\xf7\xa0", ""},
		"binding of nothing": {"POST", victim + "/binding", proto, "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07Binding\x12\x00",
			""},
		"eviction of nothing": {"POST", victim + "/eviction?dryRun=All", "application/json",
			`{"deleteOptions":{"dryRun":["Odd"]}}`, ""},
		"bad UTF-8": {"POST", maps, "application/json",
			"{\"data\":{\"\xff\":\"\xfe\"},\"metadata\":{\"name\":\"\xc3\x28\"}}", ""},
		"a name of dots": {"POST", maps, "application/json", `{"metadata":{"name":".."}}`, ""},
		"numbers beyond": {"PATCH", victim, "application/merge-patch+json",
			`{"spec":{"activeDeadlineSeconds":1e400,"terminationGracePeriodSeconds":-9223372036854775809}}`, ""},
		"quantities beyond": {"PATCH", victim + "/resize", "application/merge-patch+json",
			`{"spec":{"containers":[{"name":"c","image":"nginx:1.27","resources":{"limits":{"cpu":"1e999999999"}}}]}}`,
			""},
		"charset": {"POST", maps, "application/json;charset=utf-7", `{}`, ""},
		"no type": {"POST", maps, ";;;", `{}`, ""},
	} {
		head := []string{"Content-Type: " + c.contentType}
		if c.head != "" {
			head = append(head, c.head)
		}
		code, body := s.raw(t, request(c.method, c.path, "admin-token", c.body, head...))
		if code == 0 || code >= 500 {
			t.Errorf("%s: got %d %.300s, want code other than 0 and code below 500", name, code, body)
		}
		code, body = s.raw(t, request(c.method, c.path, "bob-token", c.body, head...))
		refused(t, "bob: "+name, code, body)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 600<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

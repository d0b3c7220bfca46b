package breaker

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// gantryGroup is the end of the names of API groups that only Gantry serves.
const gantryGroup = "gantry.dev"

// gantryKubelet are paths below nodes/NAME/proxy that only Gantry's kubelet answers.
var gantryKubelet = []string{"drivercalls", "listening"}

// foreignClient is a client of the same cluster as another Kubernetes would serve it: without
// Gantry's API groups, also in discovery, and without its kubelet's own paths.
func foreignClient(c *rest.Config) (kubernetes.Interface, error) {
	c = rest.CopyConfig(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return foreignTransport{next} })
	return kubernetes.NewForConfig(c)
}

// foreignTransport answers 404 to what only Gantry serves and leaves it out of discovery.
type foreignTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (f foreignTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if onlyGantry(req.URL.Path) {
		if req.Body != nil {
			_ = req.Body.Close() // nobody reads it
		}
		return notFound(req), nil
	}
	res, err := f.next.RoundTrip(req)
	if err != nil || strings.Trim(req.URL.Path, "/") != "apis" || res.StatusCode != http.StatusOK {
		return res, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if raw, err = withoutGroups(raw); err != nil {
		return nil, err
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	res.Header.Set("Content-Length", strconv.Itoa(len(raw)))
	return res, nil
}

// onlyGantry tells whether another Kubernetes has nothing at a path.
func onlyGantry(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) > 1 && parts[0] == "apis" && strings.HasSuffix(parts[1], gantryGroup) {
		return true
	}
	if len(parts) < 6 || parts[2] != "nodes" || parts[4] != "proxy" {
		return false
	}
	for _, p := range gantryKubelet {
		if parts[5] == p {
			return true
		}
	}
	return false
}

// notFound is the answer of an API server that does not serve a path.
func notFound(req *http.Request) *http.Response {
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,` +
		`"message":"the server could not find the requested resource","details":{}}`
	return &http.Response{Status: "404 Not Found", StatusCode: http.StatusNotFound, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Request: req, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

// withoutGroups takes Gantry's groups out of a list of API groups, in either form of discovery.
func withoutGroups(raw []byte) ([]byte, error) {
	var list map[string]any
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for _, key := range []string{"groups", "items"} {
		all, ok := list[key].([]any)
		if !ok {
			continue
		}
		kept := []any{}
		for _, g := range all {
			if !strings.HasSuffix(groupName(g), gantryGroup) {
				kept = append(kept, g)
			}
		}
		list[key] = kept
	}
	return json.Marshal(list)
}

// groupName is the name of a group in discovery.
func groupName(group any) string {
	g, ok := group.(map[string]any)
	if !ok {
		return ""
	}
	if meta, ok := g["metadata"].(map[string]any); ok {
		g = meta
	}
	name, _ := g["name"].(string) // empty where there is none
	return name
}

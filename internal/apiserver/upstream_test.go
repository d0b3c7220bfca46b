package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	restclient "k8s.io/client-go/rest"
)

// wanted is a request with what kube-apiserver v1.37.2 answered to it.
type wanted struct {
	Name, Method, Path string
	Setup              *struct {
		Path string
		Body json.RawMessage
	}
	Body json.RawMessage
	Want struct {
		Code     int
		Message  string
		Warnings []string
		Fields   map[string]any
	}
}

// TestRequestsAreAnsweredAsUpstream sends what hack/apidiff found to be answered otherwise than by
// kube-apiserver v1.37.2; what that answered is written in testdata/upstream.json.
//
// row: API-44
func TestRequestsAreAnsweredAsUpstream(t *testing.T) { asWanted(t, "testdata/upstream.json") }

// TestWarningsAsUpstream is TestRequestsAreAnsweredAsUpstream for warnings of all kinds, and for
// what status endpoints ignore; v1.37.2 was sent each and answers so.
//
// row: API-44
func TestWarningsAsUpstream(t *testing.T) { asWanted(t, "testdata/upstream_warnings.json") }

// someRequest is a certificate request for the name x.
const someRequest = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISE1HNENBUUF3RERFS01BZ0dBMVVFQXd3QmVEQlpNQk1" +
	"HQnlxR1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQQpCTzFOakt1RE1mcml0TFdnR09LaC9Ba3lnMWd0QVVldHhDNkVZZEdmdV" +
	"JNa281amlhQi8rS2YxSkNBUE55aEhpCnlwanZWZmd4NmJBL1hFK1RSK0R4bG5PZ0FEQUtCZ2dxaGtqT1BRUURBZ05KQURCR" +
	"0FpRUFzV1dMTFBuZC9vK0MKVWEzc2lkbE11QkUwVkNNVVFuck1QV3h6RGU0WUpXa0NJUUNBaEl3NTY0S0lqb2hyUVVEWUt0" +
	"cnV2YVRNTkFuTwo1T0xzYU1raVp0TTlrUT09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="

// Who creates an object owns what the server adds before fields are counted, and not what the
// endpoint takes from elsewhere.
//
// row: API-44
func TestOwnedFieldsAsUpstream(t *testing.T) {
	s, c := shared(t)
	send, ns := sender(t, s.InProcess(admin())), newNamespace(t, c)
	for name, x := range map[string]struct {
		path, body, field string
		owned             bool
	}{
		"the generation of a template": {"/apis/apps/v1/namespaces/" + ns + "/daemonsets", `{"metadata":{"name":"a"},` +
			`"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` +
			`"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, "f:deprecated.daemonset.template.generation", true},
		"the target of an autoscaler": {"/apis/autoscaling/v1/namespaces/" + ns + "/horizontalpodautoscalers",
			`{"metadata":{"name":"a"},"spec":{"maxReplicas":3,` +
				`"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"}}}`,
			"f:targetCPUUtilizationPercentage", true},
		"the spec of a certificate request": {"/apis/certificates.k8s.io/v1/certificatesigningrequests",
			`{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"signerName":"a.b/c","usages":["client auth"],` +
				`"request":"` + someRequest + `"}}`, "f:spec", false},
	} {
		t.Run(name, func(t *testing.T) {
			code, body, _ := send(http.MethodPost, x.path+"?dryRun=All", []byte(x.body))
			if code != http.StatusCreated {
				t.Fatalf("got %d %v, want 201", code, body["message"])
			}
			owned, err := json.Marshal(at1(body, "metadata.managedFields"))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(owned), fmt.Sprintf("%q:", x.field)); got != x.owned {
				t.Errorf("%s owned: got %t, want %t: %s", x.field, got, x.owned, owned)
			}
		})
	}
}

func asWanted(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []wanted
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	s, c := shared(t)
	send, ns := sender(t, s.InProcess(admin())), newNamespace(t, c)
	for _, x := range cases {
		t.Run(x.Name, func(t *testing.T) {
			at := func(path string) string { return strings.ReplaceAll(path, "NS", ns) }
			if x.Setup != nil {
				code, body, _ := send(http.MethodPost, at(x.Setup.Path), x.Setup.Body)
				if code != http.StatusCreated && code != http.StatusConflict {
					t.Fatalf("setup: %d %v", code, body)
				}
			}
			code, body, warnings := send(x.Method, at(x.Path)+"?dryRun=All", x.Body)
			if code != x.Want.Code {
				t.Fatalf("code %d, upstream %d: %v", code, x.Want.Code, body["message"])
			}
			if x.Want.Message != "" && body["message"] != x.Want.Message {
				t.Errorf("got      %v\nupstream %s", body["message"], x.Want.Message)
			}
			if !slices.Equal(warnings, x.Want.Warnings) {
				t.Errorf("warnings %q, upstream %q", warnings, x.Want.Warnings)
			}
			for path, want := range x.Want.Fields {
				if got := at1(body, path); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %v, upstream %v", path, got, want)
				}
			}
		})
	}
}

// at1 is a field of an object by its dotted path; nil without it.
func at1(obj any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		m, _ := obj.(map[string]any)
		obj = m[key]
	}
	return obj
}

// sender sends a body, of a patch by its type after the method, and returns code, object and
// warnings.
func sender(t *testing.T,
	cfg *restclient.Config) func(method, path string, body []byte) (int, map[string]any, []string) {
	t.Helper()
	client, err := restclient.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	host := cfg.Host
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	return func(method, path string, body []byte) (int, map[string]any, []string) {
		verb, form, patch := strings.Cut(method, " ") // "PATCH apply-patch+yaml"
		if !patch {
			form = "json"
		}
		req, err := http.NewRequest(verb, host+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/"+form)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		obj := map[string]any{}
		if err := json.Unmarshal(text, &obj); err != nil {
			t.Fatalf("got %v, want no error", fmt.Errorf("%s %s: %s: %w", method, path, text, err))
		}
		return res.StatusCode, obj, res.Header.Values("Warning")
	}
}

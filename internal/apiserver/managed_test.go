package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// owners are the entries of managedFields without their times: who, how, by which endpoint, and
// which of the fields.
func owners(obj map[string]any, fields ...string) []string {
	var out []string
	list, _ := at1(obj, "metadata.managedFields").([]any)
	for _, e := range list {
		var has []string
		for _, f := range fields {
			if at1(e, "fieldsV1."+f) != nil {
				has = append(has, f)
			}
		}
		line := fmt.Sprint(at1(e, "manager"), " ", at1(e, "operation"))
		if s := at1(e, "subresource"); s != nil {
			line += fmt.Sprint(" ", s)
		}
		out = append(out, strings.TrimSpace(line+" "+strings.Join(has, ",")))
	}
	slices.Sort(out)
	return out
}

// Who owns which field follows creation, another manager's update, apply and the status endpoint; a
// write that changes nothing is none: the resource version stays.
func TestManagedFields(t *testing.T) {
	s, c := shared(t)
	send := sender(t, s.InProcess(admin()))
	list := "/apis/apps/v1/namespaces/" + newNamespace(t, c) + "/deployments"
	at := list + "/x"
	const replicas, paused, observed = "f:spec.f:replicas", "f:spec.f:paused", "f:status.f:observedGeneration"
	body := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":1,` +
		`"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` +
		`"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	apply := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":3}}`
	var last map[string]any
	for _, step := range []struct {
		name, method, path, body string
		code                     int
		want                     []string
		same                     bool // nothing changes: no new resource version
	}{
		{"creation", "POST", list + "?fieldManager=one", body, 201, []string{"one Update " + replicas}, false},
		{"update by another", "PATCH merge-patch+json", at + "?fieldManager=two", `{"spec":{"paused":true}}`, 200,
			[]string{"one Update " + replicas, "two Update " + paused}, false},
		{"the same again", "PATCH merge-patch+json", at + "?fieldManager=three", `{"spec":{"paused":true}}`, 200,
			[]string{"one Update " + replicas, "two Update " + paused}, true},
		{"apply in conflict", "PATCH apply-patch+yaml", at + "?fieldManager=four", apply, 409, nil, true},
		{"apply by force", "PATCH apply-patch+yaml", at + "?fieldManager=four&force=true", apply, 200,
			[]string{"four Apply " + replicas, "one Update", "two Update " + paused}, false},
		{"apply again", "PATCH apply-patch+yaml", at + "?fieldManager=four", apply, 200,
			[]string{"four Apply " + replicas, "one Update", "two Update " + paused}, true},
		{"status", "PATCH merge-patch+json", at + "/status?fieldManager=five",
			`{"status":{"observedGeneration":1},"spec":{"replicas":9}}`, 200,
			[]string{"five Update status " + observed, "four Apply " + replicas, "one Update", "two Update " + paused},
			false},
		{"the same status", "PATCH merge-patch+json", at + "/status?fieldManager=six",
			`{"status":{"observedGeneration":1}}`, 200,
			[]string{"five Update status " + observed, "four Apply " + replicas, "one Update", "two Update " + paused},
			true},
		{"apply of less", "PATCH apply-patch+yaml", at + "?fieldManager=four",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"}}`, 200,
			[]string{"five Update status " + observed, "one Update", "two Update " + paused}, false},
	} {
		code, obj, _ := send(step.method, step.path, []byte(step.body))
		if code != step.code {
			t.Fatalf("%s: got %d %v, want code %v", step.name, code, obj["message"], step.code)
		}
		if code == http.StatusConflict {
			if m := fmt.Sprint(obj["message"]); !strings.Contains(m,
				`conflict with "one" using apps/v1: .spec.replicas`) {
				t.Errorf(`got %v, want m with 'conflict with "one" using apps/v1: .spec.replicas'`, m)
			}
			_, obj, _ = send("GET", at, nil)
		} else if got := owners(obj, replicas, paused, observed); !slices.Equal(got, step.want) {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
		if v, previous := at1(obj, "metadata.resourceVersion"),
			at1(last, "metadata.resourceVersion"); (v == previous) != step.same {
			t.Errorf("%s: resource version %v after %v", step.name, v, previous)
		}
		for _, e := range at1(obj, "metadata.managedFields").([]any) {
			if _, err := time.Parse(time.RFC3339, fmt.Sprint(at1(e, "time"))); err != nil {
				t.Error(step.name, err)
			}
		}
		last = obj
	}
	if n := at1(last, "spec.replicas"); n != 1.0 {
		t.Errorf("a field that nobody applies any more goes back to its default, not to %v, want 1.0", n)
	}
}

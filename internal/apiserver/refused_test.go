package apiserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestRefusedRequestsAsUpstream sends what testdata/refusals.txt says and compares the answers
// written there, which are validated by upstream's rules: field, kind of fault, text and order of
// each. A line is a kind of the table `some` and a merge patch over its small object, sent as a
// creation; what follows `THEN` (after a subresource, if any) is a patch of the object stored
// before. GANTRY_UPDATE=1 writes the answers anew, to be read before they are kept.
//
// row: API-03
func TestRefusedRequestsAsUpstream(t *testing.T) {
	sharedFuzzSession.prepare(t)
	small := map[string]target{}
	for _, x := range sharedFuzzSession.targets {
		small[strings.TrimSuffix(x.kind[strings.LastIndex(x.kind, "/")+1:], "/")] = x
	}
	raw, err := os.ReadFile("testdata/refusals.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	sent := 0
	for line := range strings.Lines(string(raw)) {
		switch {
		case strings.HasPrefix(line, "  "):
			continue
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
			got.WriteString(line)
			continue
		}
		got.WriteString(line)
		sent++ // a name of its own, as finalizers keep some objects for a while
		for _, answer := range sharedFuzzSession.refusal(t, small, fmt.Sprintf("y%d", sent), strings.TrimSpace(line)) {
			fmt.Fprintf(&got, "  %s\n", answer)
		}
	}
	if os.Getenv("GANTRY_UPDATE") != "" {
		if err := os.WriteFile("testdata/refusals.txt", []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.Split(string(raw), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
}

// refusal sends one line of the table and returns the answer, one fault per line.
func (s *fuzzSession) refusal(t *testing.T, small map[string]target, name, line string) []string {
	t.Helper()
	kind, rest, _ := strings.Cut(line, " ")
	over, then, isUpdate := strings.Cut(rest, " THEN ")
	x, ok := small[kind]
	if !ok {
		t.Fatalf("no object of kind %s", kind)
	}
	var obj map[string]any
	if err := json.Unmarshal(x.raw, &obj); err != nil {
		t.Fatal(err)
	}
	var patch map[string]any
	if err := yaml.Unmarshal([]byte(over), &patch); err != nil {
		t.Fatalf("%s: got error %v, want none", line, err)
	}
	obj = merged(obj, patch).(map[string]any)
	u := &unstructured.Unstructured{Object: obj}
	if u.GetName() == x.item[strings.LastIndex(x.item, "/")+1:] {
		u.SetName(name)
	}
	body, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if !isUpdate {
		return s.requestCauses(t, http.MethodPost, x.list+"?dryRun=All", "application/json", body)
	}
	if code, text := s.send(http.MethodPost, x.list, "application/json", body); code != http.StatusCreated {
		t.Fatalf("%s: got %d %s, want code StatusCreated", line, code, text)
	}
	defer s.send(http.MethodDelete, x.list+"/"+u.GetName()+"?gracePeriodSeconds=0&propagationPolicy=Background",
		"application/json", nil)
	path := x.list + "/" + u.GetName()
	if strings.HasPrefix(then, "/") {
		sub, more, _ := strings.Cut(then, " ")
		path, then = path+sub, more
	}
	update, err := yaml.YAMLToJSON([]byte(then))
	if err != nil {
		t.Fatalf("%s: got error %v, want none", line, err)
	}
	return s.requestCauses(t, http.MethodPatch, path+"?dryRun=All", "application/merge-patch+json", update)
}

// requestCauses sends a request and takes its answer apart: warnings, and each cause with its
// field.
func (s *fuzzSession) requestCauses(t *testing.T, method, path, contentType string, body []byte) (out []string) {
	t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range res.Header["Warning"] {
		out = append(out, "warning: "+strings.TrimPrefix(w, "299 - "))
	}
	if res.StatusCode < 300 {
		return append(out, "accepted")
	}
	var status metav1.Status
	if err := json.Unmarshal(text, &status); err != nil {
		t.Fatalf("got %s, want no error", text)
	}
	if status.Details == nil || len(status.Details.Causes) == 0 {
		return append(out, fmt.Sprintf("%d %s", status.Code, status.Message))
	}
	for _, c := range status.Details.Causes {
		out = append(out, fmt.Sprintf("%s: %s", c.Field, strings.ReplaceAll(c.Message, "\n", "⏎")))
	}
	return out
}

// merged lays a merge patch over a value.
func merged(v, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	m, ok := v.(map[string]any)
	if !ok {
		m = map[string]any{}
	}
	for k, x := range p {
		if x == nil {
			delete(m, k)
		} else {
			m[k] = merged(m[k], x)
		}
	}
	return m
}

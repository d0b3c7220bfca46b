package apiserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	restclient "k8s.io/client-go/rest"
)

// recordedRequest is a request as hack/apidiff writes it.
type recordedRequest struct {
	Method, Path, Type string
	Body               json.RawMessage
}

// recordedAnswer is a request with what kube-apiserver v1.37.2 answered to it: the message, reason
// and details of a refusal, the columns and cells of a table, of other answers the code alone.
type recordedAnswer struct {
	recordedRequest
	Setup *recordedRequest
	Table bool
	Code  int
	Want  map[string]any
}

// TestRecordedAnswers replays what hack/apidiff -record wrote down: requests that were once
// answered otherwise than by kube-apiserver v1.37.2. They are about every kind: field selectors,
// tables, writes of what is not there, and objects with one to three faults.
//
// row: API-44
func TestRecordedAnswers(t *testing.T) {
	file, err := os.Open("testdata/answers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s, _ := shared(t)
	send := recordedSender(t, s.InProcess(admin()))
	for _, r := range []recordedRequest{
		{Path: "/api/v1/namespaces", Body: json.RawMessage(`{"metadata":{"name":"diff"}}`)},
		{Path: "/api/v1/namespaces/diff/serviceaccounts", Body: json.RawMessage(`{"metadata":{"name":"default"}}`)},
	} {
		r.Method = http.MethodPost
		if code, body := send(r, false); code != http.StatusCreated && code != http.StatusConflict {
			t.Fatalf("%s: got %d %v, want 201 or 409", r.Path, code, body)
		}
	}
	const longest = 1 << 20
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, longest)
	for n := 1; lines.Scan(); n++ {
		var x recordedAnswer
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatalf("line %d: %v, want no error", n, err)
		}
		path, _, _ := strings.Cut(x.Path, "?")
		t.Run(fmt.Sprintf("%d %s %s", n, x.Method, path[strings.LastIndex(path, "/")+1:]),
			func(t *testing.T) { replay(t, send, &x) })
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

type sendRecorded func(r recordedRequest, table bool) (int, map[string]any)

// replay sends a recorded request and compares. LIVE in a body stands for the version of the object
// that is there.
func replay(t *testing.T, send sendRecorded, x *recordedAnswer) {
	if x.Setup != nil {
		if code, body := send(*x.Setup, false); code != http.StatusCreated && code != http.StatusConflict {
			t.Fatalf("setup: %d %v", code, body["message"])
		}
	}
	if live := []byte(`"LIVE"`); bytes.Contains(x.Body, live) {
		path, _, _ := strings.Cut(x.Path, "?")
		_, now := send(recordedRequest{Method: http.MethodGet, Path: strings.TrimSuffix(path, "/status")}, false)
		x.Body = bytes.Replace(x.Body, live, fmt.Appendf(nil, "%q", at1(now, "metadata.resourceVersion")), 1)
	}
	code, body := send(x.recordedRequest, x.Table)
	if code != x.Code {
		t.Fatalf("%s %s: code %d, upstream %d: %v\nupstream %v", x.Path, x.Body, code, x.Code, body["message"],
			x.Want["message"])
	}
	if x.Table && code < http.StatusBadRequest {
		rows, _ := body["rows"].([]any)
		for i := range rows {
			if row, ok := rows[i].(map[string]any); ok {
				delete(row, "object")
			}
		}
	}
	for field, want := range x.Want {
		if got, should := maskRunValues(body[field]), maskRunValues(want); got != should {
			t.Errorf("%s %s: %s\ngot      %s\nupstream %s", x.Path, x.Body, field, got, should)
		}
	}
}

var (
	runUID  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	runTime = regexp.MustCompile(`202\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	runAge  = regexp.MustCompile(`"\d+(s|m(\d+s)?)"`)
	// how long ago a date of the request is: more every day
	runDays = regexp.MustCompile(`"(\d{3,}d|\d+y(\d+d)?)"`)
	// of Services, both taken at random; and the end of a name made from a generateName
	runIP   = regexp.MustCompile(`\b10\.(9[6-9]|10\d|11[01])\.\d+\.\d+\b`)
	runPort = regexp.MustCompile(`:3[0-2]\d{3}/`)
	// printed values, which hack/apidiff masks
	runValue = regexp.MustCompile(`Invalid value: \{.*?\}: field is immutable`)
	noField  = regexp.MustCompile(`,?"(conditions|uid)":(null|"[^"]*")`)
)

// maskRunValues is a part of an answer as text, without what differs from run to run.
func maskRunValues(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(noField.ReplaceAllString(string(raw), ""))
	text = runTime.ReplaceAllString(runUID.ReplaceAllString(text, "<uid>"), "<time>")
	text = runValue.ReplaceAllString(text, "Invalid value: …: field is immutable")
	text = runPort.ReplaceAllString(runIP.ReplaceAllString(text, "<address>"), ":<port>/")
	return runDays.ReplaceAllString(runAge.ReplaceAllString(text, `"<age>"`), `"<days>"`)
}

func recordedSender(t *testing.T, cfg *restclient.Config) sendRecorded {
	t.Helper()
	client, err := restclient.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	host := cfg.Host
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	return func(r recordedRequest, table bool) (int, map[string]any) {
		req, err := http.NewRequest(r.Method, host+r.Path, bytes.NewReader(r.Body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if r.Type != "" {
			req.Header.Set("Content-Type", r.Type)
		}
		if table {
			req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		obj := map[string]any{}
		if err := json.NewDecoder(res.Body).Decode(&obj); err != nil && res.StatusCode < http.StatusBadRequest &&
			r.Method != http.MethodGet {
			t.Fatalf("%s %s: got error %v, want an answer in JSON", r.Method, r.Path, err)
		}
		return res.StatusCode, obj
	}
}

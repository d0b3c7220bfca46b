package story

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/journal"
)

// mostBody is how much of a request's body is kept to compare with what is made of it; upstream takes bodies of 3 MiB.
const mostBody = 3 << 20

// body is what the client sent.
type body struct {
	io.ReadCloser
	kept  bytes.Buffer
	kind  string // Content-Type
	shown string // what the client showed to prove who it is
	dry   bool   // a dry run
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.kept.Len() < mostBody {
		b.kept.Write(p[:n])
	}
	return n, err
}

// compare tells what became of the body: of a whole object against what was sent, of a patch against what was stored.
func (b *body) compare(stored, now map[string]any) (string, []journal.Change) {
	switch b.kind {
	case "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json":
		return "the stored object with the patch", journal.Changes(stored, now)
	case "application/apply-patch+yaml", "application/apply-patch+cbor":
		if stored != nil {
			return "the stored object with what was applied", journal.Changes(stored, now)
		}
	}
	var sent map[string]any
	if err := yaml.Unmarshal(b.kept.Bytes(), &sent); err != nil || sent == nil {
		return "the body is not text: what was defaulted cannot be told", nil
	}
	return "", journal.Changes(sent, now)
}

// Listen follows the writes of clients that ask. It stands before everything else.
func (d *Desk) Listen(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get(journal.StoryAsk) == "" || !writes(req) {
			next.ServeHTTP(w, req)
			return
		}
		t := &teller{begun: time.Now(), method: req.Method, sent: &body{ReadCloser: req.Body, kind: mediaType(req), shown: credential(req), dry: req.URL.Query().Get("dryRun") != ""}}
		d.open.Add(1)
		defer d.open.Add(-1)
		answer := &answer{ResponseWriter: w, desk: d, teller: t}
		answer.req = req.WithContext(context.WithValue(req.Context(), tellerKey{}, t))
		answer.req.Body = t.sent
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(answer), answer.req)
	})
}

func writes(req *http.Request) bool {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return req.Header.Get("Upgrade") == ""
	}
	return false
}

// answer puts the story before the answer.
type answer struct {
	http.ResponseWriter
	desk   *Desk
	teller *teller
	req    *http.Request
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader tells the story first.
func (a *answer) WriteHeader(code int) {
	a.tell(code)
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.tell(http.StatusOK)
	return a.ResponseWriter.Write(b)
}

func (a *answer) tell(code int) {
	if code < http.StatusOK {
		return
	}
	s := a.teller.end(code)
	if s == nil {
		return
	}
	if about := a.teller.about; about == nil {
		*s = journal.Story{Code: s.Code, Took: s.Took, Withheld: "the server did not get to know who asks"}
	} else if ok, err := a.desk.mayKnow(a.req.Context(), about); !ok || err != nil {
		*s = journal.Story{Code: s.Code, Took: s.Took, User: s.User, Withheld: withheld(about)}
	}
	raw, err := pack(s)
	if err != nil {
		return
	}
	a.Header().Set(journal.StoryTell, raw)
}

// pack makes the value of the header.
func pack(s *journal.Story) (string, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(raw); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}

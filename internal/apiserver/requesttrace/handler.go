package requesttrace

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

// maxBodyBytes is how much of a request's body is kept to compare with what is made of it; upstream
// takes bodies of 3 MiB.
const maxBodyBytes = 3 << 20

// requestBody is what the client sent.
type requestBody struct {
	io.ReadCloser
	buffer      bytes.Buffer
	contentType string // Content-Type
	credential  string // what the client showed to prove who it is
	dryRun      bool   // a dry run
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.buffer.Len() < maxBodyBytes {
		b.buffer.Write(p[:n])
	}
	return n, err
}

// diff tells what became of the body: of a whole object against what was sent, of a patch against
// what was stored.
func (b *requestBody) diff(stored, now map[string]any) (string, []journal.Change) {
	switch b.contentType {
	case "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json":
		return "the stored object with the patch", journal.Changes(stored, now)
	case "application/apply-patch+yaml", "application/apply-patch+cbor":
		if stored != nil {
			return "the stored object with what was applied", journal.Changes(stored, now)
		}
	}
	var sent map[string]any
	if err := yaml.Unmarshal(b.buffer.Bytes(), &sent); err != nil || sent == nil {
		return "the body is not text: what was defaulted cannot be told", nil
	}
	return "", journal.Changes(sent, now)
}

// WithRequestTrace follows the writes of clients that ask. It stands before everything else.
func (d *Tracer) WithRequestTrace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get(journal.ExplainHeader) == "" || !isWriteRequest(req) {
			next.ServeHTTP(w, req)
			return
		}
		t := &recorder{started: time.Now(), method: req.Method,
			body: &requestBody{ReadCloser: req.Body, contentType: mediaType(req), credential: credentialKind(req),
				dryRun: req.URL.Query().Get("dryRun") != ""}}
		d.active.Add(1)
		defer d.active.Add(-1)
		writer := &responseWriter{ResponseWriter: w, tracer: d, recorder: t}
		writer.req = req.WithContext(context.WithValue(req.Context(), recorderKey{}, t))
		writer.req.Body = t.body
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(writer), writer.req)
	})
}

func isWriteRequest(req *http.Request) bool {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return req.Header.Get("Upgrade") == ""
	}
	return false
}

// responseWriter puts the story before the answer.
type responseWriter struct {
	http.ResponseWriter
	tracer   *Tracer
	recorder *recorder
	req      *http.Request
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader tells the story first.
func (a *responseWriter) WriteHeader(code int) {
	a.writeTrace(code)
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *responseWriter) Write(b []byte) (int, error) {
	a.writeTrace(http.StatusOK)
	return a.ResponseWriter.Write(b)
}

func (a *responseWriter) writeTrace(code int) {
	if code < http.StatusOK {
		return
	}
	s := a.recorder.finish(code)
	if s == nil {
		return
	}
	if attributes := a.recorder.attributes; attributes == nil {
		*s = journal.RequestTrace{Code: s.Code, Took: s.Took, Withheld: "the server did not get to know who asks"}
	} else if ok, err := a.tracer.mayRead(a.req.Context(), attributes); !ok || err != nil {
		*s = journal.RequestTrace{Code: s.Code, Took: s.Took, User: s.User, Withheld: withheldText(attributes)}
	}
	raw, err := encodeTrace(s)
	if err != nil {
		return
	}
	a.Header().Set(journal.TraceHeader, raw)
}

// encodeTrace makes the value of the header.
func encodeTrace(s *journal.RequestTrace) (string, error) {
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

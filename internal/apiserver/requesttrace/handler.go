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

// maxBodyBytes is how much of a request's body is kept for the comparison with the decoded object:
// upstream's limit on a body.
const maxBodyBytes = 3 << 20

// requestBody keeps a copy of what the handlers read.
type requestBody struct {
	io.ReadCloser
	buffer      bytes.Buffer
	contentType string // media type, without parameters
	credential  string // see credentialKind
	dryRun      bool
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.buffer.Len() < maxBodyBytes {
		b.buffer.Write(p[:n])
	}
	return n, err
}

// diff returns what decoding and defaulting made of the body: for a whole object the changes from
// the body, for a patch the changes from the stored object. The text says what was compared, or why
// nothing could be.
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

// WithRequestTrace is the filter that records writes whose clients ask for a trace. It is the
// outermost filter of the handler chain.
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

// isWriteRequest reports whether a request may write; upgrades (exec, attach) do not count.
func isWriteRequest(req *http.Request) bool {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return req.Header.Get("Upgrade") == ""
	}
	return false
}

// responseWriter sets the trace header before the status code is written.
type responseWriter struct {
	http.ResponseWriter
	tracer   *Tracer
	recorder *recorder
	req      *http.Request
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *responseWriter) WriteHeader(code int) {
	a.writeTrace(code)
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *responseWriter) Write(b []byte) (int, error) {
	a.writeTrace(http.StatusOK)
	return a.ResponseWriter.Write(b)
}

// writeTrace sets the trace header, once; informational (1xx) codes do not count. A user who may
// not read the trace gets code, time and the reason.
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

// encodeTrace returns the value of the header: JSON, gzip, base64.
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

package dashboard

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gantry-project/gantry/internal/cli"
)

// policy is the page's Content-Security-Policy: its own files and its own API, nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// withHeaders sets what every answer has.
func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// loopbackNames are the hosts under which the page may be asked for. Any other name is that of a
// site which resolves to this machine.
var loopbackNames = []string{"127.0.0.1", "localhost", "::1"}

// sameOrigin tells whether a request is for this server's loopback address and comes from its own
// page or from no page at all.
func sameOrigin(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(r.Host); err == nil {
		host = h
	}
	if !slices.Contains(loopbackNames, strings.Trim(host, "[]")) {
		return false
	}
	if o := r.Header.Get("Origin"); o != "" && o != "https://"+r.Host {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	// a link on another page may open the page itself, which holds nothing
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.URL.Path == "/"
}

func withOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !sameOrigin(r) {
			writeError(
				w,
				http.StatusForbidden,
				failure{Error: "this page answers to its own address on 127.0.0.1 only"},
			)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// failure is the JSON of an answer that is an error.
type failure struct {
	Error     string `json:"error"`
	Fix       string `json:"fix,omitempty"`
	Forbidden bool   `json:"forbidden,omitempty"` // the API server refuses this to this person
	Session   bool   `json:"session,omitempty"`   // there is no session
}

func writeError(w http.ResponseWriter, code int, f failure) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(f)
}

func writeJSON(w http.ResponseWriter, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		writeError(w, http.StatusInternalServerError, failure{Error: err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(raw)
}

// answerError answers with the status that belongs to an error of the API server or of a command.
func answerError(w http.ResponseWriter, err error) {
	f := failure{Error: err.Error(), Forbidden: apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)}
	var fix cli.ErrorWithFix
	if errors.As(err, &fix) {
		f.Fix = fix.Fix
	}
	code := http.StatusBadGateway
	var status apierrors.APIStatus
	switch {
	case f.Forbidden:
		code = http.StatusForbidden
	case errors.As(err, &status) && status.Status().Code >= 400:
		code = int(status.Status().Code)
	case cli.IsUsageError(err):
		code = http.StatusBadRequest
	}
	writeError(w, code, f)
}

// cookieName has the port in it: cookies are shared by all ports of a host.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "443"
	}
	return "__Host-gantry-" + port
}

// sessionOf returns the session of a request, ended or not; errNoSession without one.
func (s *Server) sessionOf(r *http.Request) (sealed, error) {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return sealed{}, errNoSession
	}
	return open(s.options.Key, c.Value, time.Now())
}

// withSession lets only requests of a session through; what they ask for ends with the session.
func (s *Server) withSession(next func(http.ResponseWriter, *http.Request, Identity)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is, err := s.sessionOf(r)
		ctx, done, ok := r.Context(), func() {}, false
		if err == nil {
			if ctx, done, ok = s.ended.run(ctx, is); !ok {
				err = errNoSession
			}
		}
		if err != nil {
			writeError(w, http.StatusUnauthorized, failure{Error: err.Error(), Session: true})
			return
		}
		defer done()
		next(w, r.WithContext(ctx), is.Who)
	})
}

package dashboard

import (
	"context"
	"crypto/tls"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

//go:embed assets
var assets embed.FS

// Options are what a page is served with.
type Options struct {
	// Config is how a person's requests reach the API server, with that person's rights and no
	// more.
	Config func(Identity) *rest.Config
	// Authenticate says whose credentials a request for a one-time token shows; nil: nobody may ask
	// for one, and Token is the only way in.
	Authenticate authenticator.Request
	// Key seals sessions, KeySize bytes; sessions live as long as it.
	Key []byte
	// Ended are the sessions that were ended; nil: they are known until this process ends.
	Ended *EndedSessions
	// Simulate runs simulations; nil: the page has none.
	Simulate Simulate
	// Cluster is what the page calls the cluster.
	Cluster string
}

// Server is the page and its API.
type Server struct {
	options Options
	tokens  tokens
	ended   *EndedSessions
}

// New makes a server.
func New(o Options) *Server {
	s := &Server{options: o, ended: o.Ended}
	if s.ended == nil {
		s.ended, _ = ReadEnded("") // without a file nothing is read
	}
	return s
}

// Token makes a one-time token for a person whom the caller knows.
func (s *Server) Token(who Identity) string { return s.tokens.issue(who, time.Now()) }

// Handler answers all requests.
func (s *Server) Handler() http.Handler {
	m := http.NewServeMux()
	static, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the directory is embedded
	}
	m.Handle("GET /", http.FileServerFS(static))
	m.HandleFunc("POST /api/token", s.postToken)
	m.HandleFunc("POST /api/session", s.postSession)
	m.HandleFunc("DELETE /api/session", s.deleteSession)
	m.Handle("GET /api/session", s.withSession(s.getSession))
	m.Handle("GET /api/now", s.withSession(s.streamNow))
	for path, answer := range answers {
		m.Handle("GET /api/"+path, s.withSession(s.ask(answer)))
	}
	m.Handle("POST /api/whatif/{calculator}", s.withSession(s.calculate))
	return withHeaders(withOrigin(m))
}

// Serve answers on a listener over TLS until ctx ends. cfg needs a certificate; client certificates
// are asked for, not demanded.
func (s *Server) Serve(ctx context.Context, l net.Listener, cfg *tls.Config) error {
	cfg = cfg.Clone()
	cfg.MinVersion, cfg.NextProtos, cfg.ClientAuth = tls.VersionTLS12, []string{"h2", "http/1.1"}, tls.RequestClientCert
	web := &http.Server{Handler: s.Handler(), TLSConfig: cfg, ReadHeaderTimeout: 30 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0)} // handshakes that browsers broke off
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	if err := web.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// client speaks to the API server as a person.
func (s *Server) client(who Identity) (*rest.Config, kubernetes.Interface, error) {
	cfg := rest.CopyConfig(s.options.Config(who))
	cfg.QPS, cfg.Burst = -1, 0
	if who.As.UserName != "" {
		cfg.Impersonate = who.As
	}
	client, err := kubernetes.NewForConfig(cfg)
	return cfg, client, err
}

// postToken gives the person whose credentials the request shows a one-time token.
func (s *Server) postToken(w http.ResponseWriter, r *http.Request) {
	if s.options.Authenticate == nil || r.Header.Get("Origin") != "" {
		writeError(w, http.StatusForbidden, failure{Error: "one-time tokens are for gantry dashboard, not for pages"})
		return
	}
	found, ok, err := s.options.Authenticate.AuthenticateRequest(r)
	if err != nil || !ok {
		writeError(w, http.StatusUnauthorized, failure{Error: "these are no credentials of this cluster"})
		return
	}
	u := found.User
	who := Identity{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra(),
		As: impersonation(r.Header), Namespace: r.URL.Query().Get("namespace"), Until: credentialsEnd(r)}
	writeJSON(w, map[string]string{"token": s.Token(who)})
}

// impersonation reads whom a client wants to be, as the API server's headers say it.
func impersonation(h http.Header) rest.ImpersonationConfig {
	out := rest.ImpersonationConfig{UserName: h.Get("Impersonate-User"), UID: h.Get("Impersonate-Uid"),
		Groups: h.Values("Impersonate-Group")}
	for key, values := range h {
		if name, ok := strings.CutPrefix(key, "Impersonate-Extra-"); ok {
			if out.Extra == nil {
				out.Extra = map[string][]string{}
			}
			out.Extra[strings.ToLower(name)] = values
		}
	}
	return out
}

// maxBody bounds a request's body, in bytes.
const maxBody = 1 << 20

// maxCookie is what browsers keep of a cookie, in bytes.
const maxCookie = 4000

// postSession exchanges a one-time token for a session.
func (s *Server) postSession(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	now := time.Now()
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body); err != nil {
		writeError(w, http.StatusBadRequest, failure{Error: "the body is no JSON with a token: " + err.Error()})
		return
	}
	who, ok := s.tokens.take(body.Token, now)
	if !ok {
		writeError(w, http.StatusUnauthorized, failure{Session: true,
			Error: "this token was used already, or is older than " + tokenLife.String() + ": run `gantry " +
				"dashboard` again"})
		return
	}
	value, err := seal(s.options.Key, who, now)
	if err == nil && len(value) > maxCookie {
		err = errors.New("the person is in too many groups for a session cookie")
	}
	if err != nil {
		writeError(w, http.StatusInternalServerError, failure{Error: err.Error()})
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: value, Path: "/", HttpOnly: true, Secure: true,
		SameSite: http.SameSiteStrictMode, MaxAge: int(sessionEnd(who, now).Sub(now) / time.Second)})
	w.WriteHeader(http.StatusNoContent)
}

// deleteSession ends the session: its cookie is worth nothing afterwards, whoever has it.
func (s *Server) deleteSession(w http.ResponseWriter, r *http.Request) {
	if is, err := s.sessionOf(r); err == nil {
		if err := s.ended.add(is.ID, is.Until, time.Now()); err != nil {
			writeError(w, http.StatusInternalServerError, failure{Error: err.Error()})
			return
		}
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Path: "/", HttpOnly: true, Secure: true,
		SameSite: http.SameSiteStrictMode, MaxAge: -1})
	w.WriteHeader(http.StatusNoContent)
}

// session is what the page knows of whom it is shown to.
type session struct {
	User        string       `json:"user"`
	Namespace   string       `json:"namespace"`
	Cluster     string       `json:"cluster"`
	Calculators []Calculator `json:"calculators"`
}

func (s *Server) getSession(w http.ResponseWriter, _ *http.Request, who Identity) {
	out := session{User: who.Name, Namespace: who.Namespace, Cluster: s.options.Cluster, Calculators: Calculators()}
	if who.As.UserName != "" {
		out.User = who.As.UserName + " (by " + who.Name + ")"
	}
	if out.Namespace == "" {
		out.Namespace = "default"
	}
	writeJSON(w, out)
}

package dashboard

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
)

var who = Identity{Name: "eve", Groups: []string{"system:authenticated"}, Namespace: "shop"}

// page is a server whose API server cannot be reached.
func page() *Server {
	return New(Options{Key: bytes.Repeat([]byte{7}, KeySize), Cluster: "test",
		Config: func(Identity) *rest.Config { return &rest.Config{Host: "http://127.0.0.1:1"} },
		Authenticate: authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
			if r.Header.Get("Authorization") != "Bearer good" {
				return nil, false, nil
			}
			return &authenticator.Response{User: &user.DefaultInfo{Name: "eve"}}, true, nil
		})})
}

// request sends one request to the page.
func request(s *Server, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "https://127.0.0.1:6480"+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// Only the server's own loopback address is answered, and only its own page may ask: another site
// whose name resolves to this machine gets nothing.
func TestHostAndOrigin(t *testing.T) {
	for _, v := range []struct {
		name, method, path string
		headers            []string
		code               int
	}{
		{"no page", "GET", "/", nil, 200},
		{"localhost", "GET", "/", []string{"Host", "localhost:6480"}, 200},
		{"IPv6", "GET", "/", []string{"Host", "[::1]:6480"}, 200},
		{"a name of another site", "GET", "/", []string{"Host", "evil.example:6480"}, 403},
		{"a name that begins alike", "GET", "/", []string{"Host", "127.0.0.1.evil.example:6480"}, 403},
		{"no host", "GET", "/", []string{"Host", ""}, 403},
		{"own page", "GET", "/api/session", []string{"Origin", "https://127.0.0.1:6480", "Sec-Fetch-Site",
			"same-origin"}, 401},
		{"another origin", "GET", "/api/session", []string{"Origin", "https://evil.example"}, 403},
		{"another port", "POST", "/api/session", []string{"Origin", "https://127.0.0.1:8443"}, 403},
		{"null origin", "POST", "/api/session", []string{"Origin", "null"}, 403},
		{"no TLS", "POST", "/api/session", []string{"Origin", "http://127.0.0.1:6480"}, 403},
		{"a picture on another site", "GET", "/api/now", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode",
			"no-cors"}, 403},
		{"a frame of another site", "GET", "/api/session", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode",
			"navigate"}, 403},
		{"a link on another site", "GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"},
			200},
	} {
		if w := request(page(), v.method, v.path, "", v.headers...); w.Code != v.code {
			t.Errorf("%s: got %d, want %d: %s", v.name, w.Code, v.code, w.Body)
		}
	}
}

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	for _, path := range []string{"/", "/style.css", "/js/app.js", "/api/session", "/nothing", "/api/nothing"} {
		h := request(page(), "GET", path, "").Header()
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'",
			"connect-src 'self'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
}

// A token is exchanged once for a cookie that scripts and other sites do not get; the session
// outlives the server, not its key.
func TestSessions(t *testing.T) {
	s := page()
	w := request(
		s,
		"POST",
		"/api/token?namespace=shop",
		"",
		"Authorization",
		"Bearer good",
		"Impersonate-User",
		"mallory",
	)
	var got struct{ Token string }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	body := fmt.Sprintf(`{"token": %q}`, got.Token)
	w = request(s, "POST", "/api/session", body)
	cookies := w.Result().Cookies()
	if w.Code != 204 || len(cookies) != 1 {
		t.Fatalf("got %d %v %s, want 204, 1 of them", w.Code, cookies, w.Body)
	}
	c := cookies[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" ||
		c.Name != "__Host-gantry-6480" {
		t.Errorf("cookie %+v", c)
	}
	if w := request(s, "POST", "/api/session", body); w.Code != 401 {
		t.Errorf("the token was good twice: %d, want 401", w.Code)
	}
	cookie := c.Name + "=" + c.Value
	for name, server := range map[string]*Server{"this server": s, "the next one": page()} {
		w := request(server, "GET", "/api/session", "", "Cookie", cookie)
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"user":"mallory (by eve)","namespace":"shop"`) {
			t.Errorf("got %s: %d %s", name, w.Code, w.Body)
		}
	}
	other := page()
	other.options.Key = bytes.Repeat([]byte{8}, KeySize)
	for name, w := range map[string]*httptest.ResponseRecorder{
		"another key":   request(other, "GET", "/api/session", "", "Cookie", cookie),
		"a forged one":  request(s, "GET", "/api/session", "", "Cookie", c.Name+"="+strings.ToUpper(c.Value)),
		"an empty one":  request(s, "GET", "/api/session", "", "Cookie", c.Name+"="),
		"no text of it": request(s, "GET", "/api/session", "", "Cookie", c.Name+"=%%%"),
		"none":          request(s, "GET", "/api/session", ""),
	} {
		if w.Code != 401 || !strings.Contains(w.Body.String(), "gantry dashboard") {
			t.Errorf("got %s: %d %s", name, w.Code, w.Body)
		}
	}
	for path := range answers {
		if w := request(s, "GET", "/api/"+path, ""); w.Code != 401 {
			t.Errorf("/api/%s without a session: %d, want 401", path, w.Code)
		}
	}
	if w := request(s, "DELETE", "/api/session", "", "Cookie", cookie); w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("the session was not ended: %v", w.Result().Cookies())
	}
}

// Two instances on one host, seen by one browser: browsers keep cookies by host alone, so each has
// the port in its cookie's name. Neither session takes the other's place or ends it.
func TestSessionsOfTwoInstancesOnOneHost(t *testing.T) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	addresses, pages := map[string]string{}, map[string]*Server{}
	certificates := x509.NewCertPool()
	for i, name := range []string{"first", "second"} {
		pages[name] = page()
		pages[name].options.Key, pages[name].options.Cluster = bytes.Repeat([]byte{byte(i)}, KeySize), name
		at := httptest.NewTLSServer(pages[name].Handler())
		t.Cleanup(at.Close)
		certificates.AddCert(at.Certificate())
		addresses[name] = at.URL
	}
	browser := &http.Client{Jar: jar, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: certificates}}}
	ask := func(method, name, body string) (code int, text string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, addresses[name]+"/api/session",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		w, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		raw, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.StatusCode, string(raw)
	}
	for _, name := range []string{"first", "second"} {
		if code, text := ask("POST", name, fmt.Sprintf(`{"token": %q}`, pages[name].Token(who))); code != 204 {
			t.Fatalf("%s: got %d %s, want a session", name, code, text)
		}
	}
	for _, name := range []string{"first", "second"} {
		if code, text := ask("GET", name, ""); code != 200 || !strings.Contains(text, fmt.Sprintf("%q", name)) {
			t.Errorf("with two sessions: got %d %s from the %s, want its own", code, text, name)
		}
	}
	if code, text := ask("DELETE", "first", ""); code != 204 {
		t.Errorf("ending the first: got %d %s, want 204", code, text)
	}
	for name, want := range map[string]int{"first": 401, "second": 200} {
		if code, text := ask("GET", name, ""); code != want {
			t.Errorf("after the end of the first: got %d %s from the %s, want %d", code, text, name, want)
		}
	}
}

func TestTokensAreForCredentials(t *testing.T) {
	for name, w := range map[string]*httptest.ResponseRecorder{
		"nobody":      request(page(), "POST", "/api/token", ""),
		"a bad token": request(page(), "POST", "/api/token", "", "Authorization", "Bearer bad"),
		"a page": request(page(), "POST", "/api/token", "", "Authorization", "Bearer good", "Origin",
			"https://127.0.0.1:6480"),
		"a wrong token": request(page(), "POST", "/api/session", `{"token": "X"}`),
		"no JSON":       request(page(), "POST", "/api/session", `token=X`),
	} {
		if w.Code < 400 || w.Code >= 500 || len(w.Result().Cookies()) > 0 {
			t.Errorf("got %s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestTokensAndSessionsEnd(t *testing.T) {
	var tokens tokens
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if got, ok := tokens.take(tokens.issue(who, now), now.Add(tokenLife)); !ok || got.Name != "eve" {
		t.Errorf("within its time: got %+v, %v, want true and Name eve", got, ok)
	}
	if _, ok := tokens.take(tokens.issue(who, now), now.Add(tokenLife+1)); ok {
		t.Error("an old token was taken")
	}
	tokens.issue(who, now)
	tokens.issue(who, now.Add(2*tokenLife))
	if len(tokens.open) != 1 {
		t.Errorf("%d tokens are kept, want the one that is good", len(tokens.open))
	}
	key := page().options.Key
	cookie, err := seal(key, who, now)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := open(key, cookie, now.Add(sessionLife)); err != nil || got.Who.Name != "eve" {
		t.Errorf("within its time: got %+v, %v, want no error and Who.Name eve", got, err)
	}
	if _, err := open(key, cookie, now.Add(sessionLife+1)); err == nil {
		t.Error("an old session was opened")
	}
}

// A session that was ended is worth nothing to whoever copied its cookie: not for a request that
// goes on, not for a new one, not after a restart. Others go on.
func TestAnEndedSessionIsEnded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ended.json")
	restarted := func() *Server {
		s := page()
		var err error
		if s.ended, err = ReadEnded(file); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := restarted()
	cookie := func() string {
		value, err := seal(s.options.Key, who, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return "__Host-gantry-6480=" + value
	}
	copied, other := cookie(), cookie()
	begun, ended := make(chan struct{}), make(chan struct{})
	stream := s.withSession(func(_ http.ResponseWriter, r *http.Request, _ Identity) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	})
	go func() {
		r := httptest.NewRequest("GET", "https://127.0.0.1:6480/api/now", nil)
		r.Header.Set("Cookie", copied)
		stream.ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-begun
	if w := request(s, "DELETE", "/api/session", "", "Cookie", copied); w.Code != 204 {
		t.Fatalf("got %d %s, want 204", w.Code, w.Body)
	}
	<-ended
	for name, server := range map[string]*Server{"this server": s, "after a restart": restarted()} {
		if w := request(server, "GET", "/api/session", "", "Cookie", copied); w.Code != 401 {
			t.Errorf("%s: an ended session is answered with %d, want 401", name, w.Code)
		}
		if w := request(server, "GET", "/api/session", "", "Cookie", other); w.Code != 200 {
			t.Errorf("%s: another session is answered with %d, want 200", name, w.Code)
		}
	}
	// those that would be over are forgotten
	if err := s.ended.add("later", time.Now().Add(3*sessionLife), time.Now().Add(2*sessionLife)); err != nil ||
		len(s.ended.until) != 1 {
		t.Errorf("kept are %v, %v, want the one that lasts", s.ended.until, err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadEnded(file); err == nil || !strings.Contains(err.Error(), file) || got == nil {
		t.Errorf("got %v, %v of a torn file, want an error that names it", got, err)
	}
}

// A session does not outlive the credentials for which it was given, nor does what it asked for.
func TestASessionEndsWithTheCredentials(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	token := func(claims string) string {
		return "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for name, c := range map[string]struct {
		header      string
		certificate time.Time
		want        time.Time // zero: the credentials have no end
	}{
		"neither":             {},
		"a certificate":       {certificate: now.Add(time.Hour), want: now.Add(time.Hour)},
		"a token":             {header: token(`{"exp": 1767229200}`), want: now.Add(time.Hour)},
		"a token without end": {header: token(`{}`)},
		"no JSON":             {header: token("x")},
		"an opaque token":     {header: "Bearer secret"},
		"both, the token ends first": {header: token(`{"exp": 1767229200}`), certificate: now.Add(2 * time.Hour),
			want: now.Add(time.Hour)},
		"both, the certificate ends first": {header: token(`{"exp": 1767229200}`), certificate: now.Add(time.Minute),
			want: now.Add(time.Minute)},
	} {
		r := httptest.NewRequest("POST", "/api/token", nil)
		r.Header.Set("Authorization", c.header)
		if !c.certificate.IsZero() {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{NotAfter: c.certificate}}}
		}
		if got := credentialsEnd(r); !got.Equal(c.want) {
			t.Errorf("%s: ends %v, want %v", name, got, c.want)
		}
	}
	key := page().options.Key
	for until, want := range map[time.Time]time.Time{{}: now.Add(sessionLife), now.Add(time.Hour): now.Add(time.Hour),
		now.Add(100 * time.Hour): now.Add(sessionLife)} {
		shown := who
		shown.Until = until
		cookie, err := seal(key, shown, now)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := open(key, cookie, want); err != nil || !got.Until.Equal(want) {
			t.Errorf("credentials until %v: a session until %v, %v, want %v", until, got.Until, err, want)
		}
		if _, err := open(key, cookie, want.Add(time.Second)); err == nil {
			t.Errorf("credentials until %v: a session after its end was opened", until)
		}
	}
}

// Bad questions are answered with what is wrong with them.
func TestBadQuestions(t *testing.T) {
	s := page()
	value, err := seal(s.options.Key, who, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"GET", "/api/why", "", 400, "names no subject"},
		{"GET", "/api/why?subject=wood%2Fa", "", 400, "knows nothing of kind"},
		{"GET", "/api/why?subject=pod%2Fa&namespace=..", "", 400, "is no namespace"},
		{"GET", "/api/life?name=..%2F..%2Fapi", "", 400, "is no Pod's name"},
		{"GET", "/api/life", "", 400, "is no Pod's name"},
		{"GET", "/api/now?namespace=a%2Fb", "", 400, "is no namespace"},
		{"GET", "/api/packet?from=pod%2Fa&to=b", "", 400, "write a place and a port"},
		{"GET", "/api/packet?from=service%2Fa&to=b:80", "", 400, "a Service sends nothing"},
		{"GET", "/api/services", "", 502, "connection refused"},
		{"POST", "/api/whatif/nothing", "{}", 404, "no calculator nothing"},
		{"POST", "/api/whatif/probes", "[", 400, "no JSON object of texts"},
		{"POST", "/api/whatif/probes", "{}", 400, `p99 is \"\": must be a number`},
		{"POST", "/api/whatif/probes", `{"p99":"NaN"}`, 400, "must be a number"},
		{"POST", "/api/whatif/probes", `{"p99":"1e300"}`, 400, "must be a number"},
		{"POST", "/api/whatif/probes", `{"p99":1}`, 400, "no JSON object of texts"},
		{"POST", "/api/whatif/probes", strings.Repeat(" ", maxBody+1), 400, "too large"},
		{"POST", "/api/whatif/probes",
			`{"p99":"200","start":"60","objective":"99.9","from":"90","to":"30","ready":"/a","live":"/b"}`, 400,
			"the first must be shorter"},
		{"PUT", "/api/whatif/probes", "{}", 405, ""},
	} {
		w := request(s, v.method, v.path, v.body, "Cookie", "__Host-gantry-6480="+value)
		if w.Code != v.code || !strings.Contains(w.Body.String(), v.says) {
			t.Errorf("%s %s %.20s: got %d %s, want %d %s", v.method, v.path, v.body, w.Code, w.Body, v.code, v.says)
		}
	}
}

// Each calculator answers its own defaults.
func TestCalculatorsTakeTheirDefaults(t *testing.T) {
	for _, c := range Calculators() {
		values := map[string]string{}
		for _, f := range c.Fields {
			values[f.Name] = f.Default
		}
		if c.Name != "probes" {
			continue // others may need a cluster
		}
		got, err := c.answer(t.Context(), question{}, values)
		if err != nil || !strings.Contains(strings.Join(got.Lines, "\n"), "18 × 5 s = 90 s") ||
			len(got.Timeline) != 3 ||
			!strings.Contains(got.Copy, "livenessProbe:") {
			t.Errorf("got %s: %+v, %v", c.Name, got, err)
		}
	}
}

// A client that is slow gets the newest state of each object once.
func TestChangesAreMerged(t *testing.T) {
	c := newChanges()
	c.set("pods", "a", 1)
	c.set("pods", "a", 2)
	c.set("pods", "b", 1)
	c.set("pods", "b", nil)
	expectBatches(t, c, `pods {"set":{"a":2,"b":null}}`)
	c.set("pods", "a", 3)
	c.replace("pods", map[string]any{"x": 1, "y": 1})
	c.set("pods", "x", nil)
	c.set("pods", "z", 1)
	expectBatches(t, c, `pods {"full":true,"set":{"y":1,"z":1}}`)
	c.deny("pods", failure{Error: "no", Forbidden: true})
	expectBatches(t, c, `denied {"what":"pods","error":"no","forbidden":true}`)
	c.deny("pods", failure{Error: "no"})
	c.replace("pods", map[string]any{})
	expectBatches(t, c, `pods {"full":true,"set":{}}`)
	expectBatches(t, c, ``)
}

func expectBatches(t *testing.T, c *changes, want string) {
	t.Helper()
	var got []string
	for _, b := range c.take() {
		raw, err := json.Marshal(b.data)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b.event+" "+string(raw))
	}
	if strings.Join(got, "\n") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUsageOfASummary(t *testing.T) {
	u := used{map[string]usage{}, map[string]usage{}}
	u.add("n1", []byte(`{"node": {"cpu": {"usageNanoCores": 1500000000}, "memory": {"workingSetBytes": 4096}},
		"pods": [{"podRef": {"namespace": "a", "name": "b"}, "cpu": {"usageNanoCores": 2000000}}]}`))
	u.add("n2", []byte(`{`))
	if u.Nodes["n1"] != (usage{1500, 4096}) || u.Pods["a/b"] != (usage{2, 0}) || len(u.Nodes) != 1 {
		t.Errorf("got %+v", u)
	}
}
